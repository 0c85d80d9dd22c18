#pragma once

// What the simulated machine is made of: a plain description, without behaviour.

#include <cstdint>
#include <optional>

#include "espalier/hw/cache_geometry.hpp"

namespace espalier::sim {

inline constexpr unsigned line_bytes = 64;
inline constexpr unsigned page_bytes = 4096;
inline constexpr unsigned huge_page_bytes = 2u << 20;

/// Cycles of the core from issue to completion, in full: a last-level hit takes `llc`, not l1 + l2 + llc.
struct latency_spec {
  unsigned l1 = 0;
  unsigned l2 = 0;
  unsigned llc = 0;
  /// A last-level hit on a line that a core of the socket holds exclusively, unmodified: it must be asked.
  unsigned llc_snoop = 0;
  /// From another core of the socket, and from a modified copy in another socket.
  unsigned local_transfer = 0;
  unsigned remote_transfer = 0;
  /// From an unmodified copy in another socket.
  unsigned remote_clean = 0;
  unsigned local_dram = 0;
  unsigned remote_dram = 0;
  /// Making a shared line writable, where copies lie in this socket alone, and where in others too.
  unsigned local_invalidation = 0;
  unsigned remote_invalidation = 0;
  /// What a plain store costs its thread while the store buffer has room.
  unsigned store = 1;
  /// An atomic read-modify-write of a line that is in the L1 and writable, and a fence with nothing to drain.
  unsigned atomic = 0;
  unsigned fence = 0;
  /// Added to an access whose page is not in the L1 TLB, and to one whose page is in no TLB.
  unsigned l2_tlb = 0;
  unsigned page_walk = 0;
  /// How long one line occupies the memory channels of its NUMA node; 0 where bandwidth is not modelled.
  unsigned dram_occupancy = 0;
  bool operator==(const latency_spec&) const = default;
};

/// What bounds a hardware transaction wherever it runs: written lines must fit the ways of each set, as in the L1. On
/// a simulated machine they must stay in the L1 besides, which replaces them as any others.
struct transactional_spec {
  unsigned write_sets = 0;
  unsigned write_ways = 0;
  std::uint64_t read_set_lines = 0;
  /// The L1 does not replace them as any others: lines that no transaction has written make room, and none that one has
  /// written is lost while they fit. Of hardware threads that share an L1 each has all ways then.
  bool keeps_written = false;
  bool operator==(const transactional_spec&) const = default;
};

/// Sockets are numbered from 0, cores through all sockets, hardware threads through all cores: thread t runs
/// on core t / threads_per_core. A socket is one last-level cache with one NUMA node of the same number. Caches
/// replace least recently used lines first, but for the L1 where l1_tree_ways says otherwise; the prefetcher of
/// adjacent lines brings those into the L2.
struct machine_spec : hw::cache_geometry {
  unsigned sockets = 1;
  unsigned cores_per_socket = 1;
  unsigned threads_per_core = 1;
  unsigned cores_per_l2 = 1;
  double ghz = 1;
  bool llc_inclusive = true;
  /// The L1's ways stand in pseudo-LRU trees of so many; 1 is exact LRU order (sim/machine/pseudo_lru.hpp).
  unsigned l1_tree_ways = 1;
  latency_spec latency{};
  unsigned store_buffer = 32;
  /// The cost of work that does not wait, for each thread of a core with two or more at work.
  double smt_factor = 1;
  std::optional<transactional_spec> transactions{};

  unsigned cores() const noexcept { return sockets * cores_per_socket; }
  unsigned hardware_threads() const noexcept { return cores() * threads_per_core; }
  bool operator==(const machine_spec&) const = default;
};

/// Most sockets and most L2 caches of a machine; the directory has one bit for each.
inline constexpr unsigned max_sockets = 16;
inline constexpr unsigned max_private_caches = 128;

/// Throws std::invalid_argument naming the first field that no machine can have.
void validate(const machine_spec& spec);

}  // namespace espalier::sim
