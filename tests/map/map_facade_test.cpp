#include "espalier/map/map_facade.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/delegation/partitioned_map.hpp"
#include "espalier/map/bst/ext_lf.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "support/every_entry.hpp"

// What map_facade makes of the other operations, the same for all maps: on some of each kind, against std::map.

namespace espalier {
namespace {

template <class Key>
Key key_of(std::uint64_t n) {
  if constexpr (std::is_same_v<Key, std::string>)
    return std::to_string(n);
  else
    return static_cast<Key>(n);
}

template <class Map>
class facade : public testing::Test {
 protected:
  using key = typename Map::key_type;
  using entry = typename Map::value_type;
  using model = std::map<key, std::uint64_t, typename Map::key_compare>;

  [[nodiscard]] key draw() { return key_of<key>(random_() % 2000); }
  void fill() {
    for (int i = 0; i < 1000; ++i) {
      const key k = draw();
      EXPECT_EQ(map_.emplace(k, i), expected_.emplace(k, i).second);
    }
  }
  void expect_same() {
    EXPECT_EQ(map_.size(), expected_.size());
    auto at = expected_.begin();
    for (const entry& e : map_) {
      ASSERT_NE(at, expected_.end());
      EXPECT_EQ(e, (entry{at->first, at->second}));
      ++at;
    }
    EXPECT_EQ(at, expected_.end());
  }

  std::mt19937_64 random_{7};
  Map map_;
  model expected_;
};

using maps = test::of_each<
    testing::Types<ordered_map<std::int32_t, std::uint64_t, std::greater<>>,
                   ordered_map<std::string, std::uint64_t>, ext_lf<std::uint64_t, std::uint64_t>,
                   partitioned<ordered_map<std::uint64_t, std::uint64_t>>>,
    testing::Types<ordered_map<std::uint64_t, std::uint64_t>, ordered_map<double, std::uint64_t>,
                   locked_map<std::uint64_t, std::uint64_t>>>;
TYPED_TEST_SUITE(facade, maps);

/// What std::map says of a key that it does not have.
template <class Read>
void expect_absent(Read&& read) {
  try {
    static_cast<void>(read());
    FAIL() << "at() returned the value of an absent key";
  } catch (const std::out_of_range& e) {
    EXPECT_STREQ(e.what(), "at: the map does not have the key");
  }
}

TYPED_TEST(facade, at_count_and_upper_bound) {
  this->fill();
  auto guard = this->map_.pin();
  for (int i = 0; i < 500; ++i) {
    const auto k = this->draw();
    if (const auto at = this->expected_.find(k); at != this->expected_.end()) {
      EXPECT_EQ(this->map_.at(k), at->second);
      EXPECT_EQ(this->map_.at(guard, k), at->second);
    } else {
      expect_absent([&] { return this->map_.at(k); });
      expect_absent([&] { return this->map_.at(guard, k); });
    }
    EXPECT_EQ(this->map_.count(k), this->expected_.count(k));
    EXPECT_EQ(this->map_.count(guard, k), this->expected_.count(k));
    const auto wanted = this->expected_.upper_bound(k);
    const auto got = this->map_.upper_bound(k);
    ASSERT_EQ(got.has_value(), wanted != this->expected_.end());
    if (got) {
      EXPECT_EQ(got->key, wanted->first);
    }
    EXPECT_EQ(this->map_.upper_bound(guard, k), got);
  }
}

TYPED_TEST(facade, batches) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{32}, std::size_t{100}}) {
    std::vector<typename TestFixture::entry> entries;
    std::size_t added = 0;
    for (std::size_t i = 0; i < size; ++i) {
      entries.push_back({this->draw(), i});
      if (i % 10 == 9) entries.push_back({entries.front().key, i});  // the first one counts
    }
    for (const auto& e : entries) added += this->expected_.emplace(e.key, e.value).second ? 1 : 0;
    EXPECT_EQ(this->map_.insert_batch(entries), added);
    this->expect_same();

    std::vector<typename TestFixture::key> keys;
    for (std::size_t i = 0; i < size; ++i)
      keys.push_back(i % 2 == 0 && i < entries.size() ? entries[i].key : this->draw());
    std::size_t erased = 0;
    for (const auto& k : keys) erased += this->expected_.erase(k);
    const std::vector<std::remove_cvref_t<typename TypeParam::key_view>> views(keys.begin(), keys.end());
    EXPECT_EQ(this->map_.erase_batch(views), erased);
    this->expect_same();
  }
}

