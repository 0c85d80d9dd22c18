#include "apps/espalier/recorded_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "apps/common/child.hpp"
#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/io/text.hpp"
#include "espalier/programs/code_names.hpp"
#include "espalier/programs/site_names.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

/// A folder to which a program can write when it has given up the rights of its user: the name is the secret.
fs::path folder_for_every_user(const fs::path& in) {
  std::random_device drawn;
  fs::path made = in / fmt::format("{:08x}{:08x}{:08x}{:08x}", drawn(), drawn(), drawn(), drawn());
  fs::create_directory(made);
  fs::permissions(made, fs::perms::all);
  fs::permissions(in, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  return made;
}

/// The snapshots of one process, in their order. Their file names contain the process and a number.
std::vector<fs::path> snapshots_of(pid_t process, const fs::path& folder) {
  const std::string begin = fmt::format("{}.", process);
  std::map<unsigned, fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin)) continue;
    const auto number = io::parse_whole<unsigned>(std::string_view(name).substr(begin.size()));
    if (number) found.emplace(*number, entry.path());
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

/// Bytes by the way of naming. Always lists all ways, so that programs can read it too.
std::string shares_of(const programs::naming& named) {
  const auto all = static_cast<double>(std::max<std::uint64_t>(named.all(), 1));
  const auto share = [all](std::uint64_t bytes, const char* by) {
    return fmt::format("{} {} ({:.1f} %)", by, bytes, 100 * static_cast<double>(bytes) / all);
  };
  return fmt::format("bytes named by {}, {}, {}, {}, {}", share(named.by_debug_info, "debug information"),
                     share(named.by_symbol_table, "symbol"), share(named.by_caller, "caller's symbol"),
                     share(named.by_unwind_table, "function start"), share(named.unnamed, "nothing"));
}

std::uint64_t number_in(const inspect::snapshot& s, std::string_view fact) {
  const std::string text = fact_of(s, fact);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The cost of recording depends on how many blocks there were and on how many were recorded.
std::string share_recorded(const inspect::snapshot& s) {
  const std::uint64_t recorded = number_in(s, "allocations recorded");
  const std::uint64_t all = recorded + number_in(s, "allocations passed over");
  const std::uint64_t ms = number_in(s, "recorded for");
  std::string text =
      fmt::format("{} of {} allocations ({:.1f} %)", recorded, all,
                  all == 0 ? 0.0 : 100 * static_cast<double>(recorded) / static_cast<double>(all));
  if (ms != 0) text += fmt::format(", {} allocations a second", all * 1000 / ms);
  return text;
}

/// As many files as fit a table.
std::vector<fs::path> some_of(const std::vector<fs::path>& files) {
  constexpr std::size_t most = 8;
  if (files.size() <= most) return files;
  std::vector<fs::path> some;
  some.reserve(most);
  for (std::size_t i = 0; i < most; ++i) some.push_back(files[i * (files.size() - 1) / (most - 1)]);
  return some;
}

/// Names the types of snapshots of one process by the call sites in the file of the last. Adds facts to each: what was
/// recorded until then, and what share of it got which names. Does nothing if there are no call sites.
void name_snapshots(std::span<inspect::snapshot* const> all, const fs::path& from, progress_line& shown) {
  const programs::call_sites sites = programs::read_call_sites(from);
  if (sites.sites.empty()) return;
  programs::code_names names(sites.modules);
  std::size_t percent = 100;
  const auto progress = [&](std::size_t done, std::size_t count) {
    // Only the first step of each percent is shown.
    if (percent == 100 * done / count) return;
    percent = 100 * done / count;
    shown.step(done, count, fmt::format("name {} call sites", count));
  };
  const std::vector<programs::naming> shares = programs::name_types(all, sites, names, progress);
  shown.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->facts.push_back({"recorded", share_recorded(*all[i])});
    all[i]->facts.push_back({"names", shares_of(shares[i])});
  }
}

std::uint64_t bytes_asked(const inspect::snapshot& s) {
  std::uint64_t sum = 0;
  for (const inspect::live_block& b : s.blocks) sum += b.bytes;
  return sum;
}

double percent_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

bool is_of_the_end(const inspect::snapshot& s) {
  const std::string moment = fact_of(s, "taken at");
  return moment != "signal" && moment != "interval" && moment != "peak";
}

/// "31.0 MB in 81000 blocks, 10.1 % of the 800000 allocations recorded", and its share of the peak.
std::string extent_of(const inspect::snapshot& s, const inspect::snapshot& last) {
  constexpr double all = 99.5;
  const std::uint64_t bytes = bytes_asked(s);
  const std::uint64_t allocations = number_in(last, "allocations recorded");
  std::string text =
      fmt::format("{} in {}, {:.1f} % of the {} allocations recorded", bytes_text(bytes),
                  number_of(s.blocks.size(), "block"), percent_of(s.blocks.size(), allocations), allocations);
  const double share = percent_of(bytes, number_in(last, "most bytes at once"));
  if (share != 0 && share < all) text += fmt::format(", {:.1f} % of the most bytes that it held", share);
  return text;
}

