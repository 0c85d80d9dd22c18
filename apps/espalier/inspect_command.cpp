#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/child.hpp"
#include "apps/common/exit_status.hpp"
#include "apps/common/map_choice.hpp"
#include "apps/common/option_group.hpp"
#include "apps/common/options.hpp"
#include "apps/common/report_page.hpp"
#include "apps/common/terminal.hpp"
#include "apps/espalier/commands.hpp"
#include "apps/espalier/recorded_program.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/inspect/analysis.hpp"
#include "espalier/inspect/assertion.hpp"
#include "espalier/inspect/findings.hpp"
#include "espalier/inspect/model.hpp"
#include "espalier/inspect/page_frames.hpp"
#include "espalier/inspect/result.hpp"
#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/workload/session.hpp"
#include "preload/recording/settings.hpp"

namespace espalier::app {
namespace {

// Tables --------------------------------------------------------------------------------------------------------------

// An analysis of a layout as text for a terminal of some width. In tables an empty cell does not apply; what is not
// known is "unavailable".

using inspect::analysis;
using inspect::type_analysis;

std::string percent(double share) { return fmt::format("{:.2f}", 100 * share); }

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

/// "64", or "48 (71 %)" if there are other values.
std::string most_frequent(const inspect::frequencies& f) {
  if (f.most.empty()) return "";
  if (f.distinct == 1) return fmt::format("{}", f.most.front().value);
  return fmt::format("{} ({:.0f} %)", f.most.front().value, 100 * f.first_share().value_or(0));
}

/// The types with blocks, those with the most bytes first.
std::vector<std::size_t> by_bytes(const analysis& a) {
  std::vector<std::size_t> order(a.types.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t t) { return a.by_type[t].bytes_held; });
  std::erase_if(order, [&](std::size_t t) { return a.by_type[t].blocks == 0; });
  return order;
}

/// What a list of `all` leaves out, and where it is shown; empty if that is nothing.
std::string left_out(std::size_t shown, std::size_t all, const char* noun, std::size_t width,
                     const std::string& note = "") {
  if (all <= shown) return "";
  return wrapped(fmt::format("and {} more {}{}{}: see --types {} or --report FILE", all - shown, noun,
                             all - shown == 1 ? "" : "s", note, all),
                 "", width);
}

/// The table with the fewest lines, whose names are as long as these permit. build(length) makes a table.
template <class Build>
std::string fitted(std::size_t width, bool colour, Build&& build) {
  std::string best;
  for (const std::size_t length : {width / 2, std::size_t{48}, std::size_t{32}, std::size_t{24}}) {
    std::string text = build(length).text(colour, width);
    if (best.empty() || std::ranges::count(text, '\n') < std::ranges::count(best, '\n'))
      best = std::move(text);
  }
  return best;
}

std::string unused(const type_analysis& t, inspect::cache_level level) {
  return percent(t.cache(level).best().unused_share());
}

/// Under which geometry and how it was examined.
std::string facts_text(const analysis& a, std::size_t width) {
  std::string text =
      wrapped(fmt::format("caches of {}: {}", a.geometry.name, a.geometry.description), "", width);
  for (const inspect::fact& f : a.facts) text += wrapped(fmt::format("{}: {}", f.name, f.value), "", width);
  return text;
}

/// A line for each of the `most` types with the most bytes: sizes, lines, sets, pages.
std::string types_table(const analysis& a, std::size_t most, bool colour, std::size_t width) {
  std::vector<std::size_t> shown = by_bytes(a);
  const std::vector<std::size_t> rest(
      shown.begin() + static_cast<std::ptrdiff_t>(std::min(most, shown.size())), shown.end());
  shown.resize(shown.size() - rest.size());
  const auto build = [&](std::size_t length) {
    table t({"type", "blocks", "asked", "bytes\nheld", "stride", "straddling\n%", "two lines\na visit %",
             "L1 sets\nunused %", "L2 sets\nunused %", "LLC sets\nunused %", "L2 sets\noverloaded %", "pages",
             "over the\nfewest", "runs", "TLB\nentries"});
    for (const std::size_t i : shown) {
      const type_analysis& y = a.by_type[i];
      const auto entries = y.pages.tlb_entries();
      const auto scatter = y.pages.scatter();
      t.add({shortened(a.types[i].name, length), fmt::format("{}", y.blocks),
             y.blocks == 0
                 ? ""
                 : fmt::format("{:.1f}", static_cast<double>(y.bytes_asked) / static_cast<double>(y.blocks)),
             most_frequent(y.size_classes), most_frequent(y.strides), percent(y.straddling, y.blocks),
             y.crossing ? percent(*y.crossing) : unavailable, unused(y, inspect::cache_level::l1),
             unused(y, inspect::cache_level::l2), unused(y, inspect::cache_level::llc),
             percent(y.cache(inspect::cache_level::l2).best().overloaded_share()),
             fmt::format("{}", y.pages.pages), scatter ? fmt::format("{:.2f}", *scatter) : "",
             fmt::format("{}", y.pages.runs), entries ? fmt::format("{}", *entries) : unavailable});
    }
    return t;
  };
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  for (const std::size_t i : rest) {
    blocks += a.by_type[i].blocks;
    bytes += a.by_type[i].bytes_held;
  }
  return fitted(width, colour, build) + left_out(shown.size(), shown.size() + rest.size(), "type", width,
                                                 fmt::format(" ({} blocks, {})", blocks, bytes_text(bytes)));
}

/// Which types lie beside which: a line for each type, a column for each neighbour, in per cent of the blocks that have
/// it in their pair of lines. Long names head no columns; the numbers of the lines do.
std::string neighbours_table(const analysis& a, std::size_t most, bool colour, std::size_t width) {
  std::vector<std::size_t> shown = by_bytes(a);
  if (shown.size() > most) shown.resize(most);
  const bool numbered =
      std::ranges::any_of(shown, [&](std::size_t t) { return a.types[t].name.size() > 16; });
  return fitted(width, colour, [&](std::size_t length) {
    std::vector<std::string> heads{"blocks with company in\ntheir 128 bytes, %"};
    for (std::size_t n = 0; n < shown.size(); ++n)
      heads.push_back(numbered ? fmt::format("[{}]", n + 1) : a.types[shown[n]].name);
    heads.emplace_back("any\nother");
    table t(std::move(heads));
    for (std::size_t n = 0; n < shown.size(); ++n) {
      const type_analysis& y = a.by_type[shown[n]];
      const std::string name = shortened(a.types[shown[n]].name, length);
      std::vector<std::string> row{numbered ? fmt::format("[{}] {}", n + 1, name) : name};
      for (const std::size_t other : shown) {
        const auto found = std::ranges::find(y.neighbours, other, &inspect::neighbour::other);
        row.push_back(found == y.neighbours.end() ? "0.00" : percent(found->blocks.in_pair, y.blocks));
      }
      row.push_back(percent(y.mixed.in_pair, y.blocks));
      t.add(std::move(row));
    }
    return t;
  });
}

/// Parents with children in their line, the most frequent first; empty if no pointers are known.
std::string children_table(const analysis& a, std::size_t most, bool colour, std::size_t width) {
  std::vector<std::pair<std::size_t, inspect::child_use>> pairs;
  for (std::size_t i = 0; i < a.types.size(); ++i) {
    for (const inspect::child_use& c : a.by_type[i].children) pairs.emplace_back(i, c);
  }
  if (pairs.empty()) return "";
  std::ranges::stable_sort(pairs, std::greater{}, [](const auto& pair) { return pair.second.parents; });
  const std::size_t all = pairs.size();
  if (all > most) pairs.resize(most);
  const auto build = [&](std::size_t length) {
    table t({"parents", "with children", "in their\nline %", "other line of\nthe pair %", "adjacent\nline %",
             "page %"},
            {0, 1});
    for (const auto& [i, c] : pairs) {
      t.add({fmt::format("{} {}", c.parents, shortened(a.types[i].name, length)),
             shortened(a.types[c.child].name, length), percent(c.in_line, c.parents),
             percent(c.in_pair, c.parents), percent(c.in_adjacent_line, c.parents),
             percent(c.in_page, c.parents)});
    }
    return t;
  };
  return fitted(width, colour, build) + left_out(pairs.size(), all, "pair", width);
}

/// How the types with the most bytes developed from look to look: a line for each type, a column for each look. Empty
/// if there was only one look.
std::string looks_table(const std::vector<look>& looks, std::size_t most, bool colour, std::size_t width) {
  if (looks.size() < 2) return "";
  std::map<std::string, std::uint64_t> most_bytes;
  for (const look& one : looks) {
    for (const auto& [name, use] : one.types) most_bytes[name] = std::max(most_bytes[name], use.bytes);
  }
  std::vector<std::pair<std::string, std::uint64_t>> types(most_bytes.begin(), most_bytes.end());
  std::ranges::stable_sort(types, std::greater{}, &std::pair<std::string, std::uint64_t>::second);
  if (types.size() > most) types.resize(most);

  const auto cell = [](const block_use& use) {
    return use.blocks == 0 ? std::string("0") : fmt::format("{} in {}", bytes_text(use.bytes), use.blocks);
  };
  const auto build = [&](std::size_t length) {
    std::vector<std::string> heads{"bytes in blocks,\nfrom look to look"};
    for (const look& one : looks) {
      heads.push_back(fmt::format("{}\n{}", one.moment, one.after));
    }
    table t(std::move(heads));
    const auto add = [&](const std::string& name, auto&& use_in) {
      std::vector<std::string> row{name};
      for (const look& one : looks) row.push_back(cell(use_in(one)));
      t.add(std::move(row));
    };
    add("all", [](const look& one) { return one.all; });
    for (const auto& type : types) {
      const std::string& name = type.first;
      add(shortened(name, length), [&](const look& one) {
        const auto found = one.types.find(name);
        return found == one.types.end() ? block_use{} : found->second;
      });
    }
    return t;
  };
  return fitted(width, colour, build);
}

// Command -------------------------------------------------------------------------------------------------------------

constexpr std::uint64_t model_rounds = 1'000'000;
/// For a map, the record of its blocks and the snapshot: no map needs more.
constexpr double most_inspected_bytes_per_key = 1024;

struct inspect_options : load_options {
  std::string map;
  std::string placement;
  std::int64_t threads = 2;
  std::string model;
  std::string file;
  std::string machine = "this";
  std::size_t types = 12;
  std::string conditions;
  std::string json;
  std::string save;
  std::string report;
  recording_options program;
};

/// Takes the snapshot that the options request.
inspect::snapshot map_layout(const inspect_options& o) {
  const workload::registration map = recorded_map(o.map, o.placement);
  workload::plan_request request = plan_with_keys(o);
  request.name = "inspect";
  const auto plan = workload::make_plan(request);
  workload::check_room(plan->loaded, most_inspected_bytes_per_key);
  std::vector<workload::registration> only{map};
  leave_out_lists(only, {map.facts.name}, plan->loaded);
  progress_line shown;
  shown.step(0, 2, fmt::format("fill {}", map.facts.name));
  const std::unique_ptr<workload::subject> subject = map.make();
  subject->prefill(*plan, static_cast<unsigned>(o.threads), {});
  shown.step(1, 2, "look where its blocks lie");
  inspect::snapshot s = subject->layout();
  inspect::find_frames(s);
  shown.clear();
  s.facts.insert(s.facts.begin(),
                 {{"filled with", fmt::format("{} by {}", number_of(plan->loaded, "key"),
                                              number_of(static_cast<std::uint64_t>(o.threads), "thread"))},
                  {"placement", std::string(map.facts.placement)}});
  return s;
}

inspect::snapshot made_by(const std::string& placement, const inspect::allocation_pattern& pattern) {
  any_placement from(placement);
  inspect::snapshot s = inspect::played_pattern(pattern, model_rounds, from).layout();
  s.facts.push_back({"allocated by", placement});
  return s;
}

inspect::snapshot model_layout(const inspect_options& o, const inspect::allocation_pattern& pattern) {
  inspect::snapshot s =
      o.placement.empty() ? inspect::lay_out(pattern, model_rounds) : made_by(o.placement, pattern);
  s.subject = fmt::format("MODEL {}", pattern.name);
  s.facts.push_back({"pattern", fmt::format("{} rounds of {}", model_rounds, pattern.order)});
  return s;
}

hw::cache_geometry geometry_of(const inspect_options& o) {
  if (o.machine == "this") return hw::cache_geometry_of(hw::topology::system());
  return hw::cache_geometry_named(o.machine);
}

/// Processes a snapshot. All invalid requests are detected before one is taken.
class examination {
 public:
  /// An inspected program owns standard output: then messages go to standard error.
  explicit examination(const inspect_options& o)
      : out_(o.program.command.empty() ? stdout : stderr),
        geometry_(geometry_of(o)),
        conditions_(o.conditions.empty() ? std::vector<inspect::assertion>{}
                                         : inspect::parse_assertions(o.conditions)),
        json_(open_output(o.json)),
        save_(open_output(o.save)),
        report_(open_output(o.report)),
        types_(o.types) {}

