// Makes kernel calls fail, or take long, on purpose: to test what a malloc does when the system refuses, and between
// two calls.
//
//   LD_PRELOAD=libespalier-malloc.so:libespalier-kernel-faults.so ESPALIER_KERNEL_FAULTS=RULES program
//   RULES   RULE[,RULE...]
//   RULE    CALL:ACTION@WHICH
//   CALL    mmap, munmap, mremap, madvise; futex and tgkill, through syscall()
//   ACTION  fail=ERRNO           the call is not made; ERRNO is a name such as ENOMEM, or a number
//           delay_us=N           the thread sleeps before the call
//           delay_after_us=N     the thread sleeps after the call
//   WHICH   N, the Nth call of the kind; N+, that and all later ones; *, all
//
// Invalid rules end the process with a message and status 2. With ESPALIER_KERNEL_FAULTS_COUNTS=1 a line at the end of
// the process, after main(), states the number of calls of each kind. Other objects find the functions below through
// their procedure linkage tables; calls within the C library are not intercepted. Nothing here allocates.
//
// There are two forms of this object. The library has the functions by their own names, and calls the kernel. Linked
// into a test with -Wl,--wrap (espalier_kernel_faults_linked) it stands between the test's objects and the other
// definitions of the functions, such as a sanitizer's. kernel_faults.hpp describes what a test can do with it.

#include "kernel_faults.hpp"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <limits>

#if defined(ESPALIER_KERNEL_FAULTS_LINKED)
#define ESPALIER_FAULTY(name) __wrap_##name
extern "C" {
void* __real_mmap(void*, std::size_t, int, int, int, off_t) noexcept;
int __real_munmap(void*, std::size_t) noexcept;
void* __real_mremap(void*, std::size_t, std::size_t, int, ...) noexcept;
int __real_madvise(void*, std::size_t, int) noexcept;
long __real_syscall(long, ...) noexcept;
}
#else
#define ESPALIER_FAULTY(name) name
#endif

namespace espalier::test {
namespace {

constexpr std::array<const char*, kernel_call_kinds> names{"mmap",    "munmap", "mremap",
                                                           "madvise", "futex",  "tgkill"};

struct named_error {
  const char* name;
  int number;
};
constexpr named_error errors[] = {{"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN}, {"EINVAL", EINVAL},
                                  {"EPERM", EPERM},   {"EACCES", EACCES}, {"ENOSYS", ENOSYS},
                                  {"EINTR", EINTR},   {"EFAULT", EFAULT}};

struct rule {
  kernel_call kind;
  std::uint64_t first;
  std::uint64_t last;
  int fails_with;  // 0: it does not fail
  std::uint64_t delay_us;
  std::uint64_t delay_behind_us;
};
constexpr std::size_t most_rules = 32;

// Written only while no other thread makes such calls.
constinit std::array<rule, most_rules> rules{};
constinit std::size_t rule_count = 0;
constinit kernel_hook hook = nullptr;
constinit void* hook_context = nullptr;
// relaxed: it numbers the calls, and orders nothing.
constinit std::array<std::atomic<std::uint64_t>, kernel_call_kinds> counts{};
thread_local constinit bool in_hook __attribute__((tls_model("initial-exec"))) = false;

long kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) noexcept {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result = number;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

#if !defined(ESPALIER_KERNEL_FAULTS_LINKED)
long or_errno(long result) noexcept {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}
long number(const void* pointer) noexcept { return reinterpret_cast<long>(pointer); }
long number(std::size_t bytes) noexcept { return static_cast<long>(bytes); }
void* pointer(long number) noexcept {
  return reinterpret_cast<void*>(number);
}  // NOLINT(performance-no-int-to-ptr)
#endif

void sleep_us(std::uint64_t us) noexcept {
  if (us == 0) return;
  timespec left{static_cast<time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000) * 1000};
  while (kernel(SYS_nanosleep, reinterpret_cast<long>(&left), reinterpret_cast<long>(&left)) == -EINTR) {
  }
}

/// Reads text from its beginning.
class reader {
 public:
  explicit reader(const char* text) noexcept : at_(text) {}

