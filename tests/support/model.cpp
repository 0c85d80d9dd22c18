#include "support/model.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <iterator>

#include "espalier/memory/size_class.hpp"

namespace espalier::test {

std::unique_ptr<subject> make(const subject_type& type) { return type.make(nullptr); }

std::vector<key> boundary_keys(const subject_type& type) {
  std::vector<key> keys{0, 1, 2, 3};
  for (const unsigned bit : {8U, 15U, 16U, 30U, 31U, 32U, 33U, 61U, 62U, 63U}) {
    const key power = key{1} << bit;
    keys.insert(keys.end(), {power - 1, power, power + 1});
  }
  for (key below = 4; below > 0; --below) keys.push_back(type.largest_key - (below - 1));
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  keys.erase(std::upper_bound(keys.begin(), keys.end(), type.largest_key), keys.end());
  return keys;
}

std::span<const value> boundary_values() {
  static constexpr value all[] = {
      0, 1, 2, 3, (value{1} << 31U) - 1, value{1} << 31U, value{1} << 63U, ~value{0} - 1, ~value{0}};
  return all;
}

std::vector<key> key_range(key first, key end, key step) {
  std::vector<key> keys;
  for (key k = first; k < end; k += step) keys.push_back(k);
  return keys;
}

void expect_equal(operations& map, const model& expected, std::span<const key> also) {
  auto next = expected.begin();
  const std::size_t visits = map.scan(0, [&](key k, value v) {
    if (next == expected.end()) {
      ADD_FAILURE() << "the scan goes on to key " << k << " behind the last one";
      return false;
    }
    EXPECT_EQ(k, next->first) << "keys in a scan";
    EXPECT_EQ(v, next->second) << "value in a scan, key " << k;
    const bool same = *next == model::value_type{k, v};
    ++next;
    return same;
  });
  EXPECT_EQ(visits, expected.size());
  for (const auto& [k, v] : expected) {
    ASSERT_EQ(map.find(k), v) << "key " << k;
    ASSERT_TRUE(map.contains(k)) << "key " << k;
  }
  for (const key k : also) {
    if (expected.contains(k)) continue;
    ASSERT_EQ(map.find(k), std::nullopt) << "key " << k;
    ASSERT_FALSE(map.contains(k)) << "key " << k;
  }
}

std::uint64_t blocks_when_empty(const subject_type& type) { return splits_nodes(type) ? 1 : 0; }

void expect_sound_at_rest(subject& map, const subject_type& type) {
  const char* const wrong = map.check_invariants();
  EXPECT_EQ(wrong, nullptr) << wrong;
  EXPECT_EQ(map.collect(), 0U) << "retired entries still wait though nobody is pinned";
  if (!type.gives_back) return;

  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  map.visit_blocks([&](const void* memory, std::size_t size, memory_role role) {
    ++blocks;
    // The visited part is the front.
    if (splits_nodes(type) && role == memory_role::node) bytes += *type.node_bytes - size;
    // A heap reports the size of a block itself; the arenas round up as size_class does.
    bytes += type.from_heap ? malloc_usable_size(const_cast<void*>(memory))
                            : size_class::bytes_for(size, size_class::granule);
  });
  const memory_usage held = map.usage();
  EXPECT_EQ(held.blocks, blocks) << "blocks held against blocks reached";
  EXPECT_EQ(held.bytes_in_use, bytes) << "bytes held against bytes reached";
}

namespace {

/// One random operation on both; false if they differ.
bool same_step(operations& map, model& expected, random_source& random, key k, value v) {
  const auto present = expected.find(k);
  const bool was_there = present != expected.end();
  switch (random.below(8)) {
    case 0: {
      const std::optional<value> found = map.find(k);
      EXPECT_EQ(found, was_there ? std::optional(present->second) : std::nullopt) << "find " << k;
      break;
    }
    case 1:
      EXPECT_EQ(map.contains(k), was_there) << "contains " << k;
      break;
    case 2:
    case 3:
      EXPECT_EQ(map.insert(k, v), !was_there) << "insert " << k;
      expected.try_emplace(k, v);
      break;
    case 4:
      EXPECT_EQ(map.insert_or_assign(k, v), !was_there) << "insert_or_assign " << k;
      expected.insert_or_assign(k, v);
      break;
    case 5:
    case 6:
      EXPECT_EQ(map.erase(k), was_there) << "erase " << k;
      expected.erase(k);
      break;
    default: {
      const std::size_t most = random.below(12) + 1;
      auto next = expected.lower_bound(k);
      const auto available = static_cast<std::size_t>(std::distance(next, expected.end()));
      const std::size_t visits = map.scan(k, [&, left = most](key seen, value with) mutable {
        if (next == expected.end()) {
          ADD_FAILURE() << "scan from " << k << " visits " << seen << " behind the last key";
          return false;
        }
        EXPECT_EQ(seen, next->first) << "scan from " << k;
        EXPECT_EQ(with, next->second) << "scan from " << k << ", key " << seen;
        ++next;
        return --left != 0;
      });
      EXPECT_EQ(visits, std::min(most, available)) << "scan from " << k;
    }
  }
  return !::testing::Test::HasFailure();
}

}  // namespace

void run_against_model(operations& map, model& expected, random_source& random, std::span<const key> keys,
                       std::span<const value> values, std::size_t steps) {
  for (std::size_t i = 0; i < steps; ++i) {
    const key k = keys[random.below(keys.size())];
    const value v = values.empty() ? random.next() : values[random.below(values.size())];
    if (!same_step(map, expected, random, k, v)) {
      ADD_FAILURE() << "differs from std::map at step " << i;
      return;
    }
  }
}

}  // namespace espalier::test
