#include "apps/studies/measured_process.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "apps/common/child.hpp"
#include "apps/common/exit_status.hpp"
#include "apps/studies/study.hpp"
#include "espalier/hw/affinity.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/measure/statistics.hpp"

namespace espalier::app {

namespace fs = std::filesystem;

// One process ---------------------------------------------------------------------------------------------------------

namespace {

fs::path work_program() {
  constexpr const char* name = "espalier-measured-work";
  const auto found = find_companion(fs::path("../studies") / name, fs::path(ESPALIER_PROGRAM_FOLDER) / name);
  if (!found)
    throw usage_error(fmt::format("{} is missing beside this program; build or install it whole", name));
  return *found;
}

std::string status_in_words(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

/// The sums of a report of libespalier-elide.so. Throws std::runtime_error if it is not one.
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

/// A running espalier-measured-work with libraries preloaded, which waits for requests. Errors are reported as
/// std::runtime_error with its last words.
class measured_process {
 public:
  /// When this returns, the process has prepared its work under the requested malloc.
  measured_process(const measured_request& request, const std::vector<std::string>& more, fs::path report)
      : described_(fmt::format("the measured program ({})", fmt::join(request.arguments, " "))),
        report_(std::move(report)),
        eliding_(request.locks != mutex_policy::system) {
    start(request, more);
    try {
      const fs::path malloc_file = answer().at("malloc").get<std::string>();
      // The C library's malloc needs no check: it is where the linker found it, whatever its path.
      std::error_code none;
      const auto& wanted = request.malloc.libraries;
      if (!wanted.empty() && !fs::equivalent(wanted.back(), malloc_file, none))
        throw std::runtime_error(fmt::format("{} was preloaded, but malloc is in {}", wanted.back().string(),
                                             malloc_file.string()));
    } catch (...) {
      // A constructor that throws runs no destructor.
      static_cast<void>(wait());
      throw;
    }
  }
  measured_process(const measured_process&) = delete;
  measured_process& operator=(const measured_process&) = delete;
  /// Kills a process that was not finished.
  ~measured_process() {
    if (process_ == 0) return;
    kill(process_, SIGKILL);
    static_cast<void>(wait());
  }

  /// Each thread performs this many operations.
  round_cost round(std::uint64_t operations) {
    const nlohmann::json said = ask(fmt::format("round {}", operations));
    return {said.at("operations").get<std::uint64_t>(), said.at("wall_ns").get<std::uint64_t>(),
            said.at("cpu_ns").get<std::uint64_t>()};
  }

  /// The addresses of blocks, and the process's memory.
  nlohmann::json facts() { return ask("facts"); }

  /// Ends the process. Its libraries then write their reports.
  elision_sums finish() {
    shutdown(channel_, SHUT_WR);
    if (const int status = wait(); status != 0)
      throw std::runtime_error(fmt::format("{} {}", described_, status_in_words(status)));
    if (!eliding_) return {};
    std::ifstream file(report_);
    return parse_elision_report({std::istreambuf_iterator<char>(file), {}});
  }

 private:
  void start(const measured_request& request, const std::vector<std::string>& more) {
    std::vector<std::string> command{work_program().string()};
    command.insert(command.end(), request.arguments.begin(), request.arguments.end());
    command.insert(command.end(), more.begin(), more.end());
    std::vector<fs::path> libraries = request.malloc.libraries;
    variables set = request.malloc.set;
    if (eliding_) {
      libraries.insert(libraries.begin(), find_preload_library("elide"));
      set.emplace_back("ESPALIER_ELIDE_POLICY", request.locks == mutex_policy::tts ? "tts" : "tle");
      set.emplace_back("ESPALIER_ELIDE_LEARN", request.locks == mutex_policy::tle ? "off" : "auto");
      set.emplace_back("ESPALIER_ELIDE_STATS", report_.string());
    }
    const std::vector<std::string> environment = child_environment(set, libraries);
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error("no socket could be had for " + described_);
    child_descriptors descriptors;
    descriptors.take(STDIN_FILENO, ends[1]);
    descriptors.take(STDOUT_FILENO, ends[1]);
    const auto started =
        spawn(command, {.descriptors = &descriptors, .environment = &environment, .apart = true});
    close(ends[1]);
    channel_ = ends[0];
    if (!started) {
      static_cast<void>(wait());
      throw std::runtime_error(fmt::format("{} could not be started", described_));
    }
    process_ = *started;
  }

  nlohmann::json ask(const std::string& request) {
    const std::string line = request + '\n';
    if (send(channel_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
      fail("takes no request");
    return answer();
  }

  nlohmann::json answer() {
    std::array<char, 4096> part{};
    while (true) {
      if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
        const std::string line = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        nlohmann::json said = nlohmann::json::parse(line, nullptr, false);
        if (said.is_discarded()) fail("gave an answer that is none");
        return said;
      }
      const ssize_t n = read(channel_, part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("gave no answer");
      unread_.append(part.data(), static_cast<std::size_t>(n));
    }
  }

  [[noreturn]] void fail(const std::string& what) {
    // wait() closes the channel, and the process ends when its requests end.
    const int status = wait();
    throw std::runtime_error(fmt::format("{} {}; it {}", described_, what, status_in_words(status)));
  }

  int wait() noexcept {
    if (channel_ >= 0) close(std::exchange(channel_, -1));
    return process_ == 0 ? 0 : wait_for(std::exchange(process_, 0)).status;
  }

  pid_t process_ = 0;
  int channel_ = -1;
  std::string described_;
  std::string unread_;
  fs::path report_;
  bool eliding_;
};

}  // namespace

// Processes in turns --------------------------------------------------------------------------------------------------

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

turns_setting turns_of(const bench_options& o, const CLI::App& verb, std::string_view name) {
  const workload::session_request measurement = measurement_of(o);
  if (measurement.threads.size() != 1)
    throw usage_error(fmt::format("--study {} runs with one number of --threads", name));
  turns_setting s;
  if (is_given(verb, "--threads")) s.threads = measurement.threads.front();
  s.mallocs = choose_mallocs(o.mallocs);
  constexpr std::size_t most = 64;
  s.processors = hw::pin_order(hw::topology::system(), measurement.pinning);
  if (s.processors.size() > most) s.processors.resize(most);
  if (is_given(verb, "--runs")) s.rounds = static_cast<std::size_t>(o.runs);
  return s;
}

std::vector<measured_outcome> measure_in_turns(const std::vector<measured_request>& requests,
                                               const turns_request& turns) {
  const scratch_folder scratch("espalier-measured");
  std::vector<std::string> pinning{fmt::format("processors={}", turns.processors.size())};
  for (std::size_t i = 0; i < turns.processors.size(); ++i)
    pinning.push_back(fmt::format("processor{}={}", i, turns.processors[i]));
  std::deque<measured_process> group;
  for (const measured_request& r : requests)
    group.emplace_back(r, pinning, scratch.path() / fmt::format("{}", group.size()));

  std::vector<measured_outcome> outcomes(requests.size());
  for (std::size_t round = 0; round < turns.warm_up + turns.rounds; ++round) {
    for (std::size_t turn = 0; turn < group.size(); ++turn) {
      const std::size_t i = (round + turn) % group.size();
      const auto cost = group[i].round(turns.operations);
      if (round >= turns.warm_up) outcomes[i].rounds.push_back(cost);
    }
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    outcomes[i].facts = group[i].facts();
    outcomes[i].elision = group[i].finish();
  }
  return outcomes;
}

// Result files --------------------------------------------------------------------------------------------------------

measured_times times_of(const measured_outcome& outcome) {
  measured_times times;
  for (const auto& round : outcome.rounds) {
    const auto operations = static_cast<double>(round.operations);
    times.operations += round.operations;
    times.wall_ns.push_back(static_cast<double>(round.wall_ns) / operations);
    times.cpu_ns.push_back(static_cast<double>(round.cpu_ns) / operations);
  }
  return times;
}

nlohmann::ordered_json malloc_study_entry(const std::string& name, unsigned threads,
                                          const std::string& malloc, const measured_times& times) {
  return {{"name", name},
          {"run_type", "iteration"},
          {"iterations", times.operations},
          {"real_time", measure::median(times.wall_ns).value_or(0)},
          {"cpu_time", measure::median(times.cpu_ns).value_or(0)},
          {"time_unit", "ns"},
          {"threads", threads},
          {"malloc", malloc}};
}

nlohmann::ordered_json malloc_study_document(const bench_options& options, std::string_view name,
                                             std::string_view title, std::string_view sources) {
  auto results = study_results(options.seed, options.pin, name, title, sources, {});
  // The command's own malloc is irrelevant: it measures nothing itself.
  results["context"].erase("malloc");
  return results;
}

}  // namespace espalier::app
