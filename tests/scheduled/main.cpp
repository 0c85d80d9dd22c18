// Programs of scenes: tests, and the same with a bug planted (mutants/mutants.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "scheduled/chosen.hpp"
#include "scheduled/expect.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::mutants {
namespace {

/// In a schedule of which a mutant is sought: many times as often as unchanged code asks.
std::uint64_t most_questions = std::numeric_limits<std::uint64_t>::max();
std::uint64_t questions = 0;  // in this schedule
std::uint32_t chosen_mutant = 0;
bool was_reached = false;

}  // namespace

[[gnu::no_sanitize_thread]] bool is_chosen(std::uint32_t mutant) noexcept {
  if (++questions > most_questions) std::raise(SIGPROF);
  was_reached |= mutant == chosen_mutant;
  return mutant == chosen_mutant;
}

}  // namespace espalier::mutants

namespace espalier::sim {
namespace {

struct for_mutants {
  std::string name;
  std::function<explored(const round_options&)> explore;
  double share;
  bool by_name;
};

/// The cheapest first.
std::vector<for_mutants>& all_for_mutants() {
  static std::vector<for_mutants> all;
  return all;
}

std::uint64_t seed = 1;  // of the round

class scene_test : public ::testing::Test {
 public:
  scene_test(const scene_build& build, const scene_runs& runs) : build_(build), runs_(runs) {}

  void TestBody() override {
    if (runs_.all_models) return expect_kept_in_all_models(runs_.schedules, build_, runs_.how);
    const exploration_report report = expect_kept(runs_.schedules, build_, runs_.how);
    if (runs_.check != nullptr) runs_.check(report);
  }

 private:
  const scene_build build_;
  const scene_runs runs_;
};

explored explore_round(const std::string& name, const scene_build& build, const scene_runs& runs,
                       const round_options& round) {
  exploration_options how = runs.how;
  how.schedules = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(static_cast<double>(round.schedules) * runs.share));
  how.seed = round.seed;
  const exploration_report report = explore(name, how, [&build](scene& s) {
    schedule_begins();
    build(s);
  });
  if (report.passed()) return {report.runs, {}, {}};
  return {report.runs, name, report.failure->text};
}

}  // namespace

bool add_scene(const std::string& suite, const std::string& name, scene_build build, scene_runs runs) {
  ::testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [build, runs]() -> ::testing::Test* { return new scene_test(build, runs); });
  const std::string called = suite + '/' + name;
  const double share = runs.share;
  add_for_mutants(
      called,
      [called, build = std::move(build), runs = std::move(runs)](const round_options& round) {
        return explore_round(called, build, runs, round);
      },
      share);
  return true;
}

void add_for_mutants(std::string name, std::function<explored(const round_options&)> explore, double share,
                     bool by_name) {
  std::vector<for_mutants>& all = all_for_mutants();
  const auto behind =
      std::find_if(all.begin(), all.end(), [share](const auto& one) { return one.share > share; });
  all.insert(behind, {std::move(name), std::move(explore), share, by_name});
}

std::uint64_t seed_of_round() noexcept { return seed; }

void schedule_begins() noexcept { mutants::questions = 0; }

namespace battery {
namespace {

constexpr double usual_schedules = 2000;

class scenario_test : public ::testing::Test {
 public:
  scenario_test(const subject_type& type, options o) : type_(type), options_(std::move(o)) {}

  void TestBody() override {
    const result r = run(type_, options_);
    EXPECT_TRUE(r.passed) << r.text;
    RecordProperty("schedules", std::to_string(r.schedules));
    RecordProperty("steps", std::to_string(r.steps));
  }

 private:
  subject_type type_;
  options options_;
};

}  // namespace

bool add_tests(const std::string& map, const subject_type& type, double share, bool is_variant) {
  for (const std::string& name : scenario_names()) {
    options o;
    o.map = map;
    o.only = name;
    o.schedules_per_scenario = scaled_schedules(usual_schedules * share);
    ::testing::RegisterTest(map.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [type, o]() -> ::testing::Test* { return new scenario_test(type, o); });
  }
  add_for_mutants(
      map,
      [type, map](const round_options& round) -> explored {
        options o;
        o.map = map;
        o.only = round.only;
        o.schedules_per_scenario = round.schedules;
        o.seed = round.seed;
        o.schedule_begins = schedule_begins;
        subject_type subjects = type;
        if (!round.wide) subjects.make_wide = nullptr;
        result r = run(subjects, o);
        return {r.schedules, std::move(r.scenario), std::move(r.text)};
      },
      1, is_variant);
  return true;
}

}  // namespace battery

