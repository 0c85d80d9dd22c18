#include "sim/machine/presets.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

// Geometry is that of the papers' machine tables and of the processors' data sheets. Latencies are published
// measurements of the same processor, or of a close relative where noted, in cycles of the preset's clock. Values
// marked "estimate" follow from their neighbours. Memory occupancy is 64 bytes divided by the peak bandwidth of a NUMA
// node's channels, or by what was measured. Atomic, fence and TLB costs follow Agner Fog's instruction tables and microarchitecture guide,
// rounded.
//
//   [7cpu]   7-cpu.com, pages Haswell and Westmere
//   [sosp13] David, Guerraoui, Trigonakis: Everything You Always Wanted to Know About Synchronization but Were
//            Afraid to Ask, SOSP 2013, tables 2 and 3 (Opteron 6172 at 2.1 GHz, Xeon E7-8867L at 2.13 GHz)
//   [icpp15] Molka, Hackenberg, Schoene, Nagel: Cache Coherence Protocol and Memory Performance of the Intel
//            Haswell-EP Architecture, ICPP 2015 (Xeon E5-2680 v3 at 2.5 GHz, times in ns)
//   [mlc]    Intel: Memory Latencies on Intel Xeon Processor E5-4600 and E7-4800 product families, 2014
//   [at3648] AnandTech 3648: Xeon 7500 and Dell's R810 (2010), two X7560 with the memory of the E7: triad 29 GB/s, of which
//            stores fetch another third
//   [at2978] AnandTech 2978: AMD's 12-core Magny-Cours Opteron 6174 (2010)
//   [lostc]  LostCircuits: AMD's FX-8150 Zambezi, Bulldozer in Action (2011)
//   [c2c]    core-to-core-latency of N. Viennot (i5-4590, Haswell: 21 ns; Xeon 8375C, Ice Lake: 51 ns)
//   [cac22]  Chips and Cheese: Going Armchair Quarterback on Golden Cove's Caches (2022)
//   [nano20] Abel, Reineke: nanoBench: A Low-Overhead Tool for Running Microbenchmarks on x86 Systems, ISPASS 2020,
//            and its page uops.info/cache.html: which line each cache replaces
//   [tsx15]  Dice, Harris, Kogan, Lev: The Influence of Malloc Placement on TSX Hardware Transactional Memory, 2015
//   [vm]     our measurements, on two cores of a virtual machine on an Emerald Rapids: random dependent loads from
//            huge pages, and which transactions commit

// Transactions. [tsx15] says that a Haswell tracks written lines in the L1 and read lines up to the L3, and that loads
// may displace a store of the same transaction from the L1, which aborts it. So the L1 does not spare written lines; no
// source says that any of these processors does. The L1's replacement is therefore as measured on machines with
// transactions. On the others it would only move some hits, and is exact LRU order.

