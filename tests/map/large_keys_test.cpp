#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/measure/random.hpp"
#include "support/every_entry.hpp"
#include "support/on_threads.hpp"
#include "support/same_entries.hpp"

// ordered_map with keys of several words, whose comparator has a state and recognizes parts of two keys: keys of sizes
// and of nodes that the suites do not have.

namespace espalier {
namespace {

/// Each part can be computed from the first.
template <std::size_t Bytes>
struct key_of {
  std::array<std::uint32_t, Bytes / sizeof(std::uint32_t)> parts;

  [[nodiscard]] static key_of number(std::uint64_t n) noexcept {
    key_of k;
    for (std::size_t i = 0; i < k.parts.size(); ++i)
      k.parts[i] = static_cast<std::uint32_t>(n * (2 * i + 1) + i);
    return k;
  }
  friend bool operator==(const key_of&, const key_of&) = default;
};

/// Counts what it should never be called with.
struct recognizing_order {
  bool decreasing;
  std::atomic<std::size_t>* mixtures;

  template <class Key>
  bool operator()(const Key& a, const Key& b) const noexcept {
    if (a != Key::number(a.parts[0]) || b != Key::number(b.parts[0])) mixtures->fetch_add(1);
    return decreasing ? b.parts[0] < a.parts[0] : a.parts[0] < b.parts[0];
  }
};

/// The bytes of a key, and how many entries a node has at most.
template <std::size_t Bytes, unsigned Entries>
struct shape {
  using key = key_of<Bytes>;
  using map =
      typename ordered_map<key, std::uint64_t, map_traits, recognizing_order>::template with_fanout<Entries>;
};

template <class Shape>
class large_keys : public testing::Test {
 protected:
  using model = std::map<typename Shape::key, std::uint64_t, recognizing_order>;

  void TearDown() override { EXPECT_EQ(mixtures_, 0U) << "a comparator was called with parts of two keys"; }

