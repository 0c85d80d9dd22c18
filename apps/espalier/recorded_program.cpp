#include "recorded_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "apps/common/child.hpp"
#include "apps/common/scratch_folder.hpp"
#include "apps/common/usage_error.hpp"
#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/programs/call_sites.hpp"
#include "espalier/programs/code_names.hpp"
#include "espalier/programs/preload_obstacle.hpp"
#include "espalier/programs/site_names.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

/// A variable of this process's environment, for what it starts; as before when the scope is left.
class scoped_variable {
 public:
  scoped_variable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* const before = getenv(name_.c_str())) before_ = before;
    setenv(name_.c_str(), value.c_str(), 1);
  }
  scoped_variable(const scoped_variable&) = delete;
  scoped_variable& operator=(const scoped_variable&) = delete;
  ~scoped_variable() {
    if (before_)
      setenv(name_.c_str(), before_->c_str(), 1);
    else
      unsetenv(name_.c_str());
  }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

std::string preload_list(const fs::path& library) {
  const char* const before = getenv("LD_PRELOAD");
  return before == nullptr || *before == '\0' ? library.string()
                                              : fmt::format("{}:{}", library.string(), before);
}

/// Snapshots are called by their numbers; those of other processes have something behind.
std::optional<fs::path> last_snapshot(const fs::path& folder) {
  std::optional<fs::path> last;
  unsigned most = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    unsigned number = 0;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (failed != std::errc() || end != name.data() + name.size()) continue;
    if (!last || number > most) {
      last = entry.path();
      most = number;
    }
  }
  return last;
}

std::string fact_of(const inspect::snapshot& s, std::string_view name) {
  const auto found = std::ranges::find(s.facts, name, &inspect::fact::name);
  return found == s.facts.end() ? "" : found->value;
}

/// Bytes by the way of naming, all ways in every case: for programs to read too.
std::string shares_of(const programs::naming& named) {
  const auto all = static_cast<double>(std::max<std::uint64_t>(named.all(), 1));
  const auto share = [all](std::uint64_t bytes, const char* by) {
    return fmt::format("{} {} ({:.1f} %)", by, bytes, 100 * static_cast<double>(bytes) / all);
  };
  return fmt::format("bytes named by {}, {}, {}, {}, {}", share(named.by_debug_info, "debug information"),
                     share(named.by_symbol_table, "symbol"), share(named.by_caller, "caller's symbol"),
                     share(named.by_unwind_table, "function start"), share(named.unnamed, "nothing"));
}

}  // namespace

recorded_program run_recorded(const recording_options& how) {
  const auto library = find_companion("../../preload/libespalier-inspect.so", ESPALIER_INSPECT_INSTALLED);
  if (!library)
    throw usage_error(
        "inspect: this program was installed or built without libespalier-inspect.so; build it without "
        "sanitizers");
  if (const auto obstacle = programs::preload_obstacle(how.command.front())) throw usage_error(*obstacle);

  const scratch_folder folder("espalier-inspect");
  recorded_program done;
  {
    const scoped_variable preload("LD_PRELOAD", preload_list(*library));
    const scoped_variable file("ESPALIER_INSPECT_FILE", (folder.path() / "%n").string());
    std::vector<std::unique_ptr<scoped_variable>> others;
    const auto set = [&](const char* name, const std::string& value) {
      if (!value.empty())
        others.push_back(std::make_unique<scoped_variable>(fmt::format("ESPALIER_INSPECT_{}", name), value));
    };
    set("EVERY", how.every);
    set("SAMPLE", how.sample);
    set("FOLLOW", how.follow);
    set("POINTERS", how.pointers ? "1" : "");
    const auto status = run_child(how.command);
    if (!status) throw usage_error(fmt::format("{} could not be started", how.command.front()));
    done.status = *status;
  }
  const auto last = last_snapshot(folder.path());
  if (!last) {
    done.remark =
        "the program left no snapshot: a signal or abort() ended it, it became another program, or a "
        "variable "
        "above was wrong";
    return done;
  }
  done.layout = inspect::read_snapshot(*last);
  if (const std::string owner = fact_of(*done.layout, "malloc of its own"); !owner.empty()) {
    done.layout.reset();
    done.remark = fmt::format(
        "nothing was recorded: {} has a malloc of its own, for which no preloaded library can stand in; link "
        "it "
        "without",
        owner);
    return done;
  }
  const programs::call_sites sites = programs::read_call_sites(*last);
  programs::code_names names(sites.modules);
  done.remark = shares_of(programs::name_types(*done.layout, sites, names));
  done.layout->facts.push_back({"names", done.remark});
  return done;
}

}  // namespace espalier::app
