#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/delegation/localities.hpp"
#include "espalier/delegation/member.hpp"
#include "espalier/delegation/message.hpp"
#include "espalier/delegation/ring.hpp"
#include "espalier/delegation/thread_end.hpp"
#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/sync/per_thread.hpp"

// The delegation runtime: threads move operations to the locality of the data (Ren and Parmer, Middleware 2019, sections
// 3 and 4). Programs use it through delegation/partitions.hpp.
//
// Protocol. A thread has a ring of messages to each other locality, in that locality's memory. It posts an operation into
// the next slot. While it waits for the answer it serves: it runs messages to its own locality, from its share of that
// locality's rings. An operation on the thread's own locality is a call.
//
// Deviations from the paper:
//  1. Each ring has a lock for its servers; in the paper, only a ring with a dedicated poller has one. A server takes the
//     lock when it has found a message. The lock shares a line with the server's position in the ring, so it rarely costs
//     a cache miss. In exchange any thread may serve any ring, which deviation 2 needs.
//  2. The sender may serve its own ring. It does so when its messages stay unserved for long, while it waits and before it
//     sleeps in an event loop: the locality has no thread, or its threads sleep, compute or are not scheduled. So an
//     operation that is awaited does not depend on another thread.
//  3. A nested operation is one that a running operation awaits. It does not go into a ring that has messages of another
//     operation of the same thread: the thread runs it itself.
//  4. A thread that waits for long sleeps. The server that answers wakes it.
//  5. Threads attach at their first use and leave at their end. The shares change with them.
//
// Exactly once. A server holds the ring's lock, and advances the ring's position before it runs the message's operation.
// So an operation that waits, and serves meanwhile, does not find its own message again.
//
// Order. The operations that a thread posts to one locality run in the order of their posts. An operation that the thread
// runs itself overtakes its messages, unless the thread calls fence() or barrier() first. Between localities there is no
// order.
//
// No deadlock. A thread waits for a message that lies in a ring, or for one that another thread runs. The sender can run a
// message that lies in a ring, unless the ring's lock is held. Then an earlier message of the same operation is running
// (deviation 3). A running operation waits only for operations that began after it: those that it posted, and those that
// its thread serves above it on the stack. So no two operations wait for each other. This requires that operations wait
// for nothing else: no thread holds a partition's lock while it awaits an operation (partition_lock checks this).
//
// Depth. An operation that runs while another one waits lies above it on the stack. options::nesting limits how many
// operations wait for one another (nesting_error), and how many a waiting thread serves above each other; at that limit it
// serves only its own messages. An operation that is not awaited, and a continuation (completion::then), may submit the
// next one without end. If the thread runs them itself, options::nesting limits how many lie on its stack. Further ones are
// postponed until one of these ends, or until the thread waits for them.
//
// Progress: blocking. A sender waits for the server that runs its operation. No thread waits for one that runs nothing.
//
// Orderings
//   (1) answered, posted (light) <-> sleep (heavy): a thread that is about to sleep sees the answer or the message, or its
//       author sees that it sleeps.
//   (2) attach, leave (release) -> members (acquire): a count of the shares, which a server need not have exactly.
//   (3) run_by_sender (release) -> poll, arm (acquire): a loop of the locality sees what the operation has done.
//
// After fork() a runtime may not be used in the child.

