// The cache of a program's own keys and values.

#include "espalier/cache/cache.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {
namespace {

using namespace std::chrono_literals;

struct point {
  std::int32_t x;
  std::int32_t y;
  friend bool operator==(const point&, const point&) = default;
};

TEST(Cache, HoldsStrings) {
  cache<std::string, std::string> c;
  EXPECT_TRUE(c.set("a", "one"));
  EXPECT_EQ(c.get("a"), "one");
  EXPECT_TRUE(c.get(std::string("a"), [](std::string_view v) { EXPECT_EQ(v, "one"); }));
  EXPECT_FALSE(c.add("a", "two"));
  EXPECT_TRUE(c.add("b", "two"));
  EXPECT_FALSE(c.replace("c", "three"));
  EXPECT_TRUE(c.replace("b", "three"));
  EXPECT_EQ(c.get("b"), "three");
  EXPECT_TRUE(c.erase("b"));
  EXPECT_FALSE(c.erase("b"));
  EXPECT_FALSE(c.contains("b"));
  EXPECT_TRUE(c.contains("a"));
  c.clear();
  EXPECT_FALSE(c.contains("a"));
}

TEST(Cache, HoldsWhatMemcpyCopies) {
  cache<std::uint64_t, point> c({.memory_limit = 2 << 20, .largest_entry = 1000});
  EXPECT_TRUE(c.set(7, {1, 2}));
  EXPECT_EQ(c.get(7), (point{1, 2}));
  EXPECT_TRUE(c.get(7, [](const point& p) { EXPECT_EQ(p.y, 2); }));
  EXPECT_EQ(c.get(8), std::nullopt);
}

TEST(Cache, SwapsWhatHasNotChanged) {
  cache<std::string, int> c;
  c.set("a", 1);
  const auto seen = c.get_versioned("a");
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->value, 1);
  EXPECT_TRUE(c.compare_and_swap("a", seen->version, 2));
  EXPECT_FALSE(c.compare_and_swap("a", seen->version, 3));
  EXPECT_FALSE(c.compare_and_swap("b", seen->version, 3));
  EXPECT_EQ(c.get("a"), 2);
}

TEST(Cache, Counts) {
  cache<std::string, std::uint32_t> c;
  EXPECT_EQ(c.increment("a", 1), std::nullopt);
  c.set("a", 0xFFFF'FFFF);
  EXPECT_EQ(c.increment("a", 3), 2U);
  EXPECT_EQ(c.get("a"), 2U);
}

TEST(Cache, EntriesEnd) {
  cache<std::string, int> c;
  EXPECT_TRUE(c.set("a", 1, 1h));
  EXPECT_TRUE(c.set("gone", 1, 0s));
  EXPECT_TRUE(c.set("gone too", 1, -1s));
  EXPECT_FALSE(c.contains("gone"));
  EXPECT_FALSE(c.contains("gone too"));
  EXPECT_TRUE(c.touch("a", 0s));
  EXPECT_FALSE(c.contains("a"));
  EXPECT_FALSE(c.touch("a", 1h));
}

TEST(Cache, AValueThatDoesNotFitLeavesNoOlderOne) {
  cache<std::string, std::string> c({.memory_limit = 2 << 20, .largest_entry = 1000});
  EXPECT_TRUE(c.set("a", "old"));
  EXPECT_FALSE(c.set("a", std::string(1000, 'n')));
  EXPECT_FALSE(c.contains("a"));
}

TEST(Cache, MakesWhatIsMissing) {
  cache<std::string, std::string> c;
  int made = 0;
  const auto make = [&] {
    ++made;
    return std::string("made");
  };
  EXPECT_EQ(c.get_or_set("a", make), "made");
  EXPECT_EQ(c.get_or_set("a", make), "made");
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace espalier
