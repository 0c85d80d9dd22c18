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
#include <espalier/inspect/registry.hpp>
#include <espalier/map/bst/edge_ext_lf.hpp>
#include <espalier/map/bst/log_int.hpp>
#include <espalier/memory/clustered.hpp>
#include <espalier/memory/recorded.hpp>
#include <espalier/memory/segregated.hpp>
#include <espalier/memory/shared_heap.hpp>
#include <espalier/sync/ticket_lock.hpp>
#include <type_traits>

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

  const auto blocks_of = [&map](memory_role role) {
    return [&map, role](const inspect::block_visitor& visit) {
      map.placement().for_each_live([&](const live_block& b) {
        if (b.asked.role == role) visit(b.memory, b.asked.bytes);
      });
    };
  };
  inspect::registry types;
  const inspect::registered_type routers("router", blocks_of(memory_role::node), types);
  const inspect::registered_type leaves("leaf", blocks_of(memory_role::leaf), types);

  // With links, the snapshot finds pointers between blocks. No thread may change the map meanwhile.
  const inspect::snapshot taken = types.take_snapshot("a tree", {.frames = false, .links = true});
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
