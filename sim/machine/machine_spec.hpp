#pragma once

// The specification of a simulated machine: a plain description, without behaviour. Also the order in which the
// threads of a program occupy its hardware threads.

#include <cstdint>
#include <optional>
#include <vector>

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
  /// A last-level hit on a line that a core of the socket holds exclusively, unmodified: that core must be asked.
  unsigned llc_snoop = 0;
  /// From another core of the socket, and from a modified copy in another socket.
  unsigned local_transfer = 0;
  unsigned remote_transfer = 0;
  /// From an unmodified copy in another socket.
  unsigned remote_clean = 0;
  unsigned local_dram = 0;
  unsigned remote_dram = 0;
  /// Makes a shared line writable: with copies in this socket only, and with copies in other sockets too.
  unsigned local_invalidation = 0;
  unsigned remote_invalidation = 0;
  /// The cost of a plain store for its thread while the store buffer has room.
  unsigned store = 1;
  /// An atomic read-modify-write of a line that is in the L1 and writable, and a fence with an empty store buffer.
  unsigned atomic = 0;
  unsigned fence = 0;
  /// Added to an access with a page that is not in the L1 TLB, and to one with a page that is in no TLB.
  unsigned l2_tlb = 0;
  unsigned page_walk = 0;
  /// How long one line occupies the memory channels of its NUMA node; 0 if bandwidth is not modelled.
  unsigned dram_occupancy = 0;
  /// How long one line occupies what leads from one socket to another, in one direction; 0 likewise.
  unsigned link_occupancy = 0;
  bool operator==(const latency_spec&) const = default;
};

/// The limits of a hardware transaction, on every machine: written lines must fit the ways of each set, as in the L1.
/// On a simulated machine they must also stay in the L1, which replaces them like any others.
struct transactional_spec {
  unsigned write_sets = 0;
  unsigned write_ways = 0;
  std::uint64_t read_set_lines = 0;
  /// The L1 prefers to evict lines that no transaction has written, and evicts none that a transaction has written
  /// while they fit. Each of the hardware threads that share an L1 then has all ways.
  bool keeps_written = false;
  /// A commit waits until the core has every line that the transaction has written.
  bool commit_waits = true;
  /// A request for a line ends another core's transaction when it reaches that core, and not when it is made.
  bool requests_travel = true;
  bool operator==(const transactional_spec&) const = default;
};

/// Sockets are numbered from 0, cores through all sockets, hardware threads through all cores: thread t runs on core t
/// / threads_per_core. A socket is one last-level cache with one NUMA node of the same number. Caches replace the least
/// recently used line first; l1_tree_ways changes this for the L1. The prefetcher of adjacent lines fetches them into
/// the L2.
struct machine_spec : hw::cache_geometry {
  unsigned sockets = 1;
  unsigned cores_per_socket = 1;
  unsigned threads_per_core = 1;
  unsigned cores_per_l2 = 1;
  double ghz = 1;
  bool llc_inclusive = true;
  /// The L1's ways form pseudo-LRU trees of this many ways; 1 is exact LRU order (pseudo_lru in sim/machine/cache.hpp).
  unsigned l1_tree_ways = 1;
  latency_spec latency{};
  unsigned store_buffer = 32;
  /// Whether lines queue for the links between sockets.
  bool links_queue = true;
  /// Whether modified lines that return to memory occupy links and memory channels, as lines that are fetched do.
  bool write_backs_queue = false;
  /// Loads that miss overlap: so many lines of one core may be on their way at once, and it goes on for so many accesses beyond
  /// the oldest of these loads. Its running threads share both. If not, a load that misses makes its thread wait.
  bool overlaps_loads = false;
  unsigned loads_in_flight = 10;
  unsigned window_accesses = 32;
  /// Factor for the cost of work that does not wait, for each thread of a core with two or more running threads.
  double smt_factor = 1;
  /// A thread that waits, for memory or in a loop, slows the other threads of its core no longer.
  bool waiting_frees_core = false;
  std::optional<transactional_spec> transactions{};

  unsigned cores() const noexcept { return sockets * cores_per_socket; }
  unsigned hardware_threads() const noexcept { return cores() * threads_per_core; }
  bool operator==(const machine_spec&) const = default;
};

/// The maximal numbers of sockets and of L2 caches; the directory has one bit for each.
inline constexpr unsigned max_sockets = 16;
inline constexpr unsigned max_private_caches = 128;

/// Throws std::invalid_argument that names the first invalid field.
void validate(const machine_spec& spec);

enum class pinning {
  /// One thread on each core of socket 0, then of socket 1 and so on; then the second threads of the cores in the same
  /// order. Uses the fewest sockets for any number of threads up to the number of cores.
  smt_last,
  /// All threads of core 0, then of core 1 and so on. Uses the fewest cores.
  compact,
  /// As smt_last, but alternating between the sockets: threads are spread evenly over them.
  scatter
};

/// Every hardware thread of the machine once.
std::vector<unsigned> thread_order(const machine_spec& spec, pinning order = pinning::smt_last);

}  // namespace espalier::sim
