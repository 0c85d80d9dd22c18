#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "espalier/hw/process.hpp"
#include "espalier/map/list/rlu_list.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/map/skip_list/fraser_skip_list.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/queue/shavit_lotan_queue.hpp"
#include "support/sanitizers.hpp"

// What a map says of its memory, and what the process has. A sanitizer has memory of its own: these run without one.

namespace espalier {
namespace {

std::uint64_t resident() { return hw::resident_bytes().value_or(0); }

/// The ratio of what the maps say to the memory with which the process grew. There are enough of them for pages of code not
/// to count.
template <class Map, class Value, class Usage>
double share_said(std::size_t maps, std::uint64_t entries, const Value& value, const Usage& usage_of) {
  malloc_trim(0);
  const std::uint64_t before = resident();
  std::vector<Map> all(maps);
  std::uint64_t said = 0;
  for (Map& map : all) {
    for (std::uint64_t i = 0; i < entries; ++i) map.insert(measure::mix64(i), value);
    said += usage_of(map).bytes_reserved;
  }
  return static_cast<double>(said) / static_cast<double>(resident() - before);
}

class usage : public testing::Test {
 protected:
  void SetUp() override {
    if (test::address_sanitizer || test::thread_sanitizer) GTEST_SKIP() << "the heap is another one";
    // Huge pages would round up.
    static_cast<void>(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
  }
};

TEST_F(usage, is_what_is_resident) {
  using map = ordered_map<std::uint64_t, std::uint64_t>;
  const auto by_itself = [](const map& m) { return m.usage(); };
  EXPECT_NEAR((share_said<map>(30'000, 0, std::uint64_t{1}, by_itself)), 1, 0.05);
  EXPECT_NEAR((share_said<map>(8000, 1, std::uint64_t{1}, by_itself)), 1, 0.05);
  EXPECT_NEAR((share_said<map>(8000, 100, std::uint64_t{1}, by_itself)), 1, 0.05);
  EXPECT_NEAR((share_said<map>(2000, 200, std::uint64_t{1}, by_itself)), 1, 0.05);
  EXPECT_NEAR((share_said<map>(800, 1000, std::uint64_t{1}, by_itself)), 1, 0.05);
  EXPECT_NEAR((share_said<map>(8, 100'000, std::uint64_t{1}, by_itself)), 1, 0.05);
}

TEST_F(usage, has_what_values_have_elsewhere) {
  using map = ordered_map<std::uint64_t, std::string>;
  const auto with_text = [](const map& m) {
    return m.usage([](const std::string& text) { return text.capacity(); });
  };
  EXPECT_NEAR((share_said<map>(50, 1000, std::string(1000, 'a'), with_text)), 1, 0.05);

  map one;
  one.insert(1, std::string(1000, 'a'));
  one.insert(2, std::string(3000, 'b'));
  EXPECT_EQ(with_text(one).bytes_reserved, one.usage().bytes_reserved + 4000);
  EXPECT_EQ(with_text(one).blocks, one.usage().blocks);
}

/// What a map says that it has, before and after a key comes and goes so often, and when what was erased is reclaimed.
template <class Map, class Key>
void expect_memory_of_its_entries(const Key& key, std::uint64_t bytes_waiting_most) {
  Map map;
  map.insert(key, 1);
  const memory_usage with_key = map.usage();
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(map.erase(key));
    ASSERT_TRUE(map.insert(key, 1));
  }
  EXPECT_LE(map.usage().bytes_reserved, with_key.bytes_reserved + bytes_waiting_most);
  EXPECT_EQ(map.domain().collect(), 0U);
  EXPECT_LE(map.usage().bytes_in_use, 2 * with_key.bytes_in_use);
}
struct point {
  int x;
  int y;
};
struct by_x {
  bool operator()(const point& a, const point& b) const noexcept { return a.x < b.x; }
};

TEST(usage_of_entries, that_come_and_go) {
  if (test::address_sanitizer || test::thread_sanitizer) GTEST_SKIP() << "the heap is another one";
  expect_memory_of_its_entries<ordered_map<std::uint64_t, std::uint64_t>>(std::uint64_t{7}, 0);
  expect_memory_of_its_entries<ordered_map<point, std::uint64_t, by_x>>(point{7, 7}, 0);
  // The records of strings are retired with their leaf.
  expect_memory_of_its_entries<ordered_map<std::string, std::uint64_t>>(std::string("seven"),
                                                                        std::uint64_t{320} << 10U);
}

/// The leaves that wait to be reclaimed do not depend on how many entries of small nodes would wait.
TEST(usage_of_entries, of_leaves_that_come_and_go) {
  ordered_map<std::uint64_t, std::uint64_t> map;
  constexpr std::uint64_t keys = 2000;
  std::uint64_t most = 0;
  for (int i = 0; i < 40; ++i) {
    for (std::uint64_t k = 0; k < keys; ++k) map.insert(k, k);
    for (std::uint64_t k = 0; k < keys; ++k) map.erase(k);
    most = std::max(most, map.usage().bytes_in_use);
  }
  EXPECT_LE(most, std::uint64_t{400} << 10U);
}

/// Records of a map's threads, outside of its placement.
TEST(usage_of_threads, is_in_it) {
  rlu_list<std::uint64_t, std::uint64_t> list;
  const std::uint64_t without = list.usage().bytes_reserved;
  EXPECT_FALSE(list.contains(1));
  EXPECT_GT(list.usage().bytes_reserved, without);

  struct one_level {
    [[nodiscard]] static unsigned draw() noexcept { return 1; }
  };
  using key = std::uint64_t;
  fraser_skip_list<key, key, map_traits, std::less<key>, one_level> levels_as_given;
  fraser_skip_list<key, key> levels_drawn;
  levels_as_given.insert(1, 1);
  levels_drawn.insert(1, 1);
  EXPECT_GT(levels_drawn.usage().bytes_reserved - sizeof(levels_drawn),
            levels_as_given.usage().bytes_reserved - sizeof(levels_as_given));

  shavit_lotan_queue<key, key> queue;
  queue.push(1, 1);
  EXPECT_GT(queue.usage().bytes_reserved - sizeof(queue),
            levels_drawn.usage().bytes_reserved - sizeof(levels_drawn));
}

}  // namespace
}  // namespace espalier
