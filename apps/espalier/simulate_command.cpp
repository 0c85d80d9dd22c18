#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "apps/common/child.hpp"
#include "apps/common/simulate_options.hpp"
#include "apps/common/usage_error.hpp"
#include "commands.hpp"

namespace espalier::app {

void become_simulator(char** arguments) {
  const auto program = find_companion("../simulate/espalier-simulate", ESPALIER_SIMULATE_INSTALLED);
  if (!program)
    throw usage_error(
        "simulate: this program was installed or built without the simulator; build it with "
        "ESPALIER_SIMULATOR=ON and without sanitizers");
  std::string name = "espalier simulate";
  std::vector<char*> words{name.data()};
  while (*arguments != nullptr) words.push_back(*arguments++);
  words.push_back(nullptr);
  execv(program->c_str(), words.data());
  throw std::runtime_error(fmt::format("cannot start {}: {}", program->string(), std::strerror(errno)));
}

// Only for --help and for completion: the verb itself is handled before the parser sees it.
void add_simulate_command(CLI::App& parser) {
  const auto options = std::make_shared<simulate_options>();
  CLI::App* const verb = parser.add_subcommand("simulate", simulate_description);
  declare(*verb, *options);
  verb->callback([options] {});
}

}  // namespace espalier::app