  [[nodiscard]] bool ended() const noexcept { return *at_ == 0; }
  bool take(const char* word) noexcept {
    const std::size_t length = strlen(word);
    if (strncmp(at_, word, length) != 0) return false;
    at_ += length;
    return true;
  }
  bool take_number(std::uint64_t& to) noexcept {
    if (*at_ < '0' || *at_ > '9') return false;
    to = 0;
    for (; *at_ >= '0' && *at_ <= '9'; ++at_) {
      if (to > 100'000'000'000) return false;
      to = to * 10 + static_cast<std::uint64_t>(*at_ - '0');
    }
    return true;
  }

 private:
  const char* at_;
};

bool take_error(reader& from, int& to) noexcept {
  for (const named_error& e : errors) {
    if (!from.take(e.name)) continue;
    to = e.number;
    return true;
  }
  std::uint64_t number = 0;
  if (!from.take_number(number) || number == 0 || number > 4095) return false;
  to = static_cast<int>(number);
  return true;
}

/// Null, or a description of the error.
const char* take_rule(reader& from, rule& to) noexcept {
  to = {};
  std::size_t kind = 0;
  // Each ends with the colon, so that no name is the beginning of another.
  for (; kind < names.size(); ++kind) {
    reader ahead = from;
    if (!ahead.take(names[kind]) || !ahead.take(":")) continue;
    from = ahead;
    break;
  }
  if (kind == names.size()) return "a rule begins with mmap:, munmap:, mremap:, madvise:, futex: or tgkill:";
  to.kind = static_cast<kernel_call>(kind);
  if (from.take("fail=")) {
    if (!take_error(from, to.fails_with))
      return "fail= wants ENOMEM, EAGAIN, EINVAL, EPERM, EACCES, ENOSYS, EINTR, EFAULT or a number up to "
             "4095";
  } else if (from.take("delay_us=")) {
    if (!from.take_number(to.delay_us)) return "delay_us= wants a number";
  } else if (from.take("delay_after_us=")) {
    if (!from.take_number(to.delay_behind_us)) return "delay_after_us= wants a number";
  } else {
    return "an action is fail=, delay_us= or delay_after_us=";
  }
  if (!from.take("@")) return "an action is followed by @ and which calls it is for";
  to.last = std::numeric_limits<std::uint64_t>::max();
  if (from.take("*")) return nullptr;
  if (!from.take_number(to.first) || to.first == 0) return "which calls is a number from 1 on, N+ or *";
  if (!from.take("+")) to.last = to.first;
  return nullptr;
}

const char* read_rules(const char* text) noexcept {
  rule_count = 0;
  for (auto& count : counts) count.store(0, std::memory_order_relaxed);
  if (text == nullptr || *text == 0) return nullptr;
  reader from(text);
  std::size_t read = 0;
  for (;;) {
    if (read == most_rules) return "there are more than 32 rules";
    if (const char* const wrong = take_rule(from, rules[read])) return wrong;
    ++read;
    if (from.ended()) break;
    if (!from.take(",")) return "rules are separated by commas";
  }
  rule_count = read;
  return nullptr;
}

/// One call: its windows, and the effect of the rules on it.
class intercepted {
 public:
  intercepted(kernel_call kind, void* pages, std::size_t bytes) noexcept
      : window_{kind, false, pages, bytes} {
    if (in_hook) return;
    const std::uint64_t number =
        counts[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed) + 1;
    for (std::size_t i = 0; i < rule_count; ++i) {
      const rule& r = rules[i];
      if (r.kind != kind || number < r.first || number > r.last) continue;
      if (r.fails_with != 0) fails_with_ = r.fails_with;
      sleep_us(r.delay_us);
      delay_behind_us_ += r.delay_behind_us;
    }
    call_hook();
  }

  /// The result of make(), or `failed` with errno.
  template <class Result, class Make>
  Result result(Result failed, Make&& make) noexcept {
    if (fails_with_ != 0) {
      errno = fails_with_;
      return failed;
    }
    const Result got = make();
    if (got == failed) return got;
    const int before = errno;
    window_.behind = true;
    call_hook();
    sleep_us(delay_behind_us_);
    errno = before;
    return got;
  }

 private:
  void call_hook() const noexcept {
    if (hook == nullptr || in_hook) return;
    const int before = errno;
    in_hook = true;
    hook(window_, hook_context);
    in_hook = false;
    errno = before;
  }

