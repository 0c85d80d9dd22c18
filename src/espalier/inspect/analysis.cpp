#include "espalier/inspect/analysis.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/inspect/page_map.hpp"

namespace espalier::inspect {
namespace {

using hw::cache_line_bytes;

constexpr unsigned line_shift = 6;
constexpr unsigned pair_shift = 7;
constexpr unsigned page_shift = 12;
static_assert(1U << line_shift == cache_line_bytes && 1U << page_shift == page_bytes);

/// Sorts the values.
frequencies frequencies_of(std::vector<std::uint64_t>& values, std::size_t limit) {
  std::sort(values.begin(), values.end());
  frequencies f;
  f.total = values.size();
  const auto rarer = [](const frequency& a, const frequency& b) {
    return a.count != b.count ? a.count > b.count : a.value < b.value;
  };
  for (auto first = values.begin(); first != values.end();) {
    const auto behind = std::upper_bound(first, values.end(), *first);
    ++f.distinct;
    // A heap of the most frequent values so far, with the least frequent of them in front.
    f.most.push_back({*first, static_cast<std::uint64_t>(behind - first)});
    std::push_heap(f.most.begin(), f.most.end(), rarer);
    if (f.most.size() > limit) {
      std::pop_heap(f.most.begin(), f.most.end(), rarer);
      f.most.pop_back();
    }
    first = behind;
  }
  std::sort_heap(f.most.begin(), f.most.end(), rarer);
  return f;
}

/// A T for each pair of types that has been requested.
template <class T>
class by_type_pair {
 public:
  T& at(type_index of, type_index other) {
    const std::uint64_t key = std::uint64_t{of} << 32U | other;
    // Neighbouring lines mostly hold the same types.
    if (last_ == nullptr || key != last_key_) {
      last_ = &all_[key];
      last_key_ = key;
    }
    return *last_;
  }

  template <class Visitor>
  void for_each(Visitor visit) const {
    for (const auto& [key, value] : all_)
      visit(static_cast<type_index>(key >> 32U), static_cast<type_index>(key), value);
  }

 private:
  std::unordered_map<std::uint64_t, T> all_;
  T* last_ = nullptr;  // elements of unordered_map do not move
  std::uint64_t last_key_ = 0;
};

/// Finds which blocks have neighbours in units of 2^shift bytes: lines, pairs of lines, pages.
///
/// Blocks within one unit are counted by type. A block that reaches from a first unit into a last unit has the
/// neighbours of both. It has the units in between to itself.
class company_sweep {
 public:
  company_sweep(const snapshot& s, unsigned shift)
      : blocks_(s.blocks),
        shift_(shift),
        mixed_(s.types.size(), 0),
        present_(s.types.size()),
        joined_(s.types.size()) {
    std::size_t next = 0;
    std::uint64_t unit = 0;
    while (next < blocks_.size()) {
      unit = std::max(unit, blocks_[next].address >> shift_);
      next = sweep_unit(next, unit);
    }
  }

  [[nodiscard]] std::uint64_t mixed(type_index type) const { return mixed_[type]; }
  [[nodiscard]] const by_type_pair<std::uint64_t>& pairs() const { return pairs_; }
  /// For each unit with bytes, in ascending order, whether it has several types.
  [[nodiscard]] const std::vector<bool>& mixed_units() const { return mixed_units_; }

 private:
  struct count {
    std::uint64_t all = 0;
    std::uint64_t inside = 0;  // neither begin before the unit nor end after it
  };

  [[nodiscard]] std::uint64_t last_unit(const live_block& b) const { return b.last() >> shift_; }

  /// Counts the unit. Block `first` has bytes in it. Returns the first block that is not finished, and sets `unit` to
  /// the next unit that may have bytes of it.
  std::size_t sweep_unit(std::size_t first, std::uint64_t& unit) {
    present_.clear();
    std::size_t behind = first;
    for (; behind < blocks_.size() && blocks_[behind].address >> shift_ <= unit; ++behind) {
      const live_block& b = blocks_[behind];
      count& c = present_[b.type];
      ++c.all;
      if (b.address >> shift_ == unit && last_unit(b) == unit) ++c.inside;
    }
    mixed_units_.push_back(present_.seen().size() > 1);
    count_inside();
    if (blocks_[first].address >> shift_ < unit) {
      join_present(blocks_[first].type);
      count_joined(blocks_[first].type);
    }
    const live_block& last = blocks_[behind - 1];
    if (last_unit(last) == unit) {
      ++unit;
      return behind;
    }
    joined_.clear();
    join_present(last.type);
    mixed_units_.insert(mixed_units_.end(), last_unit(last) - unit - 1, false);
    unit = last_unit(last);
    return behind - 1;
  }

