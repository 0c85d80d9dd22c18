#include "apps/espalier/measured_turns.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "apps/common/child.hpp"
#include "espalier/hw/topology.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

class running {
 public:
  running(const measured_request& request, const std::vector<std::string>& more, fs::path report)
      : report_(std::move(report)),
        eliding_(request.locks != mutex_policy::system),
        process_(start(request, more)) {
    // The C library's malloc needs no check: it is where the linker found it, whatever its path.
    if (request.malloc.libraries.empty()) return;
    const fs::path& wanted = request.malloc.libraries.back();
    std::error_code none;
    if (!fs::equivalent(wanted, process_.malloc_file(), none))
      throw std::runtime_error(
          fmt::format("{} was preloaded, but malloc is in {}", wanted.string(), process_.malloc_file()));
  }

  measured_process& process() noexcept { return process_; }

  elision_sums finish() {
    process_.finish();
    if (!eliding_) return {};
    std::ifstream file(report_);
    return parse_elision_report({std::istreambuf_iterator<char>(file), {}});
  }

 private:
  measured_process start(const measured_request& request, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = request.arguments;
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<fs::path> libraries = request.malloc.libraries;
    variables set = request.malloc.set;
    if (eliding_) {
      libraries.insert(libraries.begin(), find_preload_library("elide"));
      set.emplace_back("ESPALIER_ELIDE_POLICY", request.locks == mutex_policy::tts ? "tts" : "tle");
      set.emplace_back("ESPALIER_ELIDE_LEARN", request.locks == mutex_policy::tle ? "off" : "auto");
      set.emplace_back("ESPALIER_ELIDE_STATS", report_.string());
    }
    return {arguments, libraries, set};
  }

  fs::path report_;
  bool eliding_;
  measured_process process_;
};

}  // namespace

std::string_view to_string(mutex_policy policy) noexcept {
  switch (policy) {
    case mutex_policy::tts:
      return "tts";
    case mutex_policy::tle:
      return "tle";
    case mutex_policy::tle_learnt:
      return "tle-learnt";
    default:
      return "system";
  }
}

std::vector<unsigned> measured_processors(hw::pin_policy policy) {
  constexpr std::size_t most = 64;
  std::vector<unsigned> processors = hw::pin_order(hw::topology::system(), policy);
  if (processors.size() > most) processors.resize(most);
  return processors;
}

std::vector<measured_outcome> measure_in_turns(const std::vector<measured_request>& requests,
                                               const turns_request& turns) {
  const scratch_folder scratch("espalier-measured");
  std::vector<std::string> pinning{fmt::format("processors={}", turns.processors.size())};
  for (std::size_t i = 0; i < turns.processors.size(); ++i)
    pinning.push_back(fmt::format("processor{}={}", i, turns.processors[i]));
  std::vector<running> group;
  group.reserve(requests.size());
  for (const measured_request& r : requests)
    group.emplace_back(r, pinning, scratch.path() / fmt::format("{}", group.size()));

  std::vector<measured_outcome> outcomes(requests.size());
  for (std::size_t round = 0; round < turns.warm_up + turns.rounds; ++round) {
    for (std::size_t turn = 0; turn < group.size(); ++turn) {
      const std::size_t i = (round + turn) % group.size();
      const auto cost = group[i].process().round(turns.operations);
      if (round >= turns.warm_up) outcomes[i].rounds.push_back(cost);
    }
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    outcomes[i].facts = group[i].process().facts();
    outcomes[i].elision = group[i].finish();
  }
  return outcomes;
}

elision_sums parse_elision_report(const std::string& report) {
  std::istringstream lines(report);
  std::string line;
  // "espalier elide: process 1: ...", then heads, then a line for each mutex and site, which begins with those two.
  if (!std::getline(lines, line) || !line.starts_with("espalier elide: "))
    throw std::runtime_error("libespalier-elide.so left no report");
  elision_sums sums;
  if (!std::getline(lines, line)) return sums;
  std::istringstream heads(line);
  const std::vector<std::string> columns{std::istream_iterator<std::string>(heads), {}};
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    std::string cell;
    for (const std::string& column : columns) {
      if (!(cells >> cell)) throw std::runtime_error("libespalier-elide.so left a report that is cut off");
      if (column == "mutex" || column == "site") continue;
      sums[column] += std::stoull(cell);
    }
  }
  return sums;
}

}  // namespace espalier::app
