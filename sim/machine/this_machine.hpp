#pragma once

// A simulated machine modelled on a real one.

#include "espalier/hw/topology.hpp"
#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// Named "this": sockets, cores, threads and caches as in the topology, rounded up to the largest package and core if
/// these differ. What a topology does not tell is a guess, and the description says so: clock, latencies, TLBs,
/// prefetching, inclusion, slices. Each last-level cache is a socket of the model with its own NUMA node. Throws
/// std::invalid_argument if that machine exceeds the limits of the model.
machine_spec this_machine(const hw::topology& topology);

}  // namespace espalier::sim
