#include "apps/oltp/layout.hpp"

#include <algorithm>
#include <array>
#include <set>
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
  return to_string(role);
}

std::vector<kind_of_block> layout_of(const espalier::oltp::database& d, const hw::cache_geometry& caches,
                                     bool addresses_are_physical) {
  std::vector<inspect::block_type> types;
  std::array<std::optional<inspect::type_index>, memory_role_count> index{};
  std::vector<inspect::live_block> blocks;
  for_each_block(d, [&](std::uint64_t address, std::size_t bytes, memory_role role) {
    auto& type = index[static_cast<std::size_t>(role)];
    if (!type) {
      type = static_cast<inspect::type_index>(types.size());
      types.emplace_back().name = name_of(role, d.chosen().rows_as);
    }
    blocks.push_back({address, bytes, 0, *type});
  });
  std::vector<std::set<std::uint64_t>> huge_pages(types.size());
  for (const inspect::live_block& b : blocks) huge_pages[b.type].insert(b.address / inspect::huge_page_bytes);
  inspect::snapshot s = inspect::make_snapshot("database", std::move(types), std::move(blocks));
  if (!addresses_are_physical) inspect::find_frames(s);
  const inspect::analysis a = inspect::analyze(s, caches);
  std::vector<kind_of_block> all;
  for (std::size_t t = 0; t < a.types.size(); ++t) {
    const inspect::type_analysis& y = a.by_type[t];
    const auto unused = [&](inspect::cache_level level) { return y.cache(level).best().unused_share(); };
    all.push_back({.name = a.types[t].name,
                   .blocks = y.blocks,
                   .unused_l1 = unused(inspect::cache_level::l1),
                   .unused_l2 = unused(inspect::cache_level::l2),
                   .unused_llc = unused(inspect::cache_level::llc),
                   .pages = y.pages.pages,
                   .runs = y.pages.runs,
                   .huge_pages = huge_pages[t].size()});
  }
  std::ranges::sort(all, {}, &kind_of_block::name);
  return all;
}

}  // namespace espalier::app::db