namespace espalier::delegation {

struct options {
  /// Messages that a thread may have in flight to one locality; rounded up to a power of two.
  unsigned ring_depth = 32;
  /// How often a waiting thread looks for its answer between two searches for messages to serve; 0: it adapts, and searches
  /// less often while it finds none.
  unsigned looks_before_serving = 0;
  /// Messages that a server takes from one ring before it looks at the next.
  unsigned batch = 16;
  /// How many operations may wait for one another, and how many a waiting thread serves above each other on its stack.
  unsigned nesting = 16;
  /// How often a waiting thread finds its message unserved before it serves its own ring; 0: it adapts.
  unsigned patience = 0;
  /// A waiting thread looks for its answer this often without yielding its processor, then this often with a yield after
  /// each look, and then sleeps.
  unsigned spins = 128;
  unsigned yields = 384;
  /// How often a dedicated thread (serve_until) looks for messages before it sleeps.
  unsigned idle_looks = 1024;
};

/// An operation that would wait inside too many others.
class nesting_error : public std::length_error {
 public:
  using std::length_error::length_error;
};

/// What threads did, since the runtime began. Sums over threads; exact when none uses the runtime.
struct statistics {
  std::uint64_t local = 0;   ///< operations that were calls
  std::uint64_t sent = 0;    ///< messages
  std::uint64_t served = 0;  ///< messages that a thread of the locality ran
  std::uint64_t served_by_sender = 0;
  std::uint64_t run_nested = 0;      ///< nested operations that their thread ran itself (deviation 3)
  std::uint64_t batches = 0;         ///< visits to a ring that found a message
  std::uint64_t waits_for_room = 0;  ///< messages that found their ring full
  std::uint64_t sleeps = 0;
  std::uint64_t deepest = 0;       ///< the most operations that waited for one another
  std::uint64_t most_in_ring = 0;  ///< the most messages of one thread in one ring
  /// From post to answer, of one message in 64; in ticks of hw::tsc_now().
  std::uint64_t sampled = 0;
  std::uint64_t sampled_ticks = 0;
  std::uint64_t slowest_ticks = 0;

  statistics& operator+=(const statistics& other) noexcept;
};
/// A line for each count, with its meaning.
[[nodiscard]] std::string to_string(const statistics& did);

namespace detail {
template <class>
class reply_of;
}

class runtime {
 public:
  /// Throws std::invalid_argument for a ring depth of 0 or more than 4096, a nesting of 0 or more than 1000, or a batch of 0.
  explicit runtime(localities where, const options& o = {});
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  /// Runs what is still in the rings. No thread may use the runtime any more; completions may not outlive it.
  ~runtime();

  [[nodiscard]] unsigned locality_count() const noexcept { return static_cast<unsigned>(localities_.size()); }
  [[nodiscard]] const locality_shape& shape_of(unsigned locality) const noexcept {
    return localities_[locality]->shape;
  }
  [[nodiscard]] const options& chosen() const noexcept { return options_; }

  // Threads.

  /// Makes the calling thread one of this locality, whether or not it runs there. A thread of another locality leaves that
  /// one first. A thread that does not call attach() attaches at its first use of the runtime: to the locality of the
  /// hardware thread on which it runs then, or to the next in turn. Throws std::out_of_range for an unknown locality,
  /// std::logic_error inside an operation unless the thread belongs to the locality, std::bad_alloc, and what
  /// hw::thread_slot() throws.
  void attach(unsigned locality);
  [[nodiscard]] bool is_attached() const noexcept;
  /// The calling thread's locality.
  [[nodiscard]] unsigned here() { return local().home_index; }
  /// Waits for all messages of the calling thread, runs their continuations, and gives up its share of the locality's rings.
  /// The end of a thread does it too. Throws std::logic_error inside an operation.
  void leave();

  // What a thread may do between operations.

  /// Takes the answers that have come, runs their continuations, and serves the messages of the calling thread's share. If
  /// its own messages stay unserved for several calls, it serves these too. Returns 0 if it has done nothing.
  std::size_t poll();
  /// Waits until all messages of the calling thread are answered: then their effects are visible to it. Inside an operation,
  /// it waits for the messages of that operation. Throws nesting_error, before it waits, if twice options::nesting
  /// continuations and operations that are not awaited lie on the stack.
  void barrier();
  /// barrier() for the messages to one locality with this key (its hash). Throws std::out_of_range too.
  void fence(unsigned locality, std::uint64_t key);

  // Dedicated threads.

  /// Serves all rings of a locality once. Returns how many messages it ran.
  std::size_t serve_locality(unsigned locality);
  /// Attaches the calling thread to the locality, and serves it until the flag is set. It sleeps while there are no messages.
  void serve_until(unsigned locality, const std::atomic<bool>& stop);
  /// Sets the flag, and wakes the threads that serve.
  void stop_serving(std::atomic<bool>& stop) noexcept;
  /// Starts a thread that serves the locality until the runtime ends, because the locality's threads are often busy
  /// elsewhere. Throws std::out_of_range, and std::system_error if the thread cannot be made.
  void add_poller(unsigned locality);

  // Event loops. A loop watches event_fd() for reading, and calls arm() before it blocks. If arm() returns false, the loop
  // calls poll() and does not block.

