#include "espalier/map/ordered_map.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/hw/vector_compare.hpp"

// ordered_map with each of the vectors that this processor has, and with none: what inner nodes compare, the suites of
// all maps do not choose.

namespace espalier {
namespace {

using key = std::uint64_t;
using map_type = ordered_map<key, key>;
using model = std::map<key, key>;

class ordered_map_by_vectors : public testing::TestWithParam<hw::vector_width> {
 protected:
  void SetUp() override {
    if (GetParam() > hw::widest_vectors()) GTEST_SKIP() << "this processor has no such vectors";
    hw::detail::vectors_in_use = GetParam();
  }
  void TearDown() override { hw::detail::vectors_in_use = hw::widest_vectors(); }
};

void expect_same(const map_type& map, const model& expected) {
  ASSERT_EQ(map.check_invariants(), nullptr);
  std::vector<key> keys;
  std::size_t present = 0;
  for (const auto& [k, v] : expected) {
    EXPECT_EQ(map.find(k), v);
    EXPECT_EQ(map.contains(k + 1), expected.contains(k + 1));
    keys.push_back(k);
    keys.push_back(k - 1);
    present += expected.contains(k - 1) ? 2 : 1;
  }
  std::vector<std::optional<key>> found(keys.size());
  EXPECT_EQ(map.find_batch(keys, found), present);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto at = expected.find(keys[i]);
    EXPECT_EQ(found[i], at == expected.end() ? std::nullopt : std::optional(at->second));
  }
  auto at = expected.begin();
  map.scan(0, [&](key k, key v) {
    ASSERT_NE(at, expected.end());
    EXPECT_EQ(k, at->first);
    EXPECT_EQ(v, at->second);
    ++at;
  });
  EXPECT_EQ(at, expected.end());
}

/// `next` gives the keys, some of them again.
template <class Next>
void grow_and_shrink(std::size_t count, Next next) {
  map_type map;
  model expected;
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < count; ++i) {
    const key k = next();
    EXPECT_EQ(map.insert(k, ~k), expected.emplace(k, ~k).second);
  }
  expect_same(map, expected);
  // Ranges go, so that leaves and inner nodes are merged.
  while (expected.size() > count / 16) {
    const key first = expected.begin()->first;
    auto at = expected.lower_bound(first + random() % (expected.rbegin()->first - first));
    for (std::size_t i = random() % count / 4; i > 0 && at != expected.end(); --i) {
      EXPECT_TRUE(map.erase(at->first));
      at = expected.erase(at);
    }
  }
  expect_same(map, expected);
}

TEST_P(ordered_map_by_vectors, is_as_std_map_with_random_keys) {
  std::mt19937_64 random(2);
  grow_and_shrink(20'000, [&] { return random(); });
}
TEST_P(ordered_map_by_vectors, is_as_std_map_with_clusters_at_the_ends_and_around_the_middle) {
  std::mt19937_64 random(3);
  grow_and_shrink(20'000, [&] { return random() % 8'000 - 4'000 + (random() % 2 << 63U); });
}
TEST_P(ordered_map_by_vectors, is_as_std_map_with_increasing_keys_over_three_levels) {
  grow_and_shrink(60'000, [k = key{0}]() mutable { return k += 3; });
}

std::string name_of(const testing::TestParamInfo<hw::vector_width>& width) {
  constexpr std::array<std::string_view, 3> names{"none", "avx2", "avx512"};
  return std::string(names[static_cast<std::size_t>(width.param)]);
}
INSTANTIATE_TEST_SUITE_P(ordered_map, ordered_map_by_vectors,
                         testing::Values(hw::vector_width::none, hw::vector_width::avx2,
                                         hw::vector_width::avx512),
                         name_of);

}  // namespace
}  // namespace espalier
