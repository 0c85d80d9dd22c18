#include "apps/common/malloc_tsx_study.hpp"

#include <set>

#include "apps/common/study_claims.hpp"

namespace espalier::app::malloc_tsx {

std::vector<std::uint64_t> node_sizes() {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 64; size <= 4096; size += 64) {
    // Smaller ones cannot hold a node of the tree.
    if (size - 16 >= 48) sizes.push_back(size - 16);
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<std::uint64_t> placed_readings::sizes() const {
  std::set<std::uint64_t> seen;
  for (const auto& [at, r] : all_) seen.insert(at.size);
  return {seen.begin(), seen.end()};
}

std::vector<std::string> placed_readings::mallocs() const {
  std::set<std::string> seen;
  for (const auto& [at, r] : all_) seen.insert(at.malloc);
  return {seen.begin(), seen.end()};
}

std::optional<double> placed_readings::ratio(const point& one, const point& other) const {
  const placed_reading* const above = find(one);
  const placed_reading* const below = find(other);
  if (above == nullptr || below == nullptr) return std::nullopt;
  return median_of_ratios(above->rounds, below->rounds);
}

std::vector<std::uint64_t> placed_readings::overloaded(std::string_view malloc, unsigned ways) const {
  std::set<std::uint64_t> found;
  for (const auto& [at, r] : all_) {
    if (at.malloc == malloc && r.largest_load > ways) found.insert(at.size);
  }
  return {found.begin(), found.end()};
}

}  // namespace espalier::app::malloc_tsx
