#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/bst/ext_lf.hpp"
#include "espalier/map/bst/global_lock_bst.hpp"
#include "espalier/map/bst/hand_over_hand_bst.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/map/studied/masstree.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/std_mutex.hpp"
#include "support/counted.hpp"
#include "support/every_entry.hpp"
#include "support/on_threads.hpp"

// Values with constructors and destructors: each copy is destroyed once, and one that throws changes nothing. The suites
// have such values in every map (support/codec.hpp), but do not count them.

namespace espalier {
namespace {

using test::counted;
using optional = std::optional<counted>;
using model = std::map<std::uint64_t, std::uint64_t>;

template <class Key>
Key key_of(std::uint64_t n) {
  if constexpr (std::is_same_v<Key, std::string>)
    return "a key of this test " + std::to_string(1000 + n);
  else
    return static_cast<Key>(n);
}

template <class Map>
void collect(Map& map) {
  if constexpr (requires { map.domain().collect(); }) map.domain().collect();
}

template <class Map>
class values : public testing::Test {
 protected:
  static constexpr std::uint64_t key_count = 60;

  void SetUp() override {
    counted::live = 0;
    counted::misuses = 0;
    counted::failing_copy = 0;
    fill();
  }
  void TearDown() override { drop(); }

  void drop() {
    map_.reset();
    EXPECT_EQ(counted::live, 0) << "values are destroyed too seldom, or too often";
    EXPECT_EQ(counted::misuses, 0);
  }
  /// Every second key is present.
  void fill() {
    drop();
    map_.emplace();
    expected_.clear();
    for (std::uint64_t k = 0; k < key_count; k += 2) {
      EXPECT_TRUE(map_->insert(key(k), counted(k)));
      expected_[k] = k;
    }
  }

  static auto key(std::uint64_t n) { return key_of<typename Map::key_type>(n); }

  [[nodiscard]] model contents() const {
    model found;
    for (std::uint64_t k = 0; k < key_count; ++k) {
      if (const optional v = map_->find(key(k))) found[k] = v->number();
    }
    return found;
  }
  /// The map has these entries, and there is no value and no block besides.
  void expect_same(const model& expected) {
    collect(*map_);
    EXPECT_EQ(counted::live, static_cast<std::int64_t>(expected.size()));
    EXPECT_EQ(counted::misuses, 0);
    std::size_t blocks = 0;
    map_->visit_nodes([&](const void*, std::size_t, memory_role) { ++blocks; });
    EXPECT_EQ(map_->usage().blocks, blocks);
    EXPECT_EQ(map_->check_invariants(), nullptr);
    EXPECT_EQ(map_->size(), expected.size());
    EXPECT_EQ(contents(), expected);
    model scanned;
    map_->scan(key(0), [&, at = expected.begin()](const auto&, const counted& v) mutable {
      scanned[at == expected.end() ? key_count : at++->first] = v.number();
    });
    EXPECT_EQ(scanned, expected);
  }

  struct operation {
    std::string_view name;
    std::function<void(Map&)> act;
    std::function<void(model&)> effect = [](model&) {};
    /// It changes several keys, each by itself.
    bool in_parts = false;
  };