TYPED_TEST(facade, erases_ranges) {
  this->fill();
  for (int i = 0; i < 20; ++i) {
    auto from = this->draw();
    auto to = this->draw();
    if (i % 4 != 0 && this->map_.key_comp()(to, from)) std::swap(from, to);  // else perhaps an empty range
    std::size_t wanted = 0;
    for (auto at = this->expected_.lower_bound(from);
         at != this->expected_.end() && this->map_.key_comp()(at->first, to); ++wanted)
      at = this->expected_.erase(at);
    EXPECT_EQ(this->map_.erase(from, to), wanted);
    this->expect_same();
    if (this->expected_.size() < 300) this->fill();
  }
}

TYPED_TEST(facade, scans_and_erases_without_bounds) {
  this->fill();
  auto at = this->expected_.begin();
  const auto next = [&](const auto& k, std::uint64_t v) {
    EXPECT_EQ(k, at->first);
    EXPECT_EQ(v, at->second);
    ++at;
  };
  EXPECT_EQ(this->map_.scan(next), this->expected_.size());
  auto guard = this->map_.pin();
  EXPECT_EQ(this->map_.scan(guard, [](const auto&, std::uint64_t) { return false; }), 1U);
  if constexpr (TypeParam::properties.bidirectional) {
    auto last = this->expected_.rbegin();
    const auto previous = [&](const auto& k, std::uint64_t v) {
      EXPECT_EQ(k, last->first);
      EXPECT_EQ(v, last++->second);
      return true;
    };
    EXPECT_EQ(this->map_.reverse_scan(previous), this->expected_.size());
    last = this->expected_.rbegin();
    EXPECT_EQ(this->map_.reverse_scan(guard, previous), this->expected_.size());
    last = this->expected_.rbegin();
    for (auto i = this->map_.rbegin(); i != this->map_.rend(); ++i) previous(i->key, i->value);
    EXPECT_EQ(last, this->expected_.rend());
    EXPECT_EQ(std::ranges::distance(this->map_.rbegin(), this->map_.rend()), this->expected_.size());
  }
  const auto from = this->draw();
  const auto first = this->expected_.lower_bound(from);
  EXPECT_EQ(this->map_.erase_from(from), std::distance(first, this->expected_.end()));
  this->expected_.erase(first, this->expected_.end());
  this->expect_same();
}

TYPED_TEST(facade, equals_a_map_with_the_same_entries) {
  TypeParam other;
  EXPECT_TRUE(this->map_ == other);
  this->fill();
  EXPECT_TRUE(this->map_ != other);
  for (const auto& [k, v] : this->expected_) other.insert(k, v);
  EXPECT_TRUE(this->map_ == other);
  const auto last = *this->expected_.rbegin();
  other.insert_or_assign(last.first, last.second + 1);
  EXPECT_FALSE(this->map_ == other);
  // Another key in the place of the last one.
  other.erase(last.first);
  EXPECT_FALSE(this->map_ == other);
  auto absent = this->draw();
  while (this->expected_.contains(absent)) absent = this->draw();
  other.insert(absent, last.second);
  EXPECT_FALSE(this->map_ == other);
}

