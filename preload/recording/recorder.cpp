#include "preload/recording/recorder.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "preload/environment/output.hpp"
#include "preload/kernel/saved_errno.hpp"
#include "preload/recording/snapshot_writer.hpp"

namespace espalier::preload {

thread_local constinit thread_state this_thread;

namespace {

/// A thread reads the clock once in so many calls.
constexpr std::uint32_t calls_between_clocks = 256;

std::uint64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uintptr_t address_of(const void* block) noexcept { return reinterpret_cast<std::uintptr_t>(block); }

/// Under the snapshot lock. Not on the stack, of which a signal handler may have little.
constinit std::array<char, 4096> name_of_snapshot{};

/// During its life no code of the program runs in this thread. Otherwise a handler might leave the library by
/// longjmp(), and a cancelled thread would end in it; neither may happen in free(). A fault in the library still ends
/// the program.
class uninterrupted {
 public:
  uninterrupted() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &signals_);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled_);
  }
  ~uninterrupted() {
    pthread_setcancelstate(cancelled_, &cancelled_);
    pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
  }
  uninterrupted(const uninterrupted&) = delete;
  uninterrupted& operator=(const uninterrupted&) = delete;

 private:
  sigset_t signals_;
  int cancelled_ = 0;
};

}  // namespace

void recorder::start(const settings& how, void (*thread_ended)(void*), std::uintptr_t own_begin,
                     std::uintptr_t own_end) noexcept {
  settings_ = how;
  budget_.set_limit(how.memory_limit);
  process_ = getpid();
  // Not /proc/self/exe, which is the target of a symbolic link, and cannot be read after a change of user.
  if (const auto* started = reinterpret_cast<const char*>(getauxval(AT_EXECFN)); started != nullptr) {
    while (started[0] == '.' && started[1] == '/') started += 2;
    text program(program_.data(), program_.size());
    if (!put_absolute(program, started)) program << started;
  }
  started_ms_ = now_ms();
  watch_.start(how.peak, now_ns());
  if (how.every_ms != 0) due_ms_.store(started_ms_ + how.every_ms, std::memory_order_relaxed);
  stacks_.leave_out(own_begin, own_end);
  threads_.start(thread_ended);
  if (stacks_.start()) {
    // order: start (release) -> listens (acquire)
    state_.store(state::on, std::memory_order_release);
    judge_quick();
  } else {
    stop("the memory for call stacks was refused");
    state_.store(state::draining, std::memory_order_release);
  }
}

void recorder::passed_by(const char* module) noexcept {
  const char* const slash = std::strrchr(module, '/');
  const char* const name = slash == nullptr ? module : slash + 1;
  text(passed_by_.data(), passed_by_.size()).append(name, std::min(std::strlen(name), passed_by_.size() - 1));
}

bool recorder::must_be_passed_on() const noexcept {
  return state_.load(std::memory_order_relaxed) != state::off && settings_.follow != followed::all &&
         !of_child_ && getpid() == process_;
}

std::uint64_t recorder::random() noexcept {
  thread_state& mine = this_thread;
  if (!mine.random_started) {
    const std::uint64_t thread = random_threads_.fetch_add(1, std::memory_order_relaxed);
    mine.random = measure::splitmix64(measure::mix64(measure::mix64(settings_.seed + 1) + thread));
    mine.random_started = true;
  }
  return mine.random.next();
}

void recorder::stop(const char* why) noexcept {
  const char* before = nullptr;
  // order: stop (release) -> stopped (acquire)
  stopped_.compare_exchange_strong(before, why, std::memory_order_release, std::memory_order_relaxed);
  state expected = state::on;
  state_.compare_exchange_strong(expected, state::draining);
  judge_quick();
}

void recorder::judge_quick() noexcept {
  const auto judged = [this] {
    return state_.load() == state::on && settings_.sample.how == sampling::kind::all &&
           settings_.every_ms == 0 && !requested_.load();
  };
  // A signal between judging and storing judges too, and its result must stay.
  bool stored = false;
  do {
    stored = judged();
    quick_.store(stored);
  } while (judged() != stored);
}

void recorder::allocated_slowly(void* block, std::size_t asked, std::size_t held,
                                const caller_state& by) noexcept {
  {
    const inside_scope scope;
    const std::uint64_t chance = settings_.sample.needs_chance() ? random() : 0;
    if (state_.load(std::memory_order_relaxed) != state::on ||
        !settings_.sample.takes(address_of(block), asked, chance)) {
      pass_over();
    } else {
      enter_by_stack(block, asked, held, by);
    }
  }
  take_due_snapshots();
}

