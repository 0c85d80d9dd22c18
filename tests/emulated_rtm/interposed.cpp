// In place of the C library's: what would let a program notice the signals that its threads are stopped by, or keep
// its threads from ours.

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "emulated_rtm/other_threads.hpp"
#include "emulated_rtm/raw_calls.hpp"

// The C library's own.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" int __sigaction(int signal, const struct sigaction* wanted, struct sigaction* old) noexcept;

namespace espalier::emulated_rtm {
namespace {

constexpr std::array our_signals{SIGTRAP, SIGILL, stop_signal};

/// What the program wants done at our signals.
std::array<struct sigaction, our_signals.size()> of_the_program{};

/// Of one of our signals; null for others.
struct sigaction* kept_of(int signal) noexcept {
  const auto at = static_cast<std::size_t>(std::ranges::find(our_signals, signal) - our_signals.begin());
  return at == our_signals.size() ? nullptr : &of_the_program[at];
}

/// Our signals are blocked by nobody. Returns the error, 0 for none.
int set_signal_mask(int how, const sigset_t* set, sigset_t* old) noexcept {
  sigset_t ours;
  if (set != nullptr && how != SIG_UNBLOCK) {
    ours = *set;
    for (const int signal : our_signals) sigdelset(&ours, signal);
    set = &ours;
  }
  return static_cast<int>(
      -raw_call(SYS_rt_sigprocmask, how, as_argument(set), as_argument(old), sizeof(std::uint64_t)));
}

constexpr long second = 1'000'000'000;

timespec now(clockid_t clock) noexcept {
  timespec moment{};
  raw_call(SYS_clock_gettime, clock, as_argument(&moment));
  return moment;
}
timespec sum(timespec a, timespec b) noexcept {
  const long ns = a.tv_nsec + b.tv_nsec;
  return {a.tv_sec + b.tv_sec + ns / second, ns % second};
}
timespec difference(timespec later, timespec earlier) noexcept {
  return sum({later.tv_sec - earlier.tv_sec - 1, later.tv_nsec}, {0, second - earlier.tv_nsec});
}

/// The kernel does not take up a sleep again that a signal has interrupted. To a moment, for what it says is left of
/// a span may be more than there was. Returns the error, 0 for none.
int sleep_through(clockid_t clock, int flags, const timespec* wanted, timespec* left) noexcept {
  const bool is_span = (flags & TIMER_ABSTIME) == 0;
  if (is_span && (wanted->tv_sec < 0 || wanted->tv_nsec < 0 || wanted->tv_nsec >= second)) return EINVAL;
  const timespec end = is_span ? sum(now(clock), *wanted) : *wanted;
  for (;;) {
    const unsigned told = other_threads::times_this_one_was_told();
    const auto error =
        static_cast<int>(-raw_call(SYS_clock_nanosleep, clock, TIMER_ABSTIME, as_argument(&end), 0));
    if (error == EINTR && other_threads::times_this_one_was_told() != told) continue;
    if (error == EINTR && is_span && left != nullptr) {
      *left = difference(end, now(clock));
      if (left->tv_sec < 0) *left = {};
    }
    return error;
  }
}

int by_errno(int error) noexcept {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

void handle(int signal, const struct sigaction& ours) noexcept { __sigaction(signal, &ours, nullptr); }

void leave_to_the_program(int signal) noexcept { __sigaction(signal, kept_of(signal), nullptr); }

}  // namespace espalier::emulated_rtm

namespace emulated = espalier::emulated_rtm;

#pragma GCC visibility push(default)
extern "C" {

int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return emulated::set_signal_mask(how, set, old);
}
int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return emulated::by_errno(emulated::set_signal_mask(how, set, old));
}

int sigaction(int signal, const struct sigaction* wanted, struct sigaction* old) noexcept {
  struct sigaction* const kept = emulated::kept_of(signal);
  if (kept == nullptr) return __sigaction(signal, wanted, old);
  const struct sigaction before = *kept;
  if (wanted != nullptr) *kept = *wanted;
  if (old != nullptr) *old = before;
  return 0;
}

/// The C library's other name for it is left to other signals.
sighandler_t signal(int signal, sighandler_t wanted) noexcept {
  if (emulated::kept_of(signal) == nullptr) return ssignal(signal, wanted);
  struct sigaction action{};
  action.sa_handler = wanted;
  action.sa_flags = SA_RESTART;
  struct sigaction old{};
  sigaction(signal, &action, &old);
  return old.sa_handler;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* wanted, timespec* left) {
  return emulated::sleep_through(clock, flags, wanted, left);
}
int nanosleep(const timespec* wanted, timespec* left) {
  return emulated::by_errno(emulated::sleep_through(CLOCK_MONOTONIC, 0, wanted, left));
}
int usleep(useconds_t wanted) {
  const timespec time{wanted / 1'000'000, wanted % 1'000'000 * 1000L};
  return nanosleep(&time, nullptr);
}
unsigned sleep(unsigned wanted) {
  timespec left{wanted, 0};
  return nanosleep(&left, &left) == 0 ? 0 : static_cast<unsigned>(left.tv_sec);
}

}  // extern "C"
#pragma GCC visibility pop