TYPED_TEST(facade, finds_or_inserts) {
  this->fill();
  auto guard = this->map_.pin();
  for (std::uint64_t i = 0; i < 500; ++i) {
    const auto k = this->draw();
    const auto [at, inserted] = this->expected_.emplace(k, i);
    const auto got = i % 2 == 0 ? this->map_.find_or_insert(k, i) : this->map_.find_or_insert(guard, k, i);
    EXPECT_EQ(got.inserted, inserted);
    EXPECT_EQ(got.value, at->second);
    int calls = 0;
    const auto compute = [&] { return i + static_cast<std::uint64_t>(++calls); };
    const auto other = this->draw();
    const auto [computed, is_new] = this->expected_.emplace(other, i + 1);
    const auto then = i % 2 == 0 ? this->map_.find_or_compute(other, compute)
                                 : this->map_.find_or_compute(guard, other, compute);
    EXPECT_EQ(then.inserted, is_new);
    EXPECT_EQ(then.value, computed->second);
    EXPECT_EQ(calls, is_new ? 1 : 0);
    std::uint64_t seen = ~std::uint64_t{0};
    EXPECT_TRUE(this->map_.find(k, [&](const std::uint64_t& v) { seen = v; }));
    EXPECT_EQ(seen, at->second);
  }
  this->expect_same();
}

TYPED_TEST(facade, pops_entries_and_tells_what_updates_have_done) {
  if constexpr (TypeParam::properties.exchanges) {
    this->fill();
    const auto expect_popped = [this](const auto& popped, auto at) {
      ASSERT_TRUE(popped.has_value());
      EXPECT_EQ(*popped, (typename TestFixture::entry{at->first, at->second}));
      this->expected_.erase(at);
    };
    while (this->expected_.size() > 100) {
      ASSERT_NO_FATAL_FAILURE(expect_popped(this->map_.pop_first(), this->expected_.begin()));
      if constexpr (TypeParam::properties.bidirectional) {
        ASSERT_NO_FATAL_FAILURE(expect_popped(this->map_.pop_last(), std::prev(this->expected_.end())));
      }
    }
    this->expect_same();
    for (int i = 0; i < 100; ++i) {
      const auto k = this->draw();
      const auto at = this->expected_.find(k);
      const auto was = at == this->expected_.end() ? std::nullopt : std::optional(at->second);
      const auto wanted = i % 2 == 0 ? std::nullopt : std::optional(was.value_or(7) + 1);
      const auto [before, after] = this->map_.update(k, [&](std::optional<std::uint64_t>) { return wanted; });
      EXPECT_EQ(before, was);
      EXPECT_EQ(after, wanted);
      if (wanted)
        this->expected_[k] = *wanted;
      else
        this->expected_.erase(k);
    }
    this->expect_same();
    this->map_.clear();
    EXPECT_FALSE(this->map_.pop_first().has_value());
    if constexpr (TypeParam::properties.bidirectional) {
      EXPECT_FALSE(this->map_.pop_last().has_value());
    }
  }
}

TYPED_TEST(facade, updates_what_is_present) {
  if constexpr (TypeParam::properties.exchanges) {
    this->fill();
    auto guard = this->map_.pin();
    for (std::uint64_t i = 0; i < 500; ++i) {
      const auto k = this->draw();
      const auto at = this->expected_.find(k);
      std::uint64_t calls = 0;
      const auto odd_ones = [&](const std::uint64_t& v) {
        ++calls;
        return v % 2 == 1 ? std::optional(v + i) : std::nullopt;
      };
      const auto [before, after] =
          i % 2 == 0 ? this->map_.update_present(k, odd_ones) : this->map_.update_present(guard, k, odd_ones);
      ASSERT_EQ(before.has_value(), at != this->expected_.end());
      EXPECT_EQ(calls, before ? 1U : 0U);
      if (!before) {
        EXPECT_FALSE(after.has_value());
        continue;
      }
      EXPECT_EQ(*before, at->second);
      ASSERT_EQ(after.has_value(), *before % 2 == 1);
      if (after)
        at->second = *after;
      else
        this->expected_.erase(at);
    }
    this->expect_same();
  }
}