  /// A descriptor of the calling thread. After arm() it becomes readable when an answer to the thread or a message to its
  /// locality comes, or when a sender runs such a message itself. One message wakes one thread of the locality. The
  /// descriptor belongs to the runtime; the next thread in the same slot takes it over. Throws std::system_error.
  [[nodiscard]] int event_fd();
  [[nodiscard]] bool arm();

  /// Runs the messages of all threads. If no other thread uses the runtime, none is left. Results stay in their slots.
  void drain();
  /// drain(), and waits for the messages that other threads run. It needs no memory.
  void drain_at_rest() noexcept;

  [[nodiscard]] statistics counts() const;

 private:
  template <class>
  friend class detail::reply_of;
  template <class>
  friend class completion;
  template <class, std::size_t>
  friend class awaited_together;
  template <class, class>
  friend class partitions;
  template <class>
  friend class partition_variable;
  template <class>
  friend class partition_lock;

  // What these use.

  [[nodiscard]] detail::member& local() {
    detail::member& me = members_.local();
    if (me.home == nullptr) [[unlikely]]
      attach_first(me);
    return me;
  }

  /// Posts a call to another locality. Returns false if this thread must run the operation itself (deviation 3). If it
  /// throws std::bad_alloc, or what a copy of the operation throws, it has posted nothing.
  template <class Call, class Source>
  [[nodiscard]] bool post(detail::member& me, unsigned locality, void* target, std::uint64_t key,
                          Source&& operation, detail::reply& to) {
    detail::sending& by = me.sendings[locality];
    if (by.to == nullptr) [[unlikely]]
      add_ring(me, by);
    if (me.frames != 0 && is_behind_outer(me, by)) return false;
    make_room(me, by);
    const std::uint32_t turn = by.end;
    message& m = by.to->slot(turn);
    // Servers' caches have the lines of free slots. That of the slot after the next one is fetched meanwhile.
    if (turn + 2 - by.first <= by.to->mask) hw::request_to_write(&by.to->slot(turn + 2));
    Call::write(m, std::forward<Source>(operation));
    // Operations that are not awaited may submit one another without end: the depth stays at the limit.
    m.post(Call::run, target, std::min(me.depth + 1, options_.nesting));
    // While the line moves to the server.
    by.of(turn) = {&to,
                   [](message& answered, std::uint32_t& first) {
                     const auto result = Call::take(answered);
                     ++first;
                   },
                   key, me.depth};
    by.operation = me.operation;
    by.end = turn + 1;
    me.did.sent.add();
    if (by.sampled_at == 0 && turn % between_samples == 0) [[unlikely]]
      begin_sample(by, turn);
    to.by_ = &by;
    to.turn_ = turn;
    posted(me, *localities_[locality]);
    return true;
  }

  /// Waits until a message is answered and its reply has the result.
  void wait_for(detail::member& me, detail::sending& by, std::uint32_t turn);
  /// Takes the answers that have come. If the oldest message stays unserved for long, this thread runs it.
  void look_for_answers(detail::member& me, detail::sending& by);
  /// Serves the calling thread's share at every looks_before_serving-th call.
  void look_for_work(detail::member& me) {
    if (++me.looks >= me.looks_before_serving) [[unlikely]]
      serve_share(me);
  }
  /// Whether the messages in the ring belong to another operation than the running one, for which that other may wait.
  [[nodiscard]] static bool holds_outer(const detail::member& me, const detail::sending& by) noexcept {
    return me.frames != 0 && !by.is_empty() && by.operation != me.operation;
  }
  /// Throws nesting_error if the running operation may not wait for another one.
  void check_nesting(const detail::member& me) const {
    if (me.depth >= options_.nesting) [[unlikely]]
      refuse_nesting();
  }
  /// Throws nesting_error if postponed operations may not run on top of the stack.
  void check_postponed(const detail::member& me) const {
    if (me.stacked >= 2 * options_.nesting) [[unlikely]]
      refuse_nesting();
  }
  /// Whether an operation that is not awaited, or a continuation, may run on top of the stack.
  [[nodiscard]] bool has_room(const detail::member& me) const noexcept {
    return me.stacked < options_.nesting;
  }
  /// Counts one on the stack, and runs what was postponed meanwhile at its end.
  class on_stack {
   public:
    on_stack(runtime& of, detail::member& me) noexcept : runtime_(of), me_(me) { ++me_.stacked; }
    on_stack(const on_stack&) = delete;
    on_stack& operator=(const on_stack&) = delete;
    ~on_stack() {
      --me_.stacked;
      if (me_.first_postponed != nullptr) [[unlikely]]
        runtime_.run_postponed(me_);
    }

