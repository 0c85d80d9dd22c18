#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/delegation/departures.hpp"
#include "espalier/delegation/localities.hpp"
#include "espalier/delegation/message.hpp"
#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/sync/per_thread.hpp"
#include "espalier/sync/ttas_lock.hpp"

// The delegation runtime: threads move operations to the locality of the data (Ren and Parmer, Middleware 2019, sections
// 3 and 4). Programs use it through delegation/partitions.hpp.
//
// Essence. A thread has a ring of messages to each locality but its own, in that locality's memory. It posts an operation
// into the next slot. While it waits it serves: it looks into the rings of its own locality, of which each of its threads
// has a share, and runs what it finds. An operation on the thread's own locality is a call.
//
// Deviations from the paper:
//  1. Each ring has a lock for its servers, where the paper has one only with a dedicated poller. A server takes it when
//     it has found a message; it lies beside the server's position in the ring, so in the usual case it moves between no
//     caches. In exchange any thread may serve any ring, and the following is simple.
//  2. The sender may serve its own ring. It does so while it waits, and before it sleeps in an event loop, when its messages
//     stay unserved for long: the locality has no thread, or its threads sleep, compute, or are not scheduled. So an
//     operation that is awaited never waits for a thread to come.
//  3. A nested operation (one that an operation waits for) does not go into a ring where another operation of the same
//     thread has messages: the thread runs it itself.
//  4. A thread that waits for long sleeps. A server that has answered wakes it.
//  5. Threads attach at their first use and leave at their end. Shares follow.
//
// Exactly once. A server takes a message by advancing the ring's position, under the ring's lock, before it runs the
// operation. So an operation that waits, and serves meanwhile, does not find itself again.
//
// Order. Operations of one thread on one locality run in the order in which the thread posted them, those that it runs by
// itself (locally) excepted: fence() and barrier() order these. There is no order between localities.
//
// No deadlock. A thread waits for a message that is in a ring, or that another thread runs. A message in a ring can be run
// by its sender, unless the ring's lock is held: then an earlier message of the same operation is being run (3). An
// operation that is being run waits for operations that began later: those that it posted, and those that its thread
// serves on top of it. So no two wait for one another. This needs operations that wait for nothing else: no lock of a
// partition may be held while an operation is awaited (partition_lock checks it).
//
// Depth. Each operation that is run while another one waits lies above it on the stack. options::nesting bounds both how
// deeply operations wait for one another (nesting_error), and how many a waiting thread serves on top of each other (it then
// serves its own messages alone). An operation that is not awaited, and a continuation (completion::then), may bring about
// the next one without end. Where the thread runs them itself, as many lie above each other at most; those that come then are
// postponed, until one has ended or the thread waits for them.
//
// Progress: blocking. A sender waits for the server that runs its operation. Nothing waits for a thread that runs none.
//
// Orderings
//   (1) add (release) -> count (acquire): a server that sees the count sees the ring.
//   (2) answered, posted (light) <-> sleep (heavy): a thread that is about to sleep sees the answer or the message, or its
//       author sees that it sleeps.
//   (3) attach, leave (release) -> members (acquire): a count of the shares, which a server need not have exactly.
//   (4) run_by_sender (release) -> poll, arm (acquire): a loop of the locality sees what the operation has done.
//
// After fork() a runtime may not be used in the child.

namespace espalier::delegation {

struct options {
  /// Messages that a thread may have in flight to one locality; rounded up to a power of two.
  unsigned ring_depth = 32;
  /// How often a waiting thread looks for its answer before it looks once for messages to serve; 0: it adapts, and looks
  /// less often the longer it finds none.
  unsigned looks_before_serving = 0;
  /// Messages that a server takes from one ring before it looks at the next.
  unsigned batch = 16;
  /// How many operations may wait for one another, and how many a waiting thread serves on top of each other.
  unsigned nesting = 16;
  /// How often a waiting thread finds its message unserved before it serves its own ring; 0: it adapts.
  unsigned patience = 0;
  /// How often a waiting thread looks for its answer before it yields its processor after each look, and how often it then
  /// looks before it sleeps.
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

class runtime;
namespace detail {
struct sending;
class postponed;
}  // namespace detail

/// What every partition begins with.
struct partition_header {
  unsigned index;
  unsigned locality;
};
namespace detail {
/// Throws std::out_of_range.
[[noreturn]] void refuse_partition(unsigned index, unsigned count);
}  // namespace detail

/// Where the answer to a message goes. Of the thread that sent it.
class reply {
 public:
  reply(const reply&) = delete;
  reply& operator=(const reply&) = delete;

