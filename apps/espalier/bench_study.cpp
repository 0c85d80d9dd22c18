#include "bench_study.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include "apps/common/atc18_study.hpp"
#include "apps/common/interruption.hpp"
#include "apps/common/malloc_speed_study.hpp"
#include "apps/common/malloc_tsx_study.hpp"
#include "apps/common/usage_error.hpp"

namespace espalier::app {
namespace {

struct known_study {
  std::string_view name;
  std::string_view title;
  void (*run)(const bench_options&, const CLI::App&);
};

const std::array studies{known_study{atc18::study_name, atc18::title, run_atc18_study},
                         known_study{malloc_tsx::study_name, malloc_tsx::title, run_malloc_tsx_study},
                         known_study{malloc_speed::study_name, malloc_speed::title, run_malloc_speed_study}};

}  // namespace

void run_bench_study(const bench_options& o, const CLI::App& verb) {
  const auto* const found = std::ranges::find(studies, o.study, &known_study::name);
  if (found != studies.end()) {
    const interruption interrupts;
    found->run(o, verb);
    if (const int status = interruption::status(); status != 0) throw CLI::RuntimeError(status);
    return;
  }
  std::string all;
  for (const known_study& s : studies)
    all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", s.name, s.title);
  throw usage_error(fmt::format("there is no study '{}'; there are {}", o.study, all));
}

}  // namespace espalier::app
