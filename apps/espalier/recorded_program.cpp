#include "recorded_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/common/scratch_folder.hpp"
#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/programs/call_sites.hpp"
#include "espalier/programs/code_names.hpp"
#include "espalier/programs/site_names.hpp"
#include "preloaded_program.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

/// Those of one process, in their order. Snapshots are called by the process and their number.
std::vector<fs::path> snapshots_of(pid_t process, const fs::path& folder) {
  const std::string begin = fmt::format("{}.", process);
  std::map<unsigned, fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin)) continue;
    unsigned number = 0;
    const auto [end, failed] = std::from_chars(name.data() + begin.size(), name.data() + name.size(), number);
    if (failed == std::errc() && end == name.data() + name.size()) found.emplace(number, entry.path());
  }
  std::vector<fs::path> ordered;
  ordered.reserve(found.size());
  for (const auto& one : found) ordered.push_back(one.second);
  return ordered;
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

std::uint64_t number_of(const inspect::snapshot& s, std::string_view fact) {
  const std::string text = fact_of(s, fact);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// What recording costs is a matter of how many blocks there were and of how many were recorded.
std::string share_recorded(const inspect::snapshot& s) {
  const std::uint64_t recorded = number_of(s, "allocations recorded");
  const std::uint64_t all = recorded + number_of(s, "allocations passed over");
  const std::uint64_t ms = number_of(s, "recorded for");
  std::string text =
      fmt::format("{} of {} allocations ({:.1f} %)", recorded, all,
                  all == 0 ? 0.0 : 100 * static_cast<double>(recorded) / static_cast<double>(all));
  if (ms != 0) text += fmt::format(", {} allocations a second", all * 1000 / ms);
  return text;
}

/// A table has room for so many.
std::vector<fs::path> some_of(const std::vector<fs::path>& files) {
  constexpr std::size_t most = 8;
  if (files.size() <= most) return files;
  std::vector<fs::path> some;
  some.reserve(most);
  for (std::size_t i = 0; i < most; ++i) some.push_back(files[i * (files.size() - 1) / (most - 1)]);
  return some;
}

/// By the call sites in a file; says what share of the last snapshot got which names. Does nothing where there are
/// no call sites.
std::string name_snapshots(std::span<inspect::snapshot* const> all, const fs::path& from) {
  const programs::call_sites sites = programs::read_call_sites(from);
  if (sites.sites.empty()) return "";
  programs::code_names names(sites.modules);
  std::string shares = shares_of(programs::name_types(all, sites, names));
  all.back()->facts.push_back({"recorded", share_recorded(*all.back())});
  all.back()->facts.push_back({"names", shares});
  return shares;
}

look look_at(const inspect::snapshot& s) {
  look seen{fact_of(s, "taken at"), fact_of(s, "recorded for"), {}, {}};
  for (const inspect::live_block& b : s.blocks) {
    for (block_use* const use : {&seen.all, &seen.types[s.types[b.type].name]}) {
      ++use->blocks;
      use->bytes += b.bytes;
    }
  }
  return seen;
}

}  // namespace

recorded_program run_recorded(const recording_options& how) {
  const fs::path library = find_preload_library("inspect");
  const scratch_folder folder("espalier-inspect");
  variables set{{"ESPALIER_INSPECT_FILE", (folder.path() / "%p.%n").string()}};
  const auto ask = [&](const char* name, const std::string& value) {
    if (!value.empty()) set.emplace_back(fmt::format("ESPALIER_INSPECT_{}", name), value);
  };
  ask("EVERY", how.every);
  ask("SAMPLE", how.sample);
  ask("FRAMES", how.frames);
  ask("FOLLOW", how.follow);
  ask("POINTERS", how.pointers ? "1" : "");
  recorded_program done;
  pid_t process = 0;
  done.status = run_preloaded(how.command, {library}, set, &process);
  const std::vector<fs::path> files = snapshots_of(process, folder.path());
  if (files.empty()) {
    done.remark =
        "the program left no snapshot: a signal or abort() ended it, it became another program, or a "
        "variable "
        "above was wrong";
    return done;
  }
  const std::vector<fs::path> chosen = some_of(files);
  std::vector<inspect::snapshot> snapshots;
  std::vector<inspect::snapshot*> all;
  snapshots.reserve(chosen.size());
  for (const fs::path& file : chosen) all.push_back(&snapshots.emplace_back(inspect::read_snapshot(file)));
  // Sites keep their numbers, and the last snapshot has them all.
  done.remark = name_snapshots(all, files.back());
  std::ranges::transform(snapshots, std::back_inserter(done.looks), look_at);
  done.layout = std::move(snapshots.back());
  if (const std::string owner = fact_of(*done.layout, "malloc of its own"); !owner.empty()) {
    done.layout.reset();
    done.remark = fmt::format(
        "nothing was recorded: {} has a malloc of its own, for which no preloaded library can stand in; link "
        "it "
        "without",
        owner);
  }
  return done;
}

inspect::snapshot read_named_snapshot(const fs::path& from) {
  inspect::snapshot s = inspect::read_snapshot(from);
  inspect::snapshot* const one = &s;
  name_snapshots({&one, 1}, from);
  return s;
}

}  // namespace espalier::app