  void count_inside() {
    for (const auto& [type, of] : present_.seen()) {
      if (of.inside == 0) continue;
      for (const auto& [other, c] : present_.seen())
        if (other != type || c.all > 1) pairs_.at(type, other) += of.inside;
      if (present_.seen().size() > 1) mixed_[type] += of.inside;
    }
  }

  void join_present(type_index own) {
    for (const auto& [other, c] : present_.seen())
      if (other != own || c.all > 1) joined_[other] = true;
  }

  void count_joined(type_index own) {
    bool others = false;
    for (const auto& [other, is] : joined_.seen()) {
      ++pairs_.at(own, other);
      others = others || other != own;
    }
    if (others) ++mixed_[own];
  }

  std::span<const live_block> blocks_;
  unsigned shift_;
  by_type_pair<std::uint64_t> pairs_;
  std::vector<std::uint64_t> mixed_;
  std::vector<bool> mixed_units_;
  by_type_seen<count> present_;
  by_type_seen<bool> joined_;  // neighbours of the block that reaches into the next unit
};

/// Lines per set. Time and clearing are linear in the lines, so that a thousand small types cost little.
class set_counter {
 public:
  explicit set_counter(const hw::cache_shape& shape) : shape_(shape), load_(shape.all_sets(), 0) {}

  void add(std::uint64_t address) {
    if (load_.empty()) return;
    const auto set = static_cast<std::uint32_t>(hw::set_of(shape_, address));
    if (load_[set]++ == 0) used_.push_back(set);
    ++lines_;
  }

  /// Returns the counts and starts anew.
  set_use take(bool with_cells) {
    set_use u;
    u.sets = load_.size();
    u.lines = lines_;
    u.unused = u.sets - used_.size();
    const double mean = u.sets == 0 ? 0 : static_cast<double>(lines_) / static_cast<double>(u.sets);
    const double bound = std::max({static_cast<double>(shape_.ways), 1.5 * mean, mean + 4 * std::sqrt(mean)});
    for (const std::uint32_t set : used_) {
      if (load_[set] > bound) ++u.overloaded;
      u.most_loaded = std::max<std::uint64_t>(u.most_loaded, load_[set]);
    }
    if (with_cells) make_cells(u);
    for (const std::uint32_t set : used_) load_[set] = 0;
    used_.clear();
    lines_ = 0;
    return u;
  }

 private:
  void make_cells(set_use& u) const {
    constexpr std::uint64_t most_cells = 4096;
    if (u.sets == 0) return;
    u.sets_per_cell = (u.sets + most_cells - 1) / most_cells;
    u.cells.resize((u.sets + u.sets_per_cell - 1) / u.sets_per_cell);
    for (std::size_t set = 0; set < load_.size(); ++set) {
      set_use::cell& c = u.cells[set / u.sets_per_cell];
      c.lines += load_[set];
      c.most = std::max(c.most, load_[set]);
      if (load_[set] == 0) ++c.unused;
    }
  }

  hw::cache_shape shape_;
  std::vector<std::uint32_t> load_;
  std::vector<std::uint32_t> used_;
  std::uint64_t lines_ = 0;
};

/// Computes page_use from pages in ascending order.
class page_counter {
 public:
  explicit page_counter(const hw::tlb_shape& tlb) : tlb_(tlb) {}

  void add(const page& p, bool mixed) {
    ++use_.pages;
    if (mixed) ++use_.mixed_pages;
    if (use_.pages == 1 || p.number != last_ + 1) begin_run(p.number);
    last_ = p.number;
    ++run_length_;
    const auto is_huge = p.huge();
    if (!is_huge) {
      size_known_ = false;
    } else if (!*is_huge) {
      ++small_;
    } else if (const std::uint64_t huge = p.number / (huge_page_bytes / page_bytes); huge != last_huge_) {
      ++huge_;
      last_huge_ = huge;
    }
  }

  page_use take(std::uint64_t bytes_held, std::size_t limit) {
    end_run();
    use_.fewest_pages = (bytes_held + page_bytes - 1) / page_bytes;
    use_.runs = lengths_.size();
    use_.run_lengths = frequencies_of(lengths_, limit);
    use_.run_distances = frequencies_of(distances_, limit);
    if (size_known_) count_translations();
    return std::move(use_);
  }

