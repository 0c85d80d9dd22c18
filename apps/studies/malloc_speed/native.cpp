#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/child.hpp"
#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/studies/malloc_speed/claims.hpp"
#include "apps/studies/mallocs.hpp"
#include "apps/studies/measured_process.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/measure/statistics.hpp"

namespace espalier::app {
namespace {

// Whole programs ------------------------------------------------------------------------------------------------------

/// A program of the system and its work, for measurements of whole runs.
struct timed_program {
  std::string name;
  std::vector<std::string> command;  ///< the first word is the program's path
  std::string input;                 ///< its standard input
  variables set;
};

struct run_cost {
  std::uint64_t cpu_ns;    ///< of it and of its children
  std::uint64_t peak_kib;  ///< resident, of the largest of these
};

struct timed_programs {
  std::vector<timed_program> found;
  std::vector<std::string> missing;  ///< one line each
};

namespace fs = std::filesystem;

/// One statement per row, because statements are what causes allocations; then queries that need memory for results.
std::string statements() {
  std::string sql =
      "create table a(id integer primary key, name text, v real);create table b(aid int, note text);begin;\n";
  constexpr unsigned rows = 30'000;
  for (unsigned i = 0; i < rows; ++i) {
    sql += fmt::format("insert into a values({},'{}{}',{}.25);\n", i, std::string(4 + i * 31 % 57, 'n'), i,
                       i * 7919 % rows);
    if (i % 2 == 0)
      sql += fmt::format("insert into b values({},'{}');\n", i * 7919 % rows,
                         std::string(10 + i * 17 % 290, 'x'));
  }
  return sql +
         "commit;create index an on a(name);create index ba on b(aid);\n"
         "select count(*) from a join b on a.id=b.aid where length(note)>100;\n"
         "update a set name=name||'z' where id%3=0;\n"
         "select max(length(g)) from (select group_concat(note) g from b group by aid%100);\n"
         "delete from a where id%2;\n"
         "select count(*) from (select distinct name||v from a order by 1);\n";
}

constexpr const char* script = R"(
import json
d = {'key%d' % i: [i, str(i) * 3, {'a': i, 'b': [1.5 * i, None]}] for i in range(30000)}
text = json.dumps(d)
e = json.loads(text)
assert e == d
del d
counts = {}
for word in text.split(','):
    counts[word] = counts.get(word, 0) + 1
print(len(sorted(counts, key=lambda w: (counts[w], w))))
for i in range(4):
    e = {k: [str(x) for x in v] + [k * 2] for k, v in e.items()}
print(len(e))
)";

constexpr const char* source = R"(
#include <map>
#include <string>
#include <vector>
std::map<std::string, std::vector<std::string>> index_of(const std::vector<std::string>& words) {
  std::map<std::string, std::vector<std::string>> all;
  for (const std::string& word : words) all[word.substr(0, 1)].push_back(word);
  return all;
}
)";

std::uint64_t nanoseconds(const timeval& time) {
  return (static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(time.tv_usec)) *
         1000;
}

/// Programs that allocate much, each in a different way: a database, an interpreter, a compiler.
timed_programs programs_that_allocate() {
  // An absolute path, because a name found in PATH may be a script that starts another program.
  const fs::path folder = "/usr/bin";
  timed_programs all;
  const auto add = [&](timed_program one) {
    std::error_code none;
    if (fs::exists(one.command.front(), none))
      all.found.push_back(std::move(one));
    else
      all.missing.push_back(fmt::format("{} is left out: there is no {}", one.name, one.command.front()));
  };
  add({"sqlite3", {folder / "sqlite3", "-batch", ":memory:"}, statements(), {}});
  // Its own allocator would hide the malloc, and a random order of its sets would change the work.
  add({"python3",
       {folder / "python3", "-I", "-S", "-"},
       script,
       {{"PYTHONMALLOC", "malloc"}, {"PYTHONHASHSEED", "1"}}});
  add({"g++", {folder / "g++", "-std=c++17", "-O1", "-S", "-o", "/dev/null", "-x", "c++", "-"}, source, {}});
  return all;
}

