#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "apps/common/interface.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/workload/step.hpp"
#include "espalier/workload/subject.hpp"

// The interface between instrumented maps and the simulator's own code: types are erased per run, not per operation.

namespace espalier::simulate {

/// Gives a simulated thread its operations. Implemented outside the simulated program: drawing them costs no simulated
/// time.
class step_feed : public app::interface {
 public:
  /// False if there are no more.
  virtual bool next(workload::step& s) = 0;
};

/// A map of the catalogue inside a simulated program, which constructs, uses and destroys it.
class simulated_map : public app::interface {
 public:
  virtual void do_all(step_feed& feed) = 0;
  /// The outcomes of a region's transactions so far. `region` is an index of subject_facts::transaction_regions.
  [[nodiscard]] virtual elision_counts transactions(std::size_t region) const = 0;
  /// Of the map's placement, where it has one.
  [[nodiscard]] virtual std::optional<memory_usage> usage() const = 0;
};

struct simulated_entry {
  workload::subject_facts facts;
  std::unique_ptr<simulated_map> (*make)();
};

/// Filled by the catalogue's units before main.
std::vector<simulated_entry>& simulated_catalog();

}  // namespace espalier::simulate
