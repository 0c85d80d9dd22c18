#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/child.hpp"
#include "apps/studies/mallocs.hpp"
#include "apps/studies/study.hpp"

// Programs of the malloc studies under mallocs and mutexes of the command's choice: one process, several that take
// turns, and their results.

namespace espalier::app {

/// What a round cost a process of espalier-measured-work (measured_work.cpp).
struct round_cost {
  std::uint64_t operations;  ///< of all threads
  std::uint64_t wall_ns;
  std::uint64_t cpu_ns;  ///< of the process
};

enum class mutex_policy : unsigned char {
  system,
  tts,
  tle,         ///< each section is attempted
  tle_learnt,  ///< as users have it: sections that keep falling back are not attempted
};

[[nodiscard]] std::string_view to_string(mutex_policy policy) noexcept;

/// One process of a group that is measured in turns.
struct measured_request {
  std::vector<std::string> arguments;  ///< of espalier-measured-work
  preloaded_malloc malloc;
  mutex_policy locks = mutex_policy::system;
};

/// The counts of libespalier-elide.so, summed over mutexes and sites, by the names of its columns.
using elision_sums = std::map<std::string, std::uint64_t>;

struct measured_outcome {
  std::vector<round_cost> rounds;
  nlohmann::json facts;  ///< after the last round
  elision_sums elision;  ///< of all rounds, including the warm-up; empty with the system's locks
};

struct turns_request {
  std::size_t rounds = 0;              ///< counted rounds; 0 to read only the facts
  std::size_t warm_up = 0;             ///< rounds before them
  std::uint64_t operations = 0;        ///< of one thread in a round
  std::vector<unsigned> processors{};  ///< for the threads, in rotation; empty to leave them unpinned
};

/// The options of a study that has such turns.
struct turns_setting {
  malloc_choice mallocs;
  std::vector<unsigned>
      processors;  ///< of this machine in the order of --pin, as many as espalier-measured-work takes
  std::optional<unsigned> threads;    ///< where --threads is given, as one number
  std::optional<std::size_t> rounds;  ///< where --runs is given
};

/// Throws usage_error.
[[nodiscard]] turns_setting turns_of(const bench_options& options, const CLI::App& verb,
                                     std::string_view study);

/// Starts a process for each request. The processes do one round each, in turns that begin with a different one each
/// time, so that a temporary slowdown of the machine affects all of them. One outcome per request. Throws
/// std::runtime_error if a process fails, or if it does not use the requested malloc.
[[nodiscard]] std::vector<measured_outcome> measure_in_turns(const std::vector<measured_request>& requests,
                                                             const turns_request& turns);

/// One number per round.
struct measured_times {
  std::uint64_t operations = 0;  ///< of all rounds
  std::vector<double> wall_ns;   ///< per operation
  std::vector<double> cpu_ns;    ///< per operation, of the process
};

[[nodiscard]] measured_times times_of(const measured_outcome& outcome);

/// An entry; the study adds its own counts.
[[nodiscard]] nlohmann::ordered_json malloc_study_entry(const std::string& name, unsigned threads,
                                                        const std::string& malloc,
                                                        const measured_times& times);

/// A result file without entries; its member `study` has name, title and sources.
[[nodiscard]] nlohmann::ordered_json malloc_study_document(const bench_options& options,
                                                           std::string_view name, std::string_view title,
                                                           std::string_view sources);

}  // namespace espalier::app
