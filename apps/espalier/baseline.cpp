#include "apps/espalier/baseline.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "apps/common/child.hpp"
#include "apps/common/terminal.hpp"
#include "espalier/hw/process.hpp"
#include "espalier/measure/statistics.hpp"

namespace espalier::app {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

/// A file from elsewhere sends the terminal no commands.
bool is_shown_as_it_is(const std::string& text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

/// The medians of results.
std::vector<measured_time> times_of(const ordered_json& results) {
  std::vector<measured_time> all;
  if (!results.is_object()) return all;
  const auto benchmarks = results.find("benchmarks");
  if (benchmarks == results.end() || !benchmarks->is_array()) return all;
  for (const ordered_json& entry : *benchmarks) {
    if (!entry.is_object() || entry.value("aggregate_name", ordered_json()) != "median") continue;
    const ordered_json name = entry.value("run_name", ordered_json());
    const ordered_json time = entry.value("cpu_time", ordered_json());
    if (!name.is_string() || !is_shown_as_it_is(name)) continue;
    if (!time.is_number() || time.get<double>() <= 0) continue;
    all.push_back({subject(name, entry), time.get<double>()});
  }
  return all;
}

std::string text_in(const ordered_json& results, const char* field) {
  const ordered_json context = results.value("context", ordered_json());
  if (!context.is_object()) return unavailable;
  const ordered_json value = context.value(field, ordered_json());
  return value.is_string() && is_shown_as_it_is(value) ? value.get<std::string>() : unavailable;
}

/// Of results with runs of several processes, of which the first one's aggregates are there: medians of all runs.
void keep_medians_of(ordered_json& results, std::int64_t turns) {
  const ordered_json all = std::move(results["benchmarks"]);
  ordered_json& kept = results["benchmarks"] = ordered_json::array();
  for (ordered_json entry : all) {
    const bool is_run = entry.value("run_type", "") == "iteration";
    if (!is_run && entry.value("aggregate_name", "") != "median") continue;
    entry["repetitions"] = turns;
    if (!is_run) {
      entry["iterations"] = turns;
      for (const char* const field : {"real_time", "cpu_time", "items_per_second"}) {
        std::vector<double> values;
        for (const ordered_json& run : all) {
          if (run.value("run_type", "") == "iteration" && run["run_name"] == entry["run_name"] &&
              run[field].is_number())
            values.push_back(run[field].get<double>());
        }
        if (const auto median = measure::median(values)) entry[field] = *median;
      }
    }
    kept.push_back(std::move(entry));
  }
  results["latency"] = ordered_json::array();
}

}  // namespace

subject::subject(std::string run_name, const ordered_json& fields) : name(std::move(run_name)) {
  for (const char* const field : {"mix", "distribution", "keys", "key_order", "key_type", "placement"}) {
    // 0.2.0 wrote no order.
    const ordered_json absent =
        std::string_view(field) == "key_order" ? ordered_json("scrambled") : ordered_json();
    terms.push_back(fmt::format("{} {}", field, fields.value(field, absent).dump()));
  }
}

baseline::baseline(const std::string& file) : file_(file) {
  std::ifstream from(file);
  if (!from || fs::is_directory(file)) throw usage_error(fmt::format("--baseline {} cannot be read", file));
  const ordered_json results = ordered_json::parse(from, nullptr, false);
  if (!results.is_discarded()) times_ = times_of(results);
  if (times_.empty())
    throw usage_error(
        fmt::format("--baseline {} has no results of espalier bench; write some with --json FILE", file));
  description_ =
      fmt::format("{} (commit {}, {})", file, text_in(results, "commit"), text_in(results, "date"));
  processor_ = text_in(results, "cpu_model");
}

const measured_time* baseline::find(const subject& of) const noexcept {
  const auto found = std::ranges::find(times_, of, &measured_time::of);
  return found == times_.end() ? nullptr : &*found;
}

void baseline::expect_some(const std::vector<subject>& wanted) const {
  if (std::ranges::any_of(wanted, [&](const subject& s) { return find(s) != nullptr; })) {
    const std::string here = hw::cpu_model().value_or(unavailable);
    if (processor_ != unavailable && here != unavailable && processor_ != here)
      std::fprintf(stderr, "%s is of another processor, %s: what is slower may be this one\n", file_.c_str(),
                   processor_.c_str());
    return;
  }
  for (const subject& s : wanted) {
    const auto other = std::ranges::find(times_, s.name, [](const measured_time& t) { return t.of.name; });
    if (other == times_.end()) continue;
    const auto [was, is] = std::ranges::mismatch(other->of.terms, s.terms);
    throw usage_error(
        fmt::format("--baseline {} has none of these measurements: {} has {} there, and {} here", file_,
                    s.name, *was, *is));
  }
  throw usage_error(fmt::format("--baseline {} has none of these measurements; it has {}{}", file_,
                                times_[0].of.name,
                                times_.size() == 1 ? "" : fmt::format(" and {} more", times_.size() - 1)));
}

std::vector<compared_time> compare(const ordered_json& results, const baseline& with) {
  std::vector<compared_time> all;
  for (const measured_time& now : times_of(results)) {
    if (const measured_time* const before = with.find(now.of); before != nullptr)
      all.push_back({now.of.name, before->cpu_ns, now.cpu_ns, now.cpu_ns / before->cpu_ns});
    else
      std::fprintf(stderr,
                   "%s is not compared: the baseline has no measurement of this name with these keys\n",
                   now.of.name.c_str());
  }
  return all;
}

int report_comparison(const std::vector<compared_time>& all, double margin, const std::string& against,
                      ordered_json& results) {
  ordered_json& comparison = results["comparison"];
  comparison = {{"baseline", against}, {"measure", "cpu_time"}, {"margin_percent", margin}};
  ordered_json& rows = comparison["benchmarks"] = ordered_json::array();
  std::size_t slower = 0;
  std::size_t longest = 0;
  for (const compared_time& c : all) longest = std::max(longest, c.name.size());
  std::printf("CPU time of an operation, beside %s:\n\n", against.c_str());
  for (const compared_time& c : all) {
    const bool is_slower = c.ratio > 1 + margin / 100;
    slower += std::size_t{is_slower};
    rows.push_back({{"name", c.name},
                    {"before", c.before_ns},
                    {"now", c.now_ns},
                    {"ratio", c.ratio},
                    {"slower", is_slower}});
    std::printf("  %-*s %10.1f ns  %10.1f ns  %6.2f x%s\n", static_cast<int>(longest), c.name.c_str(),
                c.before_ns, c.now_ns, c.ratio, is_slower ? "  slower" : "");
  }
  comparison["slower"] = slower;
  if (all.empty())
    std::printf("  nothing could be compared\n");
  else if (slower == 0)
    std::printf("\nnone of %zu is slower by more than %g %%\n", all.size(), margin);
  else
    std::printf("\n%zu of %zu slower by more than %g %%\n", slower, all.size(), margin);
  return slower != 0 || all.empty() ? exit_failure : exit_done;
}

ordered_json measure_in_turns(const std::string& command, const std::vector<std::string>& arguments,
                              std::int64_t turns, std::vector<compared_time>& all) {
  const std::string own = fs::read_symlink("/proc/self/exe").string();
  if (access(command.c_str(), X_OK) != 0 || !fs::is_regular_file(command))
    throw usage_error(
        fmt::format("--baseline-command {} is no program; name the espalier of another build", command));
  const std::string other_build = fs::absolute(command).string();  // a name alone would be looked for in PATH
  const scratch_folder scratch("espalier-turns");
  const auto measure = [&](const std::string& program) {
    const std::string file = scratch.path() / "results.json";
    std::vector<std::string> words{program, "bench"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (const char* const word : {"--runs=1", "--latency-every=0", "--no-leak-check"})
      words.emplace_back(word);
    words.push_back("--json=" + file);
    child_descriptors descriptors;
    descriptors.open(STDOUT_FILENO, "/dev/null", O_WRONLY);
    // An interrupt ends the turns, not the run that is being measured.
    const auto child = [&] {
      const interruption::held_back until_it_is_known;
      const auto started = spawn(words, {.descriptors = &descriptors, .apart = true});
      if (started) interruption::ends_too(*started);
      return started;
    }();
    const int status = child ? exit_status_of(wait_for(*child)) : 127;
    interruption::ends_too(0);
    if (status != exit_done)
      throw std::runtime_error(fmt::format("{} bench has ended with status {}; see above", program, status));
    std::ifstream from(file);
    ordered_json found = ordered_json::parse(from, nullptr, false);
    if (!found.is_object())
      throw std::runtime_error(
          fmt::format("{} bench has written no results; name the espalier of another build", program));
    return found;
  };

  struct figures {
    std::vector<double> before;
    std::vector<double> now;
    std::vector<double> ratio;
  };
  std::map<std::string, figures> of_name;
  ordered_json results;
  std::int64_t turn = 0;
  for (; turn < turns && !interruption::requested(); ++turn) {
    std::fprintf(stderr, "turn %lld of %lld\n", static_cast<long long>(turn + 1),
                 static_cast<long long>(turns));
    // What comes first alternates, so that neither gains by its place.
    const bool own_first = turn % 2 != 0;
    ordered_json before;
    ordered_json now;
    (own_first ? now : before) = measure(own_first ? own : other_build);
    if (interruption::requested()) break;
    (own_first ? before : now) = measure(own_first ? other_build : own);
    const std::vector<measured_time> others = times_of(before);
    for (const measured_time& t : times_of(now)) {
      const auto other = std::ranges::find(others, t.of, &measured_time::of);
      if (other == others.end()) continue;
      figures& f = of_name[t.of.name];
      f.before.push_back(other->cpu_ns);
      f.now.push_back(t.cpu_ns);
      f.ratio.push_back(t.cpu_ns / other->cpu_ns);
    }
    if (turn == 0) {
      results = std::move(now);
      for (const measured_time& t : times_of(results)) all.push_back({t.of.name, 0, 0, 0});
      continue;
    }
    for (ordered_json& entry : now["benchmarks"]) {
      if (entry.value("run_type", "") != "iteration") continue;
      entry["repetition_index"] = turn;
      results["benchmarks"].push_back(std::move(entry));
    }
  }
  if (!results.is_null()) {
    keep_medians_of(results, turn);
    if (interruption::requested()) results["context"]["incomplete"] = true;
  }
  std::erase_if(all, [&](const compared_time& c) { return !of_name.contains(c.name); });
  for (compared_time& c : all) {
    const figures& f = of_name[c.name];
    c.before_ns = measure::median(f.before).value_or(0);
    c.now_ns = measure::median(f.now).value_or(0);
    c.ratio = measure::median(f.ratio).value_or(0);
  }
  return results;
}

std::vector<std::string> arguments_of(const CLI::App& verb, const std::vector<std::string_view>& without) {
  std::vector<std::string> words;
  for (const CLI::Option* const option : verb.get_options()) {
    const std::string name = "--" + option->get_single_name();
    if (option->count() == 0 || std::ranges::find(without, name) != without.end()) continue;
    if (option->get_items_expected_max() == 0) {
      words.push_back(name);
      continue;
    }
    for (const std::string& value : option->results()) words.push_back(name + "=" + value);
  }
  return words;
}

}  // namespace espalier::app
