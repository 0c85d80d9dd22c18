#include "emulated_rtm/other_threads.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "emulated_rtm/raw_calls.hpp"

namespace espalier::emulated_rtm {
namespace {

/// Odd while the others are to stand, each time another number.
constinit std::atomic<std::uint32_t> phase{0};
/// The phase that it counts for, and how many stand.
constinit std::atomic<std::uint64_t> standing{0};
/// Of those that have stood last, how many have gone on.
constinit std::atomic<std::uint32_t> gone_on{0};

std::uint32_t number_standing() noexcept { return static_cast<std::uint32_t>(standing.load()); }

void count_in(std::uint32_t mine) noexcept {
  std::uint64_t now = standing.load();
  while (static_cast<std::uint32_t>(now >> 32U) == mine && !standing.compare_exchange_weak(now, now + 1)) {
  }
}

thread_local constinit unsigned times_told = 0;

void stand(int) noexcept {
  ++times_told;
  // A thread that another stop finds still here has not had its signal for it, and will find that it was counted.
  static thread_local std::uint32_t counted = 0;
  bool stood = false;
  for (std::uint32_t now = phase.load(); now % 2 == 1; now = phase.load()) {
    if (counted != now) {
      counted = now;
      count_in(now);
      stood = true;
    }
    wait_while(phase, now);
  }
  if (stood) ++gone_on;
}

/// Threads that were told to stand in this phase.
class told_threads {
 public:
  void clear() noexcept { count_ = 0; }
  /// False where there are too many.
  [[nodiscard]] bool add(int thread) noexcept {
    if (count_ == threads_.size()) return false;
    threads_[count_++] = thread;
    return true;
  }
  [[nodiscard]] bool has(int thread) const noexcept {
    for (std::size_t i = 0; i < count_; ++i)
      if (threads_[i] == thread) return true;
    return false;
  }

 private:
  std::array<int, 4096> threads_{};
  std::size_t count_ = 0;
};

constinit told_threads told;

/// Whose turn it is: 0 for no thread, or a thread's, and whether others wait for it.
enum turn_state : std::uint32_t { nobodys, somebodys, wanted };
constinit std::atomic<std::uint32_t> turn{nobodys};

/// Threads in wait_for_turn(), which run no code of the program's before they have had a turn. A thread keeps its place.
class waiting_threads {
 public:
  /// Where there is no place for it, it will be told to stand like any other.
  void add(int thread) noexcept {
    for (std::atomic<int>& place : threads_) {
      int no_thread = 0;
      if (place.load() == 0 && place.compare_exchange_strong(no_thread, thread)) return;
    }
  }
  void remove(int thread) noexcept {
    for (std::atomic<int>& place : threads_)
      if (place.load() == thread) return place.store(0);
  }
  [[nodiscard]] bool has(int thread) const noexcept {
    for (const std::atomic<int>& place : threads_)
      if (place.load() == thread) return true;
    return false;
  }
  void clear() noexcept {
    for (std::atomic<int>& place : threads_) place.store(0);
  }

