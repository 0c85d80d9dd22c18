#include "espalier/hw/vector_compare.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
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
  for (const vector_width width : {vector_width::avx2, vector_width::avx512})
    if (width <= widest_vectors()) all.push_back(width);
  return all;
}

void expect_as_one_by_one(const std::array<std::uint64_t, 64>& integers, std::uint64_t k) {
  std::uint64_t expected = 0;
  for (unsigned i = 0; i < 64; ++i) expected |= std::uint64_t{integers[i] <= k} << i;
  EXPECT_EQ(not_above(integers.data(), k), expected) << k;
}

TEST(vector_compare, finds_what_is_not_above) {
  constexpr std::uint64_t half = std::uint64_t{1} << 63U;
  std::mt19937_64 random(42);
  for (const vector_width width : widths()) {
    const using_vectors these(width);
    for (int round = 0; round < 1000; ++round) {
      alignas(64) std::array<std::uint64_t, 64> integers;
      for (std::uint64_t& i : integers) i = round % 2 == 0 ? random() : half + random() % 8 - 4;
      for (const std::uint64_t k : {std::uint64_t{0}, ~std::uint64_t{0}, half - 1, half, half + 1,
                                    integers[7], integers[40] - 1, std::uint64_t{random()}}) {
        expect_as_one_by_one(integers, k);
      }
    }
  }
}

TEST(vector_compare, leaves_what_the_caller_computes_with_vectors) {
  // Loops that the compiler may turn into vectors, around comparisons.
  for (const vector_width width : widths()) {
    const using_vectors these(width);
    alignas(64) std::array<std::uint64_t, 64> integers;
    std::array<double, 64> halves{};
    for (unsigned i = 0; i < 64; ++i) integers[i] = i;
    std::uint64_t sum = 0;
    for (unsigned round = 0; round < 64; ++round) {
      for (unsigned i = 0; i < 64; ++i) halves[i] += 0.5 * i;
      sum += ones(not_above(integers.data(), round));
    }
    EXPECT_EQ(sum, 64U * 65 / 2);
    for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(halves[i], 32.0 * i);
  }
}

TEST(vector_compare, counts_bits) {
  for (const vector_width width : {vector_width::none, widest_vectors()}) {
    const using_vectors these(width);
    EXPECT_EQ(ones(0), 0U);
    EXPECT_EQ(ones(~std::uint64_t{0}), 64U);
    EXPECT_EQ(ones(0x8000'0001'0000'0100U), 3U);
  }
}

}  // namespace
}  // namespace espalier::hw
