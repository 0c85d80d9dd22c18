#include "mutants/driver.hpp"

#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>

#include "mutants/chosen.hpp"

namespace espalier::mutants {
namespace {

double schedule_seconds = 0;  // 0: no limit
std::uint32_t chosen_mutant = 0;
bool runs_wide = true;

}  // namespace

bool is_chosen(std::uint32_t mutant) noexcept { return mutant == chosen_mutant; }

void schedule_begins() {
  if (schedule_seconds <= 0) return;
  double whole = 0;
  const double part = std::modf(schedule_seconds, &whole);
  itimerval left{};
  left.it_value.tv_sec = static_cast<time_t>(whole);
  left.it_value.tv_usec = static_cast<suseconds_t>(part * 1e6);
  setitimer(ITIMER_PROF, &left, nullptr);
}

void scenes::run(std::string_view name, const std::function<void(sim::scene&)>& build,
                 sim::exploration_options how, double share) {
  if (!result.passed) return;
  how.schedules = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(static_cast<double>(options.schedules_per_scenario) * share));
  how.seed = options.seed;
  const sim::exploration_report report = sim::explore(name, how, [&build](sim::scene& s) {
    schedule_begins();
    build(s);
  });
  result.schedules += report.runs;
  if (report.passed()) return;
  result.passed = false;
  result.scenario = name;
  result.text = report.failure->text;
}

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out.push_back(' ');
    else
      out.push_back(c);
  }
  return out + '"';
}

/// Runs rounds with new seeds, each longer than the one before, until one fails or the time is over. The
/// first round always runs to its end.
round_result explore_for(double seconds) {
  // Small rounds first: most mutants fail in the first schedules of the scenario that is meant for them,
  // which may be the last one.
  round_options options{50, 1, runs_wide};
  round_result sum;
  const std::clock_t begin = std::clock();
  const auto left = [&] {
    return static_cast<double>(std::clock() - begin) / static_cast<double>(CLOCKS_PER_SEC) < seconds;
  };
  do {
    scenes round{options, {}};
    explore_all(round);
    round.result.schedules += sum.schedules;
    sum = std::move(round.result);
    if (!sum.passed) break;
    ++options.seed;
    options.schedules_per_scenario = std::min<std::uint64_t>(options.schedules_per_scenario * 2, 400);
  } while (left());
  return sum;
}

}  // namespace
}  // namespace espalier::mutants

int main(int argc, char** argv) {
  double seconds = 5;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--seconds") seconds = std::strtod(argv[i + 1], nullptr);
    if (std::string_view(argv[i]) == "--schedule-seconds")
      espalier::mutants::schedule_seconds = std::strtod(argv[i + 1], nullptr);
    if (std::string_view(argv[i]) == "--mutant")
      espalier::mutants::chosen_mutant = static_cast<std::uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    if (std::string_view(argv[i]) == "--wide")
      espalier::mutants::runs_wide = std::string_view(argv[i + 1]) == "1";
  }
  const auto result = espalier::mutants::explore_for(seconds);
  std::cout << "{\"passed\": " << (result.passed ? "true" : "false")
            << ", \"schedules\": " << result.schedules
            << ", \"scenario\": " << espalier::mutants::quoted(result.scenario)
            << ", \"text\": " << espalier::mutants::quoted(result.text) << "}\n";
  return result.passed ? 0 : 1;
}
