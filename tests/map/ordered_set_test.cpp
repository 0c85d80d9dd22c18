#include "espalier/map/ordered/ordered_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <ranges>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "support/every_entry.hpp"

namespace espalier {
namespace {

/// A key of two words.
struct two_words {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  two_words() = default;
  explicit two_words(std::uint64_t n) noexcept : high(n / 10), low(n % 10) {}
  friend auto operator<=>(const two_words&, const two_words&) = default;
};

template <class Key>
class ordered_set_of : public testing::Test {
 protected:
  [[nodiscard]] Key draw() {
    const std::uint64_t n = random_() % 3000;
    if constexpr (std::is_same_v<Key, std::string>)
      return std::to_string(n);
    else
      return static_cast<Key>(n);
  }
  void fill() {
    for (int i = 0; i < 2000; ++i) {
      const Key k = draw();
      EXPECT_EQ(set_.insert(k), expected_.insert(k).second);
    }
  }
  void expect_same() {
    EXPECT_EQ(set_.size(), expected_.size());
    EXPECT_EQ(set_.empty(), expected_.empty());
    std::vector<Key> seen;
    for (const Key& k : set_) seen.push_back(k);
    EXPECT_EQ(seen, std::vector<Key>(expected_.begin(), expected_.end()));
  }
  [[nodiscard]] std::optional<Key> key_at(typename std::set<Key>::const_iterator at) {
    return at == expected_.end() ? std::nullopt : std::optional<Key>(*at);
  }