  /// Throws std::runtime_error if a condition does not hold. With earlier looks, also shows how the types developed.
  void of(const inspect::snapshot& s, const std::vector<look>& looks = {}) {
    if (save_) inspect::write_snapshot(s, *save_);
    progress_line shown(progress_line::elsewhere::nothing);
    shown.step(0, 2, fmt::format("look at {} blocks in {} pages", s.blocks.size(), s.pages.size()));
    inspect::analysis a = inspect::analyze(s, geometry_);
    shown.step(1, 2, "judge what was found");
    const std::vector<inspect::finding> found = inspect::find_faults(a);
    const std::vector<inspect::assertion_outcome> outcomes = inspect::evaluate(conditions_, a);
    shown.clear();
    const std::string result = inspect::to_json(a, found, outcomes);
    show(std::move(a), outcomes, looks);
    write(result);
    std::fflush(out_);
    const auto broken = std::ranges::count_if(outcomes, [](const inspect::assertion_outcome& outcome) {
      return outcome.result != inspect::verdict::holds;
    });
    if (broken != 0)
      throw std::runtime_error(fmt::format("{} of {} conditions do not hold", broken, outcomes.size()));
  }

 private:
  /// Findings come first. Names of call sites can be long: here they are shortened, in files and on pages they are not.
  void show(inspect::analysis a, const std::vector<inspect::assertion_outcome>& outcomes,
            const std::vector<look>& looks) const {
    const bool colour = wants_colour(fileno(out_));
    const std::size_t width = std::max<std::size_t>(terminal_width(fileno(out_)).value_or(text_width), 40);
    for (inspect::block_type& type : a.types) type.name = shortened(type.name, width / 2);
    const std::vector<inspect::finding> found = inspect::find_faults(a);
    std::string text =
        wrapped(fmt::format("{}: {} blocks, {} asked for, {} held, {} pages", a.subject, a.blocks,
                            bytes_text(a.bytes_asked), bytes_text(a.bytes_held), a.pages.pages),
                "", width);
    text += bold(wrapped(inspect::summary_of(a, found), "", width), colour);
    for (const inspect::finding& f : std::span(found).first(std::min(found.size(), types_)))
      text += wrapped(f.text, "    ", width - 4).replace(2, 1, "-");
    text += left_out(types_, found.size(), "finding", width);
    for (const inspect::assertion_outcome& outcome : outcomes) text += wrapped(outcome.text, "", width);
    for (const std::string& blind : inspect::blind_spots(a)) text += wrapped(blind, "", width);
    for (const std::string& table :
         {types_table(a, types_, colour, width), neighbours_table(a, types_, colour, width),
          children_table(a, types_, colour, width), looks_table(looks, types_, colour, width),
          facts_text(a, width)}) {
      if (!table.empty()) text += '\n' + table;
    }
    std::fprintf(out_, "%s\n", text.c_str());
  }

