#include "sim/explore.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "espalier/measure/random.hpp"
#include "sim/runtime/arena.hpp"
#include "sim/schedule/exploration.hpp"

namespace espalier::sim {
namespace {

// Shrinking stops at the first of these limits: for long runs it would cost more than it is worth.
constexpr std::uint64_t shrinking_runs = 2000;
constexpr std::uint64_t shrinking_steps = 1'000'000;
constexpr const char* variable = "ESPALIER_SCHEDULE";
constexpr std::string_view aborts = ",aborts:";
constexpr std::string_view stale = "weak:";

/// "NAME|reused,buffered|0x12.1x3". "buffered" may also be "sequential" or "weak:17", with a seed. ",aborts:17" follows
/// it, with a seed, if transactions aborted for no reason.
struct recorded_run {
  std::string name;
  run_conditions conditions;
  schedule decisions;

  [[nodiscard]] std::string to_text() const {
    std::string text = name + '|' + (conditions.reuse_memory ? "reused" : "quarantined") + ',';
    if (conditions.model == memory_model::weak)
      text.append(stale).append(std::to_string(conditions.stale_loads));
    else
      text += conditions.model == memory_model::buffered ? "buffered" : "sequential";
    if (conditions.spurious_aborts != 0)
      text.append(aborts).append(std::to_string(conditions.spurious_aborts));
    return text + '|' + decisions.to_text();
  }

  static recorded_run parse(std::string_view text) {
    const std::size_t last = text.rfind('|');
    const std::size_t middle = last == std::string_view::npos ? last : text.rfind('|', last - 1);
    if (last == 0 || middle == std::string_view::npos)
      throw std::invalid_argument(std::string(variable) +
                                  " is NAME|quarantined,sequential|0x12.1x3, as a report prints it");
    const std::string_view how = text.substr(middle + 1, last - middle - 1);
    const auto seed_behind = [&](std::string_view word) {
      std::uint64_t seed = 0;
      const std::size_t at = how.find(word);
      if (at == std::string_view::npos) return seed;
      const char* const digits = how.data() + at + word.size();
      if (std::from_chars(digits, how.data() + how.size(), seed).ec != std::errc{})
        throw std::invalid_argument(std::string(variable) + ": after '" + std::string(word) +
                                    "' comes a number");
      return seed;
    };
    const auto says = [&](std::string_view word) { return how.find(word) != std::string_view::npos; };
    const memory_model model = says(stale)        ? memory_model::weak
                               : says("buffered") ? memory_model::buffered
                                                  : memory_model::sequential;
    return {std::string(text.substr(0, middle)),
            {model, says("reused"), seed_behind(stale), seed_behind(aborts)},
            schedule::parse(text.substr(last + 1))};
  }
};

class strategy_cycle {
 public:
  explicit strategy_cycle(const std::vector<std::string>& names) {
    // Mostly random and PCT. The two regular strategies see a scene differently, but soon find all that they can.
    std::vector<std::string> all = names;
    if (all.empty())
      all = {"random", "pct:3",  "random", "pct:2",        "random",
             "pct:4",  "random", "pct:5",  "lowest-clock", "round-robin"};
    for (const std::string& name : all) strategies_.push_back(make_strategy(name));
  }
  strategy& of_run(std::uint64_t run) { return *strategies_[run % strategies_.size()]; }

