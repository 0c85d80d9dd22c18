#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/common/study_registry.hpp"
#include "apps/simulate/counted_phase.hpp"
#include "sim/machine/machine_spec.hpp"

// Studies: simulations with a name, of maps in a given order or of programs other than maps. Each is a
// folder, apps/studies/<name>, whose simulated.cpp has a variable of the type `registered_study`.

namespace espalier::simulate {

struct study_place {
  sim::machine_spec machine;
  std::vector<unsigned> threads;
};

/// The checked options of the command line.
struct study_options {
  /// One place, unless the study has machines of its own and the command line names none.
  std::vector<study_place> places;
  sim::pinning pinning = sim::pinning::smt_last;
  /// Its name on the command line.
  std::string pin;
  std::uint64_t operations = 0;
  std::uint64_t keys = 0;
  /// Sizes of nodes; empty for those of the study.
  std::vector<std::int64_t> sizes;
  /// Of --maps; empty for those of the study.
  std::vector<std::string> maps;
  /// Of --figure; empty for all.
  std::vector<std::string> figures;
  std::uint64_t seed = 0;
  /// Files to write, and a folder, empty for none.
  std::string json;
  std::string out;
  /// Whether the command line had the option, so that the study's own default does not apply.
  std::function<bool(const char* option)> given;
};

struct study : app::named_study<std::function<int(const study_options&)>> {
  /// The machines on which it runs unless the command line names some; empty for the command's default.
  std::vector<std::string> machines;
};
using registered_study = app::registered<study>;

template <class Figure>
void leave_chosen(std::vector<Figure>& figures, const study_options& o) {
  app::leave_chosen(figures, o.figures);
}

/// Of a machine that has transactions. Throws usage_error for another.
[[nodiscard]] const sim::transactional_spec& transactions_of(const sim::machine_spec& machine);

}  // namespace espalier::simulate
