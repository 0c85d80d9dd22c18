#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/calibration/claims.hpp"
#include "apps/studies/calibration/program.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/measure/random.hpp"
#include "sim/runtime/spend.hpp"
#include "sim/simulation/simulation.hpp"

// The calibration on a simulated machine.

namespace espalier::simulate::calibration {
namespace {

using app::calibration::exercise;
using app::calibration::held;
using app::calibration::operation;
using app::calibration::page;
using app::calibration::work;

constexpr std::uint64_t usual_operations = 4000;
/// Threads begin at random moments of so many cycles for each: soon, and in no order.
constexpr std::uint64_t begin_within = 4;

class exercise_feed final : public step_feed {
 public:
  exercise_feed(const exercise& e, std::uint64_t seed, unsigned thread, shared_operations& shared)
      : e_(e), random_(seed, thread), shared_(shared) {}

  bool next(catalog::step& s) override {
    const sim::own_code scope;
    if (!shared_.take(has_one_)) return false;
    s = {map_operation::contains, 0, 0};
    if (e_.what == work::section && e_.places != 1) s.key = random_.below(e_.places);
    if (e_.what == work::table) {
      s.key = random_.below(e_.places * keys_of_bucket);
      const std::uint64_t drawn = random_.below(10);
      if (drawn < 2) s.op = drawn == 0 ? map_operation::insert : map_operation::erase;
    }
    return true;
  }

 private:
  const exercise& e_;
  measure::random_generator random_;
  shared_operations& shared_;
  bool has_one_ = false;
};

/// What an operation adds to words.
std::uint64_t sum_of_one(const exercise& e) {
  if (e.what == work::section) return e.lines;
  return e.what == work::transaction || (e.what == work::one_line && e.op == operation::fetch_and_add) ? 1
                                                                                                       : 0;
}

struct measured_exercise {
  counted_phase phase;
  std::uint64_t given_up;
};

/// Throws std::logic_error if an operation was lost.
measured_exercise measure(const sim::machine_spec& machine, const exercise& e, std::uint64_t operations,
                          std::uint64_t seed) {
  const bool apart = e.what == work::latency && e.far && e.lines_are != held::in_memory;
  sim::simulation simulated(machine, e.threads, apart ? sim::pinning::scatter : sim::pinning::smt_last);
  std::unique_ptr<exercised_program> program;
  simulated.outside_time([&] { program = make_exercised(e, operations); });
  simulated.without_time([&](unsigned thread) { program->settle(thread); });
  // Threads that begin at one moment would queue for a line in the order of their sockets for ever.
  const auto begins = [&](unsigned thread) {
    if (e.threads > 1) sim::spend(measure::random_generator(seed, thread).below(begin_within * e.threads));
  };
  shared_operations before(simulated, operations);
  static_cast<void>(simulated.run([&](unsigned thread) {
    begins(thread);
    exercise_feed feed(e, seed, thread, before);
    program->warm_up(thread, feed);
  }));
  std::uint64_t begun_with = 0;
  std::uint64_t given_up = 0;
  simulated.outside_time([&] {
    begun_with = program->sum();
    given_up = program->given_up();
  });
  shared_operations during(simulated, operations);
  const sim::phase_result measured = simulated.run([&](unsigned thread) {
    if (e.what != work::latency) begins(thread);
    exercise_feed feed(e, seed + 1, thread, during);
    program->operate(thread, feed);
  });
  std::uint64_t added = 0;
  simulated.outside_time([&] {
    added = program->sum() - begun_with;
    given_up = program->given_up() - given_up;
    program.reset();
  });
  if (added != operations * sum_of_one(e))
    throw std::logic_error(fmt::format("{}: {} increments instead of {}: operations were lost", e.name(),
                                       added, operations * sum_of_one(e)));
  return {during.counted(measured), given_up};
}

app::calibration::setting setting_of(const study_options& o) {
  const study_place& place = o.places.front();
  const sim::machine_spec& m = place.machine;
  std::set<unsigned> threads{1U, std::min(2U, m.cores()), std::max(m.cores_per_socket / 2, 1U), m.cores(),
                             m.hardware_threads()};
  for (unsigned sockets = 1; sockets < m.sockets; sockets *= 2) threads.insert(sockets * m.cores_per_socket);
  if (o.given("--threads")) threads = {place.threads.begin(), place.threads.end()};
  return {.machine = m.name,
          .ghz = m.ghz,
          .sockets = m.sockets,
          .socket_cores = m.cores_per_socket,
          .transactions = m.transactions.has_value(),
          .threads = {threads.begin(), threads.end()}};
}

class simulated_calibration {
 public:
  explicit simulated_calibration(const study_options& o)
      : o_(o), pages_(app::calibration::pages_of(setting_of(o))) {
    leave_chosen(pages_, o);
    for (const page& p : pages_) all_ += p.exercises.size();
  }

