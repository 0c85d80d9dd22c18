#pragma once

// The set and the cache to which a line belongs: the shapes of this machine's caches, and of the machines in papers.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/topology.hpp"

namespace espalier::hw {

/// A set-associative cache of lines. `sets` are those of one slice; a line's slice is slice_of() its address.
struct cache_shape {
  unsigned sets = 0;
  unsigned ways = 0;
  unsigned slices = 1;

  [[nodiscard]] constexpr std::uint64_t all_sets() const noexcept { return std::uint64_t{sets} * slices; }
  [[nodiscard]] constexpr std::uint64_t lines() const noexcept { return all_sets() * ways; }
  [[nodiscard]] constexpr std::uint64_t bytes() const noexcept { return lines() * cache_line_bytes; }
  bool operator==(const cache_shape&) const = default;
};

/// Intel's last level has one slice for each core, or pair of cores, and spreads addresses over the slices by XOR of
/// address bits. The masks for 2, 4 and 8 slices are published measurements (Maurice et al., RAID 2015; Yarom et al.,
/// 2015). Other counts are a model: the masks choose within the power of two that divides the count, and the line
/// number modulo the odd rest chooses the rest.
inline constexpr std::array<std::uint64_t, 3> slice_masks{0x1b5f575440, 0x2eb5faa880, 0x3cccc93100};

/// The slice, from 0, of the line with this physical address; slices >= 1.
[[nodiscard]] constexpr unsigned slice_of(std::uint64_t address, unsigned slices) noexcept {
  if (slices == 1) return 0;
  unsigned slice = 0;
  unsigned rest = slices;
  for (unsigned bit = 0; bit < slice_masks.size() && rest % 2 == 0; ++bit, rest /= 2)
    slice |= static_cast<unsigned>(__builtin_parityll(address & slice_masks[bit])) << bit;
  if (rest == 1) return slice;
  return slice + (slices / rest) * static_cast<unsigned>((address / cache_line_bytes) % rest);
}

/// The set of an address among all_sets(), those of slice 0 first. The address is physical if the cache is indexed by
/// physical addresses, as all but the first level are. Within a page, and so in an L1 of 64 sets, it makes no
/// difference.
[[nodiscard]] constexpr std::uint64_t set_of(const cache_shape& cache, std::uint64_t address) noexcept {
  const std::uint64_t line = address / cache_line_bytes;
  // A mask where possible: a simulator would spend its time on divisions.
  const std::uint64_t set =
      (cache.sets & (cache.sets - 1)) == 0 ? line & (cache.sets - 1) : line % cache.sets;
  return set + std::uint64_t{slice_of(address, cache.slices)} * cache.sets;
}

/// The translation buffers of a core, as caches of pages. An array with 0 ways is absent.
struct tlb_shape {
  cache_shape l1_small;  // of ordinary pages
  cache_shape l1_huge;   // of 2 MiB pages
  cache_shape l2;
  bool l2_holds_huge = true;
  bool operator==(const tlb_shape&) const = default;
};

/// Where data is cached on its way to a core. l1 and l2 belong to one core, llc to one socket, or to the part of it
/// that shares a last level.
struct cache_geometry {
  std::string name;
  /// The machine in words, with the values that are guesses.
  std::string description;
  cache_shape l1;
  cache_shape l2;
  cache_shape llc;
  /// A miss in the L2 also brings the other line of the aligned 128 bytes.
  bool adjacent_line_prefetch = false;
  tlb_shape tlb;
  bool operator==(const cache_geometry&) const = default;
};

/// The machines of the papers, by name.
[[nodiscard]] std::span<const cache_geometry> cache_geometries();

/// Throws std::invalid_argument, which lists the names.
[[nodiscard]] const cache_geometry& cache_geometry_named(std::string_view name);

/// Named "this". Caches are as in the topology. A level that it does not describe is a guess, like the TLBs and the
/// prefetching, and the description says which. The last level is modelled as one slice: no topology says which hash
/// spreads lines over several slices, and a hash spreads them evenly where set bits do.
[[nodiscard]] cache_geometry cache_geometry_of(const topology& machine);

}  // namespace espalier::hw
