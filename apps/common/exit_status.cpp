#include "apps/common/exit_status.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "apps/common/usage_error.hpp"

namespace espalier::app {
namespace {

int complain(const std::string& name, const std::string& what, int status) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), what.c_str());
  return status;
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
    // A file that the user named and that cannot be read; what cannot be written is found out before.
    return complain(name, error.what(), exit_usage);
  } catch (const std::exception& error) {
    return complain(name, error.what(), exit_failure);
  }
}

int run_parser(CLI::App& parser, int argc, const char* const* argv) {
  return run_reporting(parser.get_name(), [&] {
    try {
      parser.parse(argc, argv);
    } catch (const CLI::RuntimeError& status) {
      return status.get_exit_code();
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return parser.exit(error);
      throw usage_error(std::string(error.what()) + "; " + parser.get_name() +
                        " --help shows what is possible");
    }
    return exit_done;
  });
}

}  // namespace espalier::app
