#include "espalier/hw/cache_geometry.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace espalier::hw {
namespace {

constexpr tlb_shape haswell_tlb{
    .l1_small = {16, 4}, .l1_huge = {8, 4}, .l2 = {128, 8}, .l2_holds_huge = true};

std::optional<cache_shape> shape_of(const topology& machine, unsigned level) {
  const auto& caches = machine.caches();
  const auto found = std::ranges::find_if(caches, [&](const topology::cache& c) {
    return c.level == level && c.type != cache_type::instruction && c.bytes && *c.bytes >= cache_line_bytes;
  });
  if (found == caches.end()) return std::nullopt;
  const std::uint64_t lines = found->bytes.value_or(0) / cache_line_bytes;
  const std::uint64_t ways = std::min<std::uint64_t>(found->ways.value_or(16), lines);
  if (ways == 0) return std::nullopt;
  return cache_shape{static_cast<unsigned>(lines / ways), static_cast<unsigned>(ways)};
}

}  // namespace

std::span<const cache_geometry> cache_geometries() {
  static const std::array all{
      cache_geometry{"abu_dhabi",
                     "AMD Opteron 6376, one die of two (ATC'18)",
                     {64, 4},
                     {2048, 16},
                     {2048, 64},
                     false,
                     {.l1_small = {1, 64}, .l1_huge = {1, 64}, .l2 = {128, 8}, .l2_holds_huge = true}},
      cache_geometry{"haswell",
                     "Intel Xeon E7-4830 v3; the hash of its 12 slices is a model (ATC'18)",
                     {64, 8},
                     {512, 8},
                     {2048, 20, 12},
                     true,
                     haswell_tlb},
      cache_geometry{"e7_4850",
                     "Intel Xeon E7-4850; its L3 is taken to be 8 slices of 3 MiB (Middleware'19)",
                     {64, 8},
                     {512, 8},
                     {2048, 24, 8},
                     true,
                     {.l1_small = {16, 4}, .l1_huge = {8, 4}, .l2 = {128, 4}, .l2_holds_huge = false}},
      cache_geometry{"e5_2650_htm",
                     "Intel Xeon E5-2650 v3; the hash of its 10 slices is a model (PPoPP'17)",
                     {64, 8},
                     {512, 8},
                     {2048, 20, 10},
                     true,
                     haswell_tlb},
      cache_geometry{"i7_4770",
                     "Intel Core i7-4770 (malloc placement and TSX)",
                     {64, 8},
                     {512, 8},
                     {2048, 16, 4},
                     true,
                     haswell_tlb},
      cache_geometry{
          "emerald_rapids",
          "Intel Xeon of 2023 (Emerald Rapids), 8 cores' part of a socket; the L3 is taken to be 8 "
          "slices of 5 MiB with the hash of older ones, the prefetching and the ways of the TLBs are "
          "guesses",
          {64, 12},
          {2048, 16},
          {4096, 20, 8},
          true,
          {.l1_small = {16, 6}, .l1_huge = {8, 4}, .l2 = {128, 16}, .l2_holds_huge = true}}};
  return all;
}

const cache_geometry& cache_geometry_named(std::string_view name) {
  std::string known;
  for (const cache_geometry& g : cache_geometries()) {
    if (g.name == name) return g;
    known += (known.empty() ? "" : ", ") + g.name;
  }
  throw std::invalid_argument("no machine is called \"" + std::string(name) + "\": there are " + known);
}

cache_geometry cache_geometry_of(const topology& machine) {
  cache_geometry g;
  g.name = "this";
  g.description = "this machine (" + machine.summary() + ")";
  std::string guessed;
  const auto take = [&](unsigned level, const cache_shape& otherwise) {
    if (const auto shape = shape_of(machine, level)) return *shape;
    guessed += "L" + std::to_string(level) + ", ";
    return otherwise;
  };
  g.l1 = take(1, {64, 8});
  g.l2 = take(2, {1024, 8});
  g.llc = take(3, {2048, 16});
  g.adjacent_line_prefetch = true;
  g.tlb = {.l1_small = {16, 4}, .l1_huge = {8, 4}, .l2 = {128, 12}, .l2_holds_huge = true};
  g.description += "; " + guessed + "TLBs and prefetching are guesses, the last level is one slice";
  return g;
}

}  // namespace espalier::hw
