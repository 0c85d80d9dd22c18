#include "espalier/inspect/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "espalier/hw/cache_line.hpp"

namespace espalier::inspect {
namespace {

using hw::cache_line_bytes;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// "a", "a and b", "a, b and c".
std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

double share_of(std::uint64_t blocks, const type_analysis& t) {
  return static_cast<double>(blocks) / static_cast<double>(t.blocks);
}

/// The size class of most of its blocks.
std::uint64_t main_class(const type_analysis& t) {
  return t.size_classes.most.empty() ? 0 : t.size_classes.most.front().value;
}

/// The rules for one type. Each gives a finding or none.
class rules {
 public:
  rules(const analysis& a, type_index type, const finding_thresholds& thresholds)
      : a_(a), type_(type), t_(a.by_type[type]), limits_(thresholds) {}

  std::optional<finding> unused_sets() const {
    std::vector<std::string> levels;
    double worst = 0;
    for (const cache_level level : cache_levels) {
      const set_use& u = t_.cache(level).best();
      if (!is_underused(u)) continue;
      worst = std::max(worst, u.unused_share());
      levels.push_back(fmt::format("{} of the {}", percent(u.unused_share()), sets_of(level)));
    }
    if (levels.empty()) return std::nullopt;
    finding f = make(finding_kind::unused_sets, worst);
    const std::string what = fmt::format("{} leaves {} unused", name(), joined(levels));
    if (const auto beside = class_mates(); !beside.empty()) {
      f.other = beside.front();
      f.advice = remedy::segregate;
      f.text = fmt::format(
          "{}: it alternates with {} of the same {}-byte class. Segregate them, or bring {} into another "
          "size class{}.",
          what, names_of(beside), main_class(t_), name(), smaller_class());
    } else if (const auto advice = stride_advice()) {
      f.advice = remedy::pad;
      f.text = what + ": " + *advice;
    } else {
      f.advice = remedy::segregate;
      f.text = fmt::format(
          "{}: its blocks lie apart, among others. Segregate it, so that they lie end to end.", what);
    }
    return f;
  }

  /// Silent where unused_sets() reports a cache of this type.
  std::optional<finding> overloaded_sets() const {
    const cache_level* worst = nullptr;
    for (const cache_level& level : cache_levels) {
      const set_use& u = t_.cache(level).best();
      if (is_underused(u)) return std::nullopt;
      if (u.overloaded_share() < limits_.overloaded_sets) continue;
      if (worst == nullptr || u.overloaded_share() > t_.cache(*worst).best().overloaded_share())
        worst = &level;
    }
    if (worst == nullptr) return std::nullopt;
    const set_use& u = t_.cache(*worst).best();
    finding f = make(finding_kind::overloaded_sets, u.overloaded_share());
    const std::string what = fmt::format("{} of the {} have far more lines of {} than ways, up to {}",
                                         percent(f.figure), sets_of(*worst), name(), u.most_loaded);
    if (const auto advice = stride_advice()) {
      f.advice = remedy::pad;
      f.text = what + ": " + *advice;
    } else {
      f.advice = remedy::segregate;
      f.text = fmt::format("{}. Segregate it, so that its blocks lie end to end.", what);
    }
    return f;
  }

  std::optional<finding> crossing() const {
    if (visited_bytes() > cache_line_bytes) return misaligned();
    if (!t_.crossing || *t_.crossing < limits_.crossing) return std::nullopt;
    finding f = make(finding_kind::crossing, *t_.crossing);
    const std::string what = fmt::format("{} of the searches that visit {} touch more than one line of it",
                                         percent(f.figure), name());
    if (t_.searched_straddling.value_or(0) == 0) {
      f.advice = remedy::reorder_fields;
      f.text = fmt::format(
          "{}, wherever it lies. Reorder its fields, so that those that searches read come "
          "together in {} bytes.",
          what, cache_line_bytes);
      return f;
    }
    const std::uint64_t padded = std::bit_ceil(main_class(t_));
    const std::uint64_t bytes = padded <= cache_line_bytes ? padded
                                                           : (main_class(t_) + cache_line_bytes - 1) /
                                                                 cache_line_bytes * cache_line_bytes;
    const std::uint64_t llc = a_.geometry.llc.bytes();
    if (t_.blocks * bytes > llc && t_.bytes_held <= llc) {
      f.advice = remedy::leave_alone;
      f.text = fmt::format(
          "{}. Leave it alone: its {} MiB fit the last level, and padded to {} bytes they would not.", what,
          t_.bytes_held >> 20U, bytes);
    } else {
      f.advice = remedy::pad;
      f.text = fmt::format("{}: of {} blocks {} straddle lines. Pad it to {} bytes, aligned.", what,
                           t_.blocks, t_.searched_straddling.value_or(0), bytes);
    }
    return f;
  }

