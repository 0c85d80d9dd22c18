// A map's policies are replaced by name, one at a time. The map keeps its own choice of the others. Here one tree has
// two placements, and the inspector compares how its blocks share cache lines. recorded<P> is placement P with a
// record of its blocks.
//
// Prints:
//   blocks are recorded: 19999
//   clustered routers share a line with a child more often: yes
//   the order of replacements does not matter: yes

#include <cstdint>
#include <cstdio>
#include <espalier/inspect/analysis.hpp>
#include <espalier/inspect/snapshot.hpp>
#include <espalier/map/bst/edge_ext_lf.hpp>
#include <espalier/map/bst/log_int.hpp>
#include <espalier/memory/clustered.hpp>
#include <espalier/memory/recorded.hpp>
#include <espalier/memory/segregated.hpp>
#include <espalier/memory/shared_heap.hpp>
#include <espalier/sync/ticket_lock.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace espalier;
using number = std::uint64_t;

struct layout {
  std::uint64_t blocks;
  /// Routers with a child router in their own cache line.
  std::uint64_t with_child_in_line;
};

template <class Placement>
layout layout_of_tree_in() {
  edge_ext_lf<number, number, map_traits::with_placement<recorded<Placement>>> map;
  for (number i = 1; i <= 10'000; ++i) map.insert(i * 0x9e3779b97f4a7c15U, i);

  std::vector<inspect::live_block> blocks;
  map.placement().for_each_live([&](const live_block& b) {
    blocks.push_back({.address = reinterpret_cast<std::uintptr_t>(b.memory),
                      .bytes = b.asked.bytes,
                      .type = b.asked.role == memory_role::node ? 0U : 1U});
  });
  inspect::snapshot taken = inspect::make_snapshot(
      "a tree", {{"router", false, {}, {}}, {"leaf", false, {}, {}}}, std::move(blocks));

  // Pointers between blocks. No thread may change the map meanwhile.
  inspect::find_links(taken);
  const inspect::analysis a = inspect::analyze(taken, hw::cache_geometry_named("haswell"));
  layout result{a.blocks, 0};
  for (std::size_t type = 0; type < a.types.size(); ++type) {
    if (a.types[type].name != "router") continue;
    for (const inspect::child_use& use : a.by_type[type].children)
      if (use.child == type) result.with_child_in_line = use.in_line;
  }
  return result;
}

}  // namespace

int main() {
  const layout apart = layout_of_tree_in<segregated>();
  const layout together = layout_of_tree_in<clustered>();
  std::printf("blocks are recorded: %llu\n", static_cast<unsigned long long>(together.blocks));
  std::printf("clustered routers share a line with a child more often: %s\n",
              together.with_child_in_line > apart.with_child_in_line ? "yes" : "no");

  using one = log_int<number, number, map_traits::with_placement<shared_heap>::with_lock<ticket_lock>>;
  using other = log_int<number, number, map_traits::with_lock<ticket_lock>::with_placement<shared_heap>>;
  std::printf("the order of replacements does not matter: %s\n", std::is_same_v<one, other> ? "yes" : "no");
}
