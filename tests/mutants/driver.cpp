#include "mutants/driver.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include "mutants/chosen.hpp"

namespace espalier::mutants {
namespace {

/// Many times as often as unchanged code asks in a schedule.
constexpr std::uint64_t most_questions = 3'000'000;

std::uint64_t questions = 0;  // in this schedule
std::uint32_t chosen_mutant = 0;
bool was_reached = false;  // of a program of several mutants, the chosen one
bool runs_wide = true;
std::string_view only_scene;

}  // namespace

[[gnu::no_sanitize_thread]] bool is_chosen(std::uint32_t mutant) noexcept {
  if (++questions > most_questions) std::raise(SIGPROF);
  was_reached |= mutant == chosen_mutant;
  return mutant == chosen_mutant;
}

void schedule_begins() { questions = 0; }

void scenes::run(std::string_view name, const std::function<void(sim::scene&)>& build,
                 sim::exploration_options how, double share) {
  if (!wants(name)) return;
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

/// Runs rounds with new seeds, each longer than the one before, until one fails.
round_result explore_rounds(std::uint64_t rounds) {
  // Small rounds first: most mutants fail in the first schedules of the scenario that is meant for them,
  // which may be the last one.
  round_options options{50, 1, runs_wide, only_scene};
  round_result sum;
  for (; options.seed <= rounds && sum.passed; ++options.seed) {
    scenes round{options, {}};
    explore_all(round);
    round.result.schedules += sum.schedules;
    sum = std::move(round.result);
    options.schedules_per_scenario = std::min<std::uint64_t>(options.schedules_per_scenario * 2, 400);
  }
  return sum;
}

}  // namespace
}  // namespace espalier::mutants

int main(int argc, char** argv) {
  std::uint64_t rounds = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--rounds") rounds = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::string_view(argv[i]) == "--mutant")
      espalier::mutants::chosen_mutant = static_cast<std::uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    if (std::string_view(argv[i]) == "--scene") espalier::mutants::only_scene = argv[i + 1];
    if (std::string_view(argv[i]) == "--wide")
      espalier::mutants::runs_wide = std::string_view(argv[i + 1]) == "1";
  }
  espalier::mutants::was_reached = espalier::mutants::chosen_mutant == 0;
  const auto result = espalier::mutants::explore_rounds(rounds);
  std::cout << "{\"passed\": " << (result.passed ? "true" : "false")
            << ", \"schedules\": " << result.schedules
            << ", \"reached\": " << (espalier::mutants::was_reached ? "true" : "false")
            << ", \"scenario\": " << espalier::mutants::quoted(result.scenario)
            << ", \"text\": " << espalier::mutants::quoted(result.text) << "}\n";
  return result.passed ? 0 : 1;
}
