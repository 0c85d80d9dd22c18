#pragma once

// Analyses how the addresses of blocks use caches and translation buffers, by type. It answers the three questions of
// ATC 2018, section 6: size classes; which types lie close to one another; how each is spread over the sets of the
// caches. It also answers those that sections 3.2 and 4.3 answer by hand: lines crossed, children beside their parents,
// pages scattered, false sharing.
//
// Counts are of blocks unless the name says otherwise. Shares are fractions. A share of nothing is nullopt, and so is
// what the snapshot does not know.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/hw/cache_geometry.hpp"
#include "espalier/inspect/page_map.hpp"
#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

[[nodiscard]] constexpr std::optional<double> share(std::uint64_t part, std::uint64_t whole) noexcept {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

struct frequency {
  std::uint64_t value = 0;
  std::uint64_t count = 0;
  bool operator==(const frequency&) const = default;
};

/// The most frequent values, most frequent first, equally frequent ones ascending.
struct frequencies {
  std::vector<frequency> most;
  std::uint64_t distinct = 0;
  std::uint64_t total = 0;

  /// The share of the first value.
  [[nodiscard]] std::optional<double> first_share() const;
};

/// How the lines of a type lie in one cache. If the type says what searches read, only those lines count. Otherwise
/// every line counts in which a block has bytes. A line counts once, however many blocks it holds.
struct set_use {
  /// True: by physical addresses. False: by virtual addresses.
  bool physical = false;
  std::uint64_t sets = 0;
  std::uint64_t lines = 0;
  std::uint64_t unused = 0;
  /// Sets with more lines than ways, more than 1.5 times the mean, and more than four standard deviations above it
  /// (Poisson distribution): too many for the cache, and not by chance.
  std::uint64_t overloaded = 0;
  std::uint64_t most_loaded = 0;

  /// Lines of neighbouring sets. There are at most 4096 cells of equally many sets (the last may have fewer), slice 0
  /// first. A cell also counts its unused sets, so that alternating ones show. Kept only for the types with the most
  /// bytes, see analysis_options.
  struct cell {
    std::uint64_t lines = 0;
    std::uint32_t unused = 0;
    std::uint32_t most = 0;
    bool operator==(const cell&) const = default;
  };
  std::uint64_t sets_per_cell = 0;
  std::vector<cell> cells;

  [[nodiscard]] double unused_share() const noexcept;
  [[nodiscard]] double overloaded_share() const noexcept;
  /// Whether there are enough lines that a good layout would use every set: twice as many lines as sets.
  [[nodiscard]] bool could_fill() const noexcept { return lines >= 2 * sets; }
};

enum class cache_level : std::uint8_t { l1, l2, llc };
inline constexpr std::array cache_levels{cache_level::l1, cache_level::l2, cache_level::llc};
[[nodiscard]] std::string_view to_string(cache_level level) noexcept;

struct cache_use {
  set_use by_virtual;
  /// Present if the frames of all of the type's pages are known.
  std::optional<set_use> by_physical;

  /// By the addresses with which the hardware indexes the cache: physical ones where they are known. In an L1 with
  /// ways no larger than a page the two agree.
  [[nodiscard]] const set_use& best() const noexcept { return by_physical ? *by_physical : by_virtual; }
};

/// How many blocks of a type have neighbours nearby.
struct proximity {
  std::uint64_t in_line = 0;
  /// In the aligned 128 bytes, which the adjacent-line prefetcher fetches together. Includes the same line.
  std::uint64_t in_pair = 0;
  /// In the page of 4 KiB. Includes the same pair.
  std::uint64_t in_page = 0;
  bool operator==(const proximity&) const = default;
};

/// The neighbours of one type. `type` may be the block's own type.
struct neighbour {
  type_index other = 0;
  proximity blocks;
};

/// Where the children of a type's blocks begin, counted from the line in which the parent begins. A parent counts once
/// in each column, however many such children it has.
struct child_use {
  type_index child = 0;
  /// Blocks with a pointer to a block of the child's type.
  std::uint64_t parents = 0;
  std::uint64_t in_line = 0;
  /// In the other line of the aligned 128 bytes.
  std::uint64_t in_pair = 0;
  /// In the line before or after, in the same pair or not. ATC 2018, figure 3: shifted nodes have children there, and
  /// the prefetcher does not help.
  std::uint64_t in_adjacent_line = 0;
  std::uint64_t in_page = 0;
};

struct page_use {
  /// Pages of 4 KiB in which the type has bytes.
  std::uint64_t pages = 0;
  /// The fewest pages that would hold the bytes held by the blocks.
  std::uint64_t fewest_pages = 0;
  /// Pages in which another type has bytes too.
  std::uint64_t mixed_pages = 0;
  /// Runs of consecutive page numbers.
  std::uint64_t runs = 0;
  std::uint64_t longest_run = 0;
  frequencies run_lengths;
  /// Distances between the first pages of successive runs.
  frequencies run_distances;
  /// Pages that are not part of huge ones, and huge pages (of 2 MiB).
  std::optional<std::uint64_t> small;
  std::optional<std::uint64_t> huge;
  /// Translations divided by the entries that the geometry has for them: in the first level (of small or of huge pages,
  /// whichever is worse) and in the second. Above 1 they do not fit. nullopt where the page sizes are not known, and
  /// where there are pages but no entries for them.
  std::optional<double> l1_tlb_load;
  std::optional<double> tlb_load;

  /// Pages divided by the fewest pages: 1 if they are full.
  [[nodiscard]] std::optional<double> scatter() const noexcept;
  /// Translations for all the pages.
  [[nodiscard]] std::optional<std::uint64_t> tlb_entries() const noexcept;
};

struct type_analysis {
  std::uint64_t blocks = 0;
  std::uint64_t bytes_asked = 0;
  std::uint64_t bytes_held = 0;
  frequencies size_classes;  // bytes held
  frequencies strides;       // from one block of the type to the next, in address order

  /// Blocks that lie in more lines than their size requires.
  std::uint64_t straddling = 0;
  /// Blocks with searched bytes in more lines than these bytes require.
  std::optional<std::uint64_t> searched_straddling;
  /// Share of visits by searches that touch more than one line, and the lines that a visit touches. Every block is
  /// visited equally often. Like searched_straddling, known only for types that say what searches read.
  std::optional<double> crossing;
  std::optional<double> lines_per_visit;

  /// By cache_level.
  std::array<cache_use, 3> caches;
  /// Ordered by blocks in the pair, most first.
  std::vector<neighbour> neighbours;
  /// Ordered by parents, most first. Empty if the snapshot does not know pointers.
  std::vector<child_use> children;
  /// Neighbours of any other type.
  proximity mixed;
  page_use pages;

  [[nodiscard]] const cache_use& cache(cache_level level) const noexcept {
    return caches[static_cast<std::size_t>(level)];
  }
};

/// A written type and a type beside it, where a write to the first disturbs the second. They share a line, or a pair of
/// lines if the geometry's prefetcher fetches pairs. `other` may be the type itself.
struct false_sharing {
  type_index written = 0;
  type_index other = 0;
  std::uint64_t blocks = 0;  // of the written type
};

struct analysis_options {
  /// For how many types cells are kept: those with the most bytes, and among equally large ones the first.
  std::size_t types_with_cells = 16;
  /// How many values a `frequencies` lists.
  std::size_t most_frequent = 8;
  page_map_options map;
};

struct analysis {
  hw::cache_geometry geometry;
  std::string subject;
  std::vector<fact> facts;
  std::vector<block_type> types;
  /// By type.
  std::vector<type_analysis> by_type;
  std::uint64_t blocks = 0;
  std::uint64_t bytes_asked = 0;
  std::uint64_t bytes_held = 0;
  /// Of all blocks together; mixed_pages are those with several types.
  page_use pages;
  page_map map;
  std::vector<false_sharing> shared_falsely;
  std::string frames_unknown;
  std::string huge_unknown;
  std::string links_unknown;
};

/// The snapshot must be valid. n log n in the blocks of a type, linear in pages and links; k * k in a line, pair or
/// page of k types. Uses, besides the snapshot, 4 bytes per block, 8 per block of the largest type, a count per set and
/// the map of pages.
[[nodiscard]] analysis analyze(const snapshot& s, const hw::cache_geometry& geometry,
                               const analysis_options& options = {});

}  // namespace espalier::inspect
