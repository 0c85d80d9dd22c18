#pragma once

#include "apps/common/shared_options.hpp"

// Declared for both: `espalier`, which lists and completes them, and the simulator, which uses them.

namespace espalier::app {

struct simulate_options : map_options, load_options, result_options {
  simulate_options() { keys = 100'000; }

  std::string machine = "e7_4850";
  bool list_machines = false;
  std::vector<std::int64_t> threads;
  std::int64_t operations = 200'000;
  std::string pin = "cores";
  std::string study;
  std::vector<std::int64_t> sizes;
  bool calibrate = false;
  bool wide = false;
};

void declare(CLI::App& verb, simulate_options& options);

inline constexpr const char* simulate_description =
    "Compare maps on a simulated machine: exact counts of transfers, misses and stalls";

}  // namespace espalier::app
