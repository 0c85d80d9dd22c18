#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "espalier/catalog/step.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

struct elision_counts;  // sync/elision.hpp

namespace catalog {

/// A map with its type erased, once per run and never per operation: what benchmarks, the simulator and any_map ask of any map.
class erased_map {
 public:
  explicit erased_map(const map_properties& p) noexcept : properties(p) {}
  erased_map(const erased_map&) = delete;
  erased_map& operator=(const erased_map&) = delete;
  virtual ~erased_map() = default;

  /// Performs the steps in this order; returns the sum of what apply() returns.
  virtual std::uint64_t apply_all(std::span<const step> steps) = 0;

  /// What a thread must hold while it works with the map; null for most.
  [[nodiscard]] virtual std::shared_ptr<void> thread_scope() const = 0;

  /// Of the map's placement, where it has one.
  [[nodiscard]] virtual std::optional<memory_usage> usage() const = 0;

  /// Bytes that are still held and unreachable after every retired block was reclaimed. Linear in the map.
  [[nodiscard]] virtual std::optional<std::uint64_t> leaked_bytes() = 0;

  /// The outcomes of all transactions so far, by region; empty for a map that does not count them.
  [[nodiscard]] virtual std::vector<elision_counts> transactions() const = 0;

  /// The placement, if it can record the map's blocks; otherwise null.
  [[nodiscard]] virtual const any_placement* recording_placement() const = 0;

  /// Quiescent only: calls visit(visitor, memory, bytes, role) for each block that the map reaches. False if it does not show
  /// them.
  using node_function = void (*)(void* visitor, const void* memory, std::size_t bytes, memory_role role);
  virtual bool visit_nodes(node_function /*visit*/, void* /*visitor*/) const { return false; }

  const map_properties& properties;
};

}  // namespace catalog
}  // namespace espalier