  void write(const std::string& result) {
    if (json_) json_->commit(result);
    if (report_) write_report(result, json_, *report_);
    for (const auto& written : {&json_, &save_, &report_}) {
      if (*written) std::fprintf(out_, "wrote %s\n", (*written)->target().c_str());
    }
  }

  std::FILE* out_;
  hw::cache_geometry geometry_;
  std::vector<inspect::assertion> conditions_;
  std::optional<io::output_file> json_;
  std::optional<io::output_file> save_;
  std::optional<io::output_file> report_;
  std::size_t types_;
};

void inspect_models(const inspect_options& o, examination& examine) {
  if (o.model != "all") return examine.of(model_layout(o, inspect::allocation_pattern_named(o.model)));
  for (const inspect::allocation_pattern& p : inspect::allocation_patterns()) examine.of(model_layout(o, p));
}

/// Exits with the program's status, unless that is 0 and a condition does not hold.
void inspect_program(const inspect_options& o, examination& examine) {
  progress_line shown(progress_line::elsewhere::nothing);
  const recorded_program done = run_recorded(o.program, shown);
  try {
    if (!done.layout) throw std::runtime_error(done.remark);
    examine.of(*done.layout, done.looks);
  } catch (const std::exception& wrong) {
    if (done.status == 0 && (done.layout || !o.conditions.empty())) throw;
    std::fprintf(stderr, "espalier: %s\n", wrong.what());
  }
  if (done.status != 0) throw CLI::RuntimeError(done.status);
}

void run_inspect(const inspect_options& o, const CLI::App& verb) {
  const std::initializer_list<bool> sources{!o.map.empty(), !o.model.empty(), !o.file.empty(),
                                            !o.program.command.empty()};
  if (std::ranges::count(sources, true) != 1)
    throw usage_error(
        "inspect needs one thing to look at: --map NAME, --model NAME, --file SNAPSHOT or -- PROGRAM "
        "ARGUMENTS");
  check_effects(verb,
                {{{"--threads", "--keys", "--order", "--keys-from"}, {"--map"}, {}},
                 {{"--keys", "--order"}, {}, {"--keys-from"}},
                 {{"--placement"}, {"--map", "--model"}, {}},
                 {{"--at", "--every", "--sample", "--frames", "--follow", "--pointers"}, {"program"}, {}},
                 {{"--assert", "--json", "--save", "--report"}, {}, {"--model=all"}}});
  examination examine(o);
  if (!o.map.empty()) return examine.of(map_layout(o));
  if (!o.file.empty()) {
    progress_line shown(progress_line::elsewhere::nothing);
    return examine.of(read_named_snapshot(o.file, shown));
  }
  if (!o.program.command.empty()) return inspect_program(o, examine);
  inspect_models(o, examine);
}

/// Prevents the start of a program with settings that its recorder would reject. An option's value is parsed as the
/// recorder parses its variable, and an error is reported in the recorder's words.
CLI::Validator read_as(const std::string& variable) {
  return {[variable](const std::string& given) {
            std::string word = fmt::format("{}={}", variable, given);
            char* const environment[]{word.data(), nullptr};
            preload::settings read;
            const char* const wrong = preload::read_settings(environment, read);
            if (wrong == nullptr || !std::string_view(wrong).starts_with(variable)) return std::string();
            return fmt::format("'{}'{}", given, wrong + variable.size());
          },
          ""};
}

}  // namespace

