#include "preload/recording/recorder.hpp"

#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "preload/recording/snapshot_writer.hpp"

namespace espalier::preload {

thread_local constinit thread_state this_thread;

namespace {

/// The clock is read once in so many calls of a thread.
constexpr std::uint32_t calls_between_clocks = 256;

std::uint64_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

std::uintptr_t address_of(const void* block) noexcept { return reinterpret_cast<std::uintptr_t>(block); }

}  // namespace

void recorder::start(const settings& how) noexcept {
  settings_ = how;
  budget_.set_limit(how.memory_limit);
  process_ = getpid();
  if (how.every_ms != 0) due_ms_.store(now_ms() + how.every_ms, std::memory_order_relaxed);
  if (stacks_.start()) {
    // order: start (release) -> listens (acquire)
    state_.store(state::on, std::memory_order_release);
  } else {
    stop("the memory for call stacks was refused");
    state_.store(state::draining, std::memory_order_release);
  }
}

std::uint64_t recorder::random() noexcept {
  thread_state& mine = this_thread;
  if (!mine.random_started) {
    const std::uint64_t thread = threads_.fetch_add(1, std::memory_order_relaxed);
    mine.random = workload::splitmix64(workload::mix64(workload::mix64(settings_.seed + 1) + thread));
    mine.random_started = true;
  }
  return mine.random.next();
}

void recorder::stop(const char* why) noexcept {
  const char* before = nullptr;
  // order: stop (release) -> stopped (acquire)
  stopped_.compare_exchange_strong(before, why, std::memory_order_release, std::memory_order_relaxed);
  state expected = state::on;
  state_.compare_exchange_strong(expected, state::draining, std::memory_order_relaxed);
}

void recorder::allocated(void* block, std::size_t asked, std::size_t held, const caller_state& by) noexcept {
  {
    const inside_scope scope;
    const std::uint64_t chance = settings_.sample.needs_chance() ? random() : 0;
    if (state_.load(std::memory_order_relaxed) != state::on ||
        !settings_.sample.takes(address_of(block), asked, chance)) {
      count(passed_over_);
    } else {
      enter(block, asked, held, by);
    }
  }
  take_due_snapshots();
}

void recorder::enter(void* block, std::size_t asked, std::size_t held, const caller_state& by) noexcept {
  std::array<std::uintptr_t, most_frames> frames;  // NOLINT: walk() fills what is read
  const unsigned depth = stacks_.walk(by, frames.data(), settings_.frames);
  const std::uint32_t site = sites_.intern(frames.data(), depth);
  if (site == site_table::unknown) return stop("the memory for another call site was refused");
  if (!blocks_.insert({address_of(block), asked, held, site}))
    stop("the memory for another block was refused");
}

bool recorder::freeing(void* block, block_record* removed) noexcept {
  if (!settings_.sample.may_hold(address_of(block))) return false;
  const inside_scope scope;
  return blocks_.erase(address_of(block), removed);
}

void recorder::still_there(const block_record& block) noexcept {
  const inside_scope scope;
  if (!blocks_.insert(block)) stop("the memory for another block was refused");
}

void recorder::modules_changed() noexcept {
  if (!listens()) return;
  const inside_scope scope;
  if (sites_.modules_changed()) stacks_.forget();
}

void recorder::take_due_snapshots() noexcept {
  if (requested_.load(std::memory_order_relaxed) && requested_.exchange(false)) take_snapshot("signal");
  if (settings_.every_ms == 0 || ++this_thread.calls % calls_between_clocks != 0) return;
  std::uint64_t due = due_ms_.load(std::memory_order_relaxed);
  const std::uint64_t now = now_ms();
  if (now < due || !due_ms_.compare_exchange_strong(due, now + settings_.every_ms)) return;
  take_snapshot("interval");
}

void recorder::signalled(bool now) noexcept {
  if (!now || this_thread.inside) {
    requested_.store(true);
  } else {
    take_snapshot("signal");
  }
}

void recorder::take_snapshot(const char* moment) noexcept {
  if (state_.load(std::memory_order_relaxed) == state::off || this_thread.inside) return;
  write_snapshot(moment);
}

void recorder::finish(const char* moment) noexcept {
  // A child that shares our memory, as vfork() makes them, must not end its parent's recording.
  if (state_.load(std::memory_order_relaxed) == state::off || getpid() != process_) return;
  if (this_thread.inside || finished_.exchange(true)) return;
  write_snapshot(moment);
  state_.store(state::off, std::memory_order_relaxed);
}

void recorder::write_snapshot(const char* moment) noexcept {
  if (getpid() != process_) return;
  const inside_scope scope;
  const int kept = errno;
  {
    const futex_guard guard(snapshot_lock_);
    const std::uint32_t number = snapshots_.fetch_add(1, std::memory_order_relaxed);
    // Not on the stack, which a signal handler has little of.
    static constinit std::array<char, 4096> name{};
    if (file_name(settings_, process_, number, of_child_, name.data(), name.size()))
      snapshot_writer(*this, moment, number).write(name.data());
  }
  errno = kept;
}

void recorder::before_fork() noexcept {
  // A signal handler that forks may have interrupted what holds the locks: its child is not recorded.
  if (this_thread.inside) return;
  this_thread.inside = this_thread.forking = true;
  snapshot_lock_.lock();
  sites_.lock().lock();
  blocks_.lock_all();
}

void recorder::after_fork_in_parent() noexcept {
  if (!this_thread.forking) return;
  blocks_.unlock_all();
  sites_.lock().unlock();
  snapshot_lock_.unlock();
  this_thread.inside = this_thread.forking = false;
}

void recorder::after_fork_in_child() noexcept {
  const bool goes_on = this_thread.forking && settings_.follow != followed::none;
  // Threads that waited for the locks are not in this process; to wake nobody is harmless.
  after_fork_in_parent();
  if (!goes_on) state_.store(state::off, std::memory_order_relaxed);
  process_ = getpid();
  of_child_ = true;
  finished_.store(false, std::memory_order_relaxed);
  snapshots_.store(0, std::memory_order_relaxed);
}

}  // namespace espalier::preload