  static std::vector<operation> operations() {
    const auto sets = [](std::uint64_t n) { return [n](model& m) { m[n] = 7; }; };
    const auto removes = [](std::uint64_t n) { return [n](model& m) { m.erase(n); }; };
    std::vector<operation> all{
        {"insert",
         [](Map& m) {
           const counted v(7);
           EXPECT_TRUE(m.insert(key(9), v));
         },
         sets(9)},
        {"insert of a value to move from", [](Map& m) { EXPECT_TRUE(m.insert(key(9), counted(7))); },
         sets(9)},
        {"insert of a present key", [](Map& m) { EXPECT_FALSE(m.insert(key(8), counted(7))); }},
        {"try_emplace", [](Map& m) { EXPECT_TRUE(m.try_emplace(key(9), 7U)); }, sets(9)},
        {"insert_or_assign",
         [](Map& m) {
           const counted v(7);
           EXPECT_TRUE(m.insert_or_assign(key(9), v));
         },
         sets(9)},
        {"insert_or_assign of a present key",
         [](Map& m) {
           const counted v(7);
           EXPECT_FALSE(m.insert_or_assign(key(8), v));
         },
         sets(8)},
        {"insert_or_assign of a value to move from",
         [](Map& m) { EXPECT_FALSE(m.insert_or_assign(key(8), counted(7))); }, sets(8)},
        {"erase", [](Map& m) { EXPECT_TRUE(m.erase(key(8))); }, removes(8)},
        {"find", [](Map& m) { EXPECT_EQ(m.find(key(8))->number(), 8U); }},
        {"find_batch",
         [](Map& m) {
           const std::vector keys{key(7), key(8)};
           const std::vector<std::remove_cvref_t<typename Map::key_view>> views(keys.begin(), keys.end());
           std::vector<optional> found;
           for (int i = 0; i < 2; ++i) found.emplace_back(std::in_place, 1U);
           EXPECT_EQ(m.find_batch(views, found), 1U);
           EXPECT_FALSE(found[0]);
           EXPECT_EQ(found[1]->number(), 8U);
         }},
        {"lower_bound", [](Map& m) { EXPECT_EQ(m.lower_bound(key(57))->value.number(), 58U); }},
        {"first", [](Map& m) { EXPECT_EQ(m.first()->value.number(), 0U); }},
        {"empty", [](Map& m) { EXPECT_FALSE(m.empty()); }},
        {"scan", [](Map& m) { EXPECT_EQ(m.scan(key(0), [](const auto&, counted) {}), key_count / 2); }},
        {"a loop",
         [](Map& m) {
           std::uint64_t sum = 0;
           for (const auto& [k, v] : m) sum += v.number();
           EXPECT_EQ(sum, (key_count / 2 - 1) * key_count / 2);
         }},
        {"insert_batch",
         [](Map& m) {
           std::vector<typename Map::value_type> entries;
           entries.reserve(8);
           for (std::uint64_t n = 1; n < 9; ++n) entries.push_back({key(n), counted(7)});
           EXPECT_EQ(m.insert_batch(entries), 4U);
         },
         [](model& m) { m.insert({{1, 7}, {3, 7}, {5, 7}, {7, 7}}); }, true},
        {"erase of a range", [](Map& m) { EXPECT_EQ(m.erase(key(19), key(29)), 5U); },
         [](model& m) { m.erase(m.find(20), m.find(30)); }, true},
        {"clear", [](Map& m) { m.clear(); }, [](model& m) { m.clear(); }, true}};
    if constexpr (Map::properties.bidirectional)
      all.push_back({"last", [](Map& m) { EXPECT_EQ(m.last()->value.number(), key_count - 2); }});
    if constexpr (Map::properties.exchanges) {
      const auto seven = [](const optional&) { return counted(7); };
      const auto nothing = [](const optional&) { return optional(); };
      const std::vector<operation> exchanges{
          {"exchange", [](Map& m) { EXPECT_FALSE(m.exchange(key(9), counted(7))); }, sets(9)},
          {"exchange of a present key",
           [](Map& m) { EXPECT_EQ(m.exchange(key(8), counted(7))->number(), 8U); }, sets(8)},
          {"extract", [](Map& m) { EXPECT_EQ(m.extract(key(8))->number(), 8U); }, removes(8)},
          {"extract of an absent key", [](Map& m) { EXPECT_FALSE(m.extract(key(9))); }},
          {"update", [=](Map& m) { EXPECT_FALSE(m.update(key(9), seven).before); }, sets(9)},
          {"update of a present key",
           [=](Map& m) { EXPECT_EQ(m.update(key(8), seven).before->number(), 8U); }, sets(8)},
          {"update to nothing", [=](Map& m) { EXPECT_EQ(m.update(key(8), nothing).before->number(), 8U); },
           removes(8)},
          {"erase_if",
           [](Map& m) {
             EXPECT_EQ(m.erase_if([](const auto&, const counted& v) { return v.number() < 20; }), 10U);
           },
           [](model& m) { m.erase(m.begin(), m.find(20)); }, true}};
      all.insert(all.end(), exchanges.begin(), exchanges.end());
    }
    return all;
  }

