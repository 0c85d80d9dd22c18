#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/child.hpp"
#include "apps/common/exit_status.hpp"
#include "apps/common/option_group.hpp"
#include "apps/common/options.hpp"
#include "apps/espalier/commands.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/programs/preload_obstacle.hpp"
#include "preload/environment/output.hpp"

namespace espalier::app {
namespace {

struct run_options {
  std::string malloc = "system";
  std::string locks = "system";
  bool stats = false;
  std::vector<std::string> command;
};

int run_program(const run_options& o, const CLI::App& verb) {
  if (o.command.empty())
    throw usage_error("run needs a program: espalier run [options] -- PROGRAM ARGUMENTS");
  check_effects(
      verb, {{{"--stats"}, {"--malloc=index-aware", "--malloc=random", "--locks=tts", "--locks=tle"}, {}}});
  const bool other_malloc = o.malloc != "system";
  const bool other_locks = o.locks != "system";
  const char* const rtm = getenv("ESPALIER_ELIDE_RTM");
  const bool wants_transactions = o.locks == "tle" && (rtm == nullptr || std::string_view(rtm) != "off");
  const bool transactions = wants_transactions && hw::rtm::available();
  std::vector<std::filesystem::path> libraries;
  variables set;
  if (other_malloc) {
    const bool random = o.malloc == "random";
    libraries.push_back(find_preload_library(random ? "random" : "malloc"));
    if (o.stats) set.emplace_back(random ? "ESPALIER_RANDOM_STATS" : "ESPALIER_MALLOC_STATS", "1");
    // The first touch of a page ends a transaction, so pages are prefaulted. Without transactions that would waste
    // memory: a region for each size in each thread.
    if (!random && transactions && getenv("ESPALIER_MALLOC_PREFAULT") == nullptr)
      set.emplace_back("ESPALIER_MALLOC_PREFAULT", "1");
  }
  if (other_locks) {
    libraries.push_back(find_preload_library("elide"));
    set.emplace_back("ESPALIER_ELIDE_POLICY", o.locks);
    if (o.locks == "tle" && rtm == nullptr) {
      // Reported here once. Otherwise each program that this one starts would report it to the reader of its output.
      set.emplace_back("ESPALIER_ELIDE_RTM", "auto");
      if (!transactions && !programs::preload_obstacle(o.command.front()))
        preload::say_line("espalier: this processor has no transactions; mutexes are taken, none is elided");
    }
    if (o.stats) set.emplace_back("ESPALIER_ELIDE_STATS", "stderr");
  }
  return run_preloaded(o.command, libraries, set);
}

}  // namespace

void add_run_command(CLI::App& parser) {
  const auto options = std::make_shared<run_options>();
  CLI::App* const verb = parser.add_subcommand(
      "run", "Run any program on another malloc or other locks, with its input and output untouched");
  option_group plain(*verb);
  plain
      .add_default("--malloc", options->malloc, "HOW",
                   "Malloc of the program: index-aware, with strides that visit every set of a cache; "
                   "random, the system's malloc with random padding; system")
      ->check(CLI::IsMember({"index-aware", "random", "system"}));
  plain
      .add_default("--locks", options->locks, "HOW",
                   "Implementation of pthread_mutex: tts, a test-and-test-and-set lock; tle, the same, "
                   "elided by hardware transactions where the processor has them; system")
      ->check(CLI::IsMember({"tts", "tle", "system"}));
  plain.add_flag("--stats", options->stats,
                 "The libraries report on standard error, when the program ends, what they did");
  plain.add("program", options->command, "PROGRAM",
            "Any dynamically linked program; programs that it starts run likewise. Its exit status becomes "
            "the command's, 128 plus the signal's number if a signal ended it");
  verb->footer(
      "Examples\n"
      "  what does placement do to a program, all else the same?\n"
      "    perf stat espalier run --malloc system -- ./program\n"
      "    perf stat espalier run --malloc index-aware -- ./program\n"
      "  would luck do as well? another seed, more padding\n"
      "    ESPALIER_RANDOM_SEED=7 ESPALIER_RANDOM_BYTES=4080 espalier run --malloc random --stats -- "
      "./program\n"
      "  are its locks elided, and if not, why not?\n"
      "    espalier run --malloc index-aware --locks tle --stats -- ./program its arguments\n"
      "preload/README.md lists the variables of the libraries.");
  verb->callback([options, verb] {
    if (const int status = run_program(*options, *verb); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace espalier::app
