#include "espalier/hw/asymmetric_fence.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "support/reexecute.hpp"

namespace espalier::hw {
namespace {

bool fence_was_asked_for() {
  const char* wish = std::getenv("ESPALIER_FENCE");
  return wish != nullptr && std::string_view(wish) == "fence";
}

TEST(asymmetric_fence, kind_is_what_was_asked_for_or_found) {
  const std::string_view kind = asymmetric_fence_kind();
  if (fence_was_asked_for()) {
    EXPECT_EQ(kind, "fence");
  } else {
    EXPECT_TRUE(kind == "membarrier" || kind == "fence") << kind;
  }
  EXPECT_EQ(detail::membarrier_works, kind == "membarrier");
}

/// Rounds of Dekker's pattern in which neither side saw the other.
int rounds_that_missed(int rounds) {
  struct round {
    alignas(64) std::atomic<int> light{0};
    alignas(64) std::atomic<int> heavy{0};
    int light_saw = 0;
    int heavy_saw = 0;
  };
  std::vector<round> all(static_cast<std::size_t>(rounds));
  std::atomic<int> arrived{0};
  const auto meet = [&](int i) {
    arrived.fetch_add(1);
    for (int looks = 0; arrived.load(std::memory_order_relaxed) < 2 * (i + 1); ++looks) {
      if (looks > 200) std::this_thread::yield();
    }
  };
  std::thread frequent([&] {
    for (int i = 0; i < rounds; ++i) {
      round& r = all[static_cast<std::size_t>(i)];
      meet(i);
      r.light.store(1, std::memory_order_relaxed);
      fence_light();
      r.light_saw = r.heavy.load(std::memory_order_relaxed);
    }
  });
  for (int i = 0; i < rounds; ++i) {
    round& r = all[static_cast<std::size_t>(i)];
    meet(i);
    r.heavy.store(1, std::memory_order_relaxed);
    fence_heavy();
    r.heavy_saw = r.light.load(std::memory_order_relaxed);
  }
  frequent.join();
  int missed = 0;
  for (const round& r : all) missed += r.light_saw == 0 && r.heavy_saw == 0 ? 1 : 0;
  return missed;
}

TEST(asymmetric_fence, at_least_one_side_sees_the_other) { EXPECT_EQ(rounds_that_missed(5000), 0); }

TEST(asymmetric_fence, works_in_a_forked_child) {
  EXPECT_EQ(test::in_forked_child([] {
              fence_light();
              fence_heavy();
              return 42;
            }),
            42);
}

TEST(asymmetric_fence, environment_chooses_the_fallback) {
  if (fence_was_asked_for()) GTEST_SKIP() << "this is the fallback's process";
  EXPECT_EQ(test::reexecute("asymmetric_fence.*", "ESPALIER_FENCE", "fence"), 0);
}

}  // namespace
}  // namespace espalier::hw
