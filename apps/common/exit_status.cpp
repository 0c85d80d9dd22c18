#include "apps/common/exit_status.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "espalier/hw/clock.hpp"

namespace espalier::app {

namespace {

char folded(char c) {
  return c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// How many letters must be inserted, deleted, replaced, or exchanged with the next.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> to(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) to[i][0] = i;
  std::iota(to[0].begin(), to[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      to[i][j] = std::min({to[i - 1][j - 1] + (same ? 0 : 1), to[i - 1][j] + 1, to[i][j - 1] + 1});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]))
        to[i][j] = std::min(to[i][j], to[i - 2][j - 2] + 1);
    }
  }
  return to[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known) {
  const std::string* nearest = nullptr;
  std::size_t least = std::max<std::size_t>(typed.size() / 3, 1) + 1;
  for (const std::string& name : known) {
    if (const std::size_t letters = distance(typed, name); letters < least) {
      least = letters;
      nearest = &name;
    }
  }
  return nearest == nullptr ? "" : "; did you mean '" + *nearest + "'?";
}

namespace {

std::atomic<bool> is_requested{false};
std::atomic<int> by_signal{0};
std::atomic<std::uint64_t> requested_at{0};  // hw::wall_ns()
std::atomic<pid_t> group_of_child{0};
std::atomic<bool> closed_pipe{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

/// timeout(1) sends its signal to the program and then to its group, and what started this program may forward it: one request
/// may come several times.
constexpr std::uint64_t one_request_ns = 250'000'000;

void request(int signal) {
  const int kept = errno;
  if (signal == SIGHUP || (is_requested && hw::wall_ns() - requested_at > one_request_ns)) {
    if (const pid_t group = group_of_child; group != 0) kill(-group, SIGKILL);
    ::signal(signal, SIG_DFL);
    raise(signal);  // when this handler has ended
  } else if (!is_requested) {
    requested_at = hw::wall_ns();
    constexpr std::string_view said =
        "\nespalier: interrupted; what is measured is written, marked incomplete. Again ends it at once.\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, said.data(), said.size());
    by_signal = signal;
    is_requested = true;
  }
  errno = kept;
}

}  // namespace

interruption::interruption() {
  is_requested = false;
  struct sigaction handled{};
  handled.sa_handler = request;
  handled.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], nullptr, &before_[i]);
    // Signals that a caller such as nohup has set to be ignored stay ignored.
    if (before_[i].sa_handler != SIG_IGN) sigaction(signals[i], &handled, nullptr);
  }
}

interruption::~interruption() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

const std::atomic<bool>& interruption::requested() noexcept { return is_requested; }

void interruption::ends_too(pid_t group) noexcept { group_of_child = group; }

interruption::held_back::held_back() noexcept {
  sigset_t all;
  sigemptyset(&all);
  for (const int signal : signals) sigaddset(&all, signal);
  pthread_sigmask(SIG_BLOCK, &all, &before_);
}

interruption::held_back::~held_back() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int interruption::status() noexcept { return is_requested ? 128 + by_signal : 0; }

void outlive_closed_pipes() noexcept {
  // A handler rather than SIG_IGN, because exec() resets handlers.
  struct sigaction noted{};
  noted.sa_handler = [](int) { closed_pipe = true; };
  noted.sa_flags = SA_RESTART;
  struct sigaction before{};
  sigaction(SIGPIPE, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGPIPE, &noted, nullptr);
}

namespace {

int complain(const std::string& name, const std::string& what, int status) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), what.c_str());
  return status;
}

/// CLI11 ignores empty items of a list, such as a missing number between two commas.
void refuse_empty_items(const CLI::App& parser, int argc, const char* const* argv) {
  const CLI::App* verb = &parser;
  const CLI::Option* option = nullptr;
  const auto named_briefly = [&verb](std::string_view word) {
    return word.starts_with('-') ? verb->get_option_no_throw(std::string(word.substr(0, 2))) : nullptr;
  };
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    std::string_view value = word;
    if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      option = verb->get_option_no_throw(std::string(word.substr(0, equals)));
      if (equals == std::string_view::npos) continue;
      value = word.substr(equals + 1);
    } else if (const CLI::Option* const brief = named_briefly(word)) {
      option = brief;
      if (word.size() == 2) continue;
      value = word.substr(2);
    } else if (option == nullptr) {
      const auto named = verb->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
      if (!named.empty()) verb = named.front();
      continue;
    }
    if (option != nullptr && option->get_delimiter() != '\0') {
      const std::string items = option->get_delimiter() + std::string(value) + option->get_delimiter();
      if (items.find(std::string(2, option->get_delimiter())) != std::string::npos)
        throw usage_error(
            fmt::format("{} {} has an empty item", option->get_name(), value.empty() ? "''" : value));
    }
    option = nullptr;
  }
}

