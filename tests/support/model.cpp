#include "support/model.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "espalier/memory/parts/size_class.hpp"

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

std::vector<key> shuffled(std::vector<key> keys, std::uint64_t seed) {
  random_source random(seed);
  for (std::size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[random.below(i)]);
  return keys;
}

std::vector<key> key_range(key first, key end, key step) {
  std::vector<key> keys;
  for (key k = first; k < end; k += step) keys.push_back(k);
  return keys;
}

std::optional<value> find(const model& in, key k) {
  const auto at = in.find(k);
  if (at == in.end()) return std::nullopt;
  return at->second;
}

constexpr std::size_t scan_most = 10;

outcome act(operations& map, const step& a) {
  outcome o;
  switch (a.op) {
    case map_operation::find:
      o.found = map.find(a.key);
      break;
    case map_operation::contains:
      o.changed = map.contains(a.key);
      break;
    case map_operation::insert:
      o.changed = map.insert(a.key, a.argument);
      break;
    case map_operation::insert_or_assign:
      o.changed = map.insert_or_assign(a.key, a.argument);
      break;
    case map_operation::erase:
      o.changed = map.erase(a.key);
      break;
    case map_operation::exchange:
      o.found = map.exchange(a.key, a.argument);
      break;
    case map_operation::extract:
      o.found = map.extract(a.key);
      break;
    case map_operation::update:
      o.found = map.update(a.key, [&](std::optional<value> now) { return now.value_or(0) + a.argument; });
      break;
    case map_operation::scan: {
      std::size_t left = scan_most;
      o.visits = map.scan(a.key, [&](key k, value v) {
        o.entries += measure::mix64(k) ^ v;
        return --left != 0;
      });
      break;
    }
    case map_operation::reverse_scan:
      break;
  }
  return o;
}

outcome act(model& map, const step& a) {
  outcome o;
  const std::optional<value> before = find(map, a.key);
  switch (a.op) {
    case map_operation::find:
      o.found = before;
      break;
    case map_operation::contains:
      o.changed = before.has_value();
      break;
    case map_operation::insert:
      o.changed = map.try_emplace(a.key, a.argument).second;
      break;
    case map_operation::insert_or_assign:
      o.changed = map.insert_or_assign(a.key, a.argument).second;
      break;
    case map_operation::erase:
      o.changed = map.erase(a.key) == 1;
      break;
    case map_operation::exchange:
      o.found = before;
      map.insert_or_assign(a.key, a.argument);
      break;
    case map_operation::extract:
      o.found = before;
      map.erase(a.key);
      break;
    case map_operation::update:
      o.found = before;
      map.insert_or_assign(a.key, before.value_or(0) + a.argument);
      break;
    case map_operation::scan:
      for (auto next = map.lower_bound(a.key); next != map.end() && o.visits < scan_most; ++next) {
        o.entries += measure::mix64(next->first) ^ next->second;
        ++o.visits;
      }
      break;
    case map_operation::reverse_scan:
      break;
  }
  return o;
}

namespace {

/// A visitor that expects the entries of a part of the model, and stops at the first that differs.
class expected_visits {
 public:
  expected_visits(std::string what, model::const_iterator from, model::const_iterator to)
      : what_(std::move(what)), next_(from), end_(to) {}

  bool operator()(key k, value v) {
    if (next_ == end_) {
      ADD_FAILURE() << what_ << " goes on to key " << k << " behind the last one";
      return false;
    }
    EXPECT_EQ(k, next_->first) << "keys in " << what_;
    EXPECT_EQ(v, next_->second) << "value in " << what_ << ", key " << k;
    const bool same = *next_ == model::value_type{k, v};
    ++next_;
    return same;
  }
  [[nodiscard]] bool all_seen() const { return next_ == end_; }

 private:
  std::string what_;
  model::const_iterator next_, end_;
};

std::optional<entry_pair> entry_at(const model& all, model::const_iterator at) {
  if (at == all.end()) return std::nullopt;
  return *at;
}

/// A few of the model's keys and of the others, evenly spaced, in ascending order.
std::vector<key> some_keys(const model& all, std::span<const key> also) {
  constexpr std::size_t most = 12;
  std::vector<key> keys(also.begin(), also.end());
  for (const auto& [k, v] : all) keys.push_back(k);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  if (keys.size() <= most) return keys;
  std::vector<key> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(keys[i * (keys.size() - 1) / (most - 1)]);
  return some;
}

}  // namespace

void expect_bounded_scan(operations& map, const model& expected, key from, key to) {
  const auto begin = expected.lower_bound(from);
  const auto end = from < to ? expected.lower_bound(to) : begin;
  const std::string what = "a scan from " + std::to_string(from) + " to " + std::to_string(to);
  expected_visits visit(what, begin, end);
  EXPECT_EQ(map.scan(from, to, visit), static_cast<std::size_t>(std::distance(begin, end))) << what;
  EXPECT_TRUE(visit.all_seen()) << what;
}