std::string peak_text(const inspect::snapshot& peak, const inspect::snapshot& last) {
  const std::uint64_t ms = number_in(last, "recorded for") - number_in(peak, "recorded for");
  const char* const moment = is_of_the_end(last) ? "end" : "last look";
  const std::string before =
      ms < 1000 ? fmt::format("{} ms", ms) : fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  const std::string left =
      last.blocks.empty() ? "nothing"
                          : number_of(last.blocks.size(), "block") + " of " + bytes_text(bytes_asked(last));
  return fmt::format("at its peak: {}, {} before the {}; {} {} left at the {}", extent_of(peak, last), before,
                     moment, left, last.blocks.size() < 2 ? "was" : "were", moment);
}

std::string last_text(const inspect::snapshot& last) {
  return fmt::format("at its {}, when it was largest: {}", is_of_the_end(last) ? "end" : "last look",
                     extent_of(last, last));
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

recorded_program run_recorded(const recording_options& how, progress_line& shown) {
  const fs::path library = find_preload_library("inspect");
  const scratch_folder scratch("espalier-inspect");
  const fs::path folder = folder_for_every_user(scratch.path());
  variables set{{"ESPALIER_INSPECT_FILE", (folder / "%p.%n").string()}};
  const auto ask = [&](const char* name, const std::string& value) {
    if (!value.empty()) set.emplace_back(fmt::format("ESPALIER_INSPECT_{}", name), value);
  };
  ask("EVERY", how.every);
  ask("SAMPLE", how.sample);
  ask("FRAMES", how.frames);
  ask("FOLLOW", how.follow);
  ask("POINTERS", how.pointers ? "1" : "");
  ask("PEAK", how.at == "peak" ? "1" : "");
  recorded_program done;
  pid_t process = 0;
  done.status = run_preloaded(how.command, {library}, set, &process);
  const std::vector<fs::path> files = snapshots_of(process, folder);
  const fs::path peak_file = folder / fmt::format("{}.peak", process);
  std::optional<inspect::snapshot> peak;
  if (fs::exists(peak_file)) peak = inspect::read_snapshot(peak_file);
  constexpr int killed = 128;
  if (files.empty() && done.status > killed && peak) {
    inspect::snapshot* const one = &*peak;
    name_snapshots({&one, 1}, peak_file, shown);
    peak->facts.insert(peak->facts.begin(), {"heap", fmt::format("at its peak until a signal ended it: {}",
                                                                 extent_of(*peak, *peak))});
    done.layout = std::move(peak);
    return done;
  }
  if (files.empty()) {
    done.remark =
        "the program left no snapshot: a signal or abort() ended it, it became a program that cannot be "
        "recorded, no file could be written (a limit, a full disk, chroot()), or a variable above was wrong";
    return done;
  }
  const std::vector<fs::path> chosen = some_of(files);
  std::vector<inspect::snapshot> snapshots;
  std::vector<inspect::snapshot*> all;
  snapshots.reserve(chosen.size());
  shown.step(0, 1, fmt::format("read {} snapshots", chosen.size()));
  for (const fs::path& file : chosen) all.push_back(&snapshots.emplace_back(inspect::read_snapshot(file)));
  // A peak from before the process executed another program does not belong to that program.
  if (peak && peak->subject != snapshots.back().subject) peak.reset();
  // Sites keep their numbers, and the last snapshot contains all of them.
  if (peak) all.insert(all.end() - 1, &*peak);
  name_snapshots(all, files.back(), shown);
  shown.clear();
  std::ranges::transform(snapshots, std::back_inserter(done.looks), look_at);
  inspect::snapshot& last = snapshots.back();
  if (peak && bytes_asked(*peak) > bytes_asked(last)) {
    peak->facts.insert(peak->facts.begin(), {"heap", peak_text(*peak, last)});
    done.layout = std::move(peak);
  } else {
    if (how.at == "peak") last.facts.insert(last.facts.begin(), {"heap", last_text(last)});
    done.layout = std::move(last);
  }
  if (const std::string owner = fact_of(*done.layout, "malloc of its own"); !owner.empty()) {
    done.layout.reset();
    done.remark = fmt::format(
        "nothing was recorded: {} has a malloc of its own, for which no preloaded library can stand in; link "
        "it without",
        owner);
  }
  return done;
}

inspect::snapshot read_named_snapshot(const fs::path& from, progress_line& shown) {
  inspect::snapshot s = inspect::read_snapshot(from);
  inspect::snapshot* const one = &s;
  name_snapshots({&one, 1}, from, shown);
  return s;
}

}  // namespace espalier::app