  std::optional<Map> map_;
  model expected_;
};

using maps = test::of_each<
    testing::Types<ordered_map<std::uint64_t, counted>, ordered_map<std::string, counted>,
                   locked_map<std::uint64_t, counted>, ext_lf<std::uint64_t, counted>>,
    testing::Types<masstree<std::uint64_t, counted>, hand_over_hand_bst<std::uint64_t, counted>>>;
TYPED_TEST_SUITE(values, maps);

TYPED_TEST(values, are_destroyed_once_and_nothing_changes_where_a_copy_throws) {
  std::map<std::string_view, std::uint64_t> failures;
  for (const auto& one : this->operations()) {
    SCOPED_TRACE(one.name);
    for (bool failed = true; failed;) {
      this->fill();
      const std::uint64_t nth = failures[one.name] + 1;
      SCOPED_TRACE("copy " + std::to_string(nth));
      counted::failing_copy = counted::copies + nth;
      try {
        one.act(*this->map_);
        failed = false;
      } catch (const counted::no_copy&) {
        failures[one.name] = nth;
      }
      counted::failing_copy = 0;
      model changed = this->expected_;
      one.effect(changed);
      model wanted = failed ? this->expected_ : changed;
      if (failed && one.in_parts) {
        wanted = this->contents();
        for (const auto& entry : this->expected_) {
          if (changed.contains(entry.first)) {
            EXPECT_TRUE(wanted.contains(entry.first));
          }
        }
        for (const auto& [k, v] : wanted) {
          EXPECT_EQ(v, changed.contains(k) ? changed[k] : this->expected_[k]);
        }
      }
      this->expect_same(wanted);
      if (this->HasFailure()) return;
    }
  }
  // Of the others some maps copy more often than others.
  EXPECT_EQ(failures["erase"], 0U);
  for (const std::string_view copies :
       {"insert", "insert_or_assign of a present key", "find", "find_batch", "first"}) {
    EXPECT_GE(failures[copies], 1U) << copies;
  }
  if constexpr (TypeParam::properties.exchanges) {
    EXPECT_GE(failures["exchange of a present key"], 2U);
    EXPECT_GE(failures["extract"], 1U);
  }
}

TYPED_TEST(values, are_those_of_std_map) {
  std::mt19937_64 random(11);
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::uint64_t k = random() % this->key_count;
    const bool present = this->expected_.contains(k);
    switch (random() % 4) {
      case 0:
        EXPECT_EQ(this->map_->insert(this->key(k), counted(i)), !present);
        this->expected_.emplace(k, i);
        break;
      case 1:
        EXPECT_EQ(this->map_->insert_or_assign(this->key(k), counted(i)), !present);
        this->expected_[k] = i;
        break;
      case 2:
        EXPECT_EQ(this->map_->erase(this->key(k)), present);
        this->expected_.erase(k);
        break;
      default:
        if constexpr (TypeParam::properties.exchanges) {
          const auto [before, after] = this->map_->update(this->key(k), [](const optional& v) {
            return v && v->number() % 3 == 0 ? optional() : optional(counted(v ? v->number() + 1 : 1));
          });
          ASSERT_EQ(before.has_value(), present);
          if (!present)
            this->expected_[k] = 1;
          else if (before->number() % 3 == 0)
            this->expected_.erase(k);
          else
            ++this->expected_[k];
          ASSERT_EQ(after.has_value(), this->expected_.contains(k));
          if (after) {
            ASSERT_EQ(after->number(), this->expected_[k]);
          }
        }
    }
    if (i % 500 == 0) this->expect_same(this->expected_);
  }
  this->expect_same(this->expected_);
}

template <class Map>
class values_in_threads : public testing::Test {};
using maps_in_threads =
    testing::Types<ordered_map<std::uint64_t, counted>, ordered_map<std::string, counted>>;
TYPED_TEST_SUITE(values_in_threads, maps_in_threads);

/// A value is a multiple of its key.
TYPED_TEST(values_in_threads, are_destroyed_once) {
  constexpr std::uint64_t keys = 97;
  constexpr int operations = 20'000;
  counted::live = 0;
  counted::misuses = 0;
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> thrown = 0;
  {
    TypeParam map;
    test::on_threads(4, [&](int t) {
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      const auto check = [&](std::uint64_t k, const optional& v) {
        if (v && v->number() % k != 0) ++wrong;
      };
      for (int i = 0; i < operations; ++i) {
        const std::uint64_t k = random() % keys + 1;
        const auto key = key_of<typename TypeParam::key_type>(k);
        const auto with = [&] { return counted(k * (random() % 1000)); };
        counted::failing_copy = random() % 8 == 0 ? counted::copies + random() % 2 + 1 : 0;
        try {
          switch (random() % 8) {
            case 0:
              map.insert(key, with());
              break;
            case 1:
              map.insert_or_assign(key, with());
              break;
            case 2:
              map.erase(key);
              break;
            case 3:
              check(k, map.exchange(key, with()));
              break;
            case 4:
              check(k, map.extract(key));
              break;
            case 5:
              check(k, map.update(key, [&](const optional& v) { return counted((v ? v->number() : 0) + k); })
                           .before);
              break;
            case 6:
              check(k, map.find(key));
              break;
            default:
              map.scan(key,
                       [n = 0](const auto&, counted v) mutable { return !v.is_moved_from() && ++n < 10; });
          }
        } catch (const counted::no_copy&) {
          ++thrown;
        }
      }
    });
    EXPECT_EQ(wrong, 0U);
    EXPECT_GT(thrown, 0U);
    collect(map);
    EXPECT_EQ(counted::live, static_cast<std::int64_t>(map.size()));
    EXPECT_EQ(map.check_invariants(), nullptr);
  }
  EXPECT_EQ(counted::live, 0);
  EXPECT_EQ(counted::misuses, 0);
}

TEST(copies_of_values, are_as_few_as_the_results_need) {
  ordered_map<std::uint64_t, counted> map;
  for (std::uint64_t k = 0; k < 100; ++k) map.insert(k, counted(k));
  const auto copies = [](const auto& act) {
    const std::uint64_t before = counted::copies;
    act();
    return counted::copies - before;
  };
  const counted value(1);
  const auto see = [](std::uint64_t, const counted&) {};
  auto guard = map.pin();
  EXPECT_EQ(copies([&] { map.insert(200, value); }), 1U);
  EXPECT_EQ(copies([&] { map.insert(200, value); }), 0U);
  EXPECT_EQ(copies([&] { map.insert_or_assign(200, value); }), 1U);
  EXPECT_EQ(copies([&] { map.insert_or_assign(200, counted(2)); }), 0U);
  EXPECT_EQ(copies([&] { map.try_emplace(300, 3U); }), 0U);
  EXPECT_EQ(copies([&] { map.exchange(200, value); }), 2U);
  EXPECT_EQ(copies([&] { static_cast<void>(map.find(200)); }), 1U);
  EXPECT_EQ(copies([&] { static_cast<void>(map.first()); }), 1U);
  EXPECT_EQ(copies([&] { map.extract(200); }), 1U);
  EXPECT_EQ(copies([&] { map.scan(0, see); }), 0U);
  EXPECT_EQ(copies([&] { map.reverse_scan(guard, 100, see); }), 0U);
  EXPECT_EQ(copies([&] { map.erase(50); }), 0U);
  EXPECT_EQ(copies([&] { EXPECT_EQ(map.erase(10, 90), 79U); }), 0U);
  EXPECT_EQ(copies([&] { map.clear(); }), 0U);
  EXPECT_EQ(copies([&] { static_cast<void>(map.empty()); }), 0U);
}

TEST(types_of_values, may_own_memory) {
  ordered_map<double, std::string> texts;
  texts.insert(1, std::string(100, 'a'));
  EXPECT_EQ(texts.exchange(1, std::string(100, 'b')), std::string(100, 'a'));
  EXPECT_EQ(texts.find(1), std::string(100, 'b'));
  for (int i = 0; i < 3; ++i) {
    texts.update(0.5, [&](std::optional<std::string> text) {
      return std::move(text).value_or(std::string(100, 'c')) + std::to_string(i);
    });
  }
  EXPECT_EQ(texts.find(0.5), std::string(100, 'c') + "012");

  std::weak_ptr<int> watched;
  {
    ordered_map<std::string, std::shared_ptr<int>> shared;
    auto owner = std::make_shared<int>(5);
    watched = owner;
    shared.insert("five", owner);
    owner.reset();
    EXPECT_EQ(**shared.find("five"), 5);
    EXPECT_EQ(watched.use_count(), 1);
  }
  EXPECT_TRUE(watched.expired());
}

TYPED_TEST(values, stay_with_the_caller_where_the_key_is_present) {
  counted mine(7);
  EXPECT_FALSE(this->map_->insert(this->key(8), std::move(mine)));
  EXPECT_FALSE(this->map_->try_emplace(this->key(8), std::move(mine)));
  auto guard = this->map_->pin();
  EXPECT_FALSE(this->map_->insert(guard, this->key(8), std::move(mine)));
  EXPECT_FALSE(this->map_->emplace(guard, this->key(8), std::move(mine)));
  EXPECT_FALSE(mine.is_moved_from());
  counted::copies = 0;
  EXPECT_TRUE(this->map_->insert(guard, this->key(9), std::move(mine)));
  if constexpr (std::is_same_v<TypeParam, ordered_map<std::uint64_t, counted>>) {
    EXPECT_EQ(counted::copies, 0U);
    EXPECT_TRUE(mine.is_moved_from());
  }
  std::uint64_t seen = 0;
  counted::copies = 0;
  EXPECT_TRUE(this->map_->find(guard, this->key(9), [&](const counted& v) { seen = v.number(); }));
  EXPECT_TRUE(this->map_->find(this->key(8), [&](const counted& v) { seen += v.number(); }));
  EXPECT_FALSE(this->map_->find(guard, this->key(11), [](const counted&) { FAIL(); }));
  EXPECT_EQ(seen, 15U);
  if constexpr (std::is_same_v<TypeParam, ordered_map<std::uint64_t, counted>>) {
    EXPECT_EQ(counted::copies, 0U);
  }
}

/// Its move is what an insert does between the search for the key and the change of the leaf.
struct meets_another {
  static inline std::function<void()> other;
  int number;
  explicit meets_another(int n) : number(n) {}
  meets_another(const meets_another&) = default;
  meets_another(meets_another&& from) noexcept : number(std::exchange(from.number, 0)) {
    if (const auto now = std::exchange(other, nullptr)) now();
  }
  ~meets_another() = default;
};

TEST(types_of_values, come_back_from_an_insert_that_met_another) {
  ordered_map<int, meets_another> map;
  meets_another mine(7);
  meets_another::other = [&] { map.insert(1, meets_another(8)); };
  EXPECT_FALSE(map.insert(1, std::move(mine)));
  EXPECT_EQ(mine.number, 7);
  EXPECT_EQ(map.find(1)->number, 8);
}

/// The optional has padding, whose bits a copy need not keep.
TEST(types_of_values, may_be_optional_themselves) {
  ordered_map<int, std::optional<int>> map;
  map.insert(1, std::nullopt);
  const auto [before, after] = map.update(1, [](const std::optional<std::optional<int>>& v) {
    EXPECT_TRUE(v.has_value());
    return std::optional(std::optional(5));
  });
  EXPECT_EQ(after, std::optional(std::optional(5)));
  ASSERT_TRUE(before.has_value());
  EXPECT_FALSE(before->has_value());
  EXPECT_FALSE(map.update(2, same_value{}).before.has_value());
  EXPECT_EQ(map.size(), 1U);
}

struct huge_value {
  std::array<std::uint64_t, 4096> words;
};

TEST(large_values, are_copied_whole) {
  hand_over_hand_bst<int, huge_value, map_traits::with_lock<std_mutex>> coupled;
  global_lock_bst<int, huge_value> global;
  locked_map<int, huge_value> control;
  huge_value v{};
  for (int k = -3; k < 3; ++k) {
    v.words.back() = static_cast<std::uint64_t>(k) + 10;
    coupled.insert(k, v);
    global.insert(k, v);
    control.insert(k, v);
  }
  int visits = -3;
  const auto check = [&](int k, const huge_value& seen) {
    EXPECT_EQ(k, visits++);
    EXPECT_EQ(seen.words.back(), static_cast<std::uint64_t>(k) + 10);
  };
  coupled.scan(-3, check);
  visits = -3;
  global.scan(-3, check);
  visits = -3;
  control.scan(-3, check);
  EXPECT_EQ(visits, 3);
}

TEST(string_keys, iterators_own_their_batches) {
  locked_map<std::string, std::uint64_t> map;
  for (std::uint64_t v = 0; v < 200; ++v)
    map.insert("a key that is no small string, number " + std::to_string(1000 + v), v);
  auto at = map.begin();
  auto copy = ++at;
  for (std::uint64_t v = 1; v < 200; ++v, ++copy) ASSERT_EQ(copy->value, v);
  EXPECT_TRUE(copy == map.end());
  EXPECT_EQ(at->key, "a key that is no small string, number 1001");
  copy = at;
  EXPECT_EQ(copy->key, at->key);
  at = map.begin();
  EXPECT_EQ(copy->value, 1U);
}

}  // namespace
}  // namespace espalier