 private:
  std::array<std::atomic<int>, 64> threads_{};
};

constinit waiting_threads waiting;

int number_in(const char* digits) noexcept {
  int number = 0;
  for (; *digits >= '0' && *digits <= '9'; ++digits) number = number * 10 + (*digits - '0');
  return number;
}

/// The first thread stays in the list of threads when it has ended before others, and stands no more.
constinit bool first_has_ended = false;

void look_for_the_first() noexcept {
  const int file =
      static_cast<int>(raw_call(SYS_openat, AT_FDCWD, as_argument("/proc/self/stat"), O_RDONLY | O_CLOEXEC));
  std::array<char, 64> stat{};
  if (file < 0) return;
  raw_call(SYS_read, file, as_argument(stat.data()), stat.size() - 1);
  raw_call(SYS_close, file);
  // The state follows the name, which is in parentheses.
  std::size_t at = stat.size() - 1;
  while (at > 0 && stat[at] != ')') --at;
  first_has_ended = at + 2 < stat.size() && stat[at + 2] == 'Z';
}

/// Tells those that were not told, and says how many are there; -1 where one could not be told.
int tell_new_ones(bool& some_are_new) noexcept {
  const int folder = static_cast<int>(
      raw_call(SYS_openat, AT_FDCWD, as_argument("/proc/self/task"), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder < 0) return -1;
  const int self = this_thread();
  const int process = this_process();
  alignas(dirent64) static std::array<char, 32768> entries;
  int there = 0;
  some_are_new = false;
  for (long bytes = 0; there >= 0 && (bytes = raw_call(SYS_getdents64, folder, as_argument(entries.data()),
                                                       entries.size())) > 0;) {
    for (long at = 0; at < bytes && there >= 0;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      const int thread = number_in(entry->d_name);
      if (thread == 0 || thread == self || (first_has_ended && thread == process)) continue;
      if (!told.has(thread)) {
        if (waiting.has(thread)) continue;
        if (raw_call(SYS_tgkill, process, thread, stop_signal) != 0) continue;  // it has ended
        some_are_new = true;
        if (!told.add(thread)) there = -2;
      }
      ++there;
    }
  }
  raw_call(SYS_close, folder);
  return there;
}

/// Some hundred microseconds, longer than most threads take.
constexpr unsigned patience = 200;
/// Of those, together some seconds, or a busy machine would end transactions. Once somebody did not stand for all of
/// them, it will have the signal blocked: a tenth of a second or so.
constinit unsigned most_looks = 10'000;
constexpr unsigned most_looks_behind_that = 200;

[[nodiscard]] bool all_stand(int there) noexcept {
  return number_standing() == static_cast<std::uint32_t>(there);
}

}  // namespace

void other_threads::listen() noexcept {
  struct sigaction action{};
  action.sa_handler = stand;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);  // who stands runs no handler of the program's either
  handle(stop_signal, action);
}

void other_threads::wait_for_turn() noexcept {
  std::uint32_t found = nobodys;
  if (turn.compare_exchange_strong(found, somebodys)) return;
  const int self = this_thread();
  waiting.add(self);
  while (turn.exchange(wanted) != nobodys) wait_while(turn, wanted);
  waiting.remove(self);
}

void other_threads::pass_turn() noexcept {
  if (turn.exchange(nobodys) == wanted) wake_all(turn);
}

void other_threads::forget() noexcept {
  waiting.clear();
  turn.store(nobodys);
  standing.store(0);
  first_has_ended = false;
  // The parent may have been about to stop this thread.
  if (phase.load() % 2 == 1) resume();
}

unsigned other_threads::times_this_one_was_told() noexcept { return times_told; }

bool other_threads::stop() noexcept {
  // Or a thread that runs one transaction after the other would stop all others.
  for (unsigned round = 0; round < patience && gone_on.load() < number_standing(); ++round) let_others_run();
  gone_on.store(0);
  const std::uint32_t mine = phase.load() + 1;
  told.clear();
  standing.store(std::uint64_t{mine} << 32U);
  phase.store(mine);
  for (unsigned look = 0; look < most_looks; ++look) {
    bool some_are_new = false;
    if (look != 0) look_for_the_first();
    const int there = tell_new_ones(some_are_new);
    if (there < 0) break;
    // Who stands starts no thread and does not end, so that a look that finds all standing and none new is the last.
    if (!some_are_new && all_stand(there)) return true;
    for (unsigned round = 0; round < patience && !all_stand(there); ++round) let_others_run();
  }
  most_looks = most_looks_behind_that;
  resume();
  return false;
}

void other_threads::resume() noexcept {
  phase.store(phase.load() + 1);
  wake_all(phase);
}

}  // namespace espalier::emulated_rtm