 private:
  void begin_run(std::uint64_t number) {
    if (run_length_ != 0) distances_.push_back(number - run_begin_);
    end_run();
    run_begin_ = number;
  }
  void end_run() {
    if (run_length_ == 0) return;
    lengths_.push_back(run_length_);
    use_.longest_run = std::max(use_.longest_run, run_length_);
    run_length_ = 0;
  }

  void count_translations() {
    use_.small = small_;
    use_.huge = huge_;
    const std::uint64_t l1_small = tlb_.l1_small.lines();
    const std::uint64_t l1_huge = tlb_.l1_huge.lines();
    const std::uint64_t l2 = tlb_.l2.lines();
    use_.l1_tlb_load = worse(load(small_, l1_small), load(huge_, l1_huge));
    // Entries are not added up, because the second level holds mostly the same pages as the first.
    if (l2 != 0 && tlb_.l2_holds_huge)
      use_.tlb_load = load(small_ + huge_, l2);
    else
      use_.tlb_load = worse(load(small_, std::max(l2, l1_small)), load(huge_, l1_huge));
  }

  /// nullopt where there are pages but no entries for them.
  static std::optional<double> load(std::uint64_t pages, std::uint64_t entries) {
    return pages == 0 ? std::optional(0.0) : share(pages, entries);
  }
  static std::optional<double> worse(std::optional<double> a, std::optional<double> b) {
    return a && b ? std::max(a, b) : std::nullopt;
  }

  const hw::tlb_shape& tlb_;
  page_use use_;
  std::vector<std::uint64_t> lengths_;
  std::vector<std::uint64_t> distances_;
  std::uint64_t last_ = 0;
  std::uint64_t run_begin_ = 0;
  std::uint64_t run_length_ = 0;
  std::uint64_t last_huge_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t small_ = 0;
  std::uint64_t huge_ = 0;
  bool size_known_ = true;
};

/// The bytes that a search reads in the blocks of one type.
class visits {
 public:
  explicit visits(const block_type& type) : type_(&type) {
    all_ = type.always_read;
    all_.insert(all_.end(), type.one_read.begin(), type.one_read.end());
    std::ranges::sort(all_, {}, &byte_range::first);
    for (const byte_range& r : all_) end_ = std::max(end_, std::uint64_t{r.first} + r.bytes);
    for (std::uint64_t offset = 0; offset < cache_line_bytes; ++offset)
      fewest_lines_ = std::min(fewest_lines_, lines_of({.address = offset, .bytes = end_}));
  }

  /// Calls visit(line number) for the lines of a block that searches may read. If the type does not say what searches
  /// read, for all lines in which the block has bytes. Ascending; a line may be visited several times.
  template <class Visitor>
  void for_each_line(const live_block& b, Visitor visit) const {
    if (all_.empty()) return for_each_line_of(b, 0, b.last() - b.address, visit);
    for (const byte_range& r : all_) {
      if (r.bytes != 0 && r.first < b.bytes)
        for_each_line_of(b, r.first, std::min<std::uint64_t>(b.bytes, std::uint64_t{r.first} + r.bytes) - 1,
                         visit);
    }
  }

  struct cost {
    double crossing = 0;  // share of visits that touch more than one line
    double lines = 0;
    bool straddles = false;
  };

  [[nodiscard]] cost cost_of(const live_block& b) {
    if (b.bytes < end_) return computed(b);
    auto& known = by_offset_[b.address % cache_line_bytes];
    if (!known) known = computed(b);
    return *known;
  }

 private:
  template <class Visitor>
  static void for_each_line_of(const live_block& b, std::uint64_t first, std::uint64_t last, Visitor visit) {
    for (std::uint64_t line = (b.address + first) >> line_shift; line <= (b.address + last) >> line_shift;
         ++line)
      visit(line);
  }

  [[nodiscard]] std::uint64_t lines_of(const live_block& b) const {
    std::uint64_t count = 0;
    std::uint64_t next = 0;
    for_each_line(b, [&](std::uint64_t line) {
      if (line < next) return;
      next = line + 1;
      ++count;
    });
    return count;
  }

