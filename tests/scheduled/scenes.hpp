#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "sim/explore.hpp"

// A scene is registered where it is written. Its program explores it as a test of its own; and a program that was built with
// mutants explores its scenes in rounds, each with another seed, until one fails (main.cpp).
//
//     ESPALIER_SCENE(stacks, pops_once, 2000) {
//       auto& stack = s.make<treiber_stack>();
//       ...
//     }

namespace espalier::sim {

using report_check = void(const exploration_report&);

/// How often a scene runs, and how.
struct scene_runs {
  /// `usual` schedules in the test, times ESPALIER_SCHEDULES; for a mutant `share` times as many as of other scenes.
  // NOLINTNEXTLINE(google-explicit-constructor): most scenes say no more
  scene_runs(double usual, double share_for_mutants = 1, exploration_options options = {})
      : schedules(usual), share(share_for_mutants), how(std::move(options)) {}

  /// The test has as many for each model of memory.
  [[nodiscard]] scene_runs in_all_models() && {
    all_models = true;
    return std::move(*this);
  }

  /// What the test expects of its report besides.
  [[nodiscard]] scene_runs checked_by(report_check* expects) && {
    check = expects;
    return std::move(*this);
  }

  double schedules;
  double share;
  exploration_options how;
  bool all_models = false;
  report_check* check = nullptr;
};

/// Of one thread: one schedule, which may be long.
[[nodiscard]] inline scene_runs alone() {
  return {1,
          0,
          {.strategies = {"round-robin"},
           .model = memory_model::sequential,
           .step_budget = 6'000'000,
           .transactions = std::nullopt}};
}

/// Long runs.
[[nodiscard]] inline exploration_options steps_up_to(std::uint64_t budget) { return {.step_budget = budget}; }

using scene_build = std::function<void(scene&)>;

/// Makes the test suite.name. Always true.
bool add_scene(const std::string& suite, const std::string& name, scene_build build, scene_runs runs);

/// The seed of the round, for scenes that draw more than their schedule at random.
[[nodiscard]] std::uint64_t seed_of_round() noexcept;

/// A further kind of scenes: schedules that have run, and the failure.
struct explored {
  std::uint64_t schedules = 0;
  std::string scene;  ///< the one that failed, of which text is the report; empty: none
  std::string text;
};
struct round_options {
  std::uint64_t schedules;
  std::uint64_t seed;
  bool wide;         ///< with values larger than a word
  std::string only;  ///< a part of what has this name; empty: all
};
/// The cheapest are explored first. If `by_name`, only for mutants that ask for it.
void add_for_mutants(std::string name, std::function<explored(const round_options&)> explore, double share,
                     bool by_name = false);

/// To be called when a schedule is set up. SIGPROF tells the explorer that one has no end: it counts the steps of threads, but
/// not what a scene does before and after them. So the program counts how often the code asks which mutant it is. A loop that
/// does not ask ends after much processor time.
void schedule_begins() noexcept;

}  // namespace espalier::sim

// NOLINTBEGIN(cppcoreguidelines-macro-usage)
/// What follows in braces sets up the scene `s`. Further arguments are those of scene_runs.
#define ESPALIER_SCENE(suite, name, ...)                                                                   \
  static void suite##_##name(::espalier::sim::scene& s);                                                   \
  [[maybe_unused]] static const bool suite##_##name##_is_added =                                           \
      ::espalier::sim::add_scene(#suite, #name, suite##_##name, ::espalier::sim::scene_runs(__VA_ARGS__)); \
  static void suite##_##name([[maybe_unused]] ::espalier::sim::scene& s)
// NOLINTEND(cppcoreguidelines-macro-usage)
