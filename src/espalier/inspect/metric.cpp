#include "espalier/inspect/metric.hpp"

#include <algorithm>
#include <array>

namespace espalier::inspect {
namespace {

std::optional<double> share(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

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

constexpr std::array all{
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

std::span<const metric> metrics() { return all; }

const metric* metric_named(std::string_view name) {
  const auto found = std::ranges::find(all, name, &metric::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace espalier::inspect
