#include "espalier/workload/subject.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace espalier::workload {

std::vector<registration>& registry() {
  static std::vector<registration> all;
  return all;
}

subject_facts placed_facts(const subject_facts& facts, std::string_view placement) {
  subject_facts placed = facts;
  placed.name.append("/").append(placement);
  placed.placement = placement;
  placed.takes_strings = false;
  return placed;
}

std::string subject_facts::cannot_run(const workload_plan& plan) const {
  if (plan.keys.type() == key_type::string && !takes_strings) return "it takes no strings as keys";
  const bool drawn = plan.trace.empty();
  const auto uses = [&](const auto& wanted) {
    if (drawn)
      return std::ranges::any_of(drawn_operations,
                                 [&](map_operation op) { return wanted(op) && plan.mix.share(op) != 0; });
    return std::ranges::any_of(plan.trace, [&](const step& s) { return wanted(s.op); });
  };
  const auto is = [](map_operation op) { return [op](map_operation other) { return other == op; }; };
  if (!properties.reads_beside_writers && uses(is_write))
    return "its reads are right only while no thread writes";
  if (!supports_erase && uses(is(map_operation::erase))) return "it has no concurrent erase";
  if (!supports_scan && uses(is(map_operation::scan))) return "it has no concurrent scan";
  // Updates run on every map, as apply() does them.
  if (!properties.exchanges && (uses(is(map_operation::exchange)) || uses(is(map_operation::extract))))
    return "it has no atomic exchange and extract";
  return {};
}

namespace {

inspect::byte_range range_of(std::size_t first, std::size_t bytes) {
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(bytes)};
}

/// The type of the blocks of a role. A search of a router or of an internal tree's node reads the ranges that the type
/// lists. A search of a leaf that is no type of its own reads only what every search reads, the key.
inspect::block_type type_of(memory_role role, const subject_facts& facts) {
  inspect::block_type type;
  type.name = to_string(role);
  type.written = role == memory_role::descriptor;
  auto nodes = std::ranges::find(facts.node_types, role, &node_type::role);
  if (nodes != facts.node_types.end()) type.name = nodes->name;
  if (role != memory_role::node && role != memory_role::leaf) return type;
  if (nodes == facts.node_types.end()) nodes = facts.node_types.begin();
  if (nodes == facts.node_types.end()) return type;
  for (const node_member& m : nodes->members) {
    if (m.search == search_use::all) type.always_read.push_back(range_of(m.offset, m.bytes));
    if (m.search != search_use::half || role == memory_role::leaf) continue;
    type.one_read.push_back(range_of(m.offset, m.bytes / 2));
    type.one_read.push_back(range_of(m.offset + m.bytes / 2, m.bytes / 2));
  }
  return type;
}

}  // namespace

inspect::snapshot layout_of(const subject_facts& facts, const any_placement& placement) {
  std::vector<inspect::block_type> types;
  std::array<std::optional<inspect::type_index>, memory_role_count> index{};
  std::vector<inspect::live_block> blocks;
  blocks.reserve(placement.usage().blocks);
  placement.for_each_live([&](const live_block& b) {
    auto& type = index[static_cast<std::size_t>(b.asked.role)];
    if (!type) {
      type = static_cast<inspect::type_index>(types.size());
      types.push_back(type_of(b.asked.role, facts));
    }
    const std::size_t held = bytes_held(placement, b.memory, b.asked);
    blocks.push_back({reinterpret_cast<std::uintptr_t>(b.memory), b.asked.bytes,
                      static_cast<std::uint32_t>(held - b.asked.bytes), *type});
  });
  inspect::snapshot s = inspect::make_snapshot(facts.name, std::move(types), std::move(blocks));
  inspect::find_links(s);
  return s;
}

}  // namespace espalier::workload
