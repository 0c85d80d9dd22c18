#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/hw/cache_geometry.hpp"
#include "espalier/oltp/database.hpp"

// Where the blocks of a database lie, by what they are.

namespace espalier::app::db {

/// Of all blocks of one kind.
struct kind_of_block {
  std::string name;  ///< "row", "node"
  std::uint64_t blocks = 0;
  /// Shares of the sets of a cache that none of them uses.
  double unused_l1 = 0, unused_l2 = 0, unused_llc = 0;
  /// Pages of 4 KiB with such blocks, and runs of such pages that follow one another.
  std::uint64_t pages = 0, runs = 0;
  std::uint64_t huge_pages = 0;  ///< of 2 MiB with such blocks
  /// The first of the pages of 4 KiB in the order of addresses, counted from the first one.
  std::vector<std::uint64_t> first_pages{};
};

/// What a block of a role is called in a database. A leaf is a node, too.
[[nodiscard]] std::string_view name_of(memory_role role, espalier::oltp::row_form rows);

/// Calls visit(address, bytes, role) for each block in use, in no order. The database records its blocks.
template <class Visit>
void for_each_block(const espalier::oltp::database& d, Visit&& visit) {
  const auto all_of = [&](const any_placement& p) {
    p.for_each_live([&](const live_block& b) {
      visit(reinterpret_cast<std::uint64_t>(b.memory), b.asked.bytes, b.asked.role);
    });
  };
  all_of(d.row_placement());
  if (!d.chosen().one_placement) all_of(d.index_placement());
}

/// Of physical addresses where the system shows them, and `addresses_are_physical` does not say that they are.
[[nodiscard]] std::vector<kind_of_block> layout_of(const espalier::oltp::database& d,
                                                   const hw::cache_geometry& caches,
                                                   bool addresses_are_physical = false);

}  // namespace espalier::app::db
