#include "scheduled/battery.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "scheduled/battery/scenario.hpp"
#include "support/codec.hpp"

namespace espalier::sim::battery {
namespace {

/// A thread's body. Small enough for std::function to store in place.
struct player {
  subject* map;
  const thread_program* mine;

  [[gnu::no_sanitize_thread]] void operator()() const {
    const step* const first = mine->steps.data();
    const step* const last = first + mine->steps.size();
    mine->one_guard ? map->play_guarded(first, last) : map->play(first, last);
  }
};

void print(std::ostream& out, const step& s) {
  out << to_string(s.op) << '(' << s.key;
  if (s.op == map_operation::find && s.argument == find_together) out << ", of a batch";
  if (stores_value(s.op)) out << (s.op == map_operation::update ? ", +" : ", ") << s.argument;
  if (is_scan(s.op) && s.argument != std::numeric_limits<std::uint64_t>::max())
    out << ", at most " << s.argument;
  out << ')';
}

std::string describe(const program& p) {
  constexpr std::size_t most_printed = 16;
  std::ostringstream out;
  out << "  program: keys";
  if (p.initial.empty()) out << " none";
  for (std::size_t i = 0; i < std::min(most_printed, p.initial.size()); ++i) out << ' ' << p.initial[i].key;
  if (p.initial.size() > most_printed) out << " and " << p.initial.size() - most_printed << " more";
  if (!p.before.empty()) out << ", then";
  for (const step& s : p.before) print(out << ' ', s);
  out << '\n';
  for (std::size_t t = 0; t < p.threads.size(); ++t) {
    out << "    thread " << t << (p.threads[t].one_guard ? ", one guard:" : ":");
    for (const step& s : p.threads[t].steps) print(out << ' ', s);
    out << '\n';
  }
  return out.str();
}

void set_up(scene& s, const subject_type& type, const scenario& from, const program& p) {
  subject& map = (from.wide ? type.make_wide : type.make)(s);
  for (const map_entry& e : p.initial) map.start_with(e);
  map.play(p.before.data(), p.before.data() + p.before.size());
  constexpr const char* names[] = {"a", "b", "c", "d"};
  for (std::size_t t = 0; t < p.threads.size(); ++t) s.thread(names[t], player{&map, &p.threads[t]});
  s.at_end([&map] { map.check(); });
}

bool writes(const thread_program& t) {
  return std::any_of(t.steps.begin(), t.steps.end(), [](const step& s) { return is_write(s.op); });
}

/// Whether all other threads must finish when any thread of the program stops for good. If updates take locks and reads
/// do not, that holds for a single writer: no thread waits for its locks. It does not hold if that writer waits for
/// readers, because a reader may be the stopped thread.
bool survives_a_stop(const subject_type& type, const program& p) {
  const map_properties& promised = type.properties;
  if (promised.find_progress == progress::blocking || promised.updates_await_reads) return false;
  return promised.update_progress != progress::blocking ||
         std::count_if(p.threads.begin(), p.threads.end(), writes) <= 1;
}

bool offers_all(const subject_type& type, const scenario& s) {
  for (const program& p : s.programs) {
    for (const thread_program& t : p.threads) {
      for (const step& one : t.steps) {
        if (!offers(type.properties, one.op)) return false;
      }
    }
  }
  return true;
}

/// False if it fails.
bool run_scenario(const subject_type& type, const scenario& from, const options& o, result& all) {
  const auto total = static_cast<double>(o.schedules_per_scenario) * from.weight;
  for (std::size_t i = 0; i < from.programs.size(); ++i) {
    const program& p = from.programs[i];
    exploration_options how;
    how.seed = o.seed + i;
    how.step_budget = from.step_budget;
    std::string name = o.map + '/' + from.name;
    if (from.programs.size() != 1) name += '#' + std::to_string(i);
    const auto passes = [&](const char* variant, double share, std::uint64_t refused_one_in = 0) {
      const std::string called = name + variant;
      how.schedules = std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(std::ceil(total * share)) / from.programs.size());
      const exploration_report report = explore(called, how, [&](scene& s) {
        if (o.schedule_begins != nullptr) o.schedule_begins();
        refusing_htm::refuse_one_in(refused_one_in);
        set_up(s, type, from, p);
      });
      all.schedules += report.runs;
      all.steps += report.steps;
      if (report.passed()) return true;
      std::ostringstream text;
      text << to_string(report.failure->kind) << " in " << called << '\n' << describe(p) << report << '\n';
      all.passed = false;
      all.scenario = from.name;
      all.text = text.str();
      return false;
    };
    if (!passes("", type.refusable ? 0.5 : 1)) return false;
    if (type.refusable && (!passes("/every_third_refused", 0.375, 3) || !passes("/all_refused", 0.125, 1)))
      return false;
    if (!survives_a_stop(type, p)) continue;
    how.strategies = {"stalled"};
    if (!passes("/stalled", 0.25)) return false;
  }
  return true;
}

std::vector<scenario> all_scenarios(std::uint64_t seed) {
  std::vector<scenario> all = written_scenarios();
  for (scenario& s : random_scenarios(seed)) all.push_back(std::move(s));
  return all;
}

}  // namespace

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const scenario& s : all_scenarios(1)) names.push_back(s.name);
  return names;
}

result run(const subject_type& type, const options& o) {
  result all;
  bool found = false;
  for (const scenario& s : all_scenarios(o.seed)) {
    if (!o.only.empty() && o.only != s.name) continue;
    found = true;
    if ((s.wide && type.make_wide == nullptr) || (s.many_entries && !type.many_entries) ||
        !offers_all(type, s))
      continue;
    if (!run_scenario(type, s, o, all)) break;
  }
  if (!found) throw std::invalid_argument("there is no scenario '" + o.only + "' in the battery");
  return all;
}

}  // namespace espalier::sim::battery

void espalier::test::report_torn(std::uint64_t, std::uint64_t, std::uint64_t) {
  sim::fail("a key or a value was seen that no thread wrote");
}
