#pragma once

// A simulated machine in the shape of a real one.

#include "espalier/hw/topology.hpp"
#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// Named "this": sockets, cores, threads and caches as the topology has them, rounded up to the largest
/// package and core where these differ. What a topology does not tell is a guess, and the description says so:
/// clock, latencies, TLBs, prefetching, inclusion, slices. Each last-level cache is a socket of the model with
/// a NUMA node of its own. Throws std::invalid_argument where that machine is larger than the model can be.
machine_spec this_machine(const hw::topology& topology);

}  // namespace espalier::sim
