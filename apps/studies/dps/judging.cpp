#include "apps/studies/dps/judging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/studies/dps/lines_of_code.hpp"

namespace espalier::app::dps {
namespace {

std::string costs(const std::string& of, const operation_counts& c) {
  return fmt::format(
      "{:.2f} lines from other sockets, {:.2f} from other cores, {:.2f} from memory, {:.0f} accesses and "
      "{:.0f} "
      "stalled cycles in {}",
      c.remote_transfers, c.local_transfers, c.memory_lines, c.accesses, c.stall_cycles, of);
}

std::string both_costs(const side& one, const operation_counts& mine, const side& other,
                       const operation_counts& its) {
  return fmt::format(" An operation has {}; {}.", costs(one.technique, mine), costs(other.technique, its));
}

judgement verdict(std::string sentence, bool holds) {
  return {std::move(sentence), holds ? agreement::agrees : agreement::differs};
}

/// A part about readings of these sides, in this order. It is not judged if one of them is missing or too short, or has halves
/// that are not alike unless these may suffice.
template <class Judge>
part of_sides(std::vector<side> sides, Judge judge, bool with_halves = false) {
  return [=, sides = std::move(sides), judge = std::move(judge)](const results& measured) -> judgement {
    std::vector<const load_reading*> found;
    for (const side& s : sides) {
      found.push_back(measured.find(s.at, s.technique));
      if (found.back() == nullptr)
        return {fmt::format("Not measured: {}.", s.text()), agreement::not_measurable};
    }
    for (std::size_t i = 0; i < sides.size(); ++i)
      if (!found[i]->too_short.empty() && !(with_halves && found[i]->halves))
        return {fmt::format("{} ({}).", found[i]->too_short, sides[i].text()), agreement::too_short};
    return judge(found);
  };
}

using readings_found = std::vector<const load_reading*>;

double ratio_of(const readings_found& r, std::size_t over = 0, std::size_t under = 1) {
  return r[over]->speed / r[under]->speed;
}

/// `holds` has the ratio of the two throughputs, and is true of a range of them: up to a bound, from one, or around 1.
template <class Holds>
part compared(const side& one, const side& other, Holds holds) {
  return of_sides(
      {one, other},
      [=](const readings_found& r) -> judgement {
        const auto range = [](const load_reading& of) {
          return of.halves.value_or(std::pair{of.speed, of.speed});
        };
        const auto [low, high] = range(*r[0]);
        const auto [other_low, other_high] = range(*r[1]);
        const double ratio = ratio_of(r);
        const double least = low / other_high;
        const double most = high / other_low;
        std::string sentence = fmt::format(
            "{} has {:.2f} times the throughput of {}{}.", one.text(), ratio, other.text(),
            least == most ? "" : fmt::format(", by their halves {:.2f} to {:.2f} times", least, most));
        const bool whole = holds(ratio);
        for (const double extreme : {least, most, std::clamp(1.0, least, most)}) {
          if (holds(extreme) == whole) continue;
          const std::size_t which = r[0]->halves ? 0 : 1;
          return {
              fmt::format("{} {} ({}).", sentence, r[which]->too_short, (which == 0 ? one : other).text()),
              agreement::too_short};
        }
        if (!whole) sentence += both_costs(one, r[0]->costs, other, r[1]->costs);
        return verdict(std::move(sentence), whole);
      },
      true);
}

double spread(double ratio) { return std::max(ratio, 1 / ratio); }

}  // namespace

std::string over(const std::string& technique, const std::string& structure) {
  return technique + " over " + structure;
}

approach approach_of(const std::string& name) {
  const std::string between = over("", "");
  const std::size_t at = name.find(between);
  if (at == std::string::npos) return {name, ""};
  return {name.substr(0, at), name.substr(at + between.size())};
}

std::string load::name() const {
  std::string text;
  if (what == work::objects)
    text = fmt::format("{} x {} lines", objects, lines);
  else if (what == work::cache)
    text = fmt::format("{} % sets, {} bytes", updates, value_bytes);
  else if (what != work::computation)
    text = fmt::format("{} keys, {} % updates{}", grouped(keys), updates, skewed ? ", Zipf" : "");
  else
    text = length == 0 ? "empty operations" : fmt::format("operations of {} cycles", length);
  if (delay != 0) text += fmt::format(", {} cycles apart", delay);
  return text + fmt::format(", {} thread{}", threads, threads == 1 ? "" : "s");
}

const shown_count& shown_misses() {
  static const shown_count misses{"misses", "Lines that no cache of the socket had. Lower is better.",
                                  "lines an operation",
                                  [](const load_reading& r) { return r.costs.misses(); }};
  return misses;
}

std::string side::text() const { return fmt::format("{} ({})", technique, at.name()); }

part faster(const side& one, const side& other, double ratio) {
  return compared(one, other, [=](double is) { return is >= ratio; });
}
part no_faster(const side& one, const side& other, double ratio) {
  return compared(one, other, [=](double is) { return is <= ratio; });
}
part beats(const load& at, const std::string& one, const std::string& other, double ratio) {
  return faster({one, at}, {other, at}, ratio);
}
part falls(const std::string& technique, const load& from, const load& to, double ratio) {
  return faster({technique, from}, {technique, to}, ratio);
}
part alike(const side& one, const side& other, double factor) {
  return compared(one, other, [=](double is) { return spread(is) <= factor; });
}
part stays(const std::string& technique, const load& from, const load& to, double factor) {
  return alike({technique, from}, {technique, to}, factor);
}

part falls_more(const std::string& one, const std::string& other, const load& from, const load& to) {
  return of_sides({{one, from}, {one, to}, {other, from}, {other, to}}, [=](const readings_found& r) {
    return verdict(fmt::format("From {} to {} {} keeps {:.2f} of its throughput, {} {:.2f}.", from.name(),
                               to.name(), one, ratio_of(r, 1, 0), other, ratio_of(r, 3, 2)),
                   ratio_of(r, 1, 0) < ratio_of(r, 3, 2));
  });
}

part less_spread(const side& one, const side& one_elsewhere, const side& other, const side& other_elsewhere) {
  return of_sides({one, one_elsewhere, other, other_elsewhere}, [=](const readings_found& r) {
    const double mine = spread(ratio_of(r, 0, 1));
    const double its = spread(ratio_of(r, 2, 3));
    return verdict(fmt::format("Throughputs of {} and of {} differ {:.2f} times, those of {} {:.2f} times.",
                               one.text(), one_elsewhere.text(), mine, other.technique, its),
                   mine < its);
  });
}

part gains_more(const side& better, const side& worse, const side& other_better, const side& other_worse) {
  return of_sides({better, worse, other_better, other_worse}, [=](const readings_found& r) {
    return verdict(fmt::format("{} has {:.2f} times the throughput of {}, and {} {:.2f} times that of {}.",
                               better.text(), ratio_of(r), worse.technique, other_better.text(),
                               ratio_of(r, 2, 3), other_worse.technique),
                   ratio_of(r) > ratio_of(r, 2, 3));
  });
}

part more(const std::string& what, count of, const side& one, const side& other, double ratio) {
  return of_sides({one, other}, [=](const readings_found& r) {
    const double mine = (r[0]->costs.*of)();
    const double its = (r[1]->costs.*of)();
    return verdict(fmt::format("An operation of {} {} {:.2f} lines, of {} {:.2f}.", one.text(), what, mine,
                               other.text(), its),
                   mine >= ratio * its);
  });
}
part more_misses(const side& one, const side& other, double ratio) {
  return more("misses", &operation_counts::misses, one, other, ratio);
}

part longer_tail(const side& one, const side& other, double ratio) {
  return of_sides({one, other}, [=](const readings_found& r) {
    const bool holds = r[0]->p99 >= ratio * r[1]->p99;
    std::string sentence =
        fmt::format("The 99th percentile of {} is {:.0f} cycles, {:.2f} times the {:.0f} of {}.", one.text(),
                    r[0]->p99, r[0]->p99 / r[1]->p99, r[1]->p99, other.text());
    if (!holds) sentence += both_costs(one, r[0]->costs, other, r[1]->costs);
    return verdict(std::move(sentence), holds);
  });
}

part moves_at_most(const side& one, double lines) {
  return of_sides({one}, [=](const readings_found& r) {
    const double moved = r[0]->costs.remote_transfers;
    return verdict(fmt::format("An operation of {} moves {:.2f} lines between sockets.", one.text(), moved),
                   moved <= lines);
  });
}

part coherence(const std::string& technique, double papers) {
  return [=](const results& measured) -> judgement {
    const auto is = technique == delegated ? measured.coherence_delegated : measured.coherence_served;
    if (!is) return {"Not counted.", agreement::not_measurable};
    return verdict(fmt::format("{:.1f} transfers and upgrades of lines for 15 empty requests.", *is),
                   std::abs(*is - papers) <= 2);
  };
}

part more_lines_of_code(const std::string& one, const std::string& other, double ratio) {
  return [=](const results&) -> judgement {
    const unsigned mine = lines_of_code(one);
    const unsigned its = lines_of_code(other);
    return verdict(fmt::format("{} has {} lines of code, {} {}.", one, mine, other, its),
                   mine >= ratio * its);
  };
}

part lines_of_code_below(const std::string& name, unsigned most) {
  return [=](const results&) {
    const unsigned is = lines_of_code(name);
    return verdict(fmt::format("{} has {} lines of code.", name, is), is != 0 && is < most);
  };
}

reason because(std::string text) {
  return [text = std::move(text)](const results&) { return text; };
}

std::string ratio_text(const results& measured, const side& one, const side& other) {
  const load_reading* const x = measured.find(one.at, one.technique);
  const load_reading* const y = measured.find(other.at, other.technique);
  return x == nullptr || y == nullptr ? "?" : fmt::format("{:.2f}", x->speed / y->speed);
}

namespace {

/// Without x, bars. `value` is null for the throughput.
chart chart_of(const panel& of, const results& measured, const shown_count* also) {
  const bool curves = of.x != nullptr;
  chart made{.title = of.title,
             .caption = curves ? "Higher is better." : "Longer is better.",
             .y = curves ? "simulated Mop/s" : "simulated kop/s",
             .x = of.x_title};
  if (also != nullptr) {
    made.title += ": " + also->title;
    made.caption = also->caption;
    made.y = also->y;
  }
  const auto value = [&](const load_reading& r) {
    return also != nullptr ? also->of(r) : r.speed / (curves ? 1e6 : 1e3);
  };
  if (!curves) {
    made.of = "Technique";
    made.more_is_better = also == nullptr;
  }
  for (const std::string& how : of.techniques) {
    chart_curve curve{how, {}};
    for (const load& l : of.loads) {
      const load_reading* const r = measured.find(l, how);
      if (r == nullptr) continue;
      if (curves)
        curve.points.emplace_back(of.x(l), value(*r));
      else
        made.bars.push_back({.name = how, .value = value(*r)});
    }
    if (!curve.points.empty()) made.curves.push_back(std::move(curve));
  }
  return made;
}

}  // namespace

charted_figure page::figure(const results& measured, const std::string& machine) const {
  charted_figure made{.id = id, .title = title, .summary = summary, .charts = charts, .machine = machine};
  for (const panel& of : panels) {
    made.charts.push_back(chart_of(of, measured, nullptr));
    for (const shown_count& also : of.also) made.charts.push_back(chart_of(of, measured, &also));
  }
  made.findings = judge(measured);
  return made;
}

}  // namespace espalier::app::dps