  std::atomic<std::size_t> mixtures_{0};
};

using shapes = test::of_each<testing::Types<shape<12, 256>, shape<64, 4>>,
                             testing::Types<shape<16, 4>, shape<24, 256>, shape<64, 256>>>;
TYPED_TEST_SUITE(large_keys, shapes);

TYPED_TEST(large_keys, nodes_stay_small) {
  EXPECT_LE(TypeParam::map::node_bytes, 2048U);
  EXPECT_GE(TypeParam::map::node_entries, 4U);
}

template <class Model, class At>
auto entry_at(const Model& of, At at) {
  using entry = map_entry<typename Model::key_type, typename Model::mapped_type>;
  return at == of.end() ? std::nullopt : std::optional(entry{at->first, at->second});
}

TYPED_TEST(large_keys, are_as_in_std_map) {
  using key = typename TypeParam::key;
  constexpr std::uint64_t range = 2000;
  for (const bool decreasing : {false, true}) {
    const recognizing_order order{decreasing, &this->mixtures_};
    typename TypeParam::map map(order);
    typename TestFixture::model expected(order);
    measure::random_generator random(decreasing ? 1 : 2);
    const auto draw = [&] { return key::number(random.below(range)); };
    const auto value_of = [&](const key& k) {
      const auto at = expected.find(k);
      return at == expected.end() ? std::nullopt : std::optional(at->second);
    };
    // It grows, and then shrinks.
    for (const unsigned inserts : {6U, 2U}) {
      for (std::uint64_t i = 0; i < 10'000; ++i) {
        const key k = draw();
        const std::optional<std::uint64_t> before = value_of(k);
        switch (random.below(4) == 0        ? 8 + random.below(3)
                : random.below(8) < inserts ? random.below(3)
                                            : 3 + random.below(5)) {
          case 0:
            EXPECT_EQ(map.insert(k, i), expected.emplace(k, i).second);
            break;
          case 1:
            EXPECT_EQ(map.insert_or_assign(k, i), expected.insert_or_assign(k, i).second);
            break;
          case 2:
            EXPECT_EQ(map.exchange(k, i), before);
            expected.insert_or_assign(k, i);
            break;
          case 3:
            EXPECT_EQ(map.extract(k), before);
            expected.erase(k);
            break;
          case 4:
            EXPECT_EQ(map.update(k, [](auto v) { return v ? std::optional(*v + 1) : std::nullopt; }).before,
                      before);
            if (before) ++expected.find(k)->second;
            break;
          case 5:
          case 6:
          case 7:
            EXPECT_EQ(map.erase(k), expected.erase(k) == 1);
            break;
          case 8:
            EXPECT_EQ(map.find(k), before);
            EXPECT_EQ(map.contains(k), before.has_value());
            break;
          case 9:
            EXPECT_EQ(map.lower_bound(k), entry_at(expected, expected.lower_bound(k)));
            EXPECT_EQ(map.upper_bound(k), entry_at(expected, expected.upper_bound(k)));
            break;
          default: {
            std::vector<key> seen;
            std::vector<key> in_model;
            map.scan(k, [&](const key& at, std::uint64_t) {
              seen.push_back(at);
              return seen.size() < 40;
            });
            for (auto at = expected.lower_bound(k); at != expected.end() && in_model.size() < 40; ++at)
              in_model.push_back(at->first);
            EXPECT_EQ(seen, in_model);
            seen.clear();
            in_model.clear();
            map.reverse_scan(k, [&](const key& at, std::uint64_t) {
              seen.push_back(at);
              return seen.size() < 40;
            });
            for (auto at = std::make_reverse_iterator(expected.upper_bound(k));
                 at != expected.rend() && in_model.size() < 40; ++at)
              in_model.push_back(at->first);
            EXPECT_EQ(seen, in_model);
          }
        }
      }
      EXPECT_EQ(map.first(), entry_at(expected, expected.begin()));
      EXPECT_EQ(map.last(), entry_at(expected, std::prev(expected.end())));
      ASSERT_NO_FATAL_FAILURE(test::expect_same_entries(map, expected));
    }
    std::vector<key> all;
    for (const auto& [k, v] : expected) all.push_back(k);
    std::vector<std::optional<std::uint64_t>> found(all.size());
    EXPECT_EQ(map.find_batch(all, found), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(found[i], expected.at(all[i]));
    EXPECT_EQ(map.erase(all[all.size() / 4], all[all.size() / 2]), all.size() / 2 - all.size() / 4);
    EXPECT_EQ(map.erase_batch(all), all.size() - (all.size() / 2 - all.size() / 4));
    EXPECT_TRUE(map.empty());
  }
}

/// Each thread changes its own keys, of which it knows which are there, and reads those of the others.
TYPED_TEST(large_keys, are_whole_beside_writers) {
  using key = typename TypeParam::key;
  constexpr int threads = 4;
  constexpr std::uint64_t keys = 48;
  // In the long form as many as show a comparison without validation in most runs; under a sanitizer fewer do.
  constexpr int steps = test::every_entry ? 50'000 : 5'000;
  const recognizing_order order{false, &this->mixtures_};
  typename TypeParam::map map(order);
  test::on_threads(threads, [&](int t) {
    measure::random_generator random(1, static_cast<std::uint64_t>(t));
    std::array<bool, keys> present{};
    for (int i = 0; i < steps; ++i) {
      const std::uint64_t drawn = random.below(keys);
      const std::uint64_t own = drawn - drawn % threads + static_cast<std::uint64_t>(t);
      // Mostly inserts, then mostly erases: leaves are split and merged all the time.
      if (random.below(8) < (i / 500 % 2 == 0 ? 6U : 2U)) {
        EXPECT_EQ(map.insert_or_assign(key::number(own), own), !present[own]);
        present[own] = true;
      } else {
        EXPECT_EQ(map.erase(key::number(own)), present[own]);
        present[own] = false;
      }
      EXPECT_EQ(map.find(key::number(drawn)).value_or(drawn), drawn);
      if (i % 16 != 0) continue;
      std::uint64_t last = drawn;
      map.scan(key::number(drawn + 1), key::number(drawn + 20), [&](const key& k, std::uint64_t v) {
        EXPECT_EQ(k, key::number(v));
        EXPECT_GT(v, std::exchange(last, v));
      });
      last = drawn + 1;
      map.reverse_scan(key::number(drawn), [&](const key& k, std::uint64_t v) {
        EXPECT_EQ(k, key::number(v));
        EXPECT_LT(v, std::exchange(last, v));
      });
    }
    for (std::uint64_t k = static_cast<std::uint64_t>(t); k < keys; k += threads)
      EXPECT_EQ(map.contains(key::number(k)), present[k]);
  });
  EXPECT_EQ(map.check_invariants(), nullptr);
}

/// Throws at the call that is chosen.
struct throwing_order {
  struct thrown {};
  static inline std::uint64_t calls = 0;
  static inline std::uint64_t last = ~std::uint64_t{0};
  bool operator()(const std::array<char, 12>& a, const std::array<char, 12>& b) const {
    if (++calls == last) throw thrown();
    return a < b;
  }
};

TEST(an_order_that_throws, leaves_the_map_as_it_was) {
  using map_type = ordered_map<std::array<char, 12>, std::uint64_t, throwing_order>::with_fanout<4>;
  const auto key = [](std::uint64_t n) {
    std::array<char, 12> k{};
    std::to_chars(k.data(), k.data() + k.size(), 1000 + n);
    return k;
  };
  map_type map;
  std::map<std::array<char, 12>, std::uint64_t> expected;
  measure::random_generator random(5);
  std::uint64_t thrown = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const auto k = key(random.below(300));
    throwing_order::last = throwing_order::calls + 1 + random.below(40);
    const bool inserts = random.below(i / 5000 % 2 == 0 ? 4 : 2) != 0;  // it grows, and shrinks
    const bool was_present = expected.contains(k);
    bool done = false;
    try {
      done = inserts ? map.insert(k, i) : map.erase(k);
      ASSERT_EQ(done, inserts != was_present);
    } catch (const throwing_order::thrown&) {
      ++thrown;
    }
    throwing_order::last = ~std::uint64_t{0};
    if (done && inserts) expected.emplace(k, i);
    if (done && !inserts) expected.erase(k);
    ASSERT_EQ(map.contains(k), expected.contains(k));
    if (i % 1000 == 0) {
      ASSERT_EQ(map.check_invariants(), nullptr);
    }
  }
  test::expect_same_entries(map, expected);
  EXPECT_GT(thrown, 1000U);
}

}  // namespace
}  // namespace espalier
