#include "espalier/inspect/page_map.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <tuple>

namespace espalier::inspect {
namespace {

constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

/// The number of bits to drop from a page's number to get its cell's number.
unsigned shift_for(const snapshot& s, std::size_t most_cells) {
  // Two pages fall into different cells for any shift below the highest bit in which their numbers differ.
  std::array<std::size_t, std::numeric_limits<std::uint64_t>::digits + 1> parted_below{};
  std::uint64_t before = none;
  for_each_page_of(s.blocks, [&](std::uint64_t number) {
    if (before != none) ++parted_below[static_cast<std::size_t>(64 - std::countl_zero(number ^ before))];
    before = number;
  });
  auto shift = static_cast<unsigned>(parted_below.size() - 1);
  std::size_t cells = 1;
  while (shift > 0 && cells + parted_below[shift] <= std::max<std::size_t>(most_cells, 1))
    cells += parted_below[shift--];
  return shift;
}

class mapper {
 public:
  mapper(const snapshot& s, const page_map_options& options)
      : types_per_cell_(options.types_per_cell), in_cell_(s.types.size()) {
    const unsigned shift = shift_for(s, options.most_cells);
    map_.pages_per_cell = std::uint64_t{1} << shift;
    for (const live_block& b : s.blocks) {
      const std::uint64_t last = b.last() / page_bytes;
      for (std::uint64_t number = b.address / page_bytes; number <= last; ++number) {
        enter(number, number >> shift << shift);
        note_type(b.type);
        const std::uint64_t from = std::max(b.address, number * page_bytes);
        const std::uint64_t bytes = std::min(b.last() - from, page_bytes - 1 - from % page_bytes) + 1;
        map_.cells.back().bytes += bytes;
        in_cell_[b.type] += bytes;
      }
    }
    end_cell();
  }

  page_map take() { return std::move(map_); }

 private:
  void enter(std::uint64_t number, std::uint64_t first_page) {
    if (number == page_) return;
    page_ = number;
    page_is_mixed_ = false;
    page_has_type_ = false;
    if (map_.cells.empty() || map_.cells.back().first_page != first_page) {
      end_cell();
      map_.cells.emplace_back().first_page = first_page;
    }
    ++map_.cells.back().pages;
  }

  void note_type(type_index type) {
    if (!page_has_type_) {
      page_type_ = type;
      page_has_type_ = true;
    } else if (type != page_type_ && !page_is_mixed_) {
      page_is_mixed_ = true;
      ++map_.cells.back().mixed_pages;
    }
  }

  void end_cell() {
    if (map_.cells.empty()) return;
    page_map::cell& c = map_.cells.back();
    c.types = in_cell_.seen().size();
    for (const auto& [type, bytes] : in_cell_.seen()) c.most.push_back({type, bytes});
    std::ranges::sort(c.most, [](const page_map::part& a, const page_map::part& b) {
      return std::tuple(b.bytes, a.type) < std::tuple(a.bytes, b.type);
    });
    if (c.most.size() > types_per_cell_) c.most.resize(types_per_cell_);
    c.most.shrink_to_fit();
    in_cell_.clear();
  }

  page_map map_;
  std::size_t types_per_cell_;
  by_type_seen<std::uint64_t> in_cell_;
  std::uint64_t page_ = none;
  type_index page_type_ = 0;
  bool page_has_type_ = false;
  bool page_is_mixed_ = false;
};

}  // namespace

page_map map_pages(const snapshot& s, const page_map_options& options) { return mapper(s, options).take(); }

}  // namespace espalier::inspect