 protected:
  friend class runtime;
  reply() = default;
  reply(reply&& other) noexcept;
  virtual ~reply() { moved_to(nullptr); }
  /// Takes the result out of the message.
  virtual void deliver(message& answered) noexcept = 0;
  /// The object is at another place now; null: there is none.
  void moved_to(reply* place) const noexcept;

  detail::sending* by_ = nullptr;  ///< null: not in flight
  std::uint32_t turn_ = 0;
  detail::postponed* later_ = nullptr;  ///< the operation, where it is postponed
  detail::postponed* then_ = nullptr;   ///< what follows when the slot of the message is free again
};

namespace detail {

struct member;
struct locality;

/// Turns count messages without end. They begin where they soon wrap, so that every program does so.
inline constexpr std::uint32_t first_turn = 0U - 2;

/// An operation of execute() or a continuation that its thread is to run when fewer of these lie on its stack. In a list.
class postponed {
 public:
  postponed() = default;
  postponed(const postponed&) = delete;
  postponed& operator=(const postponed&) = delete;
  /// Deletes the object.
  virtual void run(member& me) noexcept = 0;

  unsigned depth = 0;   ///< of the operation that brought it about
  reply* to = nullptr;  ///< null: the result is destroyed
  postponed* next = nullptr;

 protected:
  ~postponed() = default;
};

/// The messages of one thread to one locality: the part in that locality's memory.
struct ring {
  ring(member& from, std::uint32_t depth, std::optional<unsigned> numa_node);

  [[nodiscard]] message& slot(std::uint32_t turn) const noexcept { return messages[turn & mask]; }
  /// A hint.
  [[nodiscard]] bool has_work() const noexcept {
    return slot(next.load(std::memory_order_relaxed)).looks_posted();  // relaxed: a hint
  }

  // Of both: the sender reads them with each message.
  member* const sender;
  const std::uint32_t mask;
  const hw::page_run pages;
  message* const messages;
  // Of the servers; `next` is written by the one that holds the lock.
  alignas(hw::false_sharing_bytes) ttas_lock lock;
  std::atomic<std::uint32_t> next{first_turn};
};

/// The same: the sender's part.
struct sending {
  struct record {
    reply* to = nullptr;
    /// Takes the result, advances the turn, and then destroys the result, whose destructor may submit.
    void (*discard)(message&, std::uint32_t& first) = nullptr;
    std::uint64_t key = 0;
    unsigned depth = 0;
  };

  ring* to = nullptr;
  unsigned locality = 0;
  std::uint32_t first = first_turn;  ///< the oldest that is not taken
  std::uint32_t end = first_turn;
  std::uint64_t operation = 0;   ///< that posted the newest
  std::uint64_t sampled_at = 0;  ///< when the message with that turn was posted; 0: none is timed
  std::uint32_t sampled_turn = 0;
  unsigned patience = 32;
  unsigned served_itself = 0;  ///< how often in a row the sender has served the ring while it waited
  unsigned unserved = 0;       ///< how often serve_unserved() has found that no thread runs the oldest
  std::vector<record> records;

