#include "espalier/hw/vector_compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace espalier::hw {
namespace {

/// As long as one exists, comparisons use these vectors.
class using_vectors {
 public:
  explicit using_vectors(vector_width width) { detail::vectors_in_use = width; }
  using_vectors(const using_vectors&) = delete;
  using_vectors& operator=(const using_vectors&) = delete;
  ~using_vectors() { detail::vectors_in_use = widest_vectors(); }
};

std::vector<vector_width> widths() {
  std::vector<vector_width> all;
  for (const vector_width width : {vector_width::neon, vector_width::avx2, vector_width::avx512})
    if (has_vectors(width)) all.push_back(width);
  return all;
}

constexpr std::uint64_t half = std::uint64_t{1} << 63U;

TEST(vector_compare, counts_what_is_below) {
  using limits = std::numeric_limits<std::int64_t>;
  std::mt19937_64 random(42);
  for (const vector_width width : widths()) {
    const using_vectors these(width);
    for (int round = 0; round < 1000; ++round) {
      alignas(64) std::array<std::int64_t, 16> integers;
      for (std::int64_t& i : integers)
        i = round % 2 == 0 ? static_cast<std::int64_t>(random())
                           : static_cast<std::int64_t>(random() % 8) - 4;
      for (const std::int64_t k :
           {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, limits::min(), limits::max(), integers[7],
            integers[12], static_cast<std::int64_t>(random())}) {
        const auto expected = std::ranges::count_if(integers, [&](std::int64_t i) { return i < k; });
        EXPECT_EQ(count_below(integers.data(), k, width), expected) << k;
        EXPECT_EQ(count_below<3>(integers.data(), k, width), 3 * expected) << k;
        EXPECT_EQ(count_below<8>(integers.data(), k, width), 8 * expected) << k;
      }
    }
  }
}

TEST(vector_compare, finds_what_is_equal) {
  std::mt19937_64 random(42);
  for (const vector_width width : widths()) {
    const using_vectors these(width);
    for (int round = 0; round < 1000; ++round) {
      alignas(64) std::array<std::uint64_t, 8> integers;
      for (std::uint64_t& i : integers) i = half + random() % 4 - 2;
      for (std::uint64_t k = half - 3; k != half + 3; ++k) {
        unsigned expected = 0;
        for (unsigned i = 0; i < 8; ++i) expected |= unsigned{integers[i] == k} << i;
        EXPECT_EQ(equal_to(integers.data(), k, width), expected) << k;
        unsigned of_tags = 0;
        for (unsigned i = 0; i < 8; ++i) of_tags |= unsigned{integers[i] >> 48U == k >> 48U} << i;
        EXPECT_EQ(equal_highest(integers.data(), k >> 48U, width), of_tags) << k;
      }
    }
  }
}

TEST(vector_compare, gathers_pairs) {
  if (!gathers_pairs || !has_vectors(vector_width::avx512)) GTEST_SKIP() << "needs AVX-512";
  constexpr std::size_t lines = 5;
  struct alignas(64) line {
    std::array<std::array<std::uint64_t, 2>, 4> pairs;
  };
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::array<line, lines> all;
    std::array<std::uint64_t, lines> except;
    // Around the ends of all integers, too.
    const std::uint64_t base = round % 3 == 0 ? half : round % 3 == 1 ? ~std::uint64_t{0} : random();
    const auto some = [&] { return base + random() % 16 - 8; };
    for (line& l : all)
      for (auto& [a, b] : l.pairs) a = some(), b = some();
    for (std::uint64_t& e : except) e = some();
    const std::uint64_t first = some();
    const std::uint64_t range = round % 7 == 0 ? ~std::uint64_t{0} : random() % 10;
    std::vector<std::uint64_t> firsts;
    std::vector<std::uint64_t> numbers;
    for (std::size_t l = 0; l < lines; ++l) {
      for (std::size_t i = 0; i < 4; ++i) {
        const auto& [a, b] = all[l].pairs[i];
        if (a - first > range || a == except[l]) continue;
        firsts.push_back(a);
        numbers.push_back(4 * l + i);
      }
    }
    std::array<std::uint64_t, lines * 4 + 8> to;
    std::array<std::uint64_t, lines * 4 + 8> where;
    const gathered_pairs found = gather_pairs(&all, except, first, range, to.data(), where.data());
    ASSERT_EQ(found.count, firsts.size());
    EXPECT_TRUE(std::equal(firsts.begin(), firsts.end(), to.begin()));
    EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), where.begin()));
    if (firsts.empty()) continue;
    EXPECT_EQ(found.smallest, std::ranges::min(firsts));
    EXPECT_EQ(found.largest, std::ranges::max(firsts));
  }
}

TEST(vector_compare, leaves_what_the_caller_computes_with_vectors) {
  // Loops that the compiler may turn into vectors, around comparisons.
  for (const vector_width width : widths()) {
    const using_vectors these(width);
    alignas(64) std::array<std::int64_t, 16> integers;
    std::array<double, 64> halves{};
    for (unsigned i = 0; i < 16; ++i) integers[i] = i;
    std::size_t sum = 0;
    for (unsigned round = 0; round < 16; ++round) {
      for (unsigned i = 0; i < 64; ++i) halves[i] += 0.5 * i;
      sum += count_below(integers.data(), round, width);
      sum += equal_to(reinterpret_cast<const std::uint64_t*>(integers.data()), round, width) & 15U;
    }
    EXPECT_EQ(sum, 16U * 15 / 2 + 1 + 2 + 4 + 8);
    for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(halves[i], 8.0 * i);
  }
}

}  // namespace
}  // namespace espalier::hw