   private:
    runtime& runtime_;
    detail::member& me_;
  };
  /// The thread will run it in run_postponed().
  static void postpone(detail::member& me, detail::postponed& one, unsigned depth) noexcept;
  /// Runs what is postponed, and what that brings about, in the order in which it came.
  void run_postponed(detail::member& me) noexcept;
  /// run_postponed() for a thread that is about to wait. Throws nesting_error.
  void await_postponed(detail::member& me) {
    if (me.first_postponed == nullptr) [[likely]]
      return;
    check_postponed(me);
    run_postponed(me);
  }
  /// Throws std::logic_error.
  [[noreturn]] static void refuse_second_result();

  // What only the runtime uses.

  std::size_t take_answers(detail::member& me, detail::sending& by);
  std::size_t take_answers(detail::member& me);
  /// Throws std::out_of_range.
  void check_locality(unsigned locality) const;
  void attach_first(detail::member& me);
  void attach(detail::member& me, unsigned locality);
  void leave(detail::member& me);
  void add_ring(detail::member& me, detail::sending& by);
  [[nodiscard]] bool is_behind_outer(detail::member& me, detail::sending& by);
  void make_room(detail::member& me, detail::sending& by) {
    if (by.end - by.first > by.to->mask) [[unlikely]]
      wait_for_room(me, by);
  }
  void wait_for_room(detail::member& me, detail::sending& by);
  /// Messages of a ring, of which one is timed.
  static constexpr std::uint32_t between_samples = 64;
  static void begin_sample(detail::sending& by, std::uint32_t turn) noexcept;
  static void end_sample(detail::member& me, detail::sending& by) noexcept;
  void posted(detail::member& me, detail::locality& there) {
    hw::fence_light();  // order (1): posted, light
    // relaxed: the fence orders it.
    if (there.sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_for_work(there);
    look_for_work(me);
  }
  unsigned serve(detail::member& me, detail::ring& from, unsigned most) noexcept;
  unsigned serve_own(detail::member& me, detail::sending& by) noexcept;
  bool serve_unserved(detail::member& me, detail::sending& by) noexcept;
  void drain(detail::member& me, bool at_rest) noexcept;
  bool serve_share(detail::member& me);
  void wait_once(detail::member& me, detail::sending& by, unsigned& rounds);
  void sleep_for(detail::member& me, detail::sending& by);
  /// Whether other threads run all messages of a thread that is about to sleep. It runs what stays unserved.
  bool awaits_servers(detail::member& me);
  [[nodiscard]] bool has_work(const detail::locality& there) const noexcept;
  static constexpr std::uint32_t any_reason = ~std::uint32_t{0};
  /// Returns false if the thread does not sleep for one of these reasons.
  static bool wake(detail::member& sleeping, std::uint32_t reasons = any_reason) noexcept;
  static void wake_sender(const detail::ring& of) noexcept {
    hw::fence_light();  // order (1): answered, light
    // relaxed: the fence orders it.
    if (of.sender->sleep.load(std::memory_order_relaxed) != detail::member::awake) [[unlikely]]
      wake(*of.sender);
  }
  static void wake_for_work(detail::locality& there) noexcept;
  static void sleeps_for_work(detail::member& me, detail::member::sleep_state how) noexcept;
  [[noreturn]] void refuse_nesting() const;

  const options options_;
  const localities where_;
  std::vector<std::unique_ptr<detail::locality>> localities_;
  per_thread<detail::member> members_;
  detail::live_runtime live_{this};
  detail::member drains_;  ///< stands for a thread that drains, where there is no memory for its own
  std::atomic<std::uint32_t> next_in_turn_{0};
  std::mutex lock_;
  std::vector<std::unique_ptr<detail::ring>> rings_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> pollers_;
};

}  // namespace espalier::delegation