  [[nodiscard]] bool is_empty() const noexcept { return first == end; }
  [[nodiscard]] record& of(std::uint32_t turn) noexcept { return records[turn & to->mask]; }
  [[nodiscard]] bool is_taken(std::uint32_t turn) const noexcept {
    return static_cast<std::int32_t>(turn - first) < 0;
  }
};

}  // namespace detail

inline void reply::moved_to(reply* place) const noexcept {
  if (by_ != nullptr)
    by_->of(turn_).to = place;
  else if (later_ != nullptr) [[unlikely]]
    later_->to = place;
}
inline reply::reply(reply&& other) noexcept
    : by_(std::exchange(other.by_, nullptr)),
      turn_(other.turn_),
      later_(std::exchange(other.later_, nullptr)) {
  moved_to(this);
}

namespace detail {

/// A word that one thread writes and others read at any time.
class tally {
 public:
  void add(std::uint64_t n = 1) noexcept { set(get() + n); }
  /// Writes in any case: what a simulated run does depends on no clock.
  void raise(std::uint64_t n) noexcept { set(std::max(get(), n)); }
  // relaxed, as below: counts, which order nothing.
  [[nodiscard]] std::uint64_t get() const noexcept { return word_.load(std::memory_order_relaxed); }

 private:
  void set(std::uint64_t n) noexcept { word_.store(n, std::memory_order_relaxed); }
  std::atomic<std::uint64_t> word_{0};
};

/// A thread in the runtime.
struct member {
  locality* home = nullptr;  ///< null: not attached
  unsigned home_index = 0;
  std::atomic<std::uint32_t> rank{
      0};                ///< among the threads of the locality; the lock of the locality guards writes
  unsigned depth = 0;    ///< of the operation that it runs; 0: none
  unsigned frames = 0;   ///< operations from rings on its stack
  unsigned stacked = 0;  ///< operations of execute() that it runs itself, and continuations, on its stack
  postponed* first_postponed = nullptr;
  postponed* last_postponed = nullptr;
  std::uint64_t operation = 0;  ///< the number of the one that it runs; 0: none
  std::uint64_t operations = 0;
  const partition_header* partition = nullptr;  ///< on which it runs
  unsigned partition_locks = 0;                 ///< that it holds
  unsigned fruitless = 0;                       ///< searches for messages since the last that found one
  unsigned looks_before_serving = 1;
  unsigned looks = 0;
  unsigned helped = 0;  ///< the share that it looked at last
  /// How many operations of its locality senders had run when it last began to poll.
  std::uint32_t run_by_senders = 0;
  bool is_listed = false;  ///< among the sleepers of its locality, whose lock guards it
  std::unique_ptr<sending[]> sendings;

  /// Why it sleeps: for an answer; for either, in serve_until() and in an event loop.
  enum sleep_state : std::uint32_t { awake = 0, for_answer = 1, for_work = 2, in_event_loop = 4 };
  /// Apart from what the thread writes all the time: servers read it after each batch.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint32_t> sleep{awake};
  std::atomic<int> event_fd{-1};
  alignas(hw::false_sharing_bytes) struct {
    tally local, sent, served, served_by_sender, run_nested, batches, waits_for_room, sleeps, deepest,
        most_in_ring, sampled, sampled_ticks, slowest_ticks;
  } did;

  [[nodiscard]] bool is_home(unsigned index) const noexcept { return home_index == index; }
};

/// The rings of a locality: one at most for each slot of hw::thread_slot(). They are added under the runtime's lock.
class ring_table {
 public:
  ring_table() = default;
  ring_table(const ring_table&) = delete;
  ring_table& operator=(const ring_table&) = delete;
  ~ring_table() {
    // relaxed: no other thread uses it.
    for (auto& b : blocks_) delete b.load(std::memory_order_relaxed);
  }
  /// A server may read the element with an index below it.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_acquire);  // order (1): count, acquire
  }
  [[nodiscard]] ring& operator[](std::uint32_t index) const noexcept {
    // relaxed: published by the count.
    return *(*blocks_[index / per_block].load(std::memory_order_relaxed))[index % per_block];
  }
  /// Makes room for one more. Throws std::bad_alloc.
  void reserve() {
    // relaxed throughout: the lock guards writes.
    auto& b = blocks_[count_.load(std::memory_order_relaxed) / per_block];
    if (b.load(std::memory_order_relaxed) == nullptr) b.store(new block{}, std::memory_order_relaxed);
  }
  void add(ring& one) noexcept {
    // relaxed: the lock guards writes.
    const std::uint32_t at = count_.load(std::memory_order_relaxed);
    (*blocks_[at / per_block].load(std::memory_order_relaxed))[at % per_block] = &one;
    count_.store(at + 1, std::memory_order_release);  // order (1): add, release
  }