#if !defined(NDEBUG)
TYPED_TEST(facade, wants_a_guard_of_its_own) {
  if constexpr (!std::is_same_v<typename TypeParam::guard_type, no_guard>) {
    TypeParam other;
    auto guard = other.pin();
    const auto k = this->draw();
    const auto* const why = "of another map's domain";
    EXPECT_DEATH(static_cast<void>(this->map_.find(guard, k)), why);
    EXPECT_DEATH(static_cast<void>(this->map_.contains(guard, k)), why);
    EXPECT_DEATH(static_cast<void>(this->map_.insert(guard, k, 1)), why);
    EXPECT_DEATH(static_cast<void>(this->map_.insert_or_assign(guard, k, 1)), why);
    EXPECT_DEATH(static_cast<void>(this->map_.erase(guard, k)), why);
    EXPECT_DEATH(static_cast<void>(this->map_.scan(guard, k, [](const auto&, std::uint64_t) {})), why);
    EXPECT_DEATH(static_cast<void>(this->map_.first(guard)), why);
    auto own = this->map_.pin();
    EXPECT_DEATH(std::thread([&] { static_cast<void>(this->map_.find(own, k)); }).join(), why);
    auto taken = std::move(own);
    EXPECT_DEATH(static_cast<void>(this->map_.find(own, k)), why);
    EXPECT_FALSE(this->map_.find(taken, k).has_value());
  }
}
#endif

TYPED_TEST(facade, erases_if) {
  if constexpr (TypeParam::properties.exchanges) {
    this->fill();
    EXPECT_EQ(this->map_.erase_if([](const auto&, std::uint64_t v) { return v % 3 == 0; }),
              std::erase_if(this->expected_, [](const auto& e) { return e.second % 3 == 0; }));
    this->expect_same();
    EXPECT_EQ(this->map_.erase_if([](const auto&, std::uint64_t) { return false; }), 0U);
    EXPECT_EQ(this->map_.erase_if([](const auto&, std::uint64_t) { return true; }), this->expected_.size());
    EXPECT_TRUE(this->map_.empty());
  }
}

TEST(facade_beside_writers, erase_if_erases_what_its_predicate_has_seen_last) {
  // Values go from even to odd and back; an entry is erased while it is odd.
  constexpr std::uint64_t keys = 200;
  ordered_map<std::uint64_t, std::uint64_t> map;
  for (std::uint64_t k = 0; k < keys; ++k) map.insert(k, 0);
  std::uint64_t evens_lost = 0;
  std::thread writer([&] {
    for (int round = 0; round < 200; ++round) {
      for (std::uint64_t k = 0; k < keys; ++k) {
        map.update(k, [](std::optional<std::uint64_t> v) { return v ? std::optional(*v + 1) : v; });
        const auto before =
            map.update(k, [](std::optional<std::uint64_t> v) { return v ? std::optional(*v + 1) : 2; })
                .before;
        if (before && *before % 2 == 0) ++evens_lost;
      }
    }
  });
  std::size_t erased = 0;
  for (int round = 0; round < 200; ++round)
    erased += map.erase_if([](std::uint64_t, std::uint64_t v) { return v % 2 == 1; });
  writer.join();
  EXPECT_EQ(evens_lost, 0U);
  EXPECT_EQ(map.size(), keys);
  RecordProperty("erased", std::to_string(erased));
}

TEST(facade_beside_writers, the_longest_match_is_not_shorter_than_a_key_that_stays) {
  ordered_map<std::string, int> map{{"/", 0}, {"/a", 1}, {"/a/b", 2}};
  std::thread writer([&] {
    for (int round = 0; round < 2000; ++round) {
      for (const char* k : {"/a/b/b", "/a/b/c/c", "/a/b/c"}) map.insert(k, 3);
      for (const char* k : {"/a/b/c", "/a/b/c/c", "/a/b/b"}) map.erase(k);
    }
  });
  std::size_t shorter = 0;
  for (int round = 0; round < 5000; ++round) {
    const auto match = map.longest_match("/a/b/c/d");
    shorter += !match || (match->key != "/a/b" && match->key != "/a/b/c");
  }
  writer.join();
  EXPECT_EQ(shorter, 0U);
}

}  // namespace
}  // namespace espalier
