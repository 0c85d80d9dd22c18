#pragma once

#include <optional>
#include <string_view>

#include "espalier/hw/topology.hpp"
#include "espalier/memory/numa_local.hpp"

namespace espalier {

/// numa_local with one node for all threads: blocks lie on that node, whichever thread requests them. For the partitions of
/// delegation/partitions.hpp, which a thread of another locality may operate on.
class node_bound : public numa_local {
 public:
  static constexpr std::string_view name = "node_bound";

  /// The operating system's index of the node; nullopt for the first one. Throws std::runtime_error if hwloc cannot describe
  /// the machine.
  explicit node_bound(std::optional<unsigned> numa_node = std::nullopt)
      : node_bound(hw::topology::system(), numa_node) {}
  node_bound(const hw::topology& machine, std::optional<unsigned> numa_node)
      : numa_local(machine, [pu = pu_of(machine, numa_node)] { return pu; }) {}

 private:
  static std::optional<unsigned> pu_of(const hw::topology& machine, std::optional<unsigned> numa_node) {
    for (const hw::topology::numa_node& node : machine.numa_nodes()) {
      if (node.os_index == numa_node && !node.pus.empty()) return node.pus.front();
    }
    return std::nullopt;
  }
};

static_assert(placement<node_bound>);

}  // namespace espalier