void recorder::pass_over() noexcept {
  thread_record* const mine = record_of_this_thread();
  if (mine == nullptr) return count(passed_over_);
  // relaxed: only the owner counts.
  mine->passed_over.store(mine->passed_over.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

thread_record* recorder::record_of_this_thread() noexcept {
  thread_state& mine = this_thread;
  if (mine.record == nullptr && !mine.ended) mine.record = threads_.acquire();
  return mine.record;
}

void recorder::enter_by_stack(void* block, std::size_t asked, std::size_t held,
                              const caller_state& by) noexcept {
  const auto intern = [this](const std::uintptr_t* frames, unsigned depth) {
    return sites_.intern(frames, depth);
  };
  thread_record* const mine = record_of_this_thread();
  std::uint32_t site = site_table::unknown;
  if (mine != nullptr) {
    // order: allocated_slowly (acquire) <- modules_changed (release)
    const std::uint32_t generation = generation_.load(std::memory_order_acquire);
    site = mine->stacks.find(by, generation);
    if (site == site_table::unknown)
      site = mine->stacks.walk(stacks_, by, settings_.frames, generation, intern);
  } else {
    std::array<std::uintptr_t, most_frames> frames;  // NOLINT: walk() fills what is read
    site = intern(frames.data(), stacks_.walk(by, frames.data(), settings_.frames));
  }
  if (site == site_table::unknown) return stop("the memory for another call site was refused");
  held = std::max(asked, held);
  // With samples by chance, most frees are of blocks that are not recorded, and each would search all threads' young
  // blocks.
  if (mine == nullptr || settings_.sample.needs_chance())
    return insert({address_of(block), asked, held, site});
  enter(*mine, address_of(block), asked, held, site);
}

void recorder::enter(thread_record& mine, std::uintptr_t address, std::size_t asked, std::size_t held,
                     std::uint32_t site) noexcept {
  // relaxed: a hint, which any thread may give.
  if (const std::uint32_t left = mine.no_young.load(std::memory_order_relaxed); left != 0) {
    mine.no_young.store(left - 1, std::memory_order_relaxed);
    return insert({address, asked, held, site});
  }
  if (!mine.young.has_room(address)) {
    std::uint64_t gone = 0;
    if (mine.young.holds(address)) {
      gone = mine.young.asked_for(address);
    } else if (!mine.young.moved(address, blocks_, &gone)) {
      stop("the memory for another block was refused");
    }
    replaced(gone);
  }
  {
    const thread_records::working in_use(threads_, mine);
    mine.young.put({address, asked, held, site});
  }
  grown(&mine, static_cast<std::int64_t>(asked));
}

void recorder::insert(const block_record& block) noexcept {
  std::uint64_t gone = 0;
  if (!blocks_.insert(block, &gone)) return stop("the memory for another block was refused");
  replaced(gone);
  grown(this_thread.record, static_cast<std::int64_t>(block.asked));
}

void recorder::replaced(std::uint64_t bytes) noexcept {
  if (bytes != 0) grown(this_thread.record, -static_cast<std::int64_t>(bytes));
}

bool recorder::freeing_old(std::uintptr_t address, block_record* removed) noexcept {
  if (!settings_.sample.may_hold(address)) return false;
  const inside_scope scope;
  block_record local;  // NOLINT: erase() fills it where it says so
  block_record& gone = removed == nullptr ? local : *removed;
  if (!erase(address, &gone)) return false;
  thread_record* const mine = this_thread.record;
  const bool near = mine != nullptr && mine->drift.shrink(static_cast<std::int64_t>(gone.asked));
  if (!near) [[unlikely]]
    fell_by(gone, removed != nullptr);
  return true;
}

void recorder::fell_by(const block_record& gone, bool moves) noexcept {
  thread_record* const mine = this_thread.record;
  if (mine == nullptr) watch_.change(-static_cast<std::int64_t>(gone.asked));
  // The fall by a block that moves is reported with the next one: the heap is about to grow again.
  if (moves) return;
  const peak_watch::verdict judged =
      watch_.judge(mine == nullptr ? watch_.change(0) : watch_.tell(mine->drift));
  // The snapshot must contain the block.
  if (judged == peak_watch::verdict::none || !blocks_.put_back(gone)) return;
  take_peak(judged);
  blocks_.erase(gone.address);
}

void recorder::before_fall(thread_record& mine) noexcept { take_peak(watch_.judge(watch_.tell(mine.drift))); }

void recorder::take_peak(peak_watch::verdict judged) noexcept {
  if (judged == peak_watch::verdict::none) return;
  if (finished_.load(std::memory_order_relaxed) || getpid() != process_) return;
  const saved_errno keep;
  const uninterrupted alone;
  // Does not wait for a snapshot that another thread is writing.
  if (!snapshot_lock_.try_lock()) return;
  const block_table::counts now = blocks_.counted();
  if (judged == peak_watch::verdict::due || watch_.affordable(now.used, now.inserted, now_ns())) write_peak();
  snapshot_lock_.unlock();
}

void recorder::write_peak() noexcept {
  const quiet_writing quiet;
  const std::uint64_t from = now_ns();
  snapshot_writer writer(*this, "peak", snapshots_.load(std::memory_order_relaxed));
  const bool written =
      peak_file_name(settings_, process_, of_child_, name_of_snapshot.data(), name_of_snapshot.size()) &&
      writer.write(name_of_snapshot.data());
  // After a failed write, a lower peak is not tried again.
  const auto bytes = static_cast<std::int64_t>(writer.bytes_asked());
  watch_.taken(written ? bytes : watch_.highest(), writer.blocks(), from, now_ns());
}

bool recorder::erase(std::uintptr_t address, block_record* removed) noexcept {
  if (blocks_.erase(address, removed)) return true;
  if (settings_.sample.needs_chance()) return false;
  constexpr std::uint32_t blocks_without = 1024;
  bool found = false;
  threads_.for_each([&](thread_record& of) {
    if (found || !of.young.take_of_other(address, removed)) return;
    found = true;
    // Blocks that one thread allocates for others go directly to the table, which is searched first.
    of.no_young.store(blocks_without, std::memory_order_relaxed);
  });
  // The block may have moved to the table meanwhile.
  return found || blocks_.erase(address, removed);
}

void recorder::thread_ends(thread_record& record) noexcept {
  // Blocks allocated later in this thread go directly to the table.
  this_thread.ended = true;
  this_thread.record = nullptr;
  const bool before = this_thread.inside;
  this_thread.inside = true;
  std::uint64_t gone = 0;
  if (!record.young.all_moved(blocks_, &gone)) stop("the memory for another block was refused");
  replaced(gone);
  watch_.tell_last(record.drift);
  thread_records::release(record);
  this_thread.inside = before;
}

void recorder::still_there(const block_record& block) noexcept {
  const inside_scope scope;
  insert(block);
}

void recorder::modules_changed() noexcept {
  if (!listens()) return;
  const inside_scope scope;
  if (!sites_.modules_changed()) return;
  stacks_.forget();
  generation_.fetch_add(1, std::memory_order_release);
}

void recorder::take_due_snapshots() noexcept {
  if (requested_.load(std::memory_order_relaxed) && requested_.exchange(false)) {
    judge_quick();
    take_snapshot("signal");
  }
  if (settings_.every_ms == 0 || ++this_thread.calls % calls_between_clocks != 0) return;
  std::uint64_t due = due_ms_.load(std::memory_order_relaxed);
  const std::uint64_t now = now_ms();
  if (now < due || !due_ms_.compare_exchange_strong(due, now + settings_.every_ms)) return;
  take_snapshot("interval");
}

void recorder::signalled(bool now) noexcept {
  if (!now || this_thread.inside) {
    requested_.store(true);
    judge_quick();
  } else {
    take_snapshot("signal");
  }
}

void recorder::take_snapshot(const char* moment) noexcept {
  if (state_.load(std::memory_order_relaxed) == state::off || this_thread.inside) return;
  write_snapshot(moment);
}

void recorder::finish(const char* moment) noexcept {
  // A child that shares the parent's memory, as after vfork(), must not end its parent's recording.
  if (state_.load(std::memory_order_relaxed) == state::off || getpid() != process_) return;
  if (this_thread.inside || finished_.exchange(true)) return;
  write_snapshot(moment);
  state_.store(state::off, std::memory_order_relaxed);
}

void recorder::write_snapshot(const char* moment) noexcept {
  if (getpid() != process_) return;
  const inside_scope scope;
  const saved_errno keep;
  {
    const futex_guard guard(snapshot_lock_);
    const quiet_writing quiet;
    const std::uint32_t number = snapshots_.fetch_add(1, std::memory_order_relaxed);
    if (file_name(settings_, process_, number, of_child_, name_of_snapshot.data(), name_of_snapshot.size()))
      snapshot_writer(*this, moment, number).write(name_of_snapshot.data());
  }
}

void recorder::before_fork() noexcept {
  // A signal handler that forks may have interrupted a holder of the locks: its child is not recorded.
  if (this_thread.inside) return;
  this_thread.inside = this_thread.forking = true;
  snapshot_lock_.lock();
  sites_.lock().lock();
  hold_blocks();
}

void recorder::after_fork_in_parent() noexcept {
  if (!this_thread.forking) return;
  let_blocks_go();
  sites_.lock().unlock();
  snapshot_lock_.unlock();
  this_thread.inside = this_thread.forking = false;
}

void recorder::after_fork_in_child() noexcept {
  const bool goes_on = this_thread.forking && settings_.follow != followed::none;
  if (this_thread.forking) {
    threads_.for_each([this](thread_record& each) {
      if (&each != this_thread.record) watch_.tell_last(each.drift);
    });
    watch_.begin_anew(now_ns());
    threads_.forget_other_threads(this_thread.record);
  }
  // Threads that waited for the locks do not exist in this process; a wake-up without a waiter is harmless.
  after_fork_in_parent();
  if (!goes_on) state_.store(state::off, std::memory_order_relaxed);
  process_ = getpid();
  of_child_ = true;
  finished_.store(false, std::memory_order_relaxed);
  snapshots_.store(0, std::memory_order_relaxed);
}

}  // namespace espalier::preload
