#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/study_claims.hpp"

// The study "Getting to the Root of Concurrent Binary Search Tree Performance" (Arbel-Raviv, Brown and
// Morrison, USENIX ATC 2018) as data: what each of its figures measured, and what it found. How throughput is
// obtained is not known here, so that the study runs on this machine and on simulated ones alike.
//
// The paper's implementations took their nodes from jemalloc. Here a map's published and compact nodes are
// compared in the same placement, one arena for each kind of block, so that the node alone differs; figures
// about the allocator's part (3 and table 4) run in the shared heap.

namespace espalier::app::atc18 {

inline constexpr const char* study_name = "atc18";
inline constexpr const char* title = "Getting to the root of concurrent binary search tree performance";
inline constexpr const char* paper =
    "Arbel-Raviv, Brown and Morrison, Getting to the Root of Concurrent Binary Search Tree Performance, "
    "USENIX ATC 2018";

/// Lookups alone, of keys drawn uniformly, every second of which is present.
inline constexpr const char* mix = "100/0/0";

/// Ten implementations, in the order of the paper's table 1.
struct tree {
  const char* name;
  /// The entry with the node as published; null where the published node is the compact one.
  const char* published;
  /// The entry with the compact node in the placement of the published one.
  const char* compact;
};
[[nodiscard]] const std::vector<tree>& trees();

/// A map to be measured.
struct subject {
  std::string map;
  /// False: with the prefetcher of adjacent lines switched off, as only a simulation can.
  bool prefetching = true;

  /// What it is called in results.
  [[nodiscard]] std::string name() const { return prefetching ? map : map + " without prefetching"; }
};

struct figure {
  /// "figure-1": the name of its page too.
  std::string id;
  std::string title;
  /// What the paper shows there, in our words.
  std::string summary;
  /// Maps that are compared with each other, measured in turns; all of a group are in memory at once.
  std::vector<std::vector<subject>> groups;
  std::vector<std::uint64_t> keys;
  std::vector<claim> claims;
};
[[nodiscard]] const std::vector<figure>& figures();

}  // namespace espalier::app::atc18