  [[nodiscard]] cost computed(const live_block& b) {
    static constexpr byte_range nothing{};
    const std::span<const byte_range> choices =
        type_->one_read.empty() ? std::span(&nothing, 1) : std::span(type_->one_read);
    cost sum;
    for (const byte_range& choice : choices) {
      std::vector<std::uint64_t> lines;
      const auto note = [&](const byte_range& r) {
        if (r.bytes == 0 || r.first >= b.bytes) return;
        const std::uint64_t end = std::min<std::uint64_t>(b.bytes, std::uint64_t{r.first} + r.bytes);
        for_each_line_of(b, r.first, end - 1, [&](std::uint64_t line) { lines.push_back(line); });
      };
      for (const byte_range& r : type_->always_read) note(r);
      note(choice);
      std::ranges::sort(lines);
      const auto distinct = std::unique(lines.begin(), lines.end()) - lines.begin();
      sum.lines += static_cast<double>(distinct);
      sum.crossing += distinct > 1 ? 1 : 0;
    }
    const auto count = static_cast<double>(choices.size());
    return {sum.crossing / count, sum.lines / count, lines_of(b) > fewest_lines_};
  }

  const block_type* type_;
  std::vector<byte_range> all_;  // ascending by `first`
  std::uint64_t end_ = 0;
  std::uint64_t fewest_lines_ = std::numeric_limits<std::uint64_t>::max();
  std::array<std::optional<cost>, cache_line_bytes> by_offset_;
};

bool straddles(const live_block& b) {
  const std::uint64_t lines = (b.last() >> line_shift) - (b.address >> line_shift) + 1;
  return lines > ((b.last() - b.address) >> line_shift) + 1;
}

class analyzer {
 public:
  analyzer(const snapshot& s, const hw::cache_geometry& geometry, const analysis_options& options)
      : s_(s),
        options_(options),
        virtual_{set_counter(geometry.l1), set_counter(geometry.l2), set_counter(geometry.llc)},
        physical_{set_counter(geometry.l2), set_counter(geometry.llc)} {
    a_.geometry = geometry;
    a_.subject = s.subject;
    a_.facts = s.facts;
    a_.types = s.types;
    a_.frames_unknown = s.frames_unknown;
    a_.huge_unknown = s.huge_unknown;
    a_.links_unknown = s.links_unknown;
    a_.by_type.resize(s.types.size());
  }

  analysis run() {
    count_bytes();
    find_neighbours();
    find_children();
    const std::vector<bool> with_cells = types_with_cells();
    std::vector<std::uint32_t> sorted = blocks_by_type();
    std::span<const std::uint32_t> rest = sorted;
    for (type_index type = 0; type < a_.by_type.size(); ++type) {
      const std::size_t count = a_.by_type[type].blocks;
      look_at(type, rest.first(count), with_cells[type]);
      rest = rest.subspan(count);
    }
    page_counter all(a_.geometry.tlb);
    for (std::size_t i = 0; i < s_.pages.size(); ++i) all.add(s_.pages[i], mixed_pages_[i]);
    a_.pages = all.take(a_.bytes_held, options_.most_frequent);
    a_.map = map_pages(s_, options_.map);
    find_false_sharing();
    return std::move(a_);
  }

 private:
  void count_bytes() {
    for (const live_block& b : s_.blocks) {
      type_analysis& t = a_.by_type[b.type];
      ++t.blocks;
      t.bytes_asked += b.bytes;
      t.bytes_held += b.held();
    }
    for (const type_analysis& t : a_.by_type) {
      a_.blocks += t.blocks;
      a_.bytes_asked += t.bytes_asked;
      a_.bytes_held += t.bytes_held;
    }
  }

  /// Indices of blocks, those of the first type first, each type's in address order.
  [[nodiscard]] std::vector<std::uint32_t> blocks_by_type() const {
    std::vector<std::size_t> next(a_.by_type.size(), 0);
    std::size_t sum = 0;
    for (std::size_t type = 0; type < next.size(); ++type) {
      next[type] = sum;
      sum += a_.by_type[type].blocks;
    }
    std::vector<std::uint32_t> sorted(s_.blocks.size());
    for (std::uint32_t i = 0; i < s_.blocks.size(); ++i) sorted[next[s_.blocks[i].type]++] = i;
    return sorted;
  }

  [[nodiscard]] std::vector<bool> types_with_cells() const {
    std::vector<type_index> largest(a_.by_type.size());
    std::iota(largest.begin(), largest.end(), 0U);
    const std::size_t count = std::min(options_.types_with_cells, largest.size());
    std::ranges::partial_sort(
        largest, largest.begin() + static_cast<std::ptrdiff_t>(count), [&](type_index x, type_index y) {
          return std::tuple(a_.by_type[y].bytes_held, x) < std::tuple(a_.by_type[x].bytes_held, y);
        });
    std::vector<bool> with(a_.by_type.size(), false);
    for (std::size_t i = 0; i < count; ++i) with[largest[i]] = true;
    return with;
  }

