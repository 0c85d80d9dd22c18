#include "sim/machine/this_machine.hpp"

#include <algorithm>
#include <cstddef>

namespace espalier::sim {
namespace {

const hw::topology::cache* data_cache(const hw::topology& topology, unsigned level) {
  for (const hw::topology::cache& c : topology.caches()) {
    if (c.level == level && c.type != hw::cache_type::instruction) {
      return &c;
    }
  }
  return nullptr;
}

// How many cores share the cache; `cores` if that is not known or is not a divisor.
unsigned cores_beside(const hw::topology& topology, const hw::topology::cache* c, unsigned cores) {
  if (c == nullptr) {
    return cores;
  }
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
    if (core.package < cores_of.size()) {
      ++cores_of[core.package];
    }
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
  l.store = 1;
  l.atomic = 20;
  l.fence = 33;
  l.l2_tlb = 7;
  l.page_walk = 30;
  l.dram_occupancy = 2;
  m.store_buffer = 56;
  m.smt_factor = m.threads_per_core > 1 ? 1.6 : 1;
  validate(m);
  return m;
}

}  // namespace espalier::sim