  int run() {
    app::study_files files(o_.out, app::calibration::study_name);
    for (const page& p : pages_) {
      if (!measure_all(p)) break;
      app::charted_figure figure{
          .id = p.id, .title = p.title, .summary = p.summary, .machine = machine().name};
      p.show(results_, figure);
      files.show(std::move(figure), "simulated on " + machine().name);
    }
    std::printf("%s\n", trust);
    nlohmann::ordered_json document = study_document(o_, machine(), app::calibration::study_name,
                                                     app::calibration::title, app::calibration::paper);
    document["benchmarks"] = benchmarks_;
    document["study"]["figures"] = files.figures();
    document["study"]["contexts"] = nlohmann::ordered_json::array({document["context"]});
    files.write(document);
    return 0;
  }

 private:
  [[nodiscard]] const sim::machine_spec& machine() const { return o_.places.front().machine; }

  /// False if an interrupt left something out.
  bool measure_all(const page& p) {
    for (const exercise& e : p.exercises) {
      ++begun_;
      if (results_.find(e) != nullptr) continue;
      if (app::interruption::requested()) return false;
      line_.step(begun_, all_, fmt::format("simulating {}, {} threads", e.name(), e.threads));
      const std::uint64_t operations = e.what == work::latency    ? latency_lines
                                       : o_.given("--operations") ? o_.operations
                                                                  : usual_operations;
      add(e, measure(machine(), e, operations, o_.seed));
      line_.clear();
    }
    return true;
  }

  void add(const exercise& e, const measured_exercise& m) {
    const unsigned working = e.what == work::latency ? 1 : e.threads;
    const double aborts = m.phase.per_operation(m.phase.transactions.aborted());
    const double given_up = m.phase.per_operation(m.given_up);
    results_.add(e, {.speed = m.phase.operations_per_second(),
                     .cycles = m.phase.per_operation(m.phase.cycles) * working,
                     .aborts = aborts,
                     .given_up = given_up,
                     .too_short = e.what == work::latency ? "" : too_short(m.phase, working)});
    nlohmann::ordered_json one = study_entry(fmt::format("calibration/{}", e.name()), e.threads, m.phase);
    one["technique"] = e.name();
    one["items_per_second"] = m.phase.operations_per_second();
    if (e.what == work::transaction) one.update({{"aborts", aborts}, {"given_up", given_up}});
    one["counts"] = counts_json(m.phase);
    benchmarks_.push_back(std::move(one));
  }

  const study_options& o_;
  std::vector<page> pages_;
  app::calibration::results results_;
  std::size_t all_ = 0;
  std::size_t begun_ = 0;
  nlohmann::ordered_json benchmarks_ = nlohmann::ordered_json::array();
  app::progress_line line_;
};

const registered_study registered{{{app::calibration::study_name,
                                    "programs of a few lines, beside what is published of such machines",
                                    {"--machine", "--threads", "--operations", "--seed", "--figure", "--out"},
                                    [](const study_options& o) { return simulated_calibration(o).run(); }},
                                   {}}};

}  // namespace
}  // namespace espalier::simulate::calibration