/// Runs it to its end under a malloc; its output is discarded. Throws std::runtime_error if it fails.
run_cost run_under(const timed_program& program, const fs::path& input, const preloaded_malloc& malloc) {
  variables set = program.set;
  set.insert(set.end(), malloc.set.begin(), malloc.set.end());
  const std::vector<std::string> environment = child_environment(std::move(set), malloc.libraries);

  child_descriptors descriptors;
  descriptors.open(STDIN_FILENO, input, O_RDONLY);
  descriptors.open(STDOUT_FILENO, "/dev/null", O_WRONLY);
  const auto process =
      spawn(program.command, {.descriptors = &descriptors, .environment = &environment, .apart = true});
  if (!process) throw std::runtime_error(fmt::format("{} could not be started", program.command.front()));
  const auto [status, used] = wait_for(*process);
  if (status != 0)
    throw std::runtime_error(
        fmt::format("{} under {} did not end well", program.command.front(), malloc.name));
  return {nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime),
          static_cast<std::uint64_t>(used.ru_maxrss)};
}

// The study -----------------------------------------------------------------------------------------------------------

using malloc_speed::cost_readings;
using nlohmann::ordered_json;

constexpr std::size_t warm_up = 3;
constexpr std::size_t work_rounds = 31;
constexpr std::size_t program_rounds = 7;
constexpr unsigned usual_threads = 2;

/// The work of espalier-measured-work; a round of a thread takes some milliseconds.
struct work {
  std::string name;
  std::vector<std::string> arguments;
  std::uint64_t operations;
  unsigned threads;
};

struct study_setting : turns_setting {
  timed_programs programs;
  std::vector<work> works;
};

/// The measurements, as they go into the result file.
struct measured_study {
  cost_readings readings;
  ordered_json entries = ordered_json::array();

  void add(const std::string& benchmark, const std::string& malloc, unsigned threads, measured_times times,
           std::uint64_t peak_kib) {
    ordered_json e = malloc_study_entry(fmt::format("{}/{}", benchmark, malloc), threads, malloc, times);
    e["benchmark"] = benchmark;
    e["rounds_cpu_ns"] = times.cpu_ns;
    e["peak_kib"] = peak_kib;
    entries.push_back(std::move(e));
    readings.add(benchmark, malloc, {std::move(times.cpu_ns), peak_kib});
  }
};

std::vector<work> works_of(unsigned threads, std::uint64_t seed) {
  const std::string drawn = fmt::format("seed={}", seed);
  const unsigned pairs = std::max(threads / 2, 1U);
  return {{"larson",
           {"larson", fmt::format("threads={}", threads), "blocks=4000", "least=8", "most=1000",
            "generation=50000", drawn},
           100'000,
           threads},
          {"xmalloc",
           {"xmalloc", fmt::format("pairs={}", pairs), "batch=120", "least=16", "most=400", drawn},
           120'000,
           2 * pairs},
          {"cache-scratch",
           {"cache-scratch", fmt::format("threads={}", threads), "blocks=1", "size=8", "writes=50"},
           30'000,
           threads},
          {"large", {"large", "blocks=20", "least=5242880", "most=26214400", drawn}, 20, 1}};
}

void measure(const study_setting& s, const work& w, measured_study& to) {
  std::vector<measured_request> requests;
  requests.reserve(s.mallocs.found.size());
  for (const preloaded_malloc& m : s.mallocs.found) requests.push_back({w.arguments, m});
  const turns_request turns{s.rounds.value_or(work_rounds), warm_up, w.operations, s.processors};
  const std::vector<measured_outcome> outcomes = measure_in_turns(requests, turns);
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    to.add(w.name, requests[i].malloc.name, w.threads, times_of(outcomes[i]),
           outcomes[i].facts.at("peak_kib").get<std::uint64_t>());
}

void measure(const study_setting& s, const timed_program& program, measured_study& to) {
  const scratch_folder scratch("espalier-malloc-speed");
  const auto input = scratch.path() / "input";
  std::ofstream(input) << program.input;
  const auto& mallocs = s.mallocs.found;
  const std::size_t rounds = s.rounds.value_or(program_rounds);
  std::vector<std::vector<double>> cpu(mallocs.size());
  std::vector<std::vector<double>> peaks(mallocs.size());
  // One extra run, so that its files are in memory.
  static_cast<void>(run_under(program, input, mallocs.front()));
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < mallocs.size(); ++turn) {
      const std::size_t i = (round + turn) % mallocs.size();
      const run_cost cost = run_under(program, input, mallocs[i]);
      cpu[i].push_back(static_cast<double>(cost.cpu_ns));
      peaks[i].push_back(static_cast<double>(cost.peak_kib));
    }
  }
  for (std::size_t i = 0; i < mallocs.size(); ++i)
    to.add(program.name, mallocs[i].name, 1, {rounds, cpu[i], cpu[i]},
           static_cast<std::uint64_t>(measure::median(peaks[i]).value_or(0)));
}

const std::string reference{system_malloc};