  void find_neighbours() {
    by_type_pair<proximity> found;
    const auto sweep = [&](unsigned shift, std::uint64_t proximity::* member) {
      const company_sweep in(s_, shift);
      in.pairs().for_each([&](type_index of, type_index other, std::uint64_t blocks) {
        found.at(of, other).*member = blocks;
      });
      for (type_index type = 0; type < a_.by_type.size(); ++type)
        a_.by_type[type].mixed.*member = in.mixed(type);
      if (shift == page_shift) mixed_pages_ = in.mixed_units();
    };
    sweep(line_shift, &proximity::in_line);
    sweep(pair_shift, &proximity::in_pair);
    sweep(page_shift, &proximity::in_page);
    found.for_each([&](type_index of, type_index other, const proximity& p) {
      a_.by_type[of].neighbours.push_back({other, p});
    });
    for (type_analysis& t : a_.by_type) {
      std::ranges::sort(t.neighbours, [](const neighbour& a, const neighbour& b) {
        return std::tuple(b.blocks.in_pair, b.blocks.in_page, a.other) <
               std::tuple(a.blocks.in_pair, a.blocks.in_page, b.other);
      });
    }
  }

  void find_children() {
    struct where {
      bool in_line = false;
      bool in_pair = false;
      bool in_adjacent_line = false;
      bool in_page = false;
    };
    by_type_pair<child_use> found;
    by_type_seen<where> of_parent(s_.types.size());
    for (std::size_t i = 0; i < s_.links.size();) {
      const std::uint32_t from = s_.links[i].from;
      const std::uint64_t parent = s_.blocks[from].address >> line_shift;
      of_parent.clear();
      for (; i < s_.links.size() && s_.links[i].from == from; ++i) {
        const live_block& to = s_.blocks[s_.links[i].to];
        const std::uint64_t child = to.address >> line_shift;
        where& w = of_parent[to.type];
        w.in_line |= child == parent;
        w.in_pair |= (child ^ parent) == 1;
        w.in_adjacent_line |= child == parent + 1 || child + 1 == parent;
        w.in_page |= child >> (page_shift - line_shift) == parent >> (page_shift - line_shift);
      }
      for (const auto& [child, w] : of_parent.seen()) {
        child_use& use = found.at(s_.blocks[from].type, child);
        ++use.parents;
        use.in_line += w.in_line ? 1 : 0;
        use.in_pair += w.in_pair ? 1 : 0;
        use.in_adjacent_line += w.in_adjacent_line ? 1 : 0;
        use.in_page += w.in_page ? 1 : 0;
      }
    }
    found.for_each([&](type_index of, type_index child, child_use use) {
      use.child = child;
      a_.by_type[of].children.push_back(use);
    });
    for (type_analysis& t : a_.by_type) {
      std::ranges::sort(t.children, [](const child_use& a, const child_use& b) {
        return std::tuple(b.parents, a.child) < std::tuple(a.parents, b.child);
      });
    }
  }

  void look_at(type_index type, std::span<const std::uint32_t> blocks, bool with_cells) {
    type_analysis& t = a_.by_type[type];
    std::vector<std::uint64_t> values;
    values.reserve(blocks.size());
    for (const std::uint32_t i : blocks) values.push_back(s_.blocks[i].held());
    t.size_classes = frequencies_of(values, options_.most_frequent);
    values.clear();
    for (std::size_t i = 1; i < blocks.size(); ++i)
      values.push_back(s_.blocks[blocks[i]].address - s_.blocks[blocks[i - 1]].address);
    t.strides = frequencies_of(values, options_.most_frequent);

    visits read(s_.types[type]);
    visits::cost sum;
    std::uint64_t searched_straddling = 0;
    for (const std::uint32_t i : blocks) {
      const live_block& b = s_.blocks[i];
      if (straddles(b)) ++t.straddling;
      if (!s_.types[type].is_searched()) continue;
      const visits::cost c = read.cost_of(b);
      sum.crossing += c.crossing;
      sum.lines += c.lines;
      if (c.straddles) ++searched_straddling;
    }
    if (s_.types[type].is_searched() && !blocks.empty()) {
      t.searched_straddling = searched_straddling;
      t.crossing = sum.crossing / static_cast<double>(blocks.size());
      t.lines_per_visit = sum.lines / static_cast<double>(blocks.size());
    }
    count_sets(t, read, blocks, with_cells);
    count_pages(t, blocks);
  }