 private:
  static constexpr std::uint32_t per_block = 64;
  using block = std::array<ring*, per_block>;
  std::array<std::atomic<block*>, hw::max_thread_slots / per_block> blocks_{};
  std::atomic<std::uint32_t> count_{0};
};

struct locality {
  locality_shape shape;
  ring_table rings;
  std::atomic<std::uint32_t> members{0};
  /// The length of `asleep`.
  std::atomic<std::uint32_t> sleepers{0};
  /// Operations that senders have run themselves.
  std::atomic<std::uint32_t> run_by_senders{0};
  std::mutex lock;
  std::vector<member*> by_rank;
  /// The threads that sleep until a message comes, and some that have been woken meanwhile by something else.
  std::vector<member*> asleep;
};

}  // namespace detail

template <class Result>
class completion;

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

  /// Makes the calling thread one of this locality, whether or not it runs there; leaves another one before. Without it a
  /// thread comes, at its first use of the runtime, to the locality of the hardware thread on which it then runs, or to the
  /// next in turn. Throws std::out_of_range for a locality that there is not, std::logic_error inside an operation unless the
  /// thread is there already, std::bad_alloc, and what hw::thread_slot() throws.
  void attach(unsigned locality);
  [[nodiscard]] bool is_attached() const noexcept;
  /// The calling thread's locality.
  [[nodiscard]] unsigned here() { return local().home_index; }
  /// Waits for all messages of the calling thread, runs their continuations, and gives up its share of the locality's rings.
  /// The end of a thread does it too. Throws std::logic_error inside an operation.
  void leave();

  // What a thread may do between operations.

  /// Takes the answers that have come, runs their continuations, and serves the messages of the calling thread's share; in the
  /// end also its own, where they stay unserved. Returns 0 if there was none of either.
  std::size_t poll();
  /// Serves all rings of a locality, for a dedicated thread. Returns how many messages it ran.
  std::size_t serve_locality(unsigned locality);
  /// Waits until all messages of the calling thread are answered: afterwards their effects are visible to it. In an
  /// operation: until those of the operation are. Throws nesting_error, and has waited for nothing, where twice
  /// options::nesting operations that are not awaited and continuations lie on the stack.
  void barrier();
  /// The same for messages to one locality with this key (its hash), if there are any. Throws std::out_of_range too.
  void fence(unsigned locality, std::uint64_t key);

  /// The same until the flag is set, for a thread that does nothing else; it sleeps while there are no messages. The thread
  /// comes to the locality.
  void serve_until(unsigned locality, const std::atomic<bool>& stop);
  /// Sets the flag, and wakes the threads that serve.
  void stop_serving(std::atomic<bool>& stop) noexcept;
  /// Starts such a thread, for a locality whose threads are often busy elsewhere. It ends with the runtime. Throws
  /// std::out_of_range, and std::system_error if the thread cannot be made.
  void add_poller(unsigned locality);

  // Event loops. A loop watches event_fd() for reading, and calls arm() before it blocks: where that is false it calls
  // poll() and does not block.

  /// A descriptor of the calling thread that becomes readable after arm() when an answer to the thread, or a message to its
  /// locality, has come or has been run by its sender. One message wakes one thread of the locality. The descriptor belongs to the runtime, and to the next thread in the same slot. Throws std::system_error.
  [[nodiscard]] int event_fd();
  [[nodiscard]] bool arm();

  /// Runs the messages of all threads. Where no other thread uses the runtime, none is left. Results stay in their slots.
  void drain();
  /// The same, and waits for those that other threads run. It needs no memory.
  void drain_at_rest() noexcept;

  [[nodiscard]] statistics counts() const;

  // For partitions.hpp and completion.

  [[nodiscard]] detail::member& local() {
    detail::member& me = members_.local();
    if (me.home == nullptr) [[unlikely]]
      attach_first(me);
    return me;
  }