 private:
  std::vector<std::unique_ptr<strategy>> strategies_;
};

run_conditions conditions_of(const exploration_options& o, std::uint64_t random_bits) {
  constexpr memory_model models[] = {memory_model::sequential, memory_model::buffered, memory_model::weak};
  return {o.model == memory_model::any ? models[(random_bits >> 8U) % std::size(models)] : o.model,
          o.memory == freed_memory::either ? (random_bits & 2U) != 0 : o.memory == freed_memory::reused,
          random_bits >> 32U, o.spurious_aborts && (random_bits & 4U) != 0 ? random_bits >> 48U | 1U : 0};
}

/// Removes segments as long as the run still fails in the same way.
schedule shrink(exploration& e, const run_conditions& conditions, failure_kind kind, schedule best) {
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  const auto goes_on = [&] { return runs < shrinking_runs && steps < shrinking_steps; };
  const auto attempt = [&](schedule candidate) {
    ++runs;
    candidate.normalise();
    const auto by = replay_strategy(candidate);
    const auto failure = e.run(*by, conditions, 0, 0);
    steps += e.steps();
    if (!failure || failure->kind != kind) return false;
    if (e.decisions().segments().size() >= best.segments().size()) return false;
    best = e.decisions();
    return true;
  };
  bool shorter = true;
  while (shorter && goes_on()) {
    shorter = false;
    for (std::size_t i = best.segments().size(); i-- > 0 && goes_on();) {
      if (i >= best.segments().size()) continue;
      schedule without = best;
      without.segments().erase(without.segments().begin() + static_cast<std::ptrdiff_t>(i));
      bool better = attempt(without);
      if (!better && i + 2 < best.segments().size()) {
        // Let the interrupted agent continue first.
        schedule later = best;
        std::swap(later.segments()[i + 1], later.segments()[i + 2]);
        better = attempt(later);
      }
      shorter = shorter || better;
    }
  }
  return best;
}

std::uintptr_t load_address() {
  std::uintptr_t found = 0;
  // The program itself comes first.
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uintptr_t*>(out) = info->dlpi_addr;
        return 1;
      },
      &found);
  return found;
}

std::string hexadecimal(std::uintptr_t n) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%zx", static_cast<std::size_t>(n));
  return text.data();
}

/// The symbol that dladdr finds.
std::string symbol_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_sname == nullptr)
    return hexadecimal(reinterpret_cast<std::uintptr_t>(address));
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return status == 0 ? readable.get() : info.dli_sname;
}

/// Omits template arguments and parameters of a demangled name.
std::string shortened(std::string_view name) {
  std::string kept;
  int depth = 0;
  for (const char c : name) {
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (depth == 0) kept += c;
    if (c == '>' || c == ')' || c == ']') --depth;
  }
  return kept;
}

std::string base_name(std::string_view path) { return std::string(path.substr(path.find_last_of('/') + 1)); }

/// The places of return addresses of this program: "file:line in function", one for each. Runs addr2line once for all;
/// without it returns the names of symbols, or the bare addresses.
std::vector<std::string> describe(const std::vector<const void*>& return_addresses) {
  std::vector<std::string> described;
  if (return_addresses.empty()) return described;
  const std::uintptr_t base = load_address();
  std::string command = "addr2line -a -i -C -f -e /proc/" + std::to_string(getpid()) + "/exe";
  for (const void* a : return_addresses)
    command += ' ' + hexadecimal(reinterpret_cast<std::uintptr_t>(a) - base - 1);
  command += " 2>/dev/null";
  FILE* const answer = popen(command.c_str(), "r");
  if (answer != nullptr) {
    std::array<char, 8192> buffer{};
    std::vector<std::string> lines;
    while (std::fgets(buffer.data(), buffer.size(), answer) != nullptr) {
      lines.emplace_back(buffer.data());
      while (!lines.back().empty() && lines.back().back() == '\n') lines.back().pop_back();
    }
    pclose(answer);
    // For each address a line with it, then two for each function inlined there, innermost first.
    for (std::size_t i = 0; i < lines.size();) {
      std::string place;
      std::string function;
      for (++i; i + 1 < lines.size() && !lines[i].starts_with("0x"); i += 2) {
        const std::string_view file = std::string_view(lines[i + 1]).substr(0, lines[i + 1].find(' '));
        // Code that the standard library inlines does not help a person.
        if (!place.empty() || file.starts_with('?') || file.starts_with("/usr/")) continue;
        place = base_name(file);
        function = shortened(lines[i]);
      }
      if (!place.empty()) place.append(" in ").append(function);
      described.push_back(place);
    }
  }
  described.resize(return_addresses.size());
  for (std::size_t i = 0; i < described.size(); ++i)
    if (described[i].empty()) described[i] = symbol_of(return_addresses[i]);
  return described;
}