namespace espalier::sim {
namespace {

/// A machine with the caches of the geometry of this name.
machine_spec with_caches_of(std::string_view name) { return {hw::cache_geometry_named(name)}; }

struct costs {
  unsigned atomic, fence, l2_tlb, page_walk, dram_occupancy;
};
void add_costs(latency_spec& l, const costs& c) {
  l.store = 1;
  l.atomic = c.atomic;
  l.fence = c.fence;
  l.l2_tlb = c.l2_tlb;
  l.page_walk = c.page_walk;
  l.dram_occupancy = c.dram_occupancy;
}

// A Haswell server, from [icpp15]'s times. The uncore's part of a latency is a time, not a number of core cycles.
latency_spec haswell_server(double ghz, unsigned dram_occupancy) {
  const auto cycles = [ghz](double ns) { return static_cast<unsigned>(std::lround(ns * ghz)); };
  latency_spec l;
  l.l1 = 4;                             // [icpp15] 1.6 ns
  l.l2 = 12;                            // [icpp15] 4.8 ns
  l.llc = cycles(21.2);                 // [icpp15] L3 of the local node
  l.llc_snoop = cycles(44.4);           // [icpp15] exclusive in another core of the node
  l.local_transfer = cycles(53);        // [icpp15] modified in the L1 of another core of the node
  l.remote_transfer = cycles(113);      // [icpp15] modified in a core of the other node
  l.remote_clean = cycles(104);         // [icpp15] L3 of the other node
  l.local_dram = cycles(96.4);          // [icpp15] memory of the local node
  l.remote_dram = cycles(146);          // [icpp15] memory of the other node
  l.local_invalidation = cycles(53);    // estimate: as a transfer within the node
  l.remote_invalidation = cycles(113);  // estimate: as a transfer between the nodes
  add_costs(l, {.atomic = 19, .fence = 33, .l2_tlb = 8, .page_walk = 30, .dram_occupancy = dram_occupancy});
  return l;
}

machine_spec abu_dhabi() {
  machine_spec m = with_caches_of("abu_dhabi");
  m.description =
      "4 x AMD Opteron 6376, 2.3 GHz, 64 cores (ATC'18). Each of the 8 dies is modelled as a socket with its "
      "8 MiB L3 and its NUMA node; distances between dies are averaged.";
  m.sockets = 8;
  m.cores_per_socket = 8;
  m.threads_per_core = 1;
  m.cores_per_l2 = 2;
  m.ghz = 2.3;
  m.llc_inclusive = false;
  latency_spec& l = m.latency;
  l.l1 = 4;                     // [lostc]
  l.l2 = 20;                    // [lostc] 20 to 22
  l.llc = 57;                   // [at2978], the previous generation
  l.llc_snoop = 81;             // [sosp13] Opteron, same die
  l.local_transfer = 81;        // [sosp13] Opteron, modified, same die
  l.remote_transfer = 205;      // [sosp13] Opteron, modified: mean of 161, 3 x 172, 3 x 252
  l.remote_clean = 208;         // [sosp13] Opteron, shared: mean of 169, 3 x 176, 3 x 254
  l.local_dram = 136;           // [sosp13] Opteron
  l.remote_dram = 280;          // [sosp13] Opteron: mean of 237, 3 x 247, 3 x 327
  l.local_invalidation = 246;   // [sosp13] Opteron, store to a shared line: probes go to all dies
  l.remote_invalidation = 284;  // [sosp13] Opteron, likewise, mean over the dies
  add_costs(l, {.atomic = 40, .fence = 45, .l2_tlb = 20, .page_walk = 45, .dram_occupancy = 6});
  m.store_buffer = 24;
  return m;
}

machine_spec haswell() {
  machine_spec m = with_caches_of("haswell");
  m.description = "2 x Intel Xeon E7-4830 v3 (Haswell-EX), 2.1 GHz, 24 cores, 48 threads (ATC'18).";
  m.sockets = 2;
  m.cores_per_socket = 12;
  m.threads_per_core = 2;
  m.ghz = 2.1;
  m.latency = haswell_server(2.1, 3);
  m.store_buffer = 42;
  m.smt_factor = 1.6;
  return m;
}

machine_spec e7_4850() {
  machine_spec m = with_caches_of("e7_4850");
  m.description =
      "4 x Intel Xeon E7-4850 (Westmere-EX), 2.0 GHz, 40 cores, 80 threads (Middleware'19). The L3 is "
      "modelled "
      "as 8 slices of 3 MiB.";
  m.sockets = 4;
  m.cores_per_socket = 10;
  m.threads_per_core = 2;
  m.ghz = 2.0;
  latency_spec& l = m.latency;
  l.l1 = 4;                     // [7cpu] Westmere
  l.l2 = 10;                    // [7cpu] Westmere
  l.llc = 44;                   // [sosp13] Xeon
  l.llc_snoop = 92;             // [sosp13] Xeon, exclusive, same die
  l.local_transfer = 109;       // [sosp13] Xeon, modified, same die
  l.remote_transfer = 289;      // [sosp13] Xeon, modified, one hop
  l.remote_clean = 223;         // [sosp13] Xeon, shared, one hop
  l.local_dram = 272;           // [mlc] 136 ns
  l.remote_dram = 396;          // [mlc] 198 ns
  l.local_invalidation = 116;   // [sosp13] Xeon, store to a shared line, same die
  l.remote_invalidation = 318;  // [sosp13] Xeon, store to a shared line, one hop
  add_costs(l, {.atomic = 20, .fence = 33, .l2_tlb = 7, .page_walk = 30, .dram_occupancy = 7});  // [at3648]
  m.store_buffer = 32;
  m.smt_factor = 1.6;
  // A line is nine flits of 80 bits. QPI moves 6.4 GT/s over 20 lanes.
  l.link_occupancy = 11;
  // Ten line fill buffers and a load buffer of 48 entries.
  m.overlaps_loads = true;
  m.window_accesses = 48;
  m.write_backs_queue = true;
  m.waiting_frees_core = true;
  return m;
}

machine_spec e5_2650_htm() {
  machine_spec m = with_caches_of("e5_2650_htm");
  m.description =
      "2 x Intel Xeon E5-2650 v3 (Haswell-EP), 2.3 GHz, 20 cores, with transactional memory (PPoPP'17). The "
      "paper names no generation; clock, cores, L3 and transactions are those of v3. One thread a core.";
  m.sockets = 2;
  m.cores_per_socket = 10;
  m.threads_per_core = 1;
  m.ghz = 2.3;
  m.latency = haswell_server(2.3, 2);
  m.store_buffer = 42;
  // [tsx15] written lines in the L1, read lines up to the L3, which includes the other caches
  m.transactions = {.write_sets = 64, .write_ways = 8, .read_set_lines = m.llc.lines()};
  m.l1_tree_ways = 8;  // [nano20] PLRU
  // Two QPI links of 9.6 GT/s.
  m.latency.link_occupancy = 4;
  // A load buffer of 72 entries.
  m.window_accesses = 72;
  return m;
}

machine_spec i7_4770() {
  machine_spec m = with_caches_of("i7_4770");
  m.description =
      "Intel Core i7-4770 (Haswell), 3.4 GHz, 4 cores, 8 threads, with transactional memory (the machine of "
      "the malloc placement and TSX measurements).";
  m.sockets = 1;
  m.cores_per_socket = 4;
  m.threads_per_core = 2;
  m.ghz = 3.4;
  latency_spec& l = m.latency;
  l.l1 = 4;                 // [7cpu] Haswell
  l.l2 = 12;                // [7cpu] Haswell
  l.llc = 36;               // [7cpu] Haswell
  l.llc_snoop = 60;         // estimate: between an L3 hit and a transfer
  l.local_transfer = 71;    // [c2c] 21 ns
  l.local_dram = 230;       // [7cpu] Haswell: 36 cycles + 57 ns
  l.remote_transfer = 230;  // one socket: this and the other remote latencies do not occur
  l.remote_clean = 230;
  l.remote_dram = 230;
  l.local_invalidation = 71;  // estimate: as a transfer
  l.remote_invalidation = 71;
  add_costs(l, {.atomic = 19, .fence = 33, .l2_tlb = 8, .page_walk = 30, .dram_occupancy = 9});
  m.store_buffer = 42;
  m.smt_factor = 1.6;
  m.transactions = {.write_sets = 64, .write_ways = 8, .read_set_lines = m.llc.lines()};  // [tsx15]
  m.l1_tree_ways = 8;                                                                     // [nano20] PLRU
  return m;
}

machine_spec emerald_rapids() {
  machine_spec m = with_caches_of("emerald_rapids");
  m.description =
      "Intel Xeon of 2023 (Emerald Rapids), 2.9 GHz, 8 cores' part of one socket, 16 threads, with "
      "transactional "
      "memory. What transactions hold was measured on a virtual machine; most latencies are estimates.";
  m.sockets = 1;
  m.cores_per_socket = 8;
  m.threads_per_core = 2;
  m.ghz = 2.9;
  m.llc_inclusive = false;
  const auto cycles = [&m](double ns) { return static_cast<unsigned>(std::lround(ns * m.ghz)); };
  latency_spec& l = m.latency;
  l.l1 = 5;                          // [cac22] Golden Cove, a close relative of this core
  l.l2 = 16;                         // estimate: the 15 of client processors, and a larger array
  l.llc = cycles(43);                // [vm] 16 MiB
  l.llc_snoop = cycles(50);          // estimate: between an L3 hit and a transfer
  l.local_transfer = cycles(51);     // [c2c] Ice Lake, two generations before; an estimate here
  l.local_dram = cycles(134);        // [vm] 256 MiB
  l.remote_transfer = l.local_dram;  // one socket: this and the other remote latencies do not occur
  l.remote_clean = l.local_dram;
  l.remote_dram = l.local_dram;
  l.local_invalidation = cycles(51);  // estimate: as a transfer
  l.remote_invalidation = cycles(51);
  l.store = 1;
  l.atomic = 20;         // estimate: as for earlier Intel processors
  l.fence = 33;          // estimate, likewise
  l.l2_tlb = 7;          // estimate, likewise
  l.page_walk = 30;      // estimate, likewise
  l.dram_occupancy = 4;  // one of the eight channels of DDR5-5600 for an eighth of the cores
  m.store_buffer = 112;  // Golden Cove, as Intel presented it in 2021
  m.smt_factor = 1.6;
  // [vm] 768 consecutive lines commit and 772 never do; 12 in one set commit and 14 never do. Reads are tracked for
  // about as many lines as the L2 has. A written line survives forty reads of other lines in its set in 99 transactions
  // of 100; outside of transactions twelve reads evict it.
  m.transactions = {
      .write_sets = 64, .write_ways = 12, .read_set_lines = m.l2.lines(), .keeps_written = true};
  m.l1_tree_ways = 4;  // [nano20] LRU3PLRU4 of an Ice Lake, which has an L1 of this shape; an estimate here
  return m;
}

}  // namespace

std::span<const machine_spec> presets() {
  static const std::array all{abu_dhabi(), haswell(), e7_4850(), e5_2650_htm(), i7_4770(), emerald_rapids()};
  return all;
}

const machine_spec& preset(std::string_view name) {
  std::string known;
  for (const machine_spec& m : presets()) {
    if (m.name == name) return m;
    known += (known.empty() ? "" : ", ") + m.name;
  }
  throw std::invalid_argument("no simulated machine \"" + std::string(name) + "\": there are " + known);
}

std::span<const model_part> model_parts() {
  static constexpr std::array all{
      model_part{"commit-wait", "a transaction commits when its core has all lines that it has written",
                 [](machine_spec& m) { return m.transactions ? &m.transactions->commit_waits : nullptr; }},
      model_part{"travel", "a request for a line ends another core's transaction when it reaches that core",
                 [](machine_spec& m) { return m.transactions ? &m.transactions->requests_travel : nullptr; }},
      model_part{"window", "loads that miss overlap, unless one follows the pointer that another has loaded",
                 [](machine_spec& m) { return &m.overlaps_loads; }},
      model_part{"write-backs", "modified lines that return to memory occupy links and memory channels",
                 [](machine_spec& m) { return &m.write_backs_queue; }},
      model_part{"smt", "a thread that waits slows the other threads of its core no longer",
                 [](machine_spec& m) { return m.threads_per_core > 1 ? &m.waiting_frees_core : nullptr; }},
      model_part{"links", "lines that go from one socket to another queue for the link between them",
                 [](machine_spec& m) { return m.latency.link_occupancy != 0 ? &m.links_queue : nullptr; }},
  };
  return all;
}

namespace {

const hw::topology::cache* data_cache(const hw::topology& topology, unsigned level) {
  for (const hw::topology::cache& c : topology.caches())
    if (c.level == level && c.type != hw::cache_type::instruction) return &c;
  return nullptr;
}

// How many cores share the cache; `cores` if that is not known or is not a divisor.
unsigned cores_beside(const hw::topology& topology, const hw::topology::cache* c, unsigned cores) {
  if (c == nullptr) return cores;
  unsigned sharing = 0;
  for (const hw::topology::core& core : topology.cores()) {
    const bool shares =
        !core.pus.empty() && std::find(c->pus.begin(), c->pus.end(), core.pus.front()) != c->pus.end();
    sharing += shares ? 1 : 0;
  }
  return sharing == 0 || cores % sharing != 0 ? cores : sharing;
}

}  // namespace

machine_spec this_machine(const hw::topology& topology) {
  machine_spec m{hw::cache_geometry_of(topology)};
  m.description = "The shape of this machine (" + topology.summary() +
                  "). Its latencies, clock, TLBs and prefetching are guesses, not measured.";

  std::size_t threads = 1;
  std::vector<unsigned> cores_of(std::max<std::size_t>(1, topology.packages().size()), 0);
  for (const hw::topology::core& core : topology.cores()) {
    threads = std::max(threads, core.pus.size());
    if (core.package < cores_of.size()) ++cores_of[core.package];
  }
  const unsigned cores = std::max(1u, *std::max_element(cores_of.begin(), cores_of.end()));
  m.threads_per_core = static_cast<unsigned>(threads);

  const hw::topology::cache* const l2 = data_cache(topology, 2);
  const hw::topology::cache* const l3 = data_cache(topology, 3);
  m.cores_per_socket = cores_beside(topology, l3, cores);
  m.sockets = static_cast<unsigned>(cores_of.size()) * (cores / m.cores_per_socket);
  m.cores_per_l2 = l2 == nullptr ? 1 : cores_beside(topology, l2, m.cores_per_socket);

  m.ghz = 2.5;
  m.llc_inclusive = m.llc.lines() >= 4 * m.l2.lines() * (m.cores_per_socket / m.cores_per_l2);
  latency_spec& l = m.latency;
  l.l1 = 5;
  l.l2 = 14;
  l.llc = 60;
  l.llc_snoop = 100;
  l.local_transfer = 120;
  l.remote_transfer = 300;
  l.remote_clean = 280;
  l.local_dram = 240;
  l.remote_dram = 380;
  l.local_invalidation = 120;
  l.remote_invalidation = 300;
  add_costs(l, {.atomic = 20, .fence = 33, .l2_tlb = 7, .page_walk = 30, .dram_occupancy = 2});
  m.store_buffer = 56;
  m.smt_factor = m.threads_per_core > 1 ? 1.6 : 1;
  validate(m);
  return m;
}

}  // namespace espalier::sim
