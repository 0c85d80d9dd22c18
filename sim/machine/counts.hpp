#pragma once

// The activity of a hardware thread of the simulated machine.

#include <array>
#include <cstdint>
#include <string_view>

namespace espalier::sim {

/// An access to bytes of two lines counts as two. Each is a read, a write or an atomic, and is served from
/// exactly one place, so that
///   accesses == reads + writes + atomics
///            == l1_hits + l2_hits + llc_hits + local_transfers + remote_transfers + local_dram + remote_dram.
struct counts {
  std::uint64_t accesses = 0;
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t atomics = 0;
  std::uint64_t fences = 0;

  std::uint64_t l1_hits = 0;
  std::uint64_t l2_hits = 0;
  std::uint64_t llc_hits = 0;
  /// From a private cache of another core of this socket, and from another socket's caches.
  std::uint64_t local_transfers = 0;
  std::uint64_t remote_transfers = 0;
  std::uint64_t local_dram = 0;
  std::uint64_t remote_dram = 0;

  /// Writes to a line that this core held, but not exclusively.
  std::uint64_t upgrades = 0;
  /// Messages of this thread's writes that destroyed copies: one for each other core of this socket that held the line,
  /// one for each other socket. The copy that supplied the line is not counted.
  std::uint64_t local_invalidations = 0;
  std::uint64_t remote_invalidations = 0;
  /// Copies that private caches lost because an inclusive last-level cache evicted the line.
  std::uint64_t back_invalidations = 0;
  std::uint64_t writebacks = 0;
  /// Lines fetched by the adjacent-line prefetcher; not counted as accesses.
  std::uint64_t prefetches = 0;

  /// Accesses that missed the L1 TLB; those of them that missed every TLB.
  std::uint64_t tlb_misses = 0;
  std::uint64_t page_walks = 0;

  /// Cycles spent waiting for a line or a memory channel that others used; part of the stall cycles.
  std::uint64_t queue_cycles = 0;
  /// Cycles beyond those of an L1 hit, of a buffered store or of an atomic in the L1; part of the cycles.
  std::uint64_t stall_cycles = 0;
  std::uint64_t cycles = 0;

  counts& operator+=(const counts& other) noexcept;
  counts& operator-=(const counts& other) noexcept;
  friend counts operator+(counts a, const counts& b) noexcept { return a += b; }
  friend counts operator-(counts a, const counts& b) noexcept { return a -= b; }
  bool operator==(const counts&) const = default;
};

struct counts_field {
  std::string_view name;
  std::uint64_t counts::* value;
};

/// Every field in order of declaration, for tables and result files.
inline constexpr std::array counts_fields{
    counts_field{"accesses", &counts::accesses},
    counts_field{"reads", &counts::reads},
    counts_field{"writes", &counts::writes},
    counts_field{"atomics", &counts::atomics},
    counts_field{"fences", &counts::fences},
    counts_field{"l1_hits", &counts::l1_hits},
    counts_field{"l2_hits", &counts::l2_hits},
    counts_field{"llc_hits", &counts::llc_hits},
    counts_field{"local_transfers", &counts::local_transfers},
    counts_field{"remote_transfers", &counts::remote_transfers},
    counts_field{"local_dram", &counts::local_dram},
    counts_field{"remote_dram", &counts::remote_dram},
    counts_field{"upgrades", &counts::upgrades},
    counts_field{"local_invalidations", &counts::local_invalidations},
    counts_field{"remote_invalidations", &counts::remote_invalidations},
    counts_field{"back_invalidations", &counts::back_invalidations},
    counts_field{"writebacks", &counts::writebacks},
    counts_field{"prefetches", &counts::prefetches},
    counts_field{"tlb_misses", &counts::tlb_misses},
    counts_field{"page_walks", &counts::page_walks},
    counts_field{"queue_cycles", &counts::queue_cycles},
    counts_field{"stall_cycles", &counts::stall_cycles},
    counts_field{"cycles", &counts::cycles},
};
static_assert(counts_fields.size() * sizeof(std::uint64_t) == sizeof(counts));

inline counts& counts::operator+=(const counts& other) noexcept {
  for (const counts_field& field : counts_fields) this->*field.value += other.*field.value;
  return *this;
}

inline counts& counts::operator-=(const counts& other) noexcept {
  for (const counts_field& field : counts_fields) this->*field.value -= other.*field.value;
  return *this;
}

}  // namespace espalier::sim
