#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/machine/machine_spec.hpp"
#include "sim/machine/thread_order.hpp"

// Studies: what is simulated under a name, maps in a given order or programs other than maps. One is one file,
// <name>_study.cpp, which holds a variable of the type `registered_study`.

namespace espalier::simulate {

struct study_place {
  sim::machine_spec machine;
  std::vector<unsigned> threads;
};

/// What the command line said, checked.
struct study_options {
  /// One, but for studies with machines of their own where the command line names none.
  std::vector<study_place> places;
  sim::pinning pinning = sim::pinning::smt_last;
  /// Its name on the command line.
  std::string pin;
  std::uint64_t operations = 0;
  std::uint64_t keys = 0;
  /// Of nodes; empty for those of the study.
  std::vector<std::int64_t> sizes;
  std::uint64_t seed = 0;
  /// Files to write, and a folder, empty for none.
  std::string json;
  std::string csv;
  std::string out;
  /// Whether the command line had the option, so that a default of the study's own does not apply.
  std::function<bool(const char* option)> given;
};

struct study {
  std::string name;
  std::string description;
  /// Options beside --study that mean something to it; the others are refused.
  std::vector<std::string> options;
  /// Where it runs unless the command line says where; empty for the command's default.
  std::vector<std::string> machines;
  /// Gives the exit status.
  std::function<int(const study_options&)> run;
};

/// By name. Throws usage_error with the names there are.
[[nodiscard]] const study& find_study(const std::string& name);

struct registered_study {
  explicit registered_study(study one);
};

}  // namespace espalier::simulate