void add_inspect_command(CLI::App& parser) {
  const auto options = std::make_shared<inspect_options>();
  CLI::App* const verb = parser.add_subcommand(
      "inspect", "Show where blocks of memory lie, by type, and what that does to caches and pages");
  option_group plain(*verb);
  option_group results(*verb, results_group);
  option_group program(*verb, "A program: espalier inspect [options] -- PROGRAM ARGUMENTS");
  plain.add("--map", options->map, "NAME", "Inspect a map of the catalogue, filled with --keys");
  plain.add("--placement", options->placement, "NAME",
            "Placement of the map instead of its default; with --model, the placement that allocates instead "
            "of the model");
  plain.add_default("--threads", options->threads, "N", "Threads that fill the map")
      ->check(at_least(1, most_threads));
  declare_keys(*verb, *options);
  plain.add("--model", options->model, "NAME",
            "Inspect a pattern of allocations from the literature, laid out by a model; or all");
  plain.add("--file", options->file, "SNAPSHOT", "Inspect a snapshot that was written earlier");
  plain.add_default("--machine", options->machine, "NAME",
                    "Machine whose caches are assumed: this one, or one of a paper");
  plain.add_default("--types", options->types, "N",
                    "Number of types to show, those with the most bytes, and of findings");
  plain.add("--assert", options->conditions, "CONDITIONS",
            "Conditions, comma-separated, such as unused_l2<5%,node.crossing<1%; the exit status is 1 if one "
            "does not hold");
  results.add("--json", options->json, "FILE", "The analysis in JSON");
  results.add("--report", options->report, "FILE",
              "One HTML page, which works offline: findings, where pages and sets are used, tables");
  results.add("--save", options->save, "FILE", "The snapshot itself, for --file");
  program.add("program", options->program.command, "PROGRAM ...",
              "Inspect any program: its heap is shown by call site. Its output is unchanged, the findings go "
              "to standard error, and its exit status becomes the command's");
  program
      .add_default("--at", options->program.at, "MOMENT",
                   "Moment to show: its peak, by requested bytes, or its end, before exit handlers run")
      ->check(CLI::IsMember({"peak", "end"}));
  program
      .add("--every", options->program.every, "SECONDS",
           "Also take a snapshot at this interval, and show what grew from one to the next")
      ->check(read_as("ESPALIER_INSPECT_EVERY"))
      ->check(at_least(1));
  program
      .add("--sample", options->program.sample, "HOW",
           "Record only a part: blocks:N, bytes:N or regions:N (one in N); slows the program down less")
      ->check(read_as("ESPALIER_INSPECT_SAMPLE"));
  program
      .add("--frames", options->program.frames, "N",
           "Frames of a call site, 1 to 16, by default 12; more frames name more of a stripped program, and "
           "cost more")
      ->check(read_as("ESPALIER_INSPECT_FRAMES"));
  program
      .add("--follow", options->program.follow, "WHOM",
           "Child processes that are recorded too: none, forks or all")
      ->check(read_as("ESPALIER_INSPECT_FOLLOW"));
  program.add_flag("--pointers", options->program.pointers, "Look for pointers between blocks");
  verb->callback([options, verb] { run_inspect(*options, *verb); });
}

}  // namespace espalier::app
