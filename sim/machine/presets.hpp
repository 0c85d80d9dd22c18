#pragma once

// The machines of the published measurements with which this library is compared, and one modelled on this machine.

#include <span>
#include <string_view>

#include "espalier/hw/topology.hpp"
#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// abu_dhabi, haswell, e7_4850, e5_2650_htm, i7_4770, emerald_rapids: in this order, for the life of the program.
std::span<const machine_spec> presets();

/// Throws std::invalid_argument that names the presets if none has this name.
const machine_spec& preset(std::string_view name);

/// A part of the model that a machine may be simulated with and without, so that a result can name what it depends on.
struct model_part {
  std::string_view name;
  std::string_view what;
  /// Null if the machine cannot have it.
  bool* (*of)(machine_spec& machine);
};
/// commit-wait, travel, window, links.
std::span<const model_part> model_parts();

/// Named "this": sockets, cores, threads and caches as in the topology, rounded up to the largest package and core if
/// these differ. What a topology does not tell is a guess, and the description says so: clock, latencies, TLBs,
/// prefetching, inclusion, slices. Each last-level cache is a socket of the model with its own NUMA node. Throws
/// std::invalid_argument if that machine exceeds the limits of the model.
machine_spec this_machine(const hw::topology& topology);

}  // namespace espalier::sim
