#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/studies/study_claims.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/inspect/snapshot.hpp"

// The study "Getting to the Root of Concurrent Binary Search Tree Performance" (Arbel-Raviv, Brown and Morrison, USENIX
// ATC 2018) as data: what each of its figures measured, and what it found. This file is independent of how throughput
// is obtained, so that the study runs on this machine and on simulated ones alike.
//
// The paper's implementations took their nodes from jemalloc. Here a map's published and compact nodes are compared in
// the same placement, one arena for each kind of block, so that only the node differs. Figures about the allocator's
// part (3 and table 4) run in the shared heap.

namespace espalier::app::atc18 {

inline constexpr const char* study_name = "atc18";
inline constexpr const char* title = "Getting to the root of concurrent binary search tree performance";
inline constexpr const char* paper =
    "Arbel-Raviv, Brown and Morrison, Getting to the Root of Concurrent Binary Search Tree Performance, "
    "USENIX ATC 2018";

/// Only lookups, of keys drawn uniformly, half of which are present.
inline constexpr const char* lookups = "100/0/0";

/// What the threads do. The default is that of most figures.
struct load {
  std::string mix = lookups;
  /// Threads: all that there are, divided by this; one thread for 0.
  unsigned part = 1;

  [[nodiscard]] unsigned threads_of(unsigned all) const { return part == 0 ? 1 : std::max(1U, all / part); }
  /// A map's name in readings.
  [[nodiscard]] std::string name_of(const std::string& map) const;
};

/// A map to be measured.
struct subject {
  std::string map;
  /// False: with the adjacent-line prefetcher switched off, which only a simulation can do.
  bool prefetching = true;

  /// The name in results.
  [[nodiscard]] std::string name() const { return prefetching ? map : map + " without prefetching"; }
};

struct figure {
  /// "figure-1": also the name of its page.
  std::string id;
  std::string title;
  /// What the paper shows there, paraphrased.
  std::string summary;
  /// Maps that are compared with each other and measured in turns; all maps of a group are in memory at once.
  std::vector<std::vector<subject>> groups;
  std::vector<std::uint64_t> keys;
  std::vector<claim> claims;
  /// Those of one mix follow one another.
  std::vector<load> loads{load{}};
  /// Whether its claims are about where nodes lie.
  bool places = false;

  /// Its own numbers of keys, or only the requested one.
  [[nodiscard]] std::vector<std::uint64_t> keys_or(std::optional<std::uint64_t> only) const {
    return only ? std::vector<std::uint64_t>{*only} : keys;
  }
  /// "figure-2, 1,000,000 keys", the mix if there are several, and the machine if it is simulated.
  [[nodiscard]] std::string workload(std::uint64_t at, const std::string& of_mix,
                                     const std::string& machine = {}) const;
  /// Its mixes, each once, with its loads.
  [[nodiscard]] std::vector<std::pair<std::string, std::vector<load>>> mixes() const;
};
[[nodiscard]] const std::vector<figure>& figures();

/// Of a map's nodes. Physical addresses are used where the snapshot has them.
[[nodiscard]] node_places places_of(const inspect::snapshot& nodes, const hw::cache_geometry& caches);

}  // namespace espalier::app::atc18
