#include "apps/studies/dps/measuring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/simulate/output.hpp"
#include "apps/studies/study_output.hpp"

namespace espalier::simulate::dps {

using app::dps::load;
using app::dps::load_reading;
using app::dps::page;
using app::dps::panel;

std::vector<unsigned> threads_of(const study_options& o, const std::vector<unsigned>& usual) {
  const study_place& place = o.places.front();
  std::vector<unsigned> threads = o.given("--threads") ? place.threads : usual;
  std::erase_if(threads, [&](unsigned n) { return n > place.machine.hardware_threads(); });
  std::ranges::sort(threads);
  threads.erase(std::ranges::unique(threads).begin(), threads.end());
  return threads;
}

load_reading reading_of(const counted_phase& m, unsigned threads, std::uint64_t steps) {
  const sim::counts& c = m.total;
  load_reading r{.speed = m.operations_per_second(),
                 .costs = {.remote_transfers = m.per_operation(c.remote_transfers),
                           .local_transfers = m.per_operation(c.local_transfers),
                           .memory_lines = m.per_operation(c.local_dram + c.remote_dram),
                           .stall_cycles = m.per_operation(c.stall_cycles),
                           .accesses = m.per_operation(c.accesses),
                           .remote_memory = m.per_operation(c.remote_dram),
                           .upgrades = m.per_operation(c.upgrades)},
                 .too_short = too_short(m, threads, steps)};
  if (m.operations >= operations_for(threads, steps) && is_uneven(m)) {
    const auto [first, second] = m.halves();
    r.halves = {std::min(first, second) * m.ghz * 1e9, std::max(first, second) * m.ghz * 1e9};
  }
  return r;
}

measured_pages::measured_pages(const study_options& o, std::string name, std::vector<page> pages)
    : o_(o), name_(std::move(name)), pages_(std::move(pages)) {
  leave_chosen(pages_, o);
  for (const page& p : pages_) {
    for (const panel& of : p.panels) {
      for (const std::string& how : of.techniques) {
        for (const load& l : of.loads) wanted_.insert({l, how});
      }
    }
  }
}

int measured_pages::run(const std::string& title, const std::string& paper) {
  app::study_files files(o_.out, name_);
  for (const page& p : pages_) {
    before(p);
    if (!measured_all(p)) break;
    app::charted_figure figure = p.figure(results_, machine().name);
    complete(figure);
    files.show(std::move(figure), "simulated on " + machine().name);
  }
  std::printf("%s\n", trust);
  nlohmann::ordered_json all = study_document(o_, machine(), name_, title, paper);
  all["benchmarks"] = benchmarks_;
  nlohmann::ordered_json& study = all["study"];
  study["figures"] = files.figures();
  complete(study);
  study["contexts"] = nlohmann::ordered_json::array({all["context"]});
  files.write(all);
  return 0;
}

bool measured_pages::measured_all(const page& p) {
  for (const panel& of : p.panels) {
    for (const load& l : of.loads) {
      for (const std::string& how : of.techniques) {
        if (results_.find(l, how) != nullptr) continue;
        if (app::interruption::requested()) return false;
        line_.step(added_, wanted_.size(), fmt::format("simulating {}, {}", how, l.name()));
        measure_one(l, how);
        line_.clear();
      }
    }
  }
  return true;
}

nlohmann::ordered_json& measured_pages::add(const load& l, const std::string& how, const load_reading& r,
                                            const counted_phase& m) {
  results_.add(l, how, r);
  ++added_;
  nlohmann::ordered_json one = study_entry(fmt::format("{}/{}/{}", name_, how, l.name()), l.threads, m);
  one["technique"] = how;
  one["items_per_second"] = r.speed;
  one["counts"] = counts_json(m);
  benchmarks_.push_back(std::move(one));
  return benchmarks_.back();
}

}  // namespace espalier::simulate::dps
