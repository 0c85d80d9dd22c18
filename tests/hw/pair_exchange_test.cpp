#include "espalier/hw/pair_exchange.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace espalier::hw {
namespace {

/// As programs have it: two atomic words that lie together.
struct alignas(alignof(word_pair)) words {
  std::atomic<std::uint64_t> first;
  std::atomic<std::uint64_t> second;
};

class pair_exchange : public testing::Test {
 protected:
  void SetUp() override {
    if (!exchanges_pairs) GTEST_SKIP() << "this processor has no such instruction";
  }
};

TEST_F(pair_exchange, stores_if_both_words_are_as_expected) {
  constexpr std::uint64_t high = std::uint64_t{1} << 63U;
  std::array<words, 3> all{{{7, 7}, {1, high}, {9, 9}}};
  EXPECT_FALSE(exchange_pair(&all[1], {2, high}, {3, 4}));
  EXPECT_FALSE(exchange_pair(&all[1], {1, high + 1}, {3, 4}));
  EXPECT_EQ(all[1].first, 1U);
  EXPECT_EQ(all[1].second, high);
  EXPECT_TRUE(exchange_pair(&all[1], {1, high}, {high + 5, 6}));
  EXPECT_EQ(all[1].first, high + 5);
  EXPECT_EQ(all[1].second, 6U);
  for (const int other : {0, 2}) EXPECT_EQ(all[static_cast<std::size_t>(other)].first, other == 0 ? 7U : 9U);
}

TEST_F(pair_exchange, is_one_step_among_threads) {
  constexpr std::uint64_t each = 20'000;
  words w{0, 0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&w] {
      for (std::uint64_t i = 0; i < each;) {
        const std::uint64_t a = w.first.load();
        const std::uint64_t b = w.second.load();
        if (exchange_pair(&w, {a, b}, {a + 1, b - 1})) {
          EXPECT_EQ(a + b, 0U) << "half of an exchange was seen and exchanged";
          ++i;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(w.first, 4 * each);
  EXPECT_EQ(w.first + w.second, 0U);
}

TEST_F(pair_exchange, is_loaded_in_one_step) {
  if (!loads_pairs(vectors())) GTEST_SKIP() << "this processor does not promise that";
  constexpr std::uint64_t most = 50'000;
  words w{0, 0};
  std::thread writer([&w] {
    for (std::uint64_t i = 0; i < most; ++i) EXPECT_TRUE(exchange_pair(&w, {i, 0 - i}, {i + 1, 0 - i - 1}));
  });
  for (std::uint64_t before = 0; before != most;) {
    const word_pair seen = load_pair(&w);
    ASSERT_EQ(seen.first + seen.second, 0U) << "half of an exchange was seen";
    ASSERT_GE(seen.first, before);
    before = seen.first;
  }
  writer.join();
}

}  // namespace
}  // namespace espalier::hw