  /// A search of such a type touches several lines wherever a block lies, but no more than it must if blocks begin at
  /// lines.
  std::optional<finding> misaligned() const {
    const double figure = share_of(t_.searched_straddling.value_or(0), t_);
    if (figure < limits_.crossing) return std::nullopt;
    finding f = make(finding_kind::crossing, figure);
    f.advice = remedy::pad;
    f.text = fmt::format(
        "{} of the blocks of {} have what searches read in more lines than its size requires. Align it to {} "
        "bytes.",
        percent(figure), name(), cache_line_bytes);
    return f;
  }

  /// Silent where unused_sets() gives the same advice.
  std::optional<finding> foreign_neighbours() const {
    if (!a_.types[type_].is_searched()) return std::nullopt;
    const neighbour* most = nullptr;
    for (const neighbour& n : t_.neighbours) {
      // A neighbour that is also searched may be useful there: a leaf beside its parent saves a miss.
      if (n.other == type_ || a_.types[n.other].is_searched()) continue;
      if (most == nullptr || fetched(n.blocks) > fetched(most->blocks)) most = &n;
    }
    if (most == nullptr || share_of(fetched(most->blocks), t_) < limits_.foreign_neighbours)
      return std::nullopt;
    finding f = make(finding_kind::foreign_neighbours, share_of(fetched(most->blocks), t_));
    f.other = most->other;
    f.advice = remedy::segregate;
    f.text = fmt::format(
        "{} of the blocks of {} share {} with {}, which no search reads. Segregate the two: what "
        "is fetched with a block takes the place of another in the cache.",
        percent(f.figure), name(), fetched_name(), a_.types[*f.other].name);
    return f;
  }

  std::optional<finding> false_sharing() const {
    const inspect::false_sharing* most = nullptr;
    for (const inspect::false_sharing& s : a_.shared_falsely)
      if (s.written == type_ && (most == nullptr || s.blocks > most->blocks)) most = &s;
    if (most == nullptr || share_of(most->blocks, t_) < limits_.false_sharing) return std::nullopt;
    finding f = make(finding_kind::false_sharing, share_of(most->blocks, t_));
    f.other = most->other;
    f.advice = remedy::pad;
    const std::uint64_t bytes = a_.geometry.adjacent_line_prefetch ? 2 * cache_line_bytes : cache_line_bytes;
    const std::string what = fmt::format("{} of the blocks of {}, which is written, share {}",
                                         percent(f.figure), name(), fetched_name());
    if (most->other == type_)
      f.text = fmt::format("{} with others of it. Pad it to {} bytes, aligned.", what, bytes);
    else
      f.text = fmt::format("{} with {}. Pad it to {} bytes, aligned, or segregate the two.", what,
                           a_.types[most->other].name, bytes);
    return f;
  }

  std::optional<finding> scattered_pages() const {
    const page_use& p = t_.pages;
    const bool huge = p.huge.value_or(0) > 0;
    const std::uint64_t needed = p.tlb_entries().value_or(p.pages);
    const std::uint64_t fewest = huge ? fewest_entries(p) : p.fewest_pages;
    const std::uint64_t held = (huge ? a_.geometry.tlb.l1_huge : a_.geometry.tlb.l1_small).lines();
    if (fewest == 0 || needed <= held) return std::nullopt;
    const double figure = static_cast<double>(needed) / static_cast<double>(fewest);
    if (figure < limits_.scattered_pages) return std::nullopt;
    finding f = make(finding_kind::scattered_pages, figure);
    f.advice = remedy::segregate;
    f.text = fmt::format("{} takes {} {} where {} would do: other types lie between. Segregate it.", name(),
                         needed,
                         !huge                      ? "pages"
                         : p.small.value_or(0) == 0 ? "huge pages"
                                                    : "pages, huge and ordinary,",
                         fewest);
    return f;
  }

