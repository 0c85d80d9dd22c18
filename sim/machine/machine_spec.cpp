#include "sim/machine/machine_spec.hpp"

#include <stdexcept>

#include "sim/machine/cache.hpp"
#include "sim/machine/load_window.hpp"

namespace espalier::sim {
namespace {

void require(bool holds, const machine_spec& spec, const char* rule) {
  if (!holds) throw std::invalid_argument("machine \"" + spec.name + "\": " + rule);
}

bool is_cache(const hw::cache_shape& cache) { return cache.sets > 0 && cache.ways > 0 && cache.slices > 0; }

}  // namespace

void validate(const machine_spec& spec) {
  require(spec.sockets >= 1 && spec.sockets <= max_sockets, spec, "sockets must be 1 to 16");
  require(spec.cores_per_socket >= 1, spec, "cores_per_socket must be at least 1");
  require(spec.threads_per_core >= 1, spec, "threads_per_core must be at least 1");
  require(spec.cores_per_l2 >= 1 && spec.cores_per_socket % spec.cores_per_l2 == 0, spec,
          "cores_per_l2 must divide cores_per_socket");
  require(spec.cores() / spec.cores_per_l2 <= max_private_caches, spec, "there may be at most 128 L2 caches");
  require(spec.ghz > 0, spec, "ghz must be positive");
  require(is_cache(spec.l1) && is_cache(spec.l2) && is_cache(spec.llc), spec,
          "l1, l2 and llc need at least one set, way and slice");
  require(
      pseudo_lru::possible(spec.l1.ways, spec.l1_tree_ways) || spec.l1_tree_ways == 1, spec,
      "l1_tree_ways must be a power of 2 that divides the L1's ways, with at most 32 ways and 8 trees, or 1");
  // A line written back from the L1 must not evict the line that is being fetched.
  require(spec.l2.ways >= 2, spec, "l2 needs at least 2 ways");
  require(spec.tlb.l1_small.sets > 0 && spec.tlb.l1_small.ways > 0, spec,
          "tlb.l1_small needs at least one set and way");
  require(spec.latency.l1 <= spec.latency.l2 && spec.latency.l2 <= spec.latency.llc, spec,
          "latencies must not fall from l1 to l2 to llc");
  require(spec.store_buffer >= 1, spec, "store_buffer must be at least 1");
  require(spec.loads_in_flight >= 1 && spec.loads_in_flight <= load_window::most_loads, spec,
          "loads_in_flight must be 1 to 16");
  require(spec.smt_factor >= 1, spec, "smt_factor must be at least 1");
}

std::vector<unsigned> thread_order(const machine_spec& spec, pinning order) {
  std::vector<unsigned> threads;
  threads.reserve(spec.hardware_threads());
  const auto add = [&](unsigned socket, unsigned core, unsigned smt) {
    threads.push_back((socket * spec.cores_per_socket + core) * spec.threads_per_core + smt);
  };
  switch (order) {
    case pinning::smt_last:
      for (unsigned smt = 0; smt < spec.threads_per_core; ++smt) {
        for (unsigned socket = 0; socket < spec.sockets; ++socket)
          for (unsigned core = 0; core < spec.cores_per_socket; ++core) add(socket, core, smt);
      }
      break;
    case pinning::compact:
      for (unsigned thread = 0; thread < spec.hardware_threads(); ++thread) threads.push_back(thread);
      break;
    case pinning::scatter:
      for (unsigned smt = 0; smt < spec.threads_per_core; ++smt) {
        for (unsigned core = 0; core < spec.cores_per_socket; ++core)
          for (unsigned socket = 0; socket < spec.sockets; ++socket) add(socket, core, smt);
      }
      break;
  }
  return threads;
}

}  // namespace espalier::sim
