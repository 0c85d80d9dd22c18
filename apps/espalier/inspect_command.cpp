#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/progress_line.hpp"
#include "apps/common/report_page.hpp"
#include "apps/common/scratch_folder.hpp"
#include "apps/common/shared_options.hpp"
#include "apps/common/table.hpp"
#include "apps/common/usage_error.hpp"
#include "commands.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/inspect/analysis.hpp"
#include "espalier/inspect/assertion.hpp"
#include "espalier/inspect/findings.hpp"
#include "espalier/inspect/model.hpp"
#include "espalier/inspect/page_frames.hpp"
#include "espalier/inspect/played_pattern.hpp"
#include "espalier/inspect/result.hpp"
#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/workload/session.hpp"
#include "layout_tables.hpp"
#include "placed_maps.hpp"
#include "preload/recording/settings.hpp"
#include "recorded_program.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t text_width = 110;
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
  at_least(o.threads, 1, "--threads");
  const workload::registration map = recorded_map(o.map, o.placement);
  workload::plan_request request = plan_with_keys(o);
  request.name = "inspect";
  const auto plan = workload::make_plan(request);
  workload::check_room(plan->loaded, most_inspected_bytes_per_key);
  progress_line shown;
  shown.step(0, 2, fmt::format("fill {}", map.facts.name));
  const std::unique_ptr<workload::subject> subject = map.make();
  subject->prefill(*plan, static_cast<unsigned>(o.threads), {});
  shown.step(1, 2, "look where its blocks lie");
  inspect::snapshot s = subject->layout();
  inspect::find_frames(s);
  shown.clear();
  s.facts.insert(s.facts.begin(),
                 {{"filled with", fmt::format("{} keys by {} threads", plan->loaded, o.threads)},
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
        report_(o.report),
        types_(o.types) {
    if (!report_.empty()) const hw::output_file probe{report_};
  }

  /// Throws std::runtime_error if a condition does not hold. With earlier looks, also shows how the types developed.
  void of(const inspect::snapshot& s, const std::vector<look>& looks = {}) {
    if (save_) inspect::write_snapshot(s, *save_);
    progress_line shown(progress_line::elsewhere::nothing);
    shown.step(0, 2, fmt::format("look at {} blocks in {} pages", s.blocks.size(), s.pages.size()));
    const inspect::analysis a = inspect::analyze(s, geometry_);
    shown.step(1, 2, "judge what was found");
    const std::vector<inspect::finding> found = inspect::find_faults(a);
    const std::vector<inspect::assertion_outcome> outcomes = inspect::evaluate(conditions_, a);
    shown.clear();
    show(a, found, outcomes, looks);
    write(inspect::to_json(a, found, outcomes));
    std::fflush(out_);
    const auto broken = std::ranges::count_if(outcomes, [](const inspect::assertion_outcome& outcome) {
      return outcome.result != inspect::verdict::holds;
    });
    if (broken != 0)
      throw std::runtime_error(fmt::format("{} of {} conditions do not hold", broken, outcomes.size()));
  }

 private:
  void show(const inspect::analysis& a, const std::vector<inspect::finding>& found,
            const std::vector<inspect::assertion_outcome>& outcomes, const std::vector<look>& looks) const {
    const bool colour = wants_colour(fileno(out_));
    const auto width = terminal_width(fileno(out_));
    std::string text = layout_head(a, colour) + '\n';
    for (const std::string& table :
         {types_table(a, types_, colour, width), neighbours_table(a, types_, colour, width),
          children_table(a, colour, width), looks_table(looks, types_, colour, width)}) {
      if (!table.empty()) text += table + '\n';
    }
    text += bold(wrapped(inspect::summary_of(a, found), "", text_width), colour);
    for (const inspect::finding& f : found) text += wrapped("- " + f.text, "  ", text_width);
    for (const std::string& blind : inspect::blind_spots(a)) text += wrapped(blind, "", text_width);
    for (const inspect::assertion_outcome& outcome : outcomes) text += wrapped(outcome.text, "", text_width);
    std::fprintf(out_, "%s\n", text.c_str());
  }

  void write(const std::string& result) {
    if (json_) json_->commit(result);
    for (const auto& written : {&json_, &save_}) {
      if (*written) std::fprintf(out_, "wrote %s\n", (*written)->target().c_str());
    }
    if (report_.empty()) return;
    const scratch_folder folder("espalier-inspect");
    const fs::path layout = folder.path() / "layout.json";
    hw::output_file(layout).commit(result);
    write_report({layout}, report_, child_output::dropped);
    std::fprintf(out_, "wrote %s\n", report_.c_str());
  }

  std::FILE* out_;
  hw::cache_geometry geometry_;
  std::vector<inspect::assertion> conditions_;
  std::optional<hw::output_file> json_;
  std::optional<hw::output_file> save_;
  fs::path report_;
  std::size_t types_;
};

void inspect_models(const inspect_options& o, examination& examine) {
  if (o.model != "all") return examine.of(model_layout(o, inspect::allocation_pattern_named(o.model)));
  if (!o.conditions.empty() || !o.json.empty() || !o.save.empty() || !o.report.empty())
    throw usage_error(
        "--model all shows every pattern; --assert, --json, --save and --report want one: --model NAME");
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

void run_inspect(const inspect_options& o) {
  const std::initializer_list<bool> sources{!o.map.empty(), !o.model.empty(), !o.file.empty(),
                                            !o.program.command.empty()};
  if (std::ranges::count(sources, true) != 1)
    throw usage_error(
        "inspect needs one thing to look at: --map NAME, --model NAME, --file SNAPSHOT or -- PROGRAM "
        "ARGUMENTS");
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
  verb->add_option("--map", options->map, "A map of the catalogue, filled with --keys")->type_name("NAME");
  verb->add_option("--placement", options->placement,
                   "The map's placement, if not its own; with --model, what allocates in place of the model")
      ->type_name("NAME");
  verb->add_option("--threads", options->threads, "Threads that fill the map")
      ->type_name("N")
      ->capture_default_str();
  declare_load(*verb, *options);
  verb->add_option("--model", options->model,
                   "A pattern of allocations from the literature, laid out by a model; or all")
      ->type_name("NAME");
  verb->add_option("--file", options->file, "A snapshot that was written before")->type_name("SNAPSHOT");
  verb->add_option("--machine", options->machine, "Whose caches: this machine's, or those that a paper has")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--types", options->types, "How many types to show, those with the most bytes")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option(
          "--assert", options->conditions,
          "Conditions, comma-separated, such as unused_l2<5%,node.crossing<1%; status 1 where one does not "
          "hold")
      ->type_name("CONDITIONS");
  verb->add_option("--json", options->json, "The analysis in JSON")->type_name("FILE")->group(results_group);
  verb->add_option("--report", options->report,
                   "One HTML page, which works offline: findings, where pages and sets are used, tables")
      ->type_name("FILE")
      ->group(results_group);
  verb->add_option("--save", options->save, "The snapshot itself, for --file")
      ->type_name("FILE")
      ->group(results_group);
  constexpr const char* program_group = "A program: espalier inspect [options] -- PROGRAM ARGUMENTS";
  verb->add_option(
          "program", options->program.command,
          "Any program; its heap is shown by the places that allocate. Its output stays as it is: what is "
          "found goes to standard error, and its exit status is the command's")
      ->type_name("PROGRAM ...")
      ->group(program_group);
  verb->add_option("--at", options->program.at,
                   "When: at its peak, by the bytes asked for, or at its end, before exit handlers run")
      ->type_name("MOMENT")
      ->check(CLI::IsMember({"peak", "end"}))
      ->capture_default_str()
      ->group(program_group);
  verb->add_option("--every", options->program.every,
                   "Look every so many seconds as well, and show what grew from look to look")
      ->type_name("SECONDS")
      ->check(read_as("ESPALIER_INSPECT_EVERY"))
      ->group(program_group);
  verb->add_option(
          "--sample", options->program.sample,
          "Remember a part only: blocks:N, bytes:N or regions:N (one in N); slows the program down less")
      ->type_name("HOW")
      ->check(read_as("ESPALIER_INSPECT_SAMPLE"))
      ->group(program_group);
  verb->add_option("--frames", options->program.frames,
                   "Frames of a call site, 1 to 16, if not said 12: more name more of a stripped program, "
                   "and cost more")
      ->type_name("N")
      ->check(read_as("ESPALIER_INSPECT_FRAMES"))
      ->group(program_group);
  verb->add_option("--follow", options->program.follow, "none, forks or all: children that are recorded too")
      ->type_name("WHOM")
      ->check(read_as("ESPALIER_INSPECT_FOLLOW"))
      ->group(program_group);
  verb->add_flag("--pointers", options->program.pointers, "Look for pointers between blocks")
      ->group(program_group);
  verb->callback([options] { run_inspect(*options); });
}

}  // namespace espalier::app