  /// Posts a call to another locality. Returns false if this thread
  /// has to run the operation itself (deviation 3). Throws std::bad_alloc, and what a copy of the operation throws, with
  /// nothing posted.
  template <class Call, class Source>
  [[nodiscard]] bool post(detail::member& me, unsigned locality, void* target, std::uint64_t key,
                          Source&& operation, reply& to) {
    detail::sending& by = me.sendings[locality];
    if (by.to == nullptr) [[unlikely]]
      add_ring(me, by);
    if (me.frames != 0 && is_behind_outer(me, by)) return false;
    make_room(me, by);
    const std::uint32_t turn = by.end;
    message& m = by.to->slot(turn);
    // Servers' caches have the lines of free slots. The one after the next comes back while this message is written.
    if (turn + 2 - by.first <= by.to->mask) hw::request_to_write(&by.to->slot(turn + 2));
    Call::write(m, std::forward<Source>(operation));
    // The next of those without end are as deep as may be.
    m.post(Call::run, target, std::min(me.depth + 1, options_.nesting));
    // While the line travels.
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
  /// Takes the answers that have come. Where the oldest message stays unserved the thread runs it in the end.
  void look_for_answers(detail::member& me, detail::sending& by);
  /// Messages of the calling thread's share, now and then.
  void look_for_work(detail::member& me) {
    if (++me.looks >= me.looks_before_serving) [[unlikely]]
      serve_share(me);
  }
  /// The calling thread's messages are of another operation than the one that it runs: that one may wait for this one.
  [[nodiscard]] static bool holds_outer(const detail::member& me, const detail::sending& by) noexcept {
    return me.frames != 0 && !by.is_empty() && by.operation != me.operation;
  }
  /// Throws nesting_error if an operation may not wait for another one here.
  void check_nesting(const detail::member& me) const {
    if (me.depth >= options_.nesting) [[unlikely]]
      refuse_nesting();
  }
  /// The same where what is postponed runs on top of the stack.
  void check_postponed(const detail::member& me) const {
    if (me.stacked >= 2 * options_.nesting) [[unlikely]]
      refuse_nesting();
  }
  /// Whether an operation that is not awaited, or a continuation, may run on top of the stack.
  [[nodiscard]] bool has_room(const detail::member& me) const noexcept {
    return me.stacked < options_.nesting;
  }
  /// While one does.
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
  /// The thread will run it.
  static void postpone(detail::member& me, detail::postponed& one, unsigned depth) noexcept;
  /// Runs what is postponed, and what that brings about, in the order in which it came.
  void run_postponed(detail::member& me) noexcept;
  /// The same for a thread that is about to wait for it. Throws nesting_error.
  void await_postponed(detail::member& me) {
    if (me.first_postponed == nullptr) [[likely]]
      return;
    check_postponed(me);
    run_postponed(me);
  }
  /// Throws std::logic_error.
  [[noreturn]] static void refuse_second_result();

 private:
  std::size_t take_answers(detail::member& me, detail::sending& by);
  std::size_t take_answers(detail::member& me);
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
    hw::fence_light();  // order (2): posted, light
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
    hw::fence_light();  // order (2): answered, light
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

/// A reply that keeps the result.
template <class Result>
class reply_of : public reply {
 public:
  /// Of an operation that was postponed, and has run in the calling thread.
  void arrive(detail::member& me, outcome<Result> done) noexcept {
    later_ = nullptr;
    done_.emplace(std::move(done));
    if (then_ != nullptr) runtime::postpone(me, *then_, me.depth);
  }

 protected:
  using taker = outcome<Result> (*)(message&) noexcept;

  explicit reply_of(taker take) noexcept : take_(take) {}
  reply_of(reply_of&&) noexcept = default;
  void deliver(message& answered) noexcept final { done_.emplace(take_(answered)); }

  taker take_;
  std::optional<outcome<Result>> done_;
};

/// The result of an operation that may not have run yet. Of the thread that sent it; the runtime outlives it. A completion
/// that is destroyed early discards the result, not the operation.
template <class Result>
class [[nodiscard]] completion final : private reply_of<Result> {
  using base = reply_of<Result>;
  using base::by_, base::done_, base::later_, base::turn_;

 public:
  completion(completion&& other) noexcept
      : base(std::move(other)), runtime_(other.runtime_), is_taken_(std::exchange(other.is_taken_, true)) {}
  completion& operator=(completion&&) = delete;
  ~completion() override = default;

  /// Whether await() would return at once. A loop of it comes to its end: the calling thread runs what no other one does.
  /// Throws nesting_error as await() does where the operation is postponed.
  [[nodiscard]] bool is_ready() {
    if (by_ != nullptr)
      runtime_->look_for_answers(runtime_->local(), *by_);
    else if (later_ != nullptr) [[unlikely]]
      runtime_->await_postponed(runtime_->local());
    return done_.has_value();
  }
  /// Waits, and serves meanwhile. Returns the result or throws what the operation threw. Throws std::logic_error for the second
  /// time, and after then(). Throws nesting_error, and the operation runs all the same, inside options::nesting others.
  Result await() {
    if (by_ != nullptr || later_ != nullptr) {
      detail::member& me = runtime_->local();
      runtime_->check_nesting(me);
      if (later_ != nullptr) [[unlikely]]
        runtime_->check_postponed(me);
      finish(me);
    }
    if (std::exchange(is_taken_, true)) [[unlikely]]
      runtime::refuse_second_result();
    assert(done_.has_value());
    return done_->get();
  }
  /// Calls function(outcome<Result>) in the thread that submitted the operation, once the answer has come and that thread
  /// takes it: in its poll(), or while it submits, waits or leaves; at once if the operation has run. Inside options::nesting
  /// others it is called when one of them has ended, or when the thread waits in barrier(). The function must not throw. It
  /// may submit operations. Throws std::bad_alloc, with the function not called, and std::logic_error as await() does.
  template <class Function>
  void then(Function&& function) && {
    static_assert(std::is_invocable_v<Function&, outcome<Result>>,
                  "then() takes a function of outcome<Result>");
    using next_type = continuation<std::decay_t<Function>>;
    if (is_taken_) [[unlikely]]
      runtime::refuse_second_result();
    if (by_ != nullptr || later_ != nullptr) {
      (new next_type(std::forward<Function>(function), std::move(*this)))->comes_later();
      return;
    }
    detail::member& me = runtime_->local();
    if (!runtime_->has_room(me)) [[unlikely]] {
      runtime::postpone(me, *new next_type(std::forward<Function>(function), std::move(*this)), me.depth);
      return;
    }
    is_taken_ = true;
    const runtime::on_stack inside(*runtime_, me);
    function(std::move(*done_));
  }

 private:
  template <class, class>
  friend class partitions;
  template <class, std::size_t>
  friend class awaited_together;
  using taker = typename base::taker;

  completion(runtime& of, taker take) noexcept : base(take), runtime_(&of) {}
  void comes_from(detail::postponed& later) noexcept {
    later_ = &later;
    later.to = this;
  }
  void has_come(outcome<Result> done) noexcept { done_.emplace(std::move(done)); }
  /// await() for a message that has just been posted where the thread may wait.
  Result await_here(detail::member& me) {
    if (by_ != nullptr)
      runtime_->wait_for(me, *by_, turn_);  // what the thread served since may have taken the answer
    return done_->get();
  }
  /// Waits until the operation has run.
  void finish(detail::member& me) {
    if (by_ != nullptr)
      runtime_->wait_for(me, *by_, turn_);
    else if (later_ != nullptr)
      runtime_->run_postponed(me);
  }

  template <class Function>
  class continuation final : public reply_of<Result>, public detail::postponed {
   public:
    template <class Source>
    continuation(Source&& function, completion&& before)
        : reply_of<Result>(std::move(before)), function_(std::forward<Source>(function)) {
      before.is_taken_ = true;
    }
    /// When the result has come.
    void comes_later() noexcept { this->then_ = this; }
    void run(detail::member&) noexcept override {
      const std::unique_ptr<continuation> ends(this);
      function_(std::move(*this->done_));
    }

   private:
    Function function_;
  };

  runtime* runtime_;
  bool is_taken_ = false;
};

}  // namespace espalier::delegation
