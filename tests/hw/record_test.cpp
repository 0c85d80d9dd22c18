#include "espalier/hw/record.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "support/sanitizers.hpp"

namespace {

struct annotation {
  const void* first;
  std::size_t bytes;
  int kind;

  friend bool operator==(const annotation&, const annotation&) = default;
};

std::vector<annotation>& annotations() {
  static std::vector<annotation> all;
  return all;
}

}  // namespace

// The simulator's side, played by this test. Without instrumentation nothing may call it.
extern "C" void espalier_annotate_record(const void* first, std::size_t bytes, int kind);
extern "C" void espalier_annotate_record(const void* first, std::size_t bytes, int kind) {
  annotations().push_back({first, bytes, kind});
}

namespace espalier::hw {
namespace {

struct entry {
  long key = 0;
  long value = 0;
};

constexpr bool annotates_constants() {
  const entry one;
  annotate_record(one);
  annotate_metadata(one.key);
  return true;
}
static_assert(annotates_constants());

template <class T>
concept annotatable = requires(const T& object) {
  annotate_record(object);
  annotate_metadata(object);
};
static_assert(annotatable<entry>);
static_assert(!annotatable<entry*>);
static_assert(!annotatable<const void*>);

TEST(record, annotations_reach_an_observer_in_instrumented_builds_alone) {
  annotations().clear();
  const std::array<entry, 2> entries{};
  const long count = 0;
  annotate_record(entries[0]);
  annotate_record(&entries[1], 16);
  annotate_metadata(count);
  annotate_metadata(&entries[1], 3);

  std::vector<annotation> expected;
  if (test::thread_sanitizer) {
    expected = {{entries.data(), sizeof(entry), 0},
                {&entries[1], 16, 0},
                {&count, sizeof(count), 1},
                {&entries[1], 3, 1}};
  }
  EXPECT_EQ(annotations(), expected);
}

}  // namespace
}  // namespace espalier::hw