  /// TLB entries for the type if it filled the pages that it touches, with the present share of huge pages.
  static std::uint64_t fewest_entries(const page_use& p) {
    const double filled = static_cast<double>(p.fewest_pages) / static_cast<double>(p.pages);
    const auto small = static_cast<double>(p.small.value_or(0));
    constexpr double pages_of_huge = static_cast<double>(huge_page_bytes) / page_bytes;
    const double huge = (static_cast<double>(p.pages) - small) / pages_of_huge;
    return static_cast<std::uint64_t>(std::ceil(small * filled) + std::ceil(huge * filled));
  }

  std::optional<finding> tlb_reach() const {
    if (!t_.pages.small) return std::nullopt;
    const hw::tlb_shape& tlb = a_.geometry.tlb;
    const std::uint64_t held = std::max(tlb.l2.lines(), tlb.l1_small.lines());
    if (held == 0 || *t_.pages.small <= held) return std::nullopt;
    finding f =
        make(finding_kind::tlb_reach, static_cast<double>(*t_.pages.small) / static_cast<double>(held));
    f.advice = remedy::use_huge_pages;
    f.text = fmt::format("{} lies in {} ordinary pages, and the TLB has {} entries for them. Use huge pages.",
                         name(), *t_.pages.small, held);
    return f;
  }

 private:
  [[nodiscard]] const std::string& name() const { return a_.types[type_].name; }

  /// The bytes that a search reads of a block, at most.
  [[nodiscard]] std::uint64_t visited_bytes() const {
    std::uint64_t always = 0;
    std::uint64_t one = 0;
    for (const byte_range& r : a_.types[type_].always_read) always += r.bytes;
    for (const byte_range& r : a_.types[type_].one_read) one = std::max<std::uint64_t>(one, r.bytes);
    return always + one;
  }

  finding make(finding_kind kind, double figure) const {
    finding f;
    f.kind = kind;
    f.type = type_;
    f.figure = figure;
    return f;
  }

  /// Such as "L2 sets"; says so if the sets are a guess.
  [[nodiscard]] std::string sets_of(cache_level level) const {
    const bool is_guess = level != cache_level::l1 && !t_.cache(level).best().physical;
    return fmt::format("{} sets{}", to_string(level), is_guess ? " (by virtual addresses)" : "");
  }

  [[nodiscard]] bool is_underused(const set_use& u) const {
    if (!u.could_fill() || u.sets == 0) return false;
    const double by_chance = std::exp(-static_cast<double>(u.lines) / static_cast<double>(u.sets));
    return u.unused_share() - by_chance >= limits_.unused_sets;
  }

  /// Other types of the same size class that lie beside this type, most frequent first. Empty unless most of this
  /// type's blocks have such neighbours.
  [[nodiscard]] std::vector<type_index> class_mates() const {
    std::vector<type_index> mates;
    std::uint64_t beside = 0;
    for (const neighbour& n : t_.neighbours) {
      if (n.other == type_ || main_class(a_.by_type[n.other]) != main_class(t_)) continue;
      if (share_of(n.blocks.in_pair, t_) < 0.1) continue;
      mates.push_back(n.other);
      beside += n.blocks.in_pair;
    }
    if (share_of(beside, t_) < 0.5) mates.clear();
    return mates;
  }

  [[nodiscard]] std::string names_of(const std::vector<type_index>& types) const {
    std::vector<std::string> names;
    names.reserve(types.size());
    for (const type_index type : types) names.push_back(a_.types[type].name);
    return joined(names);
  }

  /// Allocators have a class for each 16 bytes up to 128.
  [[nodiscard]] std::string smaller_class() const {
    const std::uint64_t held = main_class(t_);
    return held > 16 && held <= 128 && held % 16 == 0 ? fmt::format(" (at most {} bytes)", held - 16) : "";
  }

