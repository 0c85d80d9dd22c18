#include "espalier/delegation/localities.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace espalier::delegation {

localities localities::groups(std::vector<std::vector<unsigned>> pus) {
  if (pus.empty()) throw std::invalid_argument("localities: name at least one group of hardware threads");
  std::vector<locality_shape> shapes;
  for (std::vector<unsigned>& group : pus) {
    if (group.empty()) throw std::invalid_argument("localities: a group has no hardware thread");
    for (const unsigned pu : group) {
      const bool known = std::any_of(shapes.begin(), shapes.end(), [pu](const locality_shape& earlier) {
        return std::find(earlier.pus.begin(), earlier.pus.end(), pu) != earlier.pus.end();
      });
      if (known)
        throw std::invalid_argument("localities: two groups have the hardware thread " + std::to_string(pu));
    }
    shapes.push_back({std::move(group), std::nullopt});
  }
  return localities(std::move(shapes));
}

localities localities::in_turn(unsigned count) {
  if (count == 0) throw std::invalid_argument("localities: there must be at least one");
  return localities(std::vector<locality_shape>(count));
}

std::optional<unsigned> localities::of_pu(unsigned pu) const noexcept {
  for (unsigned i = 0; i < count(); ++i) {
    const std::vector<unsigned>& its = shapes_[i].pus;
    if (std::find(its.begin(), its.end(), pu) != its.end()) return i;
  }
  return std::nullopt;
}

}  // namespace espalier::delegation