void expect_equal(operations& map, const model& expected, std::span<const key> also) {
  expected_visits scanned("a scan", expected.begin(), expected.end());
  const std::size_t visits = map.scan(0, scanned);
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

  expected_visits iterated("a range-for", expected.begin(), expected.end());
  map.for_each(iterated);
  EXPECT_TRUE(iterated.all_seen()) << "a range-for ends too early";
  EXPECT_EQ(map.size(), expected.size()) << "size()";
  EXPECT_EQ(map.empty(), expected.empty()) << "empty()";
  EXPECT_EQ(map.first(), entry_at(expected, expected.begin())) << "first()";
  const std::vector<key> some = some_keys(expected, also);
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(map.lower_bound(some[i]), entry_at(expected, expected.lower_bound(some[i])))
        << "lower_bound " << some[i];
    expect_bounded_scan(map, expected, some[i], some[(i + 1) % some.size()]);  // the last one is reversed
  }
}

std::uint64_t blocks_when_empty(const subject_type& type) { return splits_nodes(type) ? 1 : 0; }

void expect_emptied(subject& map, const subject_type& type) {
  if (!type.reclaims) return;
  // A leaf of strings has blocks with what it had of them.
  const std::uint64_t of_last_node = type.node_entries == 1 ? 0 : 4;
  EXPECT_LE(map.usage().blocks, blocks_when_empty(type) + of_last_node) << "an emptied map holds memory";
}

void expect_sound_at_rest(subject& map, const subject_type& type) {
  const char* const wrong = map.check_invariants();
  EXPECT_EQ(wrong, nullptr) << wrong;
  EXPECT_EQ(map.collect(), 0U) << "retired entries still wait though nobody is pinned";
  if (!type.reclaims) return;

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

/// A function of an update that adds to the value, toggles presence, or only overwrites.
std::optional<value> next_state(std::uint64_t kind, std::optional<value> now, value v) {
  switch (kind) {
    case 0:
      return now.value_or(0) + v;
    case 1:
      return now ? std::nullopt : std::optional(v);
    default:
      return now ? std::optional(v) : std::nullopt;
  }
}

void expect_same_update(operations& map, model& expected, std::uint64_t kind, key k, value v) {
  const std::optional<value> before = find(expected, k);
  std::optional<value> computed_from;
  const std::optional<value> returned = map.update(k, [&](std::optional<value> now) {
    computed_from = now;
    return next_state(kind, now, v);
  });
  EXPECT_EQ(returned, before) << "update " << k;
  EXPECT_EQ(computed_from, before) << "the function of update " << k;
  if (const std::optional<value> after = next_state(kind, before, v)) {
    expected[k] = *after;
  } else {
    expected.erase(k);
  }
}

void expect_same_scan(operations& map, const model& expected, std::size_t most, key k) {
  const auto from = expected.lower_bound(k);
  const auto available = static_cast<std::size_t>(std::distance(from, expected.end()));
  expected_visits visit("scan from " + std::to_string(k), from, expected.end());
  const std::size_t visits =
      map.scan(k, [&, left = most](key seen, value v) mutable { return visit(seen, v) && --left != 0; });
  EXPECT_EQ(visits, std::min(most, available)) << "scan from " << k;
}

map_operation draw(operations& map, random_source& random) {
  using enum map_operation;
  constexpr map_operation frequent[] = {find,  contains, insert, insert,   insert_or_assign, erase,
                                        erase, scan,     update, exchange, extract};
  for (;;) {
    const map_operation drawn = frequent[random.below(std::size(frequent))];
    if (offers(map.properties(), drawn)) return drawn;
  }
}

/// One random operation on both; false if they differ.
bool same_step(operations& map, model& expected, random_source& random, key k, value v) {
  const map_operation what = draw(map, random);
  if (what == map_operation::update) {
    expect_same_update(map, expected, random.below(3), k, v);
  } else if (what == map_operation::scan) {
    expect_same_scan(map, expected, random.below(12) + 1, k);
  } else if (what == map_operation::insert && random.below(4) == 0) {
    EXPECT_EQ(map.try_emplace(k, v), expected.try_emplace(k, v).second) << "try_emplace " << k;
  } else {
    const outcome got = act(map, {what, k, v});
    const outcome wanted = act(expected, {what, k, v});
    EXPECT_EQ(got.changed, wanted.changed) << to_string(what) << " " << k;
    EXPECT_EQ(got.found, wanted.found) << to_string(what) << " " << k;
    if (what == map_operation::find) {
      EXPECT_EQ(map.lower_bound(k), entry_at(expected, expected.lower_bound(k))) << "lower_bound " << k;
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
