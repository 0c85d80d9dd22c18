#include "espalier/inspect/assertion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "espalier/io/text.hpp"

namespace espalier::inspect {
namespace {

std::optional<double> number(std::optional<std::uint64_t> count) {
  return count ? std::optional(static_cast<double>(*count)) : std::nullopt;
}

// A type of few lines leaves sets unused with any layout.
template <cache_level Level>
std::optional<double> unused(const analysis& a, type_index type) {
  const set_use& u = a.by_type[type].cache(Level).best();
  return u.could_fill() && u.sets != 0 ? std::optional(u.unused_share()) : std::nullopt;
}

template <cache_level Level>
std::optional<double> overloaded(const analysis& a, type_index type) {
  return a.by_type[type].cache(Level).best().overloaded_share();
}

template <std::uint64_t proximity::* Where>
std::optional<double> mixed(const analysis& a, type_index type) {
  return share(a.by_type[type].mixed.*Where, a.by_type[type].blocks);
}

constexpr std::array all_metrics{
    metric{"unused_l1", "L1 sets without a line of it, where it has lines enough", metric_unit::share,
           unused<cache_level::l1>},
    metric{"unused_l2", "the same of the L2", metric_unit::share, unused<cache_level::l2>},
    metric{"unused_llc", "the same of the last level", metric_unit::share, unused<cache_level::llc>},
    metric{"overloaded_l1", "L1 sets with far more lines of it than ways", metric_unit::share,
           overloaded<cache_level::l1>},
    metric{"overloaded_l2", "the same of the L2", metric_unit::share, overloaded<cache_level::l2>},
    metric{"overloaded_llc", "the same of the last level", metric_unit::share, overloaded<cache_level::llc>},
    metric{"crossing", "visits by searches that touch two lines of a block", metric_unit::share,
           [](const analysis& a, type_index type) { return a.by_type[type].crossing; }},
    metric{"straddling", "blocks in more lines than their size must have", metric_unit::share,
           [](const analysis& a, type_index type) {
             return share(a.by_type[type].straddling, a.by_type[type].blocks);
           }},
    metric{"mixed_lines", "blocks that share a line with another type", metric_unit::share,
           mixed<&proximity::in_line>},
    metric{"mixed_pairs", "blocks that share a pair of lines with another type", metric_unit::share,
           mixed<&proximity::in_pair>},
    metric{"mixed_pages", "its pages that hold another type too", metric_unit::share,
           [](const analysis& a, type_index type) {
             return share(a.by_type[type].pages.mixed_pages, a.by_type[type].pages.pages);
           }},
    metric{"false_sharing", "blocks of a written type that a neighbour disturbs", metric_unit::share,
           [](const analysis& a, type_index type) {
             std::uint64_t most = 0;
             for (const false_sharing& s : a.shared_falsely)
               if (s.written == type) most = std::max(most, s.blocks);
             return share(most, a.by_type[type].blocks);
           }},
    metric{"waste", "bytes held that nobody asked for", metric_unit::share,
           [](const analysis& a, type_index type) {
             return share(a.by_type[type].bytes_held - a.by_type[type].bytes_asked,
                          a.by_type[type].bytes_held);
           }},
    metric{"scatter", "pages over the fewest that would do", metric_unit::ratio,
           [](const analysis& a, type_index type) { return a.by_type[type].pages.scatter(); }},
    metric{"pages", "pages of 4 KiB", metric_unit::count,
           [](const analysis& a, type_index type) { return number(a.by_type[type].pages.pages); }},
    metric{"runs", "runs of consecutive pages", metric_unit::count,
           [](const analysis& a, type_index type) { return number(a.by_type[type].pages.runs); }},
    metric{"tlb_entries", "translations that it takes", metric_unit::count,
           [](const analysis& a, type_index type) { return number(a.by_type[type].pages.tlb_entries()); }},
    metric{"tlb_load", "the same over the entries of the second TLB", metric_unit::ratio,
           [](const analysis& a, type_index type) { return a.by_type[type].pages.tlb_load; }},
    metric{"small_pages", "pages that are not part of huge ones", metric_unit::count,
           [](const analysis& a, type_index type) { return number(a.by_type[type].pages.small); }},
};

}  // namespace

std::span<const metric> metrics() { return all_metrics; }

const metric* metric_named(std::string_view name) {
  const auto found = std::ranges::find(all_metrics, name, &metric::name);
  return found == all_metrics.end() ? nullptr : &*found;
}

namespace {

constexpr std::string_view form =
    "a condition is [type.]figure, then <, <=, > or >=, then a number, such as unused_l2<5%";

/// Returns the part before the first comma outside quotes; `text` becomes what follows the comma.
std::string_view take_condition(std::string_view& text) {
  bool quoted = false;
  std::size_t end = 0;
  for (; end < text.size() && (quoted || text[end] != ','); ++end)
    if (text[end] == '"') quoted = !quoted;
  if (quoted)
    throw std::invalid_argument(
        fmt::format("'{}' has a quote that does not end; {}", io::trimmed(text), form));
  const std::string_view condition = text.substr(0, end);
  text.remove_prefix(std::min(text.size(), end + 1));
  return condition;
}

std::string names_of_metrics() {
  std::string names;
  for (const metric& m : metrics()) names += (names.empty() ? "" : ", ") + std::string(m.name);
  return names;
}

double parse_bound(std::string_view text, const metric& of, std::string_view condition) {
  std::string_view digits = text;
  const bool is_percentage = digits.ends_with('%');
  if (is_percentage) digits = io::trimmed(digits.substr(0, digits.size() - 1));
  const auto number = io::parse_whole<double>(digits);
  if (!number || !std::isfinite(*number) || *number < 0)
    throw std::invalid_argument(
        fmt::format("'{}': found '{}' where a number of 0 or more belongs; {}", condition, text, form));
  if (of.unit != metric_unit::share && is_percentage)
    throw std::invalid_argument(
        fmt::format("'{}': {} is no share, write its bound without %", condition, of.name));
  const double bound = is_percentage ? *number / 100 : *number;
  if (of.unit == metric_unit::share && bound > 1)
    throw std::invalid_argument(
        fmt::format("'{}': {} is a share, write its bound as 5% or 0.05", condition, of.name));
  return bound;
}

assertion parse_one(std::string_view condition) {
  // Searches from the end: the name of a type may contain such characters too.
  const std::size_t at = condition.find_last_of("<>");
  if (at == std::string_view::npos)
    throw std::invalid_argument(fmt::format("'{}' compares nothing; {}", condition, form));
  assertion a;
  a.text = condition;
  const bool or_equal = at + 1 < condition.size() && condition[at + 1] == '=';
  if (condition[at] == '<')
    a.holds_if = or_equal ? relation::at_most : relation::less;
  else
    a.holds_if = or_equal ? relation::at_least : relation::more;

  std::string_view what = io::trimmed(condition.substr(0, at));
  if (const std::size_t dot = what.rfind('.'); dot != std::string_view::npos) {
    std::string_view type = io::trimmed(what.substr(0, dot));
    if (type.size() >= 2 && type.front() == '"' && type.back() == '"') type = type.substr(1, type.size() - 2);
    if (type.empty())
      throw std::invalid_argument(fmt::format("'{}' names no type before its dot; {}", condition, form));
    a.type = type;
    what = io::trimmed(what.substr(dot + 1));
  }
  a.figure = metric_named(what);
  if (a.figure == nullptr)
    throw std::invalid_argument(
        fmt::format("'{}': no figure is called '{}'; there are {}", condition, what, names_of_metrics()));
  a.bound = parse_bound(io::trimmed(condition.substr(at + (or_equal ? 2 : 1))), *a.figure, condition);
  return a;
}

bool holds(const assertion& a, double figure) {
  switch (a.holds_if) {
    case relation::less:
      return figure < a.bound;
    case relation::at_most:
      return figure <= a.bound;
    case relation::more:
      return figure > a.bound;
    case relation::at_least:
      break;
  }
  return figure >= a.bound;
}

bool wants_little(const assertion& a) {
  return a.holds_if == relation::less || a.holds_if == relation::at_most;
}

std::string shown(const metric& m, double figure) {
  switch (m.unit) {
    case metric_unit::share:
      return fmt::format("{:.4g} %", 100 * figure);
    case metric_unit::ratio:
      return fmt::format("{:.4g}", figure);
    case metric_unit::count:
      break;
  }
  return fmt::format("{}", static_cast<std::uint64_t>(figure));
}

/// The types with the given name; without a name, all types.
std::vector<type_index> types_of(const assertion& a, const analysis& in) {
  std::vector<type_index> types;
  for (type_index type = 0; type < in.types.size(); ++type)
    if (!a.type || in.types[type].name == *a.type) types.push_back(type);
  if (a.type && types.empty()) {
    constexpr std::size_t most = 20;
    std::string known;
    for (std::size_t i = 0; i < std::min(most, in.types.size()); ++i)
      known += (i == 0 ? "" : ", ") + in.types[i].name;
    if (in.types.size() > most) known += fmt::format(" and {} more", in.types.size() - most);
    throw std::invalid_argument(fmt::format("'{}': no type is called '{}'; there are {}", a.text, *a.type,
                                            known.empty() ? "none" : known));
  }
  return types;
}

assertion_outcome evaluate_one(const assertion& a, const analysis& in) {
  assertion_outcome o;
  for (const type_index type : types_of(a, in)) {
    if (in.by_type[type].blocks == 0) continue;
    const auto figure = a.figure->of(in, type);
    if (!figure) continue;
    const bool is_worse = !o.figure || (wants_little(a) ? *figure > *o.figure : *figure < *o.figure);
    if (!is_worse) continue;
    o.figure = figure;
    o.type = type;
  }
  if (o.figure) o.result = holds(a, *o.figure) ? verdict::holds : verdict::fails;
  o.text = fmt::format("{}: {}", a.text, to_string(o.result));
  if (o.figure) o.text += ", " + shown(*a.figure, *o.figure);
  if (o.type && !a.type) o.text += fmt::format(" ({})", in.types[*o.type].name);
  return o;
}

}  // namespace

std::string_view to_string(verdict v) noexcept {
  constexpr std::array<std::string_view, 3> names{"holds", "fails", "unavailable"};
  return names[static_cast<std::size_t>(v)];
}

std::vector<assertion> parse_assertions(std::string_view text) {
  std::vector<assertion> assertions;
  do {
    const std::string_view condition = io::trimmed(take_condition(text));
    if (condition.empty()) throw std::invalid_argument(fmt::format("a condition is empty; {}", form));
    assertions.push_back(parse_one(condition));
  } while (!text.empty());
  return assertions;
}

std::vector<assertion_outcome> evaluate(const std::vector<assertion>& assertions, const analysis& a) {
  std::vector<assertion_outcome> outcomes;
  outcomes.reserve(assertions.size());
  for (const assertion& one : assertions) outcomes.push_back(evaluate_one(one, a));
  return outcomes;
}

}  // namespace espalier::inspect