  void count_sets(type_analysis& t, const visits& read, std::span<const std::uint32_t> blocks,
                  bool with_cells) {
    // One past the last line, because 0 is a valid line.
    std::uint64_t next = 0;
    bool frames_known = true;
    auto at = s_.pages.begin();
    for (const std::uint32_t i : blocks) {
      read.for_each_line(s_.blocks[i], [&](std::uint64_t line) {
        if (line < next) return;
        next = line + 1;
        const std::uint64_t address = line << line_shift;
        for (set_counter& c : virtual_) c.add(address);
        if (!frames_known) return;
        at = page_from(at, address >> page_shift);
        const auto frame = at->frame();
        frames_known = frame.has_value();
        if (!frames_known) return;
        for (set_counter& c : physical_) c.add(*frame << page_shift | (address & (page_bytes - 1)));
      });
    }
    for (std::size_t level = 0; level < virtual_.size(); ++level)
      t.caches[level].by_virtual = virtual_[level].take(with_cells);
    for (std::size_t level = 0; level < physical_.size(); ++level) {
      set_use u = physical_[level].take(with_cells);
      u.physical = true;
      if (frames_known) t.caches[level + 1].by_physical = std::move(u);
    }
  }

  void count_pages(type_analysis& t, std::span<const std::uint32_t> blocks) {
    page_counter pages(a_.geometry.tlb);
    std::uint64_t next = 0;
    auto at = s_.pages.begin();
    for (const std::uint32_t i : blocks) {
      const live_block& b = s_.blocks[i];
      for (std::uint64_t number = std::max(next, b.address >> page_shift); number <= b.last() >> page_shift;
           ++number) {
        at = page_from(at, number);
        pages.add(*at, mixed_pages_[static_cast<std::size_t>(at - s_.pages.begin())]);
      }
      next = (b.last() >> page_shift) + 1;
    }
    t.pages = pages.take(t.bytes_held, options_.most_frequent);
  }

  using page_iterator = std::vector<page>::const_iterator;

  /// The page with this number, at or after a position. It is mostly at the position or next to it.
  [[nodiscard]] page_iterator page_from(page_iterator at, std::uint64_t number) const {
    std::ptrdiff_t step = 1;
    while (at->number < number) {
      const page_iterator begin = at;
      at += std::min(step, s_.pages.end() - 1 - at);
      step *= 2;
      if (at->number >= number)
        return std::lower_bound(begin, at, number,
                                [](const page& p, std::uint64_t n) { return p.number < n; });
    }
    return at;
  }

  void find_false_sharing() {
    for (type_index type = 0; type < a_.types.size(); ++type) {
      if (!a_.types[type].written) continue;
      for (const neighbour& n : a_.by_type[type].neighbours) {
        const std::uint64_t blocks = a_.geometry.adjacent_line_prefetch ? n.blocks.in_pair : n.blocks.in_line;
        if (blocks != 0) a_.shared_falsely.push_back({type, n.other, blocks});
      }
    }
    std::ranges::sort(a_.shared_falsely, [](const false_sharing& a, const false_sharing& b) {
      return std::tuple(b.blocks, a.written, a.other) < std::tuple(a.blocks, b.written, b.other);
    });
  }

  const snapshot& s_;
  const analysis_options& options_;
  analysis a_;
  std::vector<bool> mixed_pages_;  // by index in snapshot::pages
  std::array<set_counter, 3> virtual_;
  std::array<set_counter, 2> physical_;  // for the levels above the first
};

}  // namespace

std::optional<double> frequencies::first_share() const {
  return most.empty() ? std::nullopt : share(most.front().count, total);
}

double set_use::unused_share() const noexcept { return share(unused, sets).value_or(0); }

double set_use::overloaded_share() const noexcept { return share(overloaded, sets).value_or(0); }

std::optional<double> page_use::scatter() const noexcept { return share(pages, fewest_pages); }

std::optional<std::uint64_t> page_use::tlb_entries() const noexcept {
  return small && huge ? std::optional(*small + *huge) : std::nullopt;
}

std::string_view to_string(cache_level level) noexcept {
  constexpr std::array<std::string_view, cache_levels.size()> names{"L1", "L2", "LLC"};
  return names[static_cast<std::size_t>(level)];
}

analysis analyze(const snapshot& s, const hw::cache_geometry& geometry, const analysis_options& options) {
  return analyzer(s, geometry, options).run();
}

}  // namespace espalier::inspect
