#pragma once

#include <memory>
#include <vector>

#include "apps/common/interface.hpp"
#include "espalier/catalog/erased_map.hpp"
#include "espalier/catalog/step.hpp"
#include "espalier/workload/subject.hpp"

// The maps of the catalogue as the simulator has them: instrumented, with types erased.

namespace espalier::simulate {

/// Gives a simulated thread its operations. Implemented outside the simulated program: drawing them costs no simulated
/// time.
class step_feed : public app::interface {
 public:
  /// False if there are no more.
  virtual bool next(catalog::step& s) = 0;
};

/// A map of the catalogue inside a simulated program, which constructs, uses and destroys it.
class simulated_map : public catalog::erased_map {
 public:
  using erased_map::erased_map;
  virtual void do_all(step_feed& feed) = 0;
};

struct simulated_entry {
  workload::subject_facts facts;
  std::unique_ptr<simulated_map> (*make)();
};

/// Filled by the catalogue's units before main.
std::vector<simulated_entry>& simulated_catalog();

}  // namespace espalier::simulate
