#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "espalier/hw/affinity.hpp"
#include "mallocs.hpp"
#include "measured_process.hpp"

namespace espalier::app {

enum class mutex_policy : unsigned char {
  system,
  tts,
  tle,         ///< each section is attempted
  tle_learnt,  ///< as users have it: those that keep falling back are passed over
};

[[nodiscard]] std::string_view to_string(mutex_policy policy) noexcept;

/// One process of a group that is measured in turns.
struct measured_request {
  std::vector<std::string> arguments;  ///< of espalier-measured-work
  preloaded_malloc malloc;
  mutex_policy locks = mutex_policy::system;
};

/// What libespalier-elide.so counted, summed over mutexes and sites, by the names of its columns.
using elision_sums = std::map<std::string, std::uint64_t>;

struct measured_outcome {
  std::vector<measured_process::round_cost> rounds;
  nlohmann::json facts;  ///< after the last round
  elision_sums elision;  ///< of all rounds, those to warm up included; empty with the system's locks
};

struct turns_request {
  std::size_t rounds = 0;        ///< that count; none to learn facts only
  std::size_t warm_up = 0;       ///< before them
  std::uint64_t operations = 0;  ///< of a thread in a round
  std::vector<unsigned>
      processors{};  ///< for the threads, round and round; none to leave them where they are
};

/// Those of this machine in the order of a policy, so many as can be told to espalier-measured-work.
[[nodiscard]] std::vector<unsigned> measured_processors(hw::pin_policy policy);

/// Starts a process for each request and has them do a round each, in turns that begin with another one each time: what
/// slows the machine for a while slows all of them. One outcome a request. Throws std::runtime_error where a process
/// fails, or where it has not the malloc that it should.
[[nodiscard]] std::vector<measured_outcome> measure_in_turns(const std::vector<measured_request>& requests,
                                                             const turns_request& turns);

/// The sums of such a report. Throws std::runtime_error where it is none.
[[nodiscard]] elision_sums parse_elision_report(const std::string& report);

}  // namespace espalier::app
