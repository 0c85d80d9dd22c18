// What becomes of the asymmetric fence, and of the epoch that stands on it, where membarrier fails: from the first
// call on, or later. This program's own syscall() answers in the kernel's place (the linker wraps it).

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/map/bst/ext_lf.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "support/on_threads.hpp"
#include "support/reexecute.hpp"

namespace {

// What fails, as the variable says: none; register: registering, always; first: the first barrier, by which the library
// finds out whether they work; once, for_ever: barriers from a later one on, until registered again or for ever.
constexpr const char* variable = "ESPALIER_TEST_MEMBARRIER";
enum class failure : std::uint8_t { none, registering, first, once, for_ever };

failure chosen() {
  static const failure which = [] {
    const char* const text = std::getenv(variable);
    const std::string_view name = text != nullptr ? text : "none";
    return name == "register"   ? failure::registering
           : name == "first"    ? failure::first
           : name == "once"     ? failure::once
           : name == "for_ever" ? failure::for_ever
                                : failure::none;
  }();
  return which;
}

constexpr std::uint64_t works_until = 40;
constinit std::atomic<std::uint64_t> barriers{0};
constinit std::atomic<std::uint64_t> registrations{0};
constinit std::atomic<std::uint64_t> failures{0};
constinit std::atomic<bool> registration_lost{false};

/// Whether this call of membarrier fails.
bool fails(long command) {
  if (command == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
    ++registrations;
    if (chosen() == failure::once) registration_lost = false;
    return chosen() == failure::registering;
  }
  const std::uint64_t before = barriers.fetch_add(1);
  if (chosen() == failure::first) return true;
  if (chosen() == failure::for_ever) return before >= works_until;
  if (chosen() == failure::once && before == works_until) registration_lost = true;
  return registration_lost.load();
}

}  // namespace

extern "C" long __real_syscall(long number, ...);  // NOLINT(bugprone-reserved-identifier)
extern "C" long __wrap_syscall(long number, ...);  // NOLINT(bugprone-reserved-identifier)

extern "C" long __wrap_syscall(long number, ...) {  // NOLINT(bugprone-reserved-identifier)
  std::va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  if (number == SYS_membarrier && fails(a[0])) {
    ++failures;
    errno = EPERM;
    return -1;
  }
  return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

namespace espalier {
namespace {

/// Readers look at objects that writers replace; a reclaimed object is overwritten. Returns how often one was seen.
std::uint64_t dead_objects_seen() {
  struct object {
    std::atomic<std::uint64_t> alive{1};
  };
  static constexpr std::size_t places = 4;
  static constexpr int steps = 20000;
  epoch_domain domain;
  std::atomic<object*> current[places];
  for (auto& one : current) one = new object;
  std::atomic<std::uint64_t> dead{0};
  std::atomic<int> writing{2};
  test::on_threads(4, [&](int t) {
    if (t < 2) {
      for (int i = 0; i < steps; ++i) {
        auto guard = domain.pin();
        guard.reserve(1);
        object* const old = current[static_cast<std::size_t>(i) % places].exchange(new object);
        guard.retire({old, nullptr, nullptr, [](const retired& entry) noexcept {
                        auto* const gone = static_cast<object*>(entry.object);
                        gone->alive.store(0, std::memory_order_relaxed);
                        delete gone;
                      }});
      }
      --writing;
      return;
    }
    while (writing.load(std::memory_order_relaxed) != 0) {
      const auto guard = domain.pin();
      const object* const seen =
          current[static_cast<std::size_t>(t) % places].load(std::memory_order_acquire);
      for (int i = 0; i < 20; ++i) {
        if (seen->alive.load(std::memory_order_relaxed) != 1) ++dead;
      }
    }
  });
  EXPECT_EQ(domain.collect(), 0U);
  for (auto& one : current) delete one.load();
  return dead;
}

/// The same through a map: what is inserted by one thread is found by it.
std::uint64_t keys_missed() {
  ext_lf<std::uint64_t, std::uint64_t> map;
  std::atomic<std::uint64_t> missed{0};
  test::on_threads(4, [&](int t) {
    const auto mine = static_cast<std::uint64_t>(t);
    for (std::uint64_t i = 0; i < 4000; ++i) {
      const std::uint64_t k = i % 64 * 4 + mine;
      if (!map.insert(k, i) || map.find(k) != i || !map.erase(k)) ++missed;
    }
  });
  return missed;
}

/// The status of this program's test of that name, run where membarrier fails in that way.
int where_it_fails(const char* how, const char* test) {
  return test::reexecute(std::string("membarrier_that.") + test, variable, how);
}

bool is_wrapped() { return registrations != 0; }

class membarrier_that : public testing::Test {};

// What fails is chosen for a process, before main. Each of these runs in one that the tests below start.

TEST_F(membarrier_that, DISABLED_never_works) {
  EXPECT_STREQ(hw::asymmetric_fence_kind(), "fence");
  EXPECT_FALSE(hw::detail::membarrier_works);
  const std::uint64_t before = barriers;
  EXPECT_EQ(dead_objects_seen(), 0U);
  EXPECT_EQ(keys_missed(), 0U);
  EXPECT_EQ(barriers, before) << "what does not work is not tried again";
}

TEST_F(membarrier_that, DISABLED_loses_its_registration) {
  ASSERT_STREQ(hw::asymmetric_fence_kind(), "membarrier");
  EXPECT_EQ(registrations, 1U);
  EXPECT_EQ(dead_objects_seen(), 0U);
  EXPECT_EQ(keys_missed(), 0U);
  EXPECT_GT(barriers, works_until) << "it was needed that often";
  EXPECT_GE(failures, 1U);
  EXPECT_GE(registrations, 2U);
}

TEST_F(membarrier_that, DISABLED_fails_for_good) {
  ASSERT_STREQ(hw::asymmetric_fence_kind(), "membarrier");
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(SIGABRT, [](int) { _exit(failures == 0 ? 1 : 42); });
  static_cast<void>(dead_objects_seen());
}

TEST_F(membarrier_that, fails_from_the_first_call_on_is_replaced_by_fences) {
  if (!is_wrapped()) GTEST_SKIP() << "syscall() is not wrapped, or fences were asked for";
  for (const char* how : {"register", "first"})
    EXPECT_EQ(where_it_fails(how, "DISABLED_never_works"), 0) << how;
}

TEST_F(membarrier_that, lost_its_registration_is_registered_again) {
  if (!hw::detail::membarrier_works || !is_wrapped()) GTEST_SKIP() << "no membarrier here";
  EXPECT_EQ(where_it_fails("once", "DISABLED_loses_its_registration"), 0);
}

TEST_F(membarrier_that, fails_for_good_ends_the_process) {
  if (!hw::detail::membarrier_works || !is_wrapped()) GTEST_SKIP() << "no membarrier here";
  EXPECT_EQ(where_it_fails("for_ever", "DISABLED_fails_for_good"), 42)
      << "before memory is corrupted, by abort()";
}

TEST_F(membarrier_that, works) {
  EXPECT_EQ(dead_objects_seen(), 0U);
  EXPECT_EQ(keys_missed(), 0U);
  EXPECT_EQ(failures, 0U);
}

}  // namespace
}  // namespace espalier
