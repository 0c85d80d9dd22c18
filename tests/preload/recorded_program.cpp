#include "recorded_program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "espalier/inspect/snapshot_file.hpp"

namespace espalier::test {

namespace fs = std::filesystem;

std::uint64_t instructions(const std::string& output) {
  const auto at = output.find("refs:");
  std::uint64_t number = 0;
  if (at == std::string::npos) return number;
  for (const char c : output.substr(at + 5)) {
    if (c == '\n') break;
    if (std::isdigit(static_cast<unsigned char>(c)) != 0)
      number = 10 * number + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

blocks_of_function recording::of(const std::string& function) const {
  const auto found = functions.find(function);
  return found == functions.end() ? blocks_of_function{} : found->second;
}

std::string recording::fact(const std::string& name) const {
  for (const inspect::fact& f : snapshot.facts) {
    if (f.name == name) return f.value;
  }
  return "";
}

recorded_programs::recorded_programs() {
  std::string pattern = (fs::temp_directory_path() / "espalier-preload.XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  folder_ = pattern;
}

recorded_programs::~recorded_programs() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

outcome recorded_programs::run(const std::vector<std::string>& command, const variables& settings) const {
  variables environment{{"LD_PRELOAD", PRELOAD_LIBRARY},
                        {"ESPALIER_INSPECT_FILE", (folder_ / "snapshot").string()}};
  for (const auto& [name, value] : settings) {
    if (name == "BEHIND")
      environment.front().second += ":" + value;
    else
      environment.emplace_back("ESPALIER_INSPECT_" + name,
                               name == "FILE" ? (folder_ / value).string() : value);
  }
  return start(command, environment);
}

outcome recorded_programs::run_plainly(const std::vector<std::string>& command) const {
  return start(command, {});
}

outcome recorded_programs::start(const std::vector<std::string>& command,
                                 const variables& environment) const {
  const fs::path output = folder_ / "output";
  const pid_t child = fork();
  if (child == 0) {
    const int to = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(to, STDOUT_FILENO);
    dup2(to, STDERR_FILENO);
    close(to);
    if (chdir(folder_.c_str()) != 0) _exit(126);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(127);
  }
  outcome ended;
  waitpid(child, &ended.status, 0);
  std::ifstream in(output);
  ended.output.assign(std::istreambuf_iterator<char>(in), {});
  in.close();
  fs::remove(output);
  return ended;
}

std::vector<std::string> recorded_programs::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
  return names;
}

recording recorded_programs::read(const std::string& file) const {
  recording got{inspect::read_snapshot(folder_ / file), {}, {}};
  const programs::call_sites sites = programs::read_call_sites(folder_ / file);
  programs::code_names names(sites.modules);
  got.named = programs::name_types(got.snapshot, sites, names);
  for (const inspect::live_block& b : got.snapshot.blocks) {
    const std::string& name = got.snapshot.types[b.type].name;
    blocks_of_function& of = got.functions[name.substr(0, name.rfind(" ("))];
    ++of.blocks;
    of.bytes += b.bytes;
  }
  return got;
}

bool at_length() {
  const char* const scale = std::getenv("ESPALIER_STRESS_SCALE");
  return scale != nullptr && std::atof(scale) > 1;
}

std::string program(const std::string& name) { return std::string(PROGRAMS_FOLDER "/") + name; }

}  // namespace espalier::test