namespace {

/// Whether a name is the one that is wanted, with its suite or without, or in the suite that is; what is wanted of it.
bool is_wanted(const for_mutants& one, const std::string& wanted, std::string& part) {
  part.clear();
  if (wanted.empty()) return !one.by_name;
  if (one.name == wanted || one.name.starts_with(wanted + '/') || one.name.ends_with('/' + wanted))
    return true;
  if (!wanted.starts_with(one.name + '/')) return false;
  part = wanted.substr(one.name.size() + 1);
  return true;
}

/// One after the other, up to the first that fails.
explored explore_all(const round_options& round) {
  explored sum;
  for (const for_mutants& one : all_for_mutants()) {
    round_options mine = round;
    if (!is_wanted(one, round.only, mine.only)) continue;
    explored more = one.explore(mine);
    more.schedules += sum.schedules;
    sum = std::move(more);
    if (!sum.text.empty()) break;
  }
  return sum;
}

/// Runs rounds with new seeds, each longer than the one before, until one fails.
explored explore_rounds(std::uint64_t rounds, round_options round) {
  explored sum;
  for (; seed <= rounds && sum.text.empty(); ++seed) {
    round.seed = seed;
    explored more = explore_all(round);
    more.schedules += sum.schedules;
    sum = std::move(more);
    round.schedules = std::min<std::uint64_t>(round.schedules * 2, 400);
  }
  return sum;
}

/// What the first test that fails says.
class first_failure final : public ::testing::EmptyTestEventListener {
 public:
  explicit first_failure(explored& found) : found_(found) {}

  void OnTestStart(const ::testing::TestInfo& test) override {
    ++found_.schedules;
    running_ = std::string(test.test_suite_name()) + '.' + test.name();
  }
  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (!part.failed() || !found_.text.empty()) return;
    found_.scene = running_;
    found_.text = std::string("a requirement does not hold: ") + part.message();
  }

 private:
  explored& found_;
  std::string running_;
};

/// Of a program without scenes: its tests, which need no schedules, or those of this name.
explored run_tests(const std::string& only) {
  explored found;
  int none = 1;
  char name[] = "tests";
  char* arguments[] = {name, nullptr};
  ::testing::InitGoogleTest(&none, arguments);
  GTEST_FLAG_SET(filter, only.empty() ? "*" : '*' + only + '*');
  GTEST_FLAG_SET(fail_fast, true);
  ::testing::UnitTest::GetInstance()->listeners().Append(new first_failure(found));
  const bool failed = RUN_ALL_TESTS() != 0;
  if (failed && found.text.empty()) found.text = "a requirement does not hold outside of the tests";
  return found;
}

std::string as_json(std::string_view text) {
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

/// Says in JSON whether a mutant was found.
int seek_mutant(int argc, char** argv) {
  std::uint64_t rounds = 1;
  // Small rounds first: most mutants fail in the first schedules of the scenario that is meant for them,
  // which may be the last one.
  round_options round{50, 1, true, {}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const char* const value = argv[i + 1];
    if (option == "--rounds") rounds = std::strtoull(value, nullptr, 10);
    if (option == "--mutant")
      mutants::chosen_mutant = static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10));
    if (option == "--scene") round.only = value;
    if (option == "--wide") round.wide = std::string_view(value) == "1";
  }
  mutants::was_reached = mutants::chosen_mutant == 0;
  explored found;
  if (all_for_mutants().empty()) {
    found = run_tests(round.only);
  } else {
    mutants::most_questions = 3'000'000;
    found = explore_rounds(rounds, std::move(round));
  }
  const bool passed = found.text.empty();
  std::cout << "{\"passed\": " << (passed ? "true" : "false") << ", \"schedules\": " << found.schedules
            << ", \"reached\": " << (mutants::was_reached ? "true" : "false")
            << ", \"scenario\": " << as_json(found.scene) << ", \"text\": " << as_json(found.text) << "}\n";
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace espalier::sim

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--rounds") return espalier::sim::seek_mutant(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
