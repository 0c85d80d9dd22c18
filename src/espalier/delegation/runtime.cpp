#include "espalier/delegation/runtime.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "espalier/hw/affinity.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/thread_slot.hpp"

namespace espalier::delegation {

namespace {

// In rounds of a waiting thread, each of which looks for its answer once.
constexpr unsigned least_patience = 4;
// Before it yields: on a busy machine each yield may cost a time slice.
constexpr unsigned most_patience = 96;
// Searches for messages that find none, until a server helps with another share, and until it looks less often.
constexpr unsigned looks_before_help = 4;
constexpr unsigned looks_before_rarer = 64;
constexpr unsigned rarest_looks = 8;

struct count {
  std::uint64_t statistics::* sum;
  detail::tally detail::tallies::* of_thread;
  const char* meaning;
  bool is_greatest = false;
  bool of_samples = false;
};
using all_of = statistics;
using of_one = detail::tallies;
constexpr count all_counts[] = {
    {&all_of::local, &of_one::local, "operations that were calls"},
    {&all_of::sent, &of_one::sent, "messages"},
    {&all_of::served, &of_one::served, "messages that a thread of the locality ran"},
    {&all_of::served_by_sender, &of_one::served_by_sender,
     "messages that their sender ran, because no thread of the locality came"},
    {&all_of::run_nested, &of_one::run_nested,
     "nested operations that ran in the calling thread, behind whose messages they would have waited"},
    {&all_of::batches, &of_one::batches, "visits to a ring that found a message"},
    {&all_of::waits_for_room, &of_one::waits_for_room, "messages that waited, because their ring was full"},
    {&all_of::sleeps, &of_one::sleeps, "times that a waiting thread went to sleep"},
    {&all_of::deepest, &of_one::deepest, "operations at most that waited for one another", true},
    {&all_of::most_in_ring, &of_one::most_in_ring, "messages at most of one thread in one ring", true},
    {&all_of::sampled, &of_one::sampled, "messages whose time from post to answer was taken"},
    {&all_of::sampled_ticks, &of_one::sampled_ticks, "ticks on average", false, true},
    {&all_of::slowest_ticks, &of_one::slowest_ticks, "ticks at most", true, true}};

}  // namespace

statistics& statistics::operator+=(const statistics& other) noexcept {
  for (const count& one : all_counts)
    this->*one.sum =
        one.is_greatest ? std::max(this->*one.sum, other.*one.sum) : this->*one.sum + other.*one.sum;
  return *this;
}

std::string to_string(const statistics& did) {
  std::string text;
  for (const count& one : all_counts) {
    std::string number = std::to_string(did.*one.sum);
    if (one.of_samples && did.sampled == 0)
      number = "unavailable";
    else if (one.sum == &statistics::sampled_ticks)
      number = std::to_string(did.sampled_ticks / did.sampled);
    static constexpr std::size_t width = 12;
    text.append(width - std::min(width, number.size()), ' ')
        .append(number)
        .append("  ")
        .append(one.meaning) += '\n';
  }
  return text;
}

// Threads ------------------------------------------------------------------------------------------------------------

runtime::runtime(localities where, const options& o) : options_(o), where_(std::move(where)) {
  if (o.ring_depth == 0 || o.ring_depth > 4096)
    throw std::invalid_argument("delegation: the depth of a ring is from 1 to 4096");
  if (o.nesting == 0 || o.nesting > 1000)
    throw std::invalid_argument("delegation: nesting is from 1 to 1000");
  if (o.batch == 0) throw std::invalid_argument("delegation: a batch is of at least 1 message");
  for (unsigned i = 0; i < where_.count(); ++i) {
    auto one = std::make_unique<detail::locality>();
    one->shape = where_[i];
    localities_.push_back(std::move(one));
  }
}

runtime::~runtime() {
  detail::forget_runtime(live_);
  stop_serving(stopping_);
  for (std::thread& one : pollers_) one.join();
  drain_at_rest();
  // Continuations may submit more.
  for (bool more = true; more;) {
    more = false;
    members_.for_each([&](std::uint32_t, detail::member& one) {
      if (take_answers(one) != 0) more = true;
    });
    if (more) drain_at_rest();
  }
  detail::forget_runtime(live_);  // operations may have used it
  members_.for_each([](std::uint32_t, detail::member& one) {
    // relaxed: no other thread uses the runtime.
    const int fd = one.event_fd.load(std::memory_order_relaxed);
    if (fd >= 0) close(fd);
  });
}

void runtime::check_locality(unsigned locality) const {
  if (locality >= locality_count())
    throw std::out_of_range("delegation: there is no locality " + std::to_string(locality) + " of " +
                            std::to_string(locality_count()));
}

void runtime::attach(unsigned locality) {
  check_locality(locality);
  detail::member& me = members_.local();
  if (me.home != nullptr && me.home_index == locality) return;
  if (me.home != nullptr) leave(me);
  attach(me, locality);
}

void runtime::attach_first(detail::member& me) {
  const std::optional<unsigned> pu = hw::current_cpu();
  const std::optional<unsigned> known = pu ? where_.of_pu(*pu) : std::nullopt;
  // relaxed: a number, which orders nothing.
  attach(me, known ? *known : next_in_turn_.fetch_add(1, std::memory_order_relaxed) % locality_count());
}

void runtime::attach(detail::member& me, unsigned locality) {
  if (me.sendings.empty()) {
    me.sendings.resize(locality_count());
    for (unsigned i = 0; i < locality_count(); ++i) me.sendings[i].locality = i;
  }
  detail::leave_at_thread_end(live_);
  detail::locality& there = *localities_[locality];
  const std::lock_guard hold(there.lock);
  there.asleep.reserve(there.by_rank.size() + 1);
  there.by_rank.push_back(&me);
  const auto count = static_cast<std::uint32_t>(there.by_rank.size());
  // relaxed: of this thread.
  me.rank.store(count - 1, std::memory_order_relaxed);
  me.helped = count - 1;
  me.home_index = locality;
  me.home = &there;
  me.looks_before_serving = options_.looks_before_serving != 0 ? options_.looks_before_serving : 1;
  me.run_by_senders =
      there.run_by_senders.load(std::memory_order_relaxed);  // relaxed: it has seen nothing yet
  there.members.store(count, std::memory_order_release);     // order (2): attach, release
}

bool runtime::is_attached() const noexcept {
  const detail::member* const me = members_.if_made();
  return me != nullptr && me->home != nullptr;
}

void runtime::leave() {
  if (is_attached()) leave(members_.local());
}

void runtime::leave(detail::member& me) {
  if (me.partition != nullptr)
    throw std::logic_error("delegation: a thread may not leave its locality inside an operation");
  // relaxed: it is awake.
  me.sleep.store(detail::member::awake, std::memory_order_relaxed);
  // A continuation may submit to a locality that was waited for before.
  for (bool again = true; again;) {
    again = false;
    for (detail::sending& by : me.sendings) {
      if (!by.is_empty()) again = true;
      while (!by.is_empty()) wait_for(me, by, by.end - 1);
    }
  }
  // Its event_fd stays: a server that has just answered may write to it.
  detail::locality& there = *me.home;
  const std::lock_guard hold(there.lock);
  if (me.is_listed) {
    std::erase(there.asleep, &me);
    me.is_listed = false;
    // relaxed: one less is no news.
    there.sleepers.store(static_cast<std::uint32_t>(there.asleep.size()), std::memory_order_relaxed);
  }
  // relaxed: the lock guards writes; a server that reads the old rank looks at another share once.
  const std::uint32_t rank = me.rank.load(std::memory_order_relaxed);
  there.by_rank[rank] = there.by_rank.back();
  there.by_rank[rank]->rank.store(rank, std::memory_order_relaxed);
  there.by_rank.pop_back();
  // order (2): leave, release
  there.members.store(static_cast<std::uint32_t>(there.by_rank.size()), std::memory_order_release);
  me.home = nullptr;
}

void runtime::add_ring(detail::member& me, detail::sending& by) {
  detail::locality& there = *localities_[by.locality];
  auto fresh = std::make_unique<detail::ring>(me, std::bit_ceil(options_.ring_depth), there.shape.numa_node);
  by.records.resize(std::size_t{fresh->mask} + 1);
  if (options_.patience != 0) by.patience = options_.patience;
  const std::lock_guard hold(lock_);
  there.rings.reserve();
  rings_.push_back(std::move(fresh));
  by.to = rings_.back().get();
  there.rings.add(*by.to);
}

// Serving ------------------------------------------------------------------------------------------------------------

unsigned runtime::serve(detail::member& me, detail::ring& from, unsigned most) noexcept {
  if (!from.lock.try_lock()) return 0;
  const unsigned depth = me.depth;
  const std::uint64_t operation = me.operation;
  const partition_header* const partition = me.partition;
  unsigned served = 0;
  ++me.frames;
  for (; served < most; ++served) {
    // relaxed: the lock orders it.
    const std::uint32_t turn = from.next.load(std::memory_order_relaxed);
    message& m = from.slot(turn);
    if (!m.is_posted()) break;
    from.next.store(turn + 1, std::memory_order_relaxed);  // first: the operation may serve meanwhile
    me.depth = m.depth();
    me.operation = ++me.operations;
    me.partition = static_cast<const partition_header*>(m.target());
    me.did.deepest.raise(me.depth);
    // Its line travels while the operation runs. The first message may be the last: then the sender writes the line behind.
    hw::request_lines(&from.slot(turn + (served != 0 ? 2 : 1)), sizeof m);
    m.run();
    m.answer();
    wake_sender(from);  // which may wait for this message alone
  }
  --me.frames;
  me.depth = depth;
  me.operation = operation;
  me.partition = partition;
  from.lock.unlock();
  if (served != 0) me.did.batches.add();
  // Also where it served none: the sender may sleep because the lock was held.
  wake_sender(from);
  return served;
}

/// The ring of the thread itself.
unsigned runtime::serve_own(detail::member& me, detail::sending& by) noexcept {
  const unsigned served = serve(me, *by.to, options_.batch);
  if (served == 0) return 0;
  me.did.served_by_sender.add(served);
  // A loop that slept for these messages would not hear of them.
  detail::locality& there = *localities_[by.locality];
  there.run_by_senders.fetch_add(served, std::memory_order_release);  // order (3): run_by_sender, release
  hw::fence_light();                                                  // order (1): posted, light
  // relaxed: the fence orders it.
  if (there.sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    wake_for_work(there);
  return served;
}

/// The same where its oldest message has stayed unserved for long.
bool runtime::serve_unserved(detail::member& me, detail::sending& by) noexcept {
  // As in serve_share().
  if (me.partition_locks != 0 || ++by.unserved < by.patience) return false;
  by.unserved = 0;
  return serve_own(me, by) != 0;
}

bool runtime::serve_share(detail::member& me) {
  me.looks = 0;
  // An operation of the partition would wait for the lock that this thread holds.
  if (me.frames >= options_.nesting || me.partition_locks != 0) return false;
  const detail::locality& here = *me.home;
  const std::uint32_t rings = here.rings.count();
  // order (2): members, acquire
  const std::uint32_t members = std::max(here.members.load(std::memory_order_acquire), 1U);
  // relaxed: a hint; the ring's lock excludes other servers.
  std::uint32_t share = me.rank.load(std::memory_order_relaxed);
  unsigned served = 0;
  for (const bool helps : {false, true}) {
    if (helps) {
      if (served != 0 || members == 1 || me.fruitless % looks_before_help != 0) break;
      // Another thread may be in a long operation, or asleep.
      me.helped = share = (me.helped + 1) % members;
    }
    for (std::uint32_t i = share; i < rings; i += members) {
      detail::ring& one = here.rings[i];
      if (one.has_work()) served += serve(me, one, options_.batch);
    }
  }
  me.did.served.add(served);
  if (served != 0) {
    me.fruitless = 0;
    if (options_.looks_before_serving == 0) me.looks_before_serving = 1;
    return true;
  }
  if (++me.fruitless % looks_before_rarer == 0 && options_.looks_before_serving == 0)
    me.looks_before_serving = std::min(me.looks_before_serving * 2, rarest_looks);
  return false;
}

std::size_t runtime::serve_locality(unsigned locality) {
  detail::member& me = local();
  const detail::locality& there = *localities_.at(locality);
  const std::uint32_t rings = there.rings.count();
  std::size_t served = 0;
  for (std::uint32_t i = 0; i < rings; ++i) {
    detail::ring& one = there.rings[i];
    if (one.has_work()) served += serve(me, one, options_.batch);
  }
  me.did.served.add(served);
  return served;
}

bool runtime::has_work(const detail::locality& there) const noexcept {
  const std::uint32_t rings = there.rings.count();
  for (std::uint32_t i = 0; i < rings; ++i) {
    if (there.rings[i].has_work()) return true;
  }
  return false;
}

void runtime::drain() { drain(local(), false); }

void runtime::drain_at_rest() noexcept {
  const bool none = std::all_of(localities_.begin(), localities_.end(),
                                [](const auto& one) { return one->rings.count() == 0; });
  if (none) return;
  // Operations find out by the thread's own member on which partition they run, and in which ring they lie.
  detail::member* const own = members_.try_local();
  drain(own != nullptr ? *own : drains_, true);
}

void runtime::drain(detail::member& me, bool at_rest) noexcept {
  std::uint64_t before = 0;
  unsigned rounds = 0;
  for (bool more = true; more;) {
    more = false;
    std::uint64_t taken = 0;
    for (const auto& there : localities_) {
      for (std::uint32_t i = 0; i < there->rings.count(); ++i) {
        detail::ring& one = there->rings[i];
        for (bool idle = false; !idle;) {
          idle = true;
          if (at_rest && me.frames == 0) {
            // Another thread may run one of its operations.
            const std::lock_guard wait(one.lock);
            idle = !one.has_work();
            if (idle) taken += one.next.load(std::memory_order_relaxed);  // relaxed: the lock orders it
          }
          // This also wakes the sender, which may sleep because of that lock.
          while (serve(me, there->rings[i], options_.batch) != 0) more = true;
        }
      }
    }
    // What another thread ran meanwhile may have submitted to a ring that was empty before. The limit is for a runtime
    // that is in use: there some thread always runs something.
    if (std::exchange(before, taken) != taken && ++rounds < options_.nesting) more = true;
  }
}

// Waiting ------------------------------------------------------------------------------------------------------------

void runtime::begin_sample(detail::sending& by, std::uint32_t turn) noexcept {
  by.sampled_at = hw::tsc_now();
  by.sampled_turn = turn;
}

void runtime::end_sample(detail::member& me, detail::sending& by) noexcept {
  const std::uint64_t ticks = hw::tsc_now() - std::exchange(by.sampled_at, 0);
  me.did.sampled.add();
  me.did.sampled_ticks.add(ticks);
  me.did.slowest_ticks.raise(ticks);
}

bool runtime::is_behind_outer(detail::member& me, detail::sending& by) {
  static_cast<void>(take_answers(me, by));
  if (!holds_outer(me, by)) return false;
  me.did.run_nested.add();
  return true;
}

std::size_t runtime::take_answers(detail::member& me, detail::sending& by) {
  std::size_t taken = 0;
  while (!by.is_empty()) {
    message& m = by.to->slot(by.first);
    if (m.is_posted()) break;
    if (taken == 0) me.did.most_in_ring.raise(by.end - by.first);
    if (by.sampled_at != 0 && by.sampled_turn == by.first) [[unlikely]]
      end_sample(me, by);
    ++taken;
    const detail::sending::record& done = by.of(by.first);
    detail::reply* const to = done.to;
    const unsigned depth = done.depth;
    if (to == nullptr) {
      done.discard(m, by.first);
      continue;
    }
    to->deliver(m);
    to->by_ = nullptr;
    // Before a continuation, which may take further answers.
    ++by.first;
    if (to->then_ != nullptr) {
      postpone(me, *to->then_, depth);
      if (has_room(me)) run_postponed(me);
    }
  }
  return taken;
}

void runtime::look_for_answers(detail::member& me, detail::sending& by) {
  if (take_answers(me, by) != 0)
    by.unserved = 0;
  else if (serve_unserved(me, by))
    static_cast<void>(take_answers(me, by));
}

void runtime::postpone(detail::member& me, detail::postponed& one, unsigned depth) noexcept {
  one.depth = depth;
  (me.first_postponed == nullptr ? me.first_postponed : me.last_postponed->next) = &one;
  me.last_postponed = &one;
}

void runtime::run_postponed(detail::member& me) noexcept {
  ++me.stacked;
  while (detail::postponed* const one = me.first_postponed) {
    me.first_postponed = one->next;
    const unsigned own = std::exchange(me.depth, one->depth);
    one->run(me);
    me.depth = own;
  }
  --me.stacked;
}

void runtime::wait_for(detail::member& me, detail::sending& by, std::uint32_t turn) {
  assert(me.partition_locks == 0 && "an operation may not wait for another one under a partition's lock");
  const std::uint64_t own = me.did.served_by_sender.get();
  for (unsigned rounds = 0, waited = 0;; ++waited) {
    static_cast<void>(take_answers(me, by));
    if (by.is_taken(turn)) {
      if (options_.patience == 0 && me.did.served_by_sender.get() == own) {
        // Served by the locality: the next wait is at least as patient.
        by.patience = std::clamp(2 * waited, by.patience, most_patience);
        by.served_itself = 0;
      }
      return;
    }
    wait_once(me, by, rounds);
  }
}

void runtime::wait_for_room(detail::member& me, detail::sending& by) {
  static_cast<void>(take_answers(me, by));
  if (by.end - by.first <= by.to->mask) return;
  assert(me.partition_locks == 0 && "an operation may not wait for room in a ring under a partition's lock");
  me.did.waits_for_room.add();
  // For some: a sender that comes with each free slot would do so in step with the server.
  const std::uint32_t most = by.to->mask - by.to->mask / 4;
  for (unsigned rounds = 0; by.end - by.first > most; static_cast<void>(take_answers(me, by)))
    wait_once(me, by, rounds);
}

void runtime::wait_once(detail::member& me, detail::sending& by, unsigned& rounds) {
  const bool due = ++me.looks >= me.looks_before_serving;
  if (due && serve_share(me)) {
    rounds = 0;
    return;
  }
  const bool adapts = options_.patience == 0;
  // Now and then it finds out whether the locality has become faster.
  const unsigned patience = adapts && (by.first + 1) % between_samples == 0 ? most_patience : by.patience;
  if (++rounds % patience == 0) {
    if (serve_own(me, by) != 0) {
      // Once may be chance.
      if (adapts && ++by.served_itself % 4 == 0) by.patience = std::max(least_patience, by.patience / 2);
      rounds = 0;
      return;
    }
  }
  if (rounds < options_.spins) {
    hw::cpu_relax();
  } else if (rounds < options_.spins + options_.yields) {
    hw::park();
  } else {
    sleep_for(me, by);
    rounds = patience - 1;  // if the message is unserved now, this thread serves it
  }
}

/// Until its oldest message is answered, which another thread runs.
void runtime::sleep_for(detail::member& me, detail::sending& by) {
  me.did.sleeps.add();
  // relaxed: the fence orders it.
  me.sleep.store(detail::member::for_answer, std::memory_order_relaxed);
  hw::fence_heavy();  // order (1): sleep, heavy
  if (by.to->slot(by.first).is_posted() && by.to->lock.is_locked())
    hw::wait_on(me.sleep, detail::member::for_answer);
  me.sleep.store(detail::member::awake, std::memory_order_relaxed);  // relaxed: nothing follows from it
}

bool runtime::wake(detail::member& sleeping, std::uint32_t reasons) noexcept {
  // relaxed, all of it: the message or the answer is what the sleeper looks for.
  std::uint32_t why = sleeping.sleep.load(std::memory_order_relaxed);
  do {
    if ((why & reasons) == 0) return false;
  } while (!sleeping.sleep.compare_exchange_weak(why, detail::member::awake, std::memory_order_relaxed));
  if (why == detail::member::in_event_loop) {
    const std::uint64_t one = 1;
    // A counter at its limit is readable already. relaxed: written before the thread armed it.
    static_cast<void>(write(sleeping.event_fd.load(std::memory_order_relaxed), &one, sizeof one));
  } else {
    hw::wake_one(sleeping.sleep);
  }
  return true;
}

/// One thread that sleeps for messages to its locality. Those that something else has woken are sleepers no more.
void runtime::wake_for_work(detail::locality& there) noexcept {
  const std::lock_guard hold(there.lock);
  for (bool woken = false; !woken && !there.asleep.empty();) {
    detail::member& one = *there.asleep.back();
    there.asleep.pop_back();
    one.is_listed = false;
    woken = wake(one, detail::member::for_work | detail::member::in_event_loop);
  }
  // relaxed: the lock guards writes, and fewer are no news.
  there.sleepers.store(static_cast<std::uint32_t>(there.asleep.size()), std::memory_order_relaxed);
}

/// The caller then looks for work once more.
void runtime::sleeps_for_work(detail::member& me, detail::member::sleep_state how) noexcept {
  detail::locality& here = *me.home;
  // relaxed: the fence orders it.
  me.sleep.store(how, std::memory_order_relaxed);
  {
    const std::lock_guard hold(here.lock);
    // There is room since the thread has attached. Pollers come last, and are woken first.
    if (!std::exchange(me.is_listed, true))
      here.asleep.insert(how == detail::member::for_work ? here.asleep.end() : here.asleep.begin(), &me);
    // relaxed: the fence orders it.
    here.sleepers.store(static_cast<std::uint32_t>(here.asleep.size()), std::memory_order_relaxed);
  }
  hw::fence_heavy();  // order (1): sleep, heavy
}

std::size_t runtime::take_answers(detail::member& me) {
  std::size_t taken = 0;
  for (detail::sending& by : me.sendings) taken += take_answers(me, by);
  return taken;
}

bool runtime::awaits_servers(detail::member& me) {
  bool all = true;
  for (detail::sending& by : me.sendings) {
    if (by.is_empty()) continue;
    const bool posted = by.to->slot(by.first).is_posted();
    if (posted && by.to->lock.is_locked()) continue;
    all = false;
    if (posted) static_cast<void>(serve_unserved(me, by));
  }
  return all;
}

std::size_t runtime::poll() {
  detail::member& me = local();
  me.fruitless = 0;
  // order (3): poll, acquire
  me.run_by_senders = me.home->run_by_senders.load(std::memory_order_acquire);
  std::size_t done = (serve_share(me) ? 1U : 0U) + take_answers(me);
  for (detail::sending& by : me.sendings) {
    if (done == 0 && !by.is_empty() && serve_unserved(me, by)) done = take_answers(me, by);
  }
  // relaxed: it is awake.
  if (me.sleep.load(std::memory_order_relaxed) != detail::member::awake)
    me.sleep.store(detail::member::awake, std::memory_order_relaxed);
  return done;
}

void runtime::barrier() {
  detail::member& me = local();
  check_postponed(me);
  run_postponed(me);
  for (detail::sending& by : me.sendings) {
    if (!by.is_empty() && !holds_outer(me, by)) wait_for(me, by, by.end - 1);
  }
  run_postponed(me);  // continuations that found no room
}

void runtime::fence(unsigned locality, std::uint64_t key) {
  detail::member& me = local();
  check_locality(locality);
  await_postponed(me);
  detail::sending& by = me.sendings[locality];
  if (by.to == nullptr) return;
  static_cast<void>(take_answers(me, by));
  if (holds_outer(me, by)) return;
  for (std::uint32_t turn = by.end; turn != by.first; --turn) {
    if (by.of(turn - 1).key == key) return wait_for(me, by, turn - 1);
  }
}

// Pollers and event loops --------------------------------------------------------------------------------------------

void runtime::add_poller(unsigned locality) {
  check_locality(locality);
  const std::lock_guard hold(lock_);
  pollers_.emplace_back([this, locality] {
    serve_until(locality, stopping_);
    leave();
  });
}

void runtime::serve_until(unsigned locality, const std::atomic<bool>& stop) {
  attach(locality);
  detail::member& me = local();
  detail::locality& there = *localities_[locality];
  // relaxed: a flag that orders nothing.
  for (unsigned rounds = 0; !stop.load(std::memory_order_relaxed);) {
    if (take_answers(me) + serve_locality(locality) != 0) {
      rounds = 0;
    } else if (++rounds < options_.idle_looks) {
      rounds < options_.spins ? hw::cpu_relax() : hw::park();
    } else {
      me.did.sleeps.add();
      sleeps_for_work(me, detail::member::for_work);
      const bool idle =
          !has_work(there) && !stop.load(std::memory_order_relaxed);  // relaxed: the fence orders it
      if (idle && awaits_servers(me)) hw::wait_on(me.sleep, detail::member::for_work);
      // relaxed: nothing follows from it.
      me.sleep.store(detail::member::awake, std::memory_order_relaxed);
    }
  }
}

void runtime::stop_serving(std::atomic<bool>& stop) noexcept {
  // relaxed: the fence orders it.
  stop.store(true, std::memory_order_relaxed);
  hw::fence_heavy();  // order (1): sleep, heavy
  members_.for_each([](std::uint32_t, detail::member& one) { wake(one); });
}

int runtime::event_fd() {
  detail::member& me = local();
  // relaxed: of this thread.
  int fd = me.event_fd.load(std::memory_order_relaxed);
  if (fd < 0) {
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "delegation: eventfd");
    me.event_fd.store(fd, std::memory_order_relaxed);  // relaxed: as above
  }
  return fd;
}

bool runtime::arm() {
  const int fd = event_fd();
  std::uint64_t wakes = 0;
  // Empty where nothing has come.
  static_cast<void>(read(fd, &wakes, sizeof wakes));
  detail::member& me = local();
  sleeps_for_work(me, detail::member::in_event_loop);
  // order (3): arm, acquire
  const bool missed_none = me.home->run_by_senders.load(std::memory_order_acquire) == me.run_by_senders;
  const bool idle = awaits_servers(me) && !has_work(*me.home) && missed_none;
  // relaxed: nothing follows from it.
  if (!idle) me.sleep.store(detail::member::awake, std::memory_order_relaxed);
  return idle;
}

statistics runtime::counts() const {
  statistics sum;
  members_.for_each([&sum](std::uint32_t, const detail::member& one) {
    statistics did;
    for (const count& each : all_counts) did.*each.sum = (one.did.*each.of_thread).get();
    sum += did;
  });
  return sum;
}

void runtime::refuse_second_result() {
  throw std::logic_error("delegation: the result of an operation is taken once");
}

void runtime::refuse_nesting() const {
  throw nesting_error("delegation: more than " + std::to_string(options_.nesting) +
                      " operations would wait for one another; submit with then() instead, or raise "
                      "options::nesting");
}

}  // namespace espalier::delegation