std::string command_line() {
  const std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  std::string text = all.str();
  for (char& c : text)
    if (c == '\0') c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string agent_name(const exploration& e, unsigned agent) {
  const auto& names = e.thread_names();
  if (agent < names.size()) return "thread " + std::to_string(agent) + " (" + names[agent] + ")";
  if (agent < 2 * names.size()) return "store buffer of thread " + std::to_string(agent - names.size());
  return "main";
}

/// Prints the program's own frames; those of the simulator and of other libraries tell nothing about it.
void print_stack(std::ostream& out, const std::vector<const void*>& callers) {
  std::vector<const void*> own;
  for (const void* const caller : callers)
    if (arena::simulated(reinterpret_cast<std::uintptr_t>(caller))) own.push_back(caller);
  for (const std::string& place : describe(own)) out << "    " << place << '\n';
}

void print_event(std::ostream& out, const exploration& e, const char* what, const block_event& event) {
  if (!event.happened) return;
  out << "  " << what << " by " << agent_name(e, event.fiber);
  if (event.fiber != fibers::none) out << ", step " << event.step;
  out << '\n';
  std::vector<const void*> callers;
  for (const void* caller : event.callers)
    if (caller != nullptr) callers.push_back(caller);
  print_stack(out, callers);
}

/// Under the weak model: prints the loads that did not see the newest store.
void print_stale_loads(std::ostream& out, const exploration& e) {
  constexpr std::size_t most_printed = 12;
  const auto& all = e.stale_loads();
  if (all.empty()) return;
  out << "  loads of values that were no longer the newest:\n";
  if (all.size() > most_printed) out << "    ... " << all.size() - most_printed << " before\n";
  const std::size_t begin = all.size() > most_printed ? all.size() - most_printed : 0;
  std::vector<const void*> places;
  for (std::size_t i = begin; i < all.size(); ++i) {
    places.push_back(all[i].where);
    places.push_back(all[i].overwritten_at);
  }
  const std::vector<std::string> names = describe(places);
  for (std::size_t i = begin; i < all.size(); ++i) {
    const weak_memory::stale_load& l = all[i];
    const std::string* const at = &names[2 * (i - begin)];
    out << "    " << agent_name(e, l.fiber) << " at " << at[0] << "\n      " << l.newer
        << (l.newer == 1 ? " newer store" : " newer stores") << ", the next by "
        << agent_name(e, l.overwritten_by) << " at " << at[1] << '\n';
  }
}

/// The report of the exploration's last run.
std::string text_of(const exploration& e, const run_failure& failure, const recorded_run& recorded) {
  std::ostringstream out;
  out << to_string(failure.kind) << " in " << agent_name(e, failure.fiber) << ", step " << failure.step
      << ": " << failure.what << '\n';
  print_stack(out, failure.callers);
  if (failure.block) {
    print_event(out, e, "allocated", failure.block->allocated);
    print_event(out, e, "retired", failure.block->retired);
    print_event(out, e, "freed", failure.block->freed);
  }
  if (failure.race) {
    out << "  the other access, by " << agent_name(e, failure.race->fiber) << '\n';
    print_stack(out, {failure.race->where});
  }
  print_stale_loads(out, e);
  out << "  schedule:\n";
  constexpr std::size_t most_printed = 40;
  const auto& segments = e.decisions().segments();
  const std::size_t begin = segments.size() > most_printed ? segments.size() - most_printed : 0;
  if (begin != 0) out << "    ... " << begin << " segments before\n";
  std::vector<const void*> seen;
  for (std::size_t i = begin; i < segments.size(); ++i)
    if (e.last_seen()[i] != nullptr) seen.push_back(e.last_seen()[i]);
  const std::vector<std::string> places = describe(seen);
  std::size_t at = 0;
  for (std::size_t i = begin; i < segments.size(); ++i) {
    out << "    " << agent_name(e, segments[i].agent) << ": " << segments[i].steps
        << (segments[i].steps == 1 ? " step" : " steps");
    if (e.last_seen()[i] != nullptr && at < places.size()) out << ", the last at " << places[at++];
    out << '\n';
  }
  out << "  repeat: " << variable << "='" << recorded.to_text() << "' " << command_line() << '\n';
  return out.str();
}

std::shared_ptr<const exploration_failure> made_readable(exploration& e, const run_failure& first,
                                                         const recorded_run& recorded, std::uint64_t run,
                                                         const std::string& strategy) {
  const auto by = replay_strategy(recorded.decisions);
  const auto failure = e.run(*by, recorded.conditions, 0, 0);
  if (!failure)
    return std::make_shared<exploration_failure>(exploration_failure{
        failure_kind::requirement,
        "the scene is not deterministic: the failing schedule passes when repeated. It failed by: " +
            std::string(to_string(first.kind)) + ", " + first.what,
        recorded.to_text(), run, strategy});
  return std::make_shared<exploration_failure>(
      exploration_failure{failure->kind, text_of(e, *failure, recorded), recorded.to_text(), run, strategy});
}

}  // namespace

