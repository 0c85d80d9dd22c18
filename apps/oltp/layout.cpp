#include "apps/oltp/layout.hpp"

#include <algorithm>
#include <utility>

#include "espalier/inspect/analysis.hpp"
#include "espalier/inspect/page_frames.hpp"
#include "espalier/inspect/snapshot.hpp"

namespace espalier::app::db {

std::string_view name_of(memory_role role, espalier::oltp::row_form rows) {
  using namespace espalier::oltp;
  if (role == row_role) return "row";
  if (role == lock_role) return "lock";
  if (role == data_role) return "data";
  if (rows == row_form::dbx && role == lock_wrapper_role) return "lock wrapper";
  if (role == memory_role::leaf) role = memory_role::node;
  return to_string(role);
}

std::vector<kind_of_block> layout_of(const espalier::oltp::database& d, const hw::cache_geometry& caches,
                                     bool addresses_are_physical) {
  std::vector<inspect::block_type> types;
  std::vector<inspect::live_block> blocks;
  for_each_block(d, [&](std::uint64_t address, std::size_t bytes, memory_role role) {
    const std::string_view name = name_of(role, d.chosen().rows_as);
    const auto known = std::ranges::find(types, name, &inspect::block_type::name);
    blocks.push_back({address, bytes, 0, static_cast<inspect::type_index>(known - types.begin())});
    if (known == types.end()) types.emplace_back().name = name;
  });
  inspect::snapshot s = inspect::make_snapshot("database", std::move(types), std::move(blocks));
  // The snapshot has its blocks in the order of addresses.
  std::vector<std::vector<std::uint64_t>> pages(s.types.size());
  for (const inspect::live_block& b : s.blocks) {
    std::vector<std::uint64_t>& of_type = pages[b.type];
    const std::uint64_t page = b.address / inspect::page_bytes;
    if (of_type.empty() || of_type.back() != page) of_type.push_back(page);
  }
  if (!addresses_are_physical) inspect::find_frames(s);
  const inspect::analysis a = inspect::analyze(s, caches);
  std::vector<kind_of_block> all;
  for (std::size_t t = 0; t < a.types.size(); ++t) {
    const inspect::type_analysis& y = a.by_type[t];
    constexpr std::size_t most_shown = 64;
    constexpr std::uint64_t pages_of_huge = inspect::huge_page_bytes / inspect::page_bytes;
    std::vector<std::uint64_t> first;
    std::uint64_t huge_pages = 0;
    for (std::uint64_t last = ~std::uint64_t{0}; const std::uint64_t page : pages[t]) {
      if (first.size() < most_shown) first.push_back(page - pages[t].front());
      huge_pages += page / pages_of_huge != last ? 1 : 0;
      last = page / pages_of_huge;
    }
    const auto unused = [&](inspect::cache_level level) { return y.cache(level).best().unused_share(); };
    all.push_back({.name = a.types[t].name,
                   .blocks = y.blocks,
                   .unused_l1 = unused(inspect::cache_level::l1),
                   .unused_l2 = unused(inspect::cache_level::l2),
                   .unused_llc = unused(inspect::cache_level::llc),
                   .pages = y.pages.pages,
                   .runs = y.pages.runs,
                   .huge_pages = huge_pages,
                   .first_pages = std::move(first)});
  }
  std::ranges::sort(all, {}, &kind_of_block::name);
  return all;
}

}  // namespace espalier::app::db
