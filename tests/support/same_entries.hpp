#pragma once

#include <gtest/gtest.h>

namespace espalier::test {

/// Expects that the map, at rest, has the entries of the model and nothing else: in order, in the reverse order, and for
/// each search. Stops at the first difference.
template <class Map, class Model>
void expect_same_entries(const Map& map, const Model& expected) {
  using key = typename Map::key_type;
  using value = typename Map::mapped_type;
  ASSERT_EQ(map.check_invariants(), nullptr);
  ASSERT_EQ(map.size(), expected.size());
  auto at = expected.begin();
  for (const auto& [k, v] : map) {
    ASSERT_TRUE(at != expected.end() && k == at->first && v == value(at->second));
    ASSERT_EQ(map.find(k), v);
    ++at;
  }
  ASSERT_TRUE(at == expected.end());
  if (expected.empty()) return;
  if constexpr (Map::properties.bidirectional) {
    auto before = expected.rbegin();
    map.reverse_scan(before->first, [&](const key& k, const value& v) {
      EXPECT_TRUE(before != expected.rend() && k == before->first && v == value(before->second));
      if (before == expected.rend()) return false;
      ++before;
      return true;
    });
    ASSERT_TRUE(before == expected.rend());
  }
}

}  // namespace espalier::test
