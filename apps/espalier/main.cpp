#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>

#include "commands.hpp"
#include "usage_error.hpp"

namespace {

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

int complain(const char* what, int status) {
  std::fprintf(stderr, "espalier: %s\n", what);
  return status;
}

int run(int argc, char** argv) {
  CLI::App parser(
      "Concurrent ordered indexes: which one, where its memory should lie, and why it is slow.\n"
      "Start with: espalier bench --quick",
      "espalier");
  parser.require_subcommand(1);
  parser.set_version_flag("--version", ESPALIER_VERSION);
  parser.failure_message(CLI::FailureMessage::simple);
  parser.footer(
      "Exit status: 0 done, 1 something failed on the way, 2 what was asked for cannot be done.\n"
      "espalier VERB --help says more.");
  espalier::app::add_bench_command(parser);
  espalier::app::add_list_command(parser);
  espalier::app::add_report_command(parser);
  espalier::app::add_completion_command(parser);
  try {
    parser.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return parser.exit(error);
    return complain((std::string(error.what()) + "; espalier --help shows what is possible").c_str(),
                    exit_usage);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const espalier::app::usage_error& error) {
    return complain(error.what(), exit_usage);
  } catch (const std::invalid_argument& error) {
    return complain(error.what(), exit_usage);
  } catch (const std::system_error& error) {
    // A file that the user named and that cannot be read; what cannot be written is found out before.
    return complain(error.what(), exit_usage);
  } catch (const std::exception& error) {
    return complain(error.what(), exit_failure);
  }
}