  std::mt19937_64 random_{9};
  ordered_set<Key> set_;
  std::set<Key> expected_;
};

using keys = test::of_each<testing::Types<std::int32_t, std::string, two_words>,
                           testing::Types<std::uint64_t, double>>;
TYPED_TEST_SUITE(ordered_set_of, keys);

TYPED_TEST(ordered_set_of, one_key) {
  EXPECT_TRUE(this->set_.empty());
  EXPECT_EQ(this->set_.first(), std::nullopt);
  this->fill();
  auto guard = this->set_.pin();
  for (int i = 0; i < 1000; ++i) {
    const TypeParam k = this->draw();
    EXPECT_EQ(this->set_.contains(k), this->expected_.contains(k));
    EXPECT_EQ(this->set_.contains(guard, k), this->expected_.contains(k));
    EXPECT_EQ(this->set_.count(k), this->expected_.count(k));
    EXPECT_EQ(this->set_.lower_bound(k), this->key_at(this->expected_.lower_bound(k)));
    EXPECT_EQ(this->set_.upper_bound(guard, k), this->key_at(this->expected_.upper_bound(k)));
    const TypeParam other = this->draw();
    EXPECT_EQ(this->set_.erase(other), this->expected_.erase(other) == 1);
  }
  EXPECT_EQ(this->set_.first(), *this->expected_.begin());
  EXPECT_EQ(this->set_.last(), *this->expected_.rbegin());
  const ordered_set<TypeParam> same(this->expected_.begin(), this->expected_.end());
  EXPECT_TRUE(this->set_ == same);
  EXPECT_EQ(this->set_.pop_first(), *this->expected_.begin());
  EXPECT_FALSE(this->set_ == same);
  EXPECT_EQ(this->set_.pop_last(), *this->expected_.rbegin());
  this->expected_.erase(this->expected_.begin());
  this->expected_.erase(std::prev(this->expected_.end()));
  this->expect_same();
}

TYPED_TEST(ordered_set_of, scans) {
  this->fill();
  for (int i = 0; i < 50; ++i) {
    const TypeParam from = this->draw();
    const TypeParam to = this->draw();
    std::vector<TypeParam> seen;
    const auto note = [&](const TypeParam& k) { seen.push_back(k); };
    const std::size_t in_range = this->set_.scan(from, to, note);
    EXPECT_EQ(in_range, seen.size());
    EXPECT_EQ(seen, from < to ? std::vector<TypeParam>(this->expected_.lower_bound(from),
                                                       this->expected_.lower_bound(to))
                              : std::vector<TypeParam>());
    seen.clear();
    const std::size_t down = this->set_.reverse_scan(from, note);
    EXPECT_EQ(down, seen.size());
    EXPECT_EQ(seen, std::vector<TypeParam>(std::make_reverse_iterator(this->expected_.upper_bound(from)),
                                           this->expected_.rend()));
    std::size_t visits = 0;
    EXPECT_LE(this->set_.scan(from, [&](const TypeParam&) { return ++visits < 3; }), 3U);
  }
}

TYPED_TEST(ordered_set_of, loops_and_cursors) {
  this->fill();
  EXPECT_TRUE(std::ranges::equal(this->set_.rbegin(), this->set_.rend(), this->expected_.rbegin(),
                                 this->expected_.rend()));
  for (int i = 0; i < 50; ++i) {
    const TypeParam from = this->draw();
    const TypeParam to = this->draw();
    const auto first = this->expected_.lower_bound(from);
    const auto end = from < to ? this->expected_.lower_bound(to) : first;
    EXPECT_TRUE(std::ranges::equal(this->set_.range(from, to), std::ranges::subrange(first, end)));
    EXPECT_TRUE(
        std::ranges::equal(this->set_.range(from), std::ranges::subrange(first, this->expected_.end())));

    typename ordered_set<TypeParam>::cursor at(this->set_);
    EXPECT_FALSE(at);
    at.seek(from);
    EXPECT_EQ(at ? std::optional(at.key()) : std::nullopt, this->key_at(first));
    if (!at.valid()) continue;
    at.previous();
    EXPECT_EQ(at.valid(), first != this->expected_.begin());
    if (at) {
      EXPECT_EQ(at.key(), *std::prev(first));
      at.next();
      EXPECT_EQ(at.key(), *first);
    }
    at.seek_last();
    EXPECT_EQ(at.key(), *this->expected_.rbegin());
    at.seek_first();
    EXPECT_EQ(at.key(), *this->expected_.begin());
  }
}

TYPED_TEST(ordered_set_of, many_keys) {
  std::vector<TypeParam> some;
  for (int i = 0; i < 100; ++i) some.push_back(this->draw());
  std::size_t fresh = 0;
  for (const auto& k : some) fresh += this->expected_.insert(k).second ? 1 : 0;
  EXPECT_EQ(this->set_.insert_batch(some), fresh);
  this->expect_same();

  this->fill();
  using element = typename ordered_set<TypeParam>::key_element;
  const std::vector<element> views(some.begin(), some.end());
  std::array<bool, 100> found{};
  EXPECT_EQ(this->set_.contains_batch(views, found), 100U);
  EXPECT_THROW(this->set_.contains_batch(views, std::span(found).first(99)), std::invalid_argument);
  std::size_t gone = 0;
  for (const auto& k : some) gone += this->expected_.erase(k);
  EXPECT_EQ(this->set_.erase_batch(views), gone);
  EXPECT_EQ(this->set_.contains_batch(views, found), 0U);
  this->expect_same();

  const TypeParam first = *std::next(this->expected_.begin(), 100);
  const TypeParam last = *std::next(this->expected_.begin(), 300);
  this->expected_.erase(this->expected_.find(first), this->expected_.find(last));
  EXPECT_EQ(this->set_.erase(first, last), 200U);
  this->expect_same();
  const auto before = [&](const TypeParam& k) { return k < last; };
  EXPECT_EQ(this->set_.erase_if(before), std::erase_if(this->expected_, before));
  this->expect_same();
  this->set_.clear();
  EXPECT_TRUE(this->set_.empty());
}

TEST(ordered_set, of_strings_finds_prefixes) {
  ordered_set<std::string> set{"", "a", "ab", "abc", "b"};
  std::vector<std::string> seen;
  const auto note = [&](const std::string& k) { seen.push_back(k); };
  auto guard = set.pin();
  EXPECT_EQ(set.scan_prefix("ab", note), 2U);
  EXPECT_EQ(set.scan_prefix(guard, "ab", note), 2U);
  EXPECT_EQ(set.reverse_scan_prefix("ab", note), 2U);
  EXPECT_EQ(set.reverse_scan_prefix(guard, "ab", note), 2U);
  for (const std::string& k : set.range_of_prefix("ab")) note(k);
  EXPECT_EQ(seen,
            (std::vector<std::string>{"ab", "abc", "ab", "abc", "abc", "ab", "abc", "ab", "ab", "abc"}));
  EXPECT_EQ(set.longest_match("abd"), "ab");
  EXPECT_EQ(set.longest_match(guard, "c"), "");
  EXPECT_EQ(set.erase_prefix("a"), 3U);
  EXPECT_TRUE(set == (ordered_set<std::string>{"", "b"}));
}

TEST(ordered_set, is_made_of_keys_and_copied_by_name) {
  const ordered_set<std::string> few{"b", "a", "b"};
  EXPECT_EQ(few.first(), "a");
  EXPECT_EQ(few.size(), 2U);
  const ordered_set<int, std::greater<>> down({3, 1, 2}, std::greater<>());
  EXPECT_EQ(down.first(), 3);
  static_assert(!std::is_copy_constructible_v<ordered_set<int>> &&
                !std::is_copy_assignable_v<ordered_set<int>>);
  static_assert(std::is_nothrow_move_constructible_v<ordered_set<int>> &&
                std::is_nothrow_move_assignable_v<ordered_set<int>>);
  auto same = few.copy();
  EXPECT_TRUE(same == few);
  same.insert("c");
  EXPECT_FALSE(few.contains("c"));
}

}  // namespace
}  // namespace espalier
