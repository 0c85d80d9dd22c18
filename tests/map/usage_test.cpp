#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "espalier/hw/process.hpp"
#include "espalier/map/ordered_map.hpp"
#include "espalier/measure/random.hpp"
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

}  // namespace
}  // namespace espalier