  /// The stride that restricts the blocks to few sets, and how to change it. Present if most blocks have one stride
  /// that is longer than a line.
  [[nodiscard]] std::optional<std::string> stride_advice() const {
    constexpr double most = 0.5;
    const double share = t_.strides.first_share().value_or(0);
    if (share < most || t_.strides.most.front().value <= cache_line_bytes) return std::nullopt;
    const std::uint64_t stride = t_.strides.most.front().value;
    return fmt::format(
        "{} of its blocks lie {} bytes after the one before. Pad them to an odd number of lines, such "
        "as {} bytes.",
        percent(share), stride, odd_lines(stride));
  }

  static std::uint64_t odd_lines(std::uint64_t stride) {
    const std::uint64_t lines = (stride + cache_line_bytes - 1) / cache_line_bytes;
    return (lines | 1U) * cache_line_bytes;
  }

  /// Blocks with such a neighbour in what one miss fetches.
  [[nodiscard]] std::uint64_t fetched(const proximity& p) const {
    return a_.geometry.adjacent_line_prefetch ? p.in_pair : p.in_line;
  }
  [[nodiscard]] const char* fetched_name() const {
    return a_.geometry.adjacent_line_prefetch ? "a pair of lines" : "a line";
  }

  const analysis& a_;
  type_index type_;
  const type_analysis& t_;
  const finding_thresholds& limits_;
};

}  // namespace

std::string_view to_string(finding_kind kind) noexcept {
  constexpr std::array<std::string_view, 7> names{"unused_sets",        "overloaded_sets", "crossing",
                                                  "foreign_neighbours", "false_sharing",   "scattered_pages",
                                                  "tlb_reach"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(remedy r) noexcept {
  constexpr std::array<std::string_view, 5> names{"segregate", "pad", "reorder_fields", "use_huge_pages",
                                                  "leave_alone"};
  return names[static_cast<std::size_t>(r)];
}

std::vector<finding> find_faults(const analysis& a, const finding_thresholds& thresholds) {
  std::vector<type_index> types(a.by_type.size());
  std::iota(types.begin(), types.end(), 0U);
  std::ranges::sort(types, [&](type_index x, type_index y) {
    return std::tuple(a.by_type[y].bytes_held, x) < std::tuple(a.by_type[x].bytes_held, y);
  });
  std::vector<finding> found;
  using rule = std::optional<finding> (rules::*)() const;
  for (const rule r :
       {&rules::unused_sets, &rules::overloaded_sets, &rules::crossing, &rules::foreign_neighbours,
        &rules::false_sharing, &rules::scattered_pages, &rules::tlb_reach}) {
    for (const type_index type : types) {
      if (a.by_type[type].blocks == 0) continue;
      auto f = (rules(a, type, thresholds).*r)();
      if (!f) continue;
      const bool is_said = f->kind == finding_kind::foreign_neighbours &&
                           std::ranges::any_of(found, [&](const finding& before) {
                             return before.kind == finding_kind::unused_sets && before.type == type &&
                                    before.other.has_value();
                           });
      if (!is_said) found.push_back(std::move(*f));
    }
  }
  return found;
}

std::vector<std::string> blind_spots(const analysis& a) {
  std::vector<std::string> spots;
  if (!a.frames_unknown.empty())
    spots.push_back(
        fmt::format("Sets of the L2 and the LLC are judged by virtual addresses: {}.", a.frames_unknown));
  if (!a.huge_unknown.empty())
    spots.push_back(fmt::format("Whether the TLB holds the pages is not judged: {}.", a.huge_unknown));
  if (!a.links_unknown.empty())
    spots.push_back(fmt::format("Where children lie is not known: {}.", a.links_unknown));
  if (!a.types.empty() && std::ranges::none_of(a.types, &block_type::is_searched))
    spots.push_back("Lines that searches cross are not judged: no type says what searches read.");
  return spots;
}

std::string summary_of(const analysis& a, const std::vector<finding>& found) {
  if (a.blocks == 0) return "There are no blocks to look at.";
  const std::string looked =
      fmt::format("{} blocks of {} type{} in {} page{}", a.blocks, a.types.size(),
                  a.types.size() == 1 ? "" : "s", a.pages.pages, a.pages.pages == 1 ? "" : "s");
  if (found.empty()) return fmt::format("Nothing to change in {}.", looked);
  return fmt::format("{} finding{} in {}.", found.size(), found.size() == 1 ? "" : "s", looked);
}

}  // namespace espalier::inspect
