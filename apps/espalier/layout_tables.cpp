#include "layout_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "apps/common/table.hpp"

namespace espalier::app {
namespace {

using enum table::align;
using inspect::analysis;
using inspect::type_analysis;

constexpr const char* unavailable = "unavailable";

std::string percent(double share) { return fmt::format("{:.2f}", 100 * share); }

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

/// "64", or "48 (71 %)" where there are others.
std::string most_frequent(const inspect::frequencies& f) {
  if (f.most.empty()) return "";
  if (f.distinct == 1) return fmt::format("{}", f.most.front().value);
  return fmt::format("{} ({:.0f} %)", f.most.front().value, 100 * f.first_share().value_or(0));
}

std::vector<std::size_t> by_bytes(const analysis& a, std::size_t most) {
  std::vector<std::size_t> order(a.types.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t t) { return a.by_type[t].bytes_held; });
  std::erase_if(order, [&](std::size_t t) { return a.by_type[t].blocks == 0; });
  if (order.size() > most) order.resize(most);
  return order;
}

std::string rest_text(const analysis& a, const std::vector<std::size_t>& shown) {
  std::uint64_t blocks = a.blocks;
  std::uint64_t bytes = a.bytes_held;
  for (const std::size_t t : shown) {
    blocks -= a.by_type[t].blocks;
    bytes -= a.by_type[t].bytes_held;
  }
  return blocks == 0 ? "" : fmt::format("and {} blocks of other types, {}\n", blocks, bytes_text(bytes));
}

std::string unused(const type_analysis& t, inspect::cache_level level) {
  return percent(t.cache(level).best().unused_share());
}

}  // namespace

std::string layout_head(const analysis& a, bool colour) {
  std::string text = bold(a.subject, colour) + fmt::format(": {} blocks, {} asked for, {} held, {} pages\n",
                                                           a.blocks, bytes_text(a.bytes_asked),
                                                           bytes_text(a.bytes_held), a.pages.pages);
  text += wrapped(fmt::format("caches of {}: {}", a.geometry.name, a.geometry.description), "  ", 110);
  for (const inspect::fact& f : a.facts) text += wrapped(fmt::format("{}: {}", f.name, f.value), "  ", 110);
  return text;
}

std::string types_table(const analysis& a, std::size_t most, bool colour) {
  table t({"type", "blocks", "asked", "bytes\nheld", "stride", "straddling\n%", "two lines\na visit %",
           "unused sets\nL1 %", "\nL2 %", "\nLLC %", "overloaded\nL2 %", "pages", "over the\nfewest", "runs",
           "TLB\nentries"},
          {left, right, right, right, right, right, right, right, right, right, right, right, right, right,
           right});
  const std::vector<std::size_t> shown = by_bytes(a, most);
  for (const std::size_t i : shown) {
    const type_analysis& y = a.by_type[i];
    const auto entries = y.pages.tlb_entries();
    const auto scatter = y.pages.scatter();
    t.add({a.types[i].name, fmt::format("{}", y.blocks),
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
  return t.text(colour) + rest_text(a, shown);
}

std::string neighbours_table(const analysis& a, std::size_t most, bool colour) {
  const std::vector<std::size_t> shown = by_bytes(a, most);
  std::vector<std::string> heads{"blocks with company in\ntheir 128 bytes, %"};
  std::vector<table::align> aligns{left};
  for (const std::size_t i : shown) {
    heads.push_back(a.types[i].name);
    aligns.push_back(right);
  }
  heads.emplace_back("any other");
  aligns.push_back(right);
  table t(heads, aligns);
  for (const std::size_t i : shown) {
    const type_analysis& y = a.by_type[i];
    std::vector<std::string> row{a.types[i].name};
    for (const std::size_t other : shown) {
      const auto found = std::ranges::find(y.neighbours, other, &inspect::neighbour::other);
      row.push_back(found == y.neighbours.end() ? "0.00" : percent(found->blocks.in_pair, y.blocks));
    }
    row.push_back(percent(y.mixed.in_pair, y.blocks));
    t.add(std::move(row));
  }
  return t.text(colour);
}

std::string children_table(const analysis& a, bool colour) {
  table t({"parents", "with children", "in their\nline %", "other line of\nthe pair %", "adjacent\nline %",
           "page %"},
          {left, left, right, right, right, right});
  bool any = false;
  for (std::size_t i = 0; i < a.types.size(); ++i) {
    for (const inspect::child_use& c : a.by_type[i].children) {
      any = true;
      t.add({fmt::format("{} {}", c.parents, a.types[i].name), a.types[c.child].name,
             percent(c.in_line, c.parents), percent(c.in_pair, c.parents),
             percent(c.in_adjacent_line, c.parents), percent(c.in_page, c.parents)});
    }
  }
  return any ? t.text(colour) : "";
}

}  // namespace espalier::app