std::string_view to_string(failure_kind kind) noexcept {
  constexpr std::array<std::string_view, 10> names{"a requirement does not hold",
                                                   "use of memory that is not allocated",
                                                   "wrong free",
                                                   "wrong retirement",
                                                   "leak",
                                                   "data race",
                                                   "livelock",
                                                   "exception",
                                                   "crash",
                                                   "a schedule without an end"};
  static_assert(names.size() == static_cast<std::size_t>(failure_kind::no_end) + 1);
  return names[static_cast<std::size_t>(kind)];
}

std::ostream& operator<<(std::ostream& out, const exploration_report& report) {
  if (report.passed()) {
    out << "passed " << report.runs << " schedules, " << report.steps << " steps";
    if (report.transactions.begun != 0)
      out << ", " << report.transactions.committed << " of " << report.transactions.begun << " transactions";
    return out;
  }
  return out << "failed in schedule " << report.failure->run << " (" << report.failure->strategy << ")\n"
             << report.failure->text;
}

exploration_report explore(std::string_view name, const exploration_options& options,
                           const std::function<void(scene&)>& build) {
  if (options.schedules == 0)
    throw std::invalid_argument("0 schedules explore nothing; at least 1 is needed");
  if (name.find('\'') != std::string_view::npos) throw std::invalid_argument("a name has no quotes in it");
  exploration_report report;
  exploration e(options, build);

  if (const char* const wish = std::getenv(variable)) {
    const recorded_run recorded = recorded_run::parse(wish);
    if (recorded.name != name) return report;
    const auto by = replay_strategy(recorded.decisions);
    const auto failure = e.run(*by, recorded.conditions, 0, 0);
    report.runs = 1;
    report.steps = report.longest_run = e.steps();
    report.transactions = e.transactions_of_run();
    if (failure)
      report.failure = std::make_shared<exploration_failure>(exploration_failure{
          failure->kind, text_of(e, *failure, recorded), recorded.to_text(), 1, "replay"});
    return report;
  }

  strategy_cycle strategies(options.strategies);
  for (std::uint64_t run = 0; run < options.schedules; ++run) {
    const std::uint64_t seed = measure::mix64(options.seed * 0x9e3779b97f4a7c15U + run + 1);
    const run_conditions conditions = conditions_of(options, measure::mix64(seed));
    strategy& by = strategies.of_run(run);
    const auto failure = e.run(by, conditions, seed, report.longest_run);
    ++report.runs;
    report.steps += e.steps();
    report.transactions += e.transactions_of_run();
    report.longest_run = std::max(report.longest_run, e.steps());
    if (!failure) continue;
    recorded_run recorded{std::string(name), conditions, e.decisions()};
    if (e.transactions_of_run().begun == 0) recorded.conditions.spurious_aborts = 0;
    if (failure->kind != failure_kind::livelock && failure->kind != failure_kind::no_end)
      recorded.decisions = shrink(e, conditions, failure->kind, std::move(recorded.decisions));
    report.failure = made_readable(e, *failure, recorded, report.runs, by.name());
    break;
  }
  return report;
}

}  // namespace espalier::sim
