#include "apps/studies/malloc_tsx/results.hpp"

#include <fmt/format.h>

#include "apps/studies/malloc_tsx/allocation_models.hpp"
#include "espalier/measure/statistics.hpp"

namespace espalier::simulate {

// Results -------------------------------------------------------------------------------------------------------------

using app::malloc_tsx::placed_reading;
using app::malloc_tsx::placed_readings;
using app::malloc_tsx::point;

std::optional<double> malloc_tsx_results::ratio(const configuration& one, const configuration& other) const {
  const auto* a = find(one);
  const auto* b = find(other);
  if (a == nullptr || b == nullptr) return std::nullopt;
  return a->operations_per_second() / b->operations_per_second();
}

placed_readings malloc_tsx_results::readings(benchmark program, std::uint64_t nodes) const {
  placed_readings found;
  for (const auto& [c, m] : all_) {
    if (c.program == program && c.nodes == nodes) found.add(point_of(c), reading_of(c, m));
  }
  return found;
}

point point_of(const configuration& c) {
  return {std::string(to_string(c.from)), std::string(to_string(c.policy)), c.node_bytes};
}

placed_reading reading_of(const configuration& c, const malloc_tsx_measurement& m) {
  placed_reading r;
  r.rounds = {m.operations_per_second()};
  r.largest_load = m.largest_load();
  if (c.policy != section_policy::tts) {
    r.committed = m.committed_share();
    r.capacity_aborts = m.per_operation(m.transactions.of(sim::abort_reason::capacity));
  }
  return r;
}

double misses(const configuration& c, const malloc_tsx_measurement& m) noexcept {
  const double each = m.per_operation(m.l1_misses());
  return c.program == benchmark::ring ? each / static_cast<double>(c.nodes) : each;
}

app::judged_claim judge_misses(const malloc_tsx_results& results) {
  struct mean {
    double sum = 0;
    std::size_t sizes = 0;
    [[nodiscard]] double value() const { return sum / static_cast<double>(sizes); }
  };
  mean bad;
  mean good;
  for (const auto& [c, m] : results.all()) {
    if (c.program != benchmark::ring || c.nodes != app::malloc_tsx::paper_nodes ||
        c.from != allocation::glibc || c.policy != section_policy::tts)
      continue;
    mean& to = app::glibc_stride(c.node_bytes) % 512 == 0 ? bad : good;
    to.sum += misses(c, m);
    ++to.sizes;
  }
  app::judged_claim f{"The slow sizes are those with many L1 misses (figure 1)",
                      {"too little was measured: sizes at which glibc's blocks follow each other at a "
                       "multiple of 512, and others.",
                       app::agreement::not_measurable}};
  if (bad.sizes == 0 || good.sizes == 0) return f;
  f.ours = {fmt::format("{:.2f} L1 misses a node with {} at multiples of 512, {:.2f} at other sizes.",
                        bad.value(), to_string(allocation::glibc), good.value()),
            bad.value() >= 0.5 && good.value() <= bad.value() / 4 ? app::agreement::agrees
                                                                  : app::agreement::differs};
  return f;
}

}  // namespace espalier::simulate