/// One row per benchmark, one column per malloc; the last row has the means.
std::string ratio_table(const cost_readings& readings, const std::string& head, bool colour,
                        malloc_speed::cost_ratio ratio) {
  std::vector<std::string> heads{head};
  heads.insert(heads.end(), readings.mallocs().begin(), readings.mallocs().end());
  table t(std::move(heads));
  const auto row = [&](const std::string& name, auto&& value) {
    std::vector<std::string> cells{name};
    for (const std::string& malloc : readings.mallocs()) {
      const std::optional<double> v = value(malloc);
      cells.push_back(v ? fmt::format("{:.2f}", *v) : "");
    }
    t.add(std::move(cells));
  };
  for (const std::string& benchmark : readings.benchmarks())
    row(benchmark,
        [&](const std::string& malloc) { return (readings.*ratio)(benchmark, malloc, reference); });
  row("geometric mean", [&](const std::string& malloc) { return readings.mean(ratio, malloc, reference); });
  return t.text(colour);
}

ordered_json ratios_json(const cost_readings& readings) {
  ordered_json all = ordered_json::array();
  for (const std::string& benchmark : readings.benchmarks()) {
    for (const std::string& malloc : readings.mallocs()) {
      ordered_json one{{"benchmark", benchmark}, {"malloc", malloc}};
      if (const auto time = readings.ratio(benchmark, malloc, reference)) one["time"] = *time;
      if (const auto memory = readings.memory_ratio(benchmark, malloc, reference)) one["memory"] = *memory;
      all.push_back(std::move(one));
    }
  }
  return all;
}

ordered_json means_json(const cost_readings& readings) {
  ordered_json all = ordered_json::object();
  for (const std::string& malloc : readings.mallocs()) {
    if (const auto mean = readings.mean(&cost_readings::ratio, malloc, reference)) all[malloc] = *mean;
  }
  return all;
}

constexpr std::string_view summary =
    "Benchmarks of mallocs, in two threads if no more are asked for but for large blocks in one, and whole "
    "programs, each under every malloc in turns. Time is that of the processors, memory what is resident at "
    "its most; glibc's is 1.";

void run_malloc_speed(const bench_options& o, const CLI::App& verb) {
  study_setting s{turns_of(o, verb, malloc_speed::study_name), programs_that_allocate(), {}};
  if (s.mallocs.found.front().name != system_malloc)
    throw usage_error(
        fmt::format("--study malloc-speed compares with {}, which --mallocs leaves out", system_malloc));
  s.works = works_of(s.threads.value_or(usual_threads), o.seed);
  study_files files(o.out, malloc_speed::study_name);

  print_missing(s.mallocs);
  for (const std::string& line : s.programs.missing) std::fprintf(stderr, "%s\n", line.c_str());

  measured_study measured;
  progress_line line;
  std::size_t done = 0;
  const auto measure_all = [&](const auto& benchmarks) {
    for (const auto& one : benchmarks) {
      if (interruption::requested()) return;
      line.step(done++, s.works.size() + s.programs.found.size(), one.name);
      measure(s, one, measured);
    }
  };
  measure_all(s.works);
  measure_all(s.programs.found);
  line.clear();

  const bool colour = wants_colour(STDOUT_FILENO);
  std::printf("%s\n%s\n", bold(malloc_speed::title, colour).c_str(),
              (ratio_table(measured.readings, "processor time", colour, &cost_readings::ratio) + '\n' +
               ratio_table(measured.readings, "resident memory", colour, &cost_readings::memory_ratio))
                  .c_str());
  const auto figures = malloc_speed::figures_of(measured.readings, s.mallocs.missing);
  for (const charted_figure& figure : figures) {
    for (const judged_claim& f : figure.findings)
      std::printf("%s", finding_text("To be shown", f.claim, f.ours, "all benchmarks").c_str());
  }
  std::fflush(stdout);

  ordered_json results =
      malloc_study_document(o, malloc_speed::study_name, malloc_speed::title, malloc_speed::sources);
  ordered_json& study = results["study"];
  study["summary"] = summary;
  study["ratios"] = ratios_json(measured.readings);
  study["means"] = means_json(measured.readings);
  study["figures"] = to_json(figures);
  for (const auto& entry : measured.entries) results["benchmarks"].push_back(entry);
  files.write(results);
}

const registered_study malloc_speed_study{{malloc_speed::study_name,
                                           malloc_speed::title,
                                           {"--mallocs", "--threads", "--runs", "--pin", "--seed", "--out"},
                                           run_malloc_speed}};

}  // namespace
}  // namespace espalier::app