  kernel_window window_;
  int fails_with_ = 0;
  std::uint64_t delay_behind_us_ = 0;
};

#if !defined(ESPALIER_KERNEL_FAULTS_LINKED)
constinit std::atomic<bool> environment_read{false};

void say(const char* words) noexcept {
  kernel(SYS_write, STDERR_FILENO, number(words), number(strlen(words)));
}

void read_environment(char* const* environment) noexcept {
  if (environment == nullptr || environment_read.exchange(true)) return;
  const char* const name = "ESPALIER_KERNEL_FAULTS=";
  for (char* const* variable = environment; *variable != nullptr; ++variable) {
    if (strncmp(*variable, name, strlen(name)) != 0) continue;
    const char* const wrong = read_rules(*variable + strlen(name));
    if (wrong == nullptr) return;
    say("espalier-kernel-faults: ");
    say(*variable);
    say(": ");
    say(wrong);
    say("\n");
    kernel(SYS_exit_group, 2);
  }
}

void say_number(std::uint64_t n) noexcept {
  char text[24];
  char* at = text + sizeof text;
  *--at = 0;
  do *--at = static_cast<char>('0' + n % 10);
  while ((n /= 10) != 0);
  say(at);
}

__attribute__((destructor)) void end() {
  const char* const wanted = getenv("ESPALIER_KERNEL_FAULTS_COUNTS");
  if (wanted == nullptr || strcmp(wanted, "1") != 0) return;
  say("espalier-kernel-faults:");
  for (std::size_t kind = 0; kind < names.size(); ++kind) {
    say(" ");
    say(names[kind]);
    say("=");
    say_number(counts[kind].load(std::memory_order_relaxed));
  }
  say("\n");
}

__attribute__((constructor)) void begin(int, char**, char** environment) { read_environment(environment); }
#endif

/// Called before each call, because code that allocates first does so before this library's constructor.
void prepare() noexcept {
#if !defined(ESPALIER_KERNEL_FAULTS_LINKED)
  if (!environment_read.load(std::memory_order_relaxed)) [[unlikely]]
    read_environment(environ);
#endif
}

}  // namespace

const char* set_kernel_faults(const char* text) noexcept { return read_rules(text); }

std::uint64_t kernel_calls(kernel_call kind) noexcept {
  return counts[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
}

void set_kernel_hook(kernel_hook to, void* context) noexcept {
  hook = to;
  hook_context = context;
}

}  // namespace espalier::test

using namespace espalier::test;

#pragma GCC visibility push(default)
extern "C" {

void* ESPALIER_FAULTY(mmap)(void* near, std::size_t bytes, int access, int flags, int file,
                            off_t at) noexcept {
  prepare();
  return intercepted(kernel_call::mmap, near, bytes).result(MAP_FAILED, [&] {
#if defined(ESPALIER_KERNEL_FAULTS_LINKED)
    return __real_mmap(near, bytes, access, flags, file, at);
#else
    return pointer(or_errno(kernel(SYS_mmap, number(near), number(bytes), access, flags, file, at)));
#endif
  });
}

int ESPALIER_FAULTY(munmap)(void* pages, std::size_t bytes) noexcept {
  prepare();
  return intercepted(kernel_call::munmap, pages, bytes).result(-1, [&] {
#if defined(ESPALIER_KERNEL_FAULTS_LINKED)
    return __real_munmap(pages, bytes);
#else
    return static_cast<int>(or_errno(kernel(SYS_munmap, number(pages), number(bytes))));
#endif
  });
}

void* ESPALIER_FAULTY(mremap)(void* pages, std::size_t bytes, std::size_t to_bytes, int flags, ...) noexcept {
  prepare();
  void* to = nullptr;
  if ((flags & MREMAP_FIXED) != 0) {
    va_list more;
    va_start(more, flags);
    to = va_arg(more, void*);
    va_end(more);
  }
  return intercepted(kernel_call::mremap, pages, bytes).result(MAP_FAILED, [&] {
#if defined(ESPALIER_KERNEL_FAULTS_LINKED)
    return __real_mremap(pages, bytes, to_bytes, flags, to);
#else
    return pointer(
        or_errno(kernel(SYS_mremap, number(pages), number(bytes), number(to_bytes), flags, number(to))));
#endif
  });
}

int ESPALIER_FAULTY(madvise)(void* pages, std::size_t bytes, int advice) noexcept {
  prepare();
  return intercepted(kernel_call::madvise, pages, bytes).result(-1, [&] {
#if defined(ESPALIER_KERNEL_FAULTS_LINKED)
    return __real_madvise(pages, bytes, advice);
#else
    return static_cast<int>(or_errno(kernel(SYS_madvise, number(pages), number(bytes), advice)));
#endif
  });
}

long ESPALIER_FAULTY(syscall)(long call, ...) noexcept {
  prepare();
  long given[6];
  va_list more;
  va_start(more, call);
  for (long& one : given) one = va_arg(more, long);
  va_end(more);
  const auto make = [&] {
#if defined(ESPALIER_KERNEL_FAULTS_LINKED)
    return __real_syscall(call, given[0], given[1], given[2], given[3], given[4], given[5]);
#else
    return or_errno(kernel(call, given[0], given[1], given[2], given[3], given[4], given[5]));
#endif
  };
  if (call == SYS_futex) return intercepted(kernel_call::futex, nullptr, 0).result(-1L, make);
  if (call == SYS_tgkill) return intercepted(kernel_call::tgkill, nullptr, 0).result(-1L, make);
  return make();
}

}  // extern "C"
#pragma GCC visibility pop
