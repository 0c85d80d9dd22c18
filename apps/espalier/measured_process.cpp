#include "apps/espalier/measured_process.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "apps/common/child.hpp"
#include "apps/common/exit_status.hpp"
#include "apps/espalier/preloaded_program.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

fs::path work_program() {
  constexpr const char* name = "espalier-measured-work";
  const auto found = find_companion(fs::path("../../bench") / name, fs::path(ESPALIER_PROGRAM_FOLDER) / name);
  if (!found)
    throw usage_error(fmt::format("{} is missing beside this program; build or install it whole", name));
  return *found;
}

std::string status_in_words(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

measured_process::measured_process(const std::vector<std::string>& arguments,
                                   const std::vector<fs::path>& libraries, const variables& set)
    : described_(fmt::format("the measured program ({})", fmt::join(arguments, " "))) {
  std::vector<std::string> command{work_program().string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
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
  if (!started) {
    close(ends[0]);
    throw std::runtime_error(fmt::format("{} could not be started", described_));
  }
  process_ = *started;
  channel_ = ends[0];
  try {
    malloc_file_ = answer().at("malloc").get<std::string>();
  } catch (...) {
    // A constructor that throws runs no destructor.
    static_cast<void>(wait());
    throw;
  }
}

measured_process::measured_process(measured_process&& other) noexcept
    : process_(std::exchange(other.process_, 0)),
      channel_(std::exchange(other.channel_, -1)),
      described_(std::move(other.described_)),
      unread_(std::move(other.unread_)),
      malloc_file_(std::move(other.malloc_file_)) {}

measured_process::~measured_process() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  static_cast<void>(wait());
}

measured_process::round_cost measured_process::round(std::uint64_t operations) {
  const nlohmann::json said = ask(fmt::format("round {}", operations));
  return {said.at("operations").get<std::uint64_t>(), said.at("wall_ns").get<std::uint64_t>(),
          said.at("cpu_ns").get<std::uint64_t>()};
}

nlohmann::json measured_process::facts() { return ask("facts"); }

void measured_process::finish() {
  shutdown(channel_, SHUT_WR);
  if (const int status = wait(); status != 0)
    throw std::runtime_error(fmt::format("{} {}", described_, status_in_words(status)));
}

nlohmann::json measured_process::ask(const std::string& request) {
  const std::string line = request + '\n';
  if (send(channel_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    fail("takes no request");
  return answer();
}

nlohmann::json measured_process::answer() {
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

void measured_process::fail(const std::string& what) {
  // wait() closes the channel, and the process ends when its requests end.
  const int status = wait();
  throw std::runtime_error(fmt::format("{} {}; it {}", described_, what, status_in_words(status)));
}

int measured_process::wait() noexcept {
  if (channel_ >= 0) close(std::exchange(channel_, -1));
  return process_ == 0 ? 0 : wait_for(std::exchange(process_, 0)).status;
}

}  // namespace espalier::app
