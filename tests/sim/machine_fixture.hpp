#pragma once

// A machine so small that tests can say what every access must do. Every latency is another number.

#include "sim/machine/machine.hpp"

namespace espalier::sim {

/// 2 sockets x 2 cores. L1 8 lines, L2 32 lines, last level 128 lines; 4 + 2 pages in the L1 TLB, 8 in the L2.
inline machine_spec tiny_spec() {
  machine_spec m;
  m.name = "tiny";
  m.sockets = 2;
  m.cores_per_socket = 2;
  m.ghz = 1;
  m.l1 = {4, 2};
  m.l2 = {8, 4};
  m.llc = {16, 8};
  m.tlb = {.l1_small = {1, 4}, .l1_huge = {1, 2}, .l2 = {1, 8}, .l2_holds_huge = false};
  latency_spec& l = m.latency;
  l.l1 = 4;
  l.l2 = 10;
  l.llc = 40;
  l.llc_snoop = 60;
  l.local_transfer = 80;
  l.remote_transfer = 200;
  l.remote_clean = 150;
  l.local_dram = 180;
  l.remote_dram = 300;
  l.local_invalidation = 90;
  l.remote_invalidation = 210;
  l.store = 1;
  l.atomic = 20;
  l.fence = 30;
  l.l2_tlb = 0;
  l.page_walk = 0;
  m.store_buffer = 4;
  m.smt_factor = 1.5;
  return m;
}

inline constexpr std::uint64_t tiny_bytes = 64 * 1024;

/// The machine with a clock that gives every access all the time it needs, and so no queues.
class paced_machine {
 public:
  explicit paced_machine(const machine_spec& spec, std::uint64_t bytes = tiny_bytes) : m(spec, bytes) {}

  std::uint64_t access(unsigned thread, std::uint64_t line, touch kind) {
    now += 100'000;
    return m.access(thread, now, line * line_bytes, 8, kind);
  }
  std::uint64_t read(unsigned thread, std::uint64_t line) { return access(thread, line, touch::read); }
  std::uint64_t write(unsigned thread, std::uint64_t line) { return access(thread, line, touch::write); }

  /// Puts every page of the address space on one node.
  void place(unsigned node) { m.set_page(0, m.address_space_bytes(), {.huge = false, .numa_node = node}); }

  machine m;
  std::uint64_t now = 0;
};

}  // namespace espalier::sim
