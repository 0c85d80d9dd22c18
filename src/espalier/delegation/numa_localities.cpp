#include <algorithm>

#include "espalier/delegation/localities.hpp"
#include "espalier/hw/affinity.hpp"
#include "espalier/hw/topology.hpp"

namespace espalier::delegation {

localities localities::numa_nodes() {
  const hw::topology& machine = hw::topology::system();
  const std::vector<unsigned> allowed = hw::allowed_pus();
  std::vector<locality_shape> shapes;
  for (const hw::topology::numa_node& node : machine.numa_nodes()) {
    locality_shape shape{{}, node.os_index};
    for (const unsigned pu : node.pus) {
      if (std::find(allowed.begin(), allowed.end(), pu) != allowed.end()) shape.pus.push_back(pu);
    }
    if (!shape.pus.empty()) shapes.push_back(std::move(shape));
  }
  // A machine that describes no nodes is one locality.
  if (shapes.empty()) return in_turn(1);
  return localities(std::move(shapes));
}

}  // namespace espalier::delegation
