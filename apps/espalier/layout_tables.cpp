#include "layout_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

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

/// "64", or "48 (71 %)" if there are other values.
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

/// Limits on the length of names; the table with whole names is tried first.
constexpr std::array<std::size_t, 7> name_lengths{1000, 80, 64, 48, 40, 32, 24};

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    widest = std::max(widest, end - at);
    at = end + 1;
  }
  return widest;
}

bool fits(const table& t, std::optional<std::size_t> width) {
  return !width || widest_line(t.text(false)) <= *width;
}

/// The first table that fits, or the narrowest. build(length) makes one.
template <class Build>
std::string fitted(std::optional<std::size_t> width, bool colour, Build&& build) {
  for (const std::size_t length : name_lengths) {
    const table t = build(length);
    if (length == name_lengths.back() || fits(t, width)) return t.text(colour);
  }
  return "";
}

std::string unused(const type_analysis& t, inspect::cache_level level) {
  return percent(t.cache(level).best().unused_share());
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string layout_head(const analysis& a, bool colour) {
  std::string text = bold(a.subject, colour) + fmt::format(": {} blocks, {} asked for, {} held, {} pages\n",
                                                           a.blocks, bytes_text(a.bytes_asked),
                                                           bytes_text(a.bytes_held), a.pages.pages);
  text += wrapped(fmt::format("caches of {}: {}", a.geometry.name, a.geometry.description), "  ", 110);
  for (const inspect::fact& f : a.facts) text += wrapped(fmt::format("{}: {}", f.name, f.value), "  ", 110);
  return text;
}

std::string types_table(const analysis& a, std::size_t most, bool colour, std::optional<std::size_t> width) {
  const std::vector<std::size_t> shown = by_bytes(a, most);
  const auto build = [&](std::size_t length) {
    table t({"type", "blocks", "asked", "bytes\nheld", "stride", "straddling\n%", "two lines\na visit %",
             "unused sets\nL1 %", "\nL2 %", "\nLLC %", "overloaded\nL2 %", "pages", "over the\nfewest",
             "runs", "TLB\nentries"},
            {left, right, right, right, right, right, right, right, right, right, right, right, right, right,
             right});
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
  return fitted(width, colour, build) + rest_text(a, shown);
}

std::string neighbours_table(const analysis& a, std::size_t most, bool colour,
                             std::optional<std::size_t> width) {
  const std::vector<std::size_t> shown = by_bytes(a, most);
  std::size_t columns = shown.size();
  const auto build = [&](std::size_t length) {
    const bool numbered = length < name_lengths.front();
    std::vector<std::string> heads{"blocks with company in\ntheir 128 bytes, %"};
    std::vector<table::align> aligns{left};
    for (std::size_t n = 0; n < columns; ++n) {
      heads.push_back(numbered ? fmt::format("[{}]", n + 1) : a.types[shown[n]].name);
      aligns.push_back(right);
    }
    heads.emplace_back("any other");
    aligns.push_back(right);
    table t(heads, aligns);
    for (std::size_t n = 0; n < shown.size(); ++n) {
      const type_analysis& y = a.by_type[shown[n]];
      const std::string name = shortened(a.types[shown[n]].name, length);
      std::vector<std::string> row{numbered ? fmt::format("[{}] {}", n + 1, name) : name};
      for (std::size_t c = 0; c < columns; ++c) {
        const auto found = std::ranges::find(y.neighbours, shown[c], &inspect::neighbour::other);
        row.push_back(found == y.neighbours.end() ? "0.00" : percent(found->blocks.in_pair, y.blocks));
      }
      row.push_back(percent(y.mixed.in_pair, y.blocks));
      t.add(std::move(row));
    }
    return t;
  };
  // If it does not fit with the shortest names, the columns of the types with the fewest bytes are omitted.
  while (columns > 1 && !fits(build(name_lengths.back()), width)) --columns;
  return fitted(width, colour, build);
}

std::string children_table(const analysis& a, bool colour, std::optional<std::size_t> width) {
  bool any = false;
  const auto build = [&](std::size_t length) {
    table t({"parents", "with children", "in their\nline %", "other line of\nthe pair %", "adjacent\nline %",
             "page %"},
            {left, left, right, right, right, right});
    for (std::size_t i = 0; i < a.types.size(); ++i) {
      for (const inspect::child_use& c : a.by_type[i].children) {
        any = true;
        t.add({fmt::format("{} {}", c.parents, shortened(a.types[i].name, length)),
               shortened(a.types[c.child].name, length), percent(c.in_line, c.parents),
               percent(c.in_pair, c.parents), percent(c.in_adjacent_line, c.parents),
               percent(c.in_page, c.parents)});
      }
    }
    return t;
  };
  const std::string text = fitted(width, colour, build);
  return any ? text : "";
}

std::string looks_table(const std::vector<look>& looks, std::size_t most, bool colour,
                        std::optional<std::size_t> width) {
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
    std::vector<table::align> aligns{left};
    for (const look& one : looks) {
      heads.push_back(fmt::format("{}\n{}", one.moment, one.after));
      aligns.push_back(right);
    }
    table t(heads, aligns);
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

}  // namespace espalier::app
