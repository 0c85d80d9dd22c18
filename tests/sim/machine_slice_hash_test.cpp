#include "sim/machine/slice_hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "sim/machine/cache.hpp"
#include "sim/machine/presets.hpp"

namespace espalier::sim {
namespace {

/// Independent of the library: the parity of the address under a mask, bit by bit.
unsigned parity(std::uint64_t address, std::uint64_t mask) {
  unsigned ones = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    ones += static_cast<unsigned>(address >> bit & mask >> bit & 1);
  }
  return ones % 2;
}

TEST(machine_slice_hash, uses_the_published_masks) {
  EXPECT_EQ(slice_masks[0], 0x1b5f575440u);
  EXPECT_EQ(slice_masks[1], 0x2eb5faa880u);
  EXPECT_EQ(slice_masks[2], 0x3cccc93100u);
  std::uint64_t address = 1;
  for (int i = 0; i < 1000; ++i) {
    address = address * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t a = address >> 27;
    const unsigned b0 = parity(a, 0x1b5f575440);
    const unsigned b1 = parity(a, 0x2eb5faa880);
    const unsigned b2 = parity(a, 0x3cccc93100);
    ASSERT_EQ(slice_hash(a, 1), 0u);
    ASSERT_EQ(slice_hash(a, 2), b0);
    ASSERT_EQ(slice_hash(a, 4), b0 + 2 * b1);
    ASSERT_EQ(slice_hash(a, 8), b0 + 2 * b1 + 4 * b2);
    ASSERT_EQ(slice_hash(a, 12), b0 + 2 * b1 + 4 * (a / 64 % 3));
    ASSERT_EQ(slice_hash(a, 10), b0 + 2 * (a / 64 % 5));
    ASSERT_EQ(slice_hash(a, 3), a / 64 % 3);
  }
}

TEST(machine_slice_hash, single_bits) {
  EXPECT_EQ(slice_hash(0x40, 8), 1u);
  EXPECT_EQ(slice_hash(0x80, 8), 2u);
  EXPECT_EQ(slice_hash(0x100, 8), 4u);
  EXPECT_EQ(slice_hash(0x3f, 8), 0u);
  EXPECT_EQ(slice_hash(std::uint64_t{1} << 36, 8), 5u);
}

TEST(machine_slice_hash, spreads_consecutive_lines_evenly) {
  for (const unsigned slices : {2u, 4u, 8u, 10u, 12u}) {
    std::vector<unsigned> lines(slices, 0);
    constexpr unsigned total = 1u << 22;
    for (std::uint64_t line = 0; line < total; ++line) {
      ++lines[slice_hash(line * 64, slices)];
    }
    for (const unsigned n : lines) {
      EXPECT_NEAR(n, double(total) / slices, 0.02 * total / slices) << slices;
    }
  }
}

/// The share of a last-level cache's sets, in percent, that a million nodes at a stride leave unused.
double unused(const cache_spec& spec, std::uint64_t stride) {
  const cache c(spec);
  std::set<unsigned> used;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    used.insert(c.set_of(static_cast<std::uint32_t>(i * stride / 64)));
  }
  const double sets = double(spec.sets) * spec.slices;
  return 100 * (sets - double(used.size())) / sets;
}

TEST(machine_slice_hash, strides_on_the_haswell) {
  const cache_spec llc = preset("haswell").llc;
  EXPECT_NEAR(unused(llc, 64), 0, 1e-9);
  EXPECT_NEAR(unused(llc, 128), 50, 1e-9);
  EXPECT_NEAR(unused(llc, 192), 66.6667, 1e-4);
}

}  // namespace
}  // namespace espalier::sim