/// The words of a program that follow those of the verb; null for a verb without.
const CLI::Option* words_of_program(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_positional() && option->get_expected_max() > 1 && !option->get_required()) return option;
  }
  return nullptr;
}

/// What is wrong with the command line, and what would be right. CLI11 says it in terms of a parser.
std::string explained(const CLI::App& parser, const CLI::ParseError& error) {
  const auto verbs = parser.get_subcommands();
  const CLI::App& verb = verbs.empty() ? parser : *verbs.front();
  const std::string command = verbs.empty() ? parser.get_name() : parser.get_name() + ' ' + verb.get_name();
  std::string said = error.what();
  const std::string option = said.substr(0, said.find(':'));
  const std::vector<std::string> rest = parser.remaining(true);
  const bool lacks_verb = verbs.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    if (said.find("At Most") != std::string::npos) said = option + " is given more than once; give it once";
    if (said.ends_with(" missing")) said = option + " needs a value";
  } else if (lacks_verb && rest.empty()) {
    said = command + " needs a command";
  } else if (lacks_verb || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto dashed =
        std::ranges::find_if(rest, [](const std::string& word) { return word.starts_with('-'); });
    const std::string word = dashed == rest.end() ? rest.front() : dashed->substr(0, dashed->find('='));
    const CLI::Option* const program = words_of_program(verb);
    if (program != nullptr && program->count() != 0)
      return fmt::format("{} has no option '{}'; if it is for {}, write -- before that: {} -- {} {}", command,
                         word, program->results().front(), command, fmt::join(program->results(), " "),
                         fmt::join(rest, " "));
    std::vector<std::string> known;
    for (const CLI::Option* one : verb.get_options()) {
      for (const std::string& name : one->get_lnames()) known.push_back("--" + name);
    }
    said = fmt::format("{} has no {} '{}'{}", command, dashed == rest.end() ? "argument" : "option", word,
                       dashed == rest.end() ? "" : did_you_mean(word, known));
  }
  return said + "; " + command + " --help shows what is possible";
}

/// Returns a failure if standard output was lost.
int status_with_output(const std::string& name, int status) {
  // The stream records that an error occurred, but not which. Flushing what is still buffered reports it again.
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  // The pipe's reader has closed it and wants no more output: this is no failure.
  if (!lost || errno == EPIPE || closed_pipe) return status;
  const std::string why = errno != 0 ? fmt::format(": {}", std::strerror(errno)) : "";
  return complain(name, "writing to standard output failed" + why,
                  status != exit_done ? status : exit_failure);
}

/// The first files or sockets that are opened would be the standard streams that the caller has closed, and get their text. To
/// read or write there fails as ever, and a program that is started finds them closed.
void occupy_closed_streams() noexcept {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0)
      static_cast<void>(open("/dev/null", (stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC));
  }
}

}  // namespace

int run_reporting(const std::string& name, const std::function<int()>& code) {
  occupy_closed_streams();
  try {
    return code();
  } catch (const usage_error& error) {
    return complain(name, error.what(), exit_usage);
  } catch (const std::invalid_argument& error) {
    return complain(name, error.what(), exit_usage);
  } catch (const std::system_error& error) {
    // A file that the user named cannot be read. Files that cannot be written are detected earlier.
    return complain(name, error.what(), exit_usage);
  } catch (const std::bad_alloc&) {
    return complain(name, "the system gives no more memory", exit_failure);
  } catch (const std::exception& error) {
    return complain(name, error.what(), exit_failure);
  }
}

int run_parser(CLI::App& parser, int argc, const char* const* argv) {
  const int status = run_reporting(parser.get_name(), [&]() -> int {
    try {
      refuse_empty_items(parser, argc, argv);
      parser.parse(argc, argv);
    } catch (const CLI::RuntimeError& ended) {
      return ended.get_exit_code();
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return parser.exit(error);
      throw usage_error(explained(parser, error));
    }
    return exit_done;
  });
  return status_with_output(parser.get_name(), status);
}

}  // namespace espalier::app
