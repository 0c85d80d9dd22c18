#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/machine/machine_spec.hpp"
#include "sim/machine/thread_order.hpp"

// Studies: simulated programs other than the maps. One is one file, <name>_study.cpp, which holds a variable
// of the type `registered_study`.

namespace espalier::simulate {

/// What the command line said, checked.
struct study_options {
  sim::machine_spec machine;
  std::vector<unsigned> threads;
  sim::pinning pinning = sim::pinning::smt_last;
  std::uint64_t operations = 0;
  std::uint64_t keys = 0;
  std::uint64_t seed = 0;
  /// Files to write, empty for none; they were found writable.
  std::string json;
  std::string csv;
  std::string report;
  bool wide = false;
};

struct study {
  std::string name;
  std::string description;
  /// Gives the exit status.
  std::function<int(const study_options&)> run;
};

/// By name. Throws usage_error with the names there are.
[[nodiscard]] const study& find_study(const std::string& name);

struct registered_study {
  registered_study(std::string name, std::string description, std::function<int(const study_options&)> run);
};

}  // namespace espalier::simulate
