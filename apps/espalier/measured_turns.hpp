#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/espalier/mallocs.hpp"
#include "apps/espalier/measured_process.hpp"
#include "espalier/hw/affinity.hpp"

namespace espalier::app {

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
  std::vector<measured_process::round_cost> rounds;
  nlohmann::json facts;  ///< after the last round
  elision_sums elision;  ///< of all rounds, including the warm-up; empty with the system's locks
};

struct turns_request {
  std::size_t rounds = 0;              ///< counted rounds; 0 to read only the facts
  std::size_t warm_up = 0;             ///< rounds before them
  std::uint64_t operations = 0;        ///< of one thread in a round
  std::vector<unsigned> processors{};  ///< for the threads, in rotation; empty to leave them unpinned
};

/// The processors of this machine in the order of a policy, as many as espalier-measured-work accepts.
[[nodiscard]] std::vector<unsigned> measured_processors(hw::pin_policy policy);

/// Starts a process for each request. The processes do one round each, in turns that begin with a different one each
/// time, so that a temporary slowdown of the machine affects all of them. One outcome per request. Throws
/// std::runtime_error if a process fails, or if it does not use the requested malloc.
[[nodiscard]] std::vector<measured_outcome> measure_in_turns(const std::vector<measured_request>& requests,
                                                             const turns_request& turns);

/// The sums of such a report. Throws std::runtime_error if it is not one.
[[nodiscard]] elision_sums parse_elision_report(const std::string& report);

}  // namespace espalier::app
