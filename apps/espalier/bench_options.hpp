#pragma once

#include "apps/common/shared_options.hpp"
#include "espalier/workload/session.hpp"

namespace espalier::app {

/// The arguments of `espalier bench`, as unchecked text and numbers.
struct bench_options : map_options, load_options, result_options {
  bool quick = false;
  bool peers = false;
  std::string study;
  std::vector<std::string> mallocs;
  std::vector<std::int64_t> sizes;
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

void declare(CLI::App& verb, bench_options& options);

/// The parameters of the measurement: all of a request except its maps and plans. Throws usage_error.
[[nodiscard]] workload::session_request measurement_of(const bench_options& options);

}  // namespace espalier::app
