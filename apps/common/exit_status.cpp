#include "apps/common/exit_status.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "apps/common/interruption.hpp"
#include "apps/common/usage_error.hpp"

namespace espalier::app {
namespace {

int complain(const std::string& name, const std::string& what, int status) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), what.c_str());
  return status;
}

/// CLI11 ignores empty items of a list, such as a missing number between two commas.
void refuse_empty_items(const CLI::App& parser, int argc, const char* const* argv) {
  const CLI::App* verb = &parser;
  const CLI::Option* option = nullptr;
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    std::string_view value = word;
    if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      option = verb->get_option_no_throw(std::string(word.substr(0, equals)));
      if (equals == std::string_view::npos) continue;
      value = word.substr(equals + 1);
    } else if (option == nullptr) {
      const auto named = verb->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
      if (!named.empty()) verb = named.front();
      continue;
    }
    if (option != nullptr && option->get_delimiter() != '\0') {
      const std::string items = option->get_delimiter() + std::string(value) + option->get_delimiter();
      if (items.find(std::string(2, option->get_delimiter())) != std::string::npos)
        throw usage_error(fmt::format("{} {} has an empty item", option->get_name(), value));
    }
    option = nullptr;
  }
}

/// Returns a failure if standard output was lost.
int status_with_output(const std::string& name, int status) {
  // The stream records that an error occurred, but not which. Flushing what is still buffered reports it again.
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  // The pipe's reader has closed it and wants no more output: this is no failure.
  if (!lost || errno == EPIPE || met_closed_pipe()) return status;
  const std::string why = errno != 0 ? fmt::format(": {}", std::strerror(errno)) : "";
  return complain(name, "writing to standard output failed" + why,
                  status != exit_done ? status : exit_failure);
}

}  // namespace

int run_reporting(const std::string& name, const std::function<int()>& code) {
  try {
    return code();
  } catch (const usage_error& error) {
    return complain(name, error.what(), exit_usage);
  } catch (const std::invalid_argument& error) {
    return complain(name, error.what(), exit_usage);
  } catch (const std::system_error& error) {
    // A file that the user named cannot be read. Files that cannot be written are detected earlier.
    return complain(name, error.what(), exit_usage);
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
      throw usage_error(std::string(error.what()) + "; " + parser.get_name() +
                        " --help shows what is possible");
    }
    return exit_done;
  });
  return status_with_output(parser.get_name(), status);
}

}  // namespace espalier::app
