#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/options.hpp"
#include "espalier/workload/session.hpp"

// The studies of `espalier bench --study`. Each is a folder, apps/studies/<name>, whose native.cpp has a variable of the
// type `registered_study`.

namespace espalier::app {

/// The arguments of `espalier bench`, as unchecked text and numbers.
struct bench_options : map_options, load_options, result_options {
  bench_options() { key_type.clear(); }

  bool quick = false;
  bool peers = false;
  std::string study;
  std::vector<std::string> mallocs;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> placements;
  std::string trace;
  std::string record;
  std::vector<std::int64_t> threads;
  std::int64_t runs = 5;
  double seconds = 1;
  std::int64_t operations = 0;
  std::string pin = "cores";
  std::int64_t latency_every = 16;
  bool no_leak_check = false;
  std::string hgrm;
};

/// The parameters of the measurement: all of a request except its maps and plans. Throws usage_error.
[[nodiscard]] workload::session_request measurement_of(const bench_options& options);

struct study {
  std::string_view name;
  std::string_view title;
  /// Options that the study accepts besides --study; others are rejected.
  std::vector<std::string> options;
  void (*run)(const bench_options&, const CLI::App&);
};

/// By name. Throws usage_error with the available names.
[[nodiscard]] const study& find_study(std::string_view name);

struct registered_study {
  explicit registered_study(study one);
};

}  // namespace espalier::app
