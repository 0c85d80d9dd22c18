#pragma once

#include "bench_options.hpp"

namespace espalier::app {

/// `espalier bench --study`. Throws usage_error for an unknown study, and for options that the study does not accept.
void run_bench_study(const bench_options& options, const CLI::App& verb);

// One file each.
void run_atc18_study(const bench_options& options, const CLI::App& verb);
void run_malloc_speed_study(const bench_options& options, const CLI::App& verb);
void run_malloc_tsx_study(const bench_options& options, const CLI::App& verb);

}  // namespace espalier::app
