#include "espalier/workload/key_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "workload/chi_square.hpp"

namespace espalier::workload {
namespace {

using testing::chi_square;
using ::testing::HasSubstr;

constexpr std::uint64_t max64 = std::numeric_limits<std::uint64_t>::max();

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

class permutation_of_size : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(permutation_of_size, is_bijective_for_every_seed) {
  const auto size = GetParam();
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const permutation shuffled(size, seed);
    EXPECT_EQ(shuffled.size(), size);
    std::vector<bool> hit(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto image = shuffled(i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(hit[image]) << "twice " << image << " with seed " << seed;
      hit[image] = true;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(sizes, permutation_of_size,
                         ::testing::Values(1, 2, 3, 4, 5, 7, 8, 1000, 1024, 65535, 65536, 65537));

TEST(permutation, reaches_every_place_from_every_place) {
  // Over many seeds the image of each element of a small range is uniform.
  for (std::uint64_t element = 0; element < 7; ++element) {
    std::vector<std::uint64_t> seen(7);
    for (std::uint64_t seed = 0; seed < 7000; ++seed) ++seen.at(permutation(7, seed)(element));
    const auto fit = chi_square(seen, std::vector<double>(7, 1));
    EXPECT_TRUE(fit.accepted()) << "element " << element << ": " << fit;
  }
}

TEST(permutation, has_a_random_first_half) {
  const permutation shuffled(100'003, 5);
  std::vector<std::uint64_t> by_tenth(10);
  std::uint64_t rising = 0;
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    ++by_tenth.at(shuffled(i) / 10'001);
    if (shuffled(i) < shuffled(i + 1)) ++rising;
  }
  const auto fit = chi_square(by_tenth, std::vector<double>(10, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_NEAR(static_cast<double>(rising), 25'000, 500);  // 7 standard deviations of a random order
}

TEST(permutation, differs_by_seed_and_repeats) {
  const permutation one(1000, 1);
  const permutation again(1000, 1);
  const permutation two(1000, 2);
  std::uint64_t equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(one(i), again(i));
    if (one(i) == two(i)) ++equal;
  }
  EXPECT_LT(equal, 12U);  // 1 on average
}

TEST(permutation, covers_sizes_up_to_the_whole_word) {
  for (const std::uint64_t size : {std::uint64_t{1} << 32, (std::uint64_t{1} << 63) + 1, max64}) {
    const permutation shuffled(size, 9);
    std::unordered_set<std::uint64_t> images;
    std::uint64_t upper_half = 0;
    for (std::uint64_t i = 0; i < 4000; ++i) {
      const auto image = shuffled(i % 2 == 0 ? i : size - i);
      ASSERT_LT(image, size);
      images.insert(image);
      if (image >= size / 2) ++upper_half;
    }
    EXPECT_EQ(images.size(), 4000U);
    EXPECT_NEAR(static_cast<double>(upper_half), 2000, 200);
  }
}

TEST(permutation, refuses_no_elements) {
  EXPECT_THAT(refusal([] { permutation(0, 1); }), HasSubstr("at least 1"));
}

TEST(key_space, gives_the_index_itself_in_sequential_order) {
  const key_space keys(key_order::sequential, 10);
  EXPECT_EQ(keys.key(0), 0U);
  EXPECT_EQ(keys.key(9), 9U);
  EXPECT_EQ(keys.key(10), 10U);
  EXPECT_EQ(keys.size(), 10U);
}

TEST(key_space, scatters_scrambled_keys_over_the_whole_domain_without_repeats) {
  const key_space keys(key_order::scrambled, 100'000, 3);
  std::unordered_set<std::uint64_t> distinct;
  std::vector<std::uint64_t> by_sixteenth(16);
  for (std::uint64_t i = 0; i < keys.size(); ++i) {
    distinct.insert(keys.key(i));
    ++by_sixteenth.at(keys.key(i) >> 60);
  }
  EXPECT_EQ(distinct.size(), 100'000U);
  const auto fit = chi_square(by_sixteenth, std::vector<double>(16, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_NE(keys.key(1), key_space(key_order::scrambled, 100'000, 4).key(1));
  EXPECT_EQ(keys.key(1), key_space(key_order::scrambled, 5, 3).key(1));
}

TEST(key_space, keeps_an_explicit_list_in_its_order) {
  const key_space keys({max64, 0, 17});
  EXPECT_EQ(keys.order(), key_order::explicit_list);
  EXPECT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys.key(0), max64);
  EXPECT_EQ(keys.key(1), 0U);
  EXPECT_EQ(keys.key(2), 17U);
}

TEST(key_space, refuses_what_is_no_injective_map) {
  EXPECT_THAT(refusal([] { key_space(key_order::sequential, 0); }), HasSubstr("at least 1"));
  EXPECT_THAT(refusal([] { key_space(key_order::explicit_list, 3); }), HasSubstr("from its keys"));
  EXPECT_THAT(refusal([] { key_space(std::vector<std::uint64_t>{}); }), HasSubstr("at least one key"));
  EXPECT_THAT(refusal([] { key_space(std::vector<std::uint64_t>{5, 6, 5}); }),
              HasSubstr("key 5 occurs more than once"));
}

TEST(key_order, round_trips_through_text) {
  for (const auto order : {key_order::sequential, key_order::scrambled}) {
    EXPECT_EQ(parse_key_order(to_string(order)), order);
  }
  EXPECT_EQ(to_string(key_order::explicit_list), "explicit");
  EXPECT_THAT(refusal([] { parse_key_order("random"); }), HasSubstr("expected sequential or scrambled"));
}

TEST(share_of, splits_without_gap_or_overlap) {
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{100}, max64}) {
    std::uint64_t next = 0;
    for (unsigned thread = 0; thread < 7; ++thread) {
      const auto share = share_of(total, thread, 7);
      EXPECT_EQ(share.begin, next);
      EXPECT_GE(share.end - share.begin, total / 7);
      EXPECT_LE(share.end - share.begin, total / 7 + 1);
      next = share.end;
    }
    EXPECT_EQ(next, total);
  }
  EXPECT_EQ(share_of(10, 1, 4), (index_range{2, 5}));
}

}  // namespace
}  // namespace espalier::workload
