#include "espalier/workload/subject.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
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

/// Collects blocks, and makes a type for each role that has some.
class typed_blocks {
 public:
  explicit typed_blocks(const subject_facts& facts) : facts_(facts) {}

  void reserve(std::size_t blocks) { blocks_.reserve(blocks); }
  void add(const void* memory, std::size_t bytes, std::size_t held, memory_role role) {
    auto& type = index_[static_cast<std::size_t>(role)];
    if (!type) {
      type = static_cast<inspect::type_index>(types_.size());
      types_.push_back(type_of(role, facts_));
    }
    blocks_.push_back(
        {reinterpret_cast<std::uintptr_t>(memory), bytes, static_cast<std::uint32_t>(held - bytes), *type});
  }
  [[nodiscard]] inspect::snapshot take() {
    inspect::snapshot s = inspect::make_snapshot(facts_.name, std::move(types_), std::move(blocks_));
    inspect::find_links(s);
    return s;
  }

 private:
  const subject_facts& facts_;
  std::vector<inspect::block_type> types_;
  std::array<std::optional<inspect::type_index>, memory_role_count> index_{};
  std::vector<inspect::live_block> blocks_;
};

}  // namespace

inspect::snapshot layout_of(const subject_facts& facts, const any_placement& placement) {
  typed_blocks all(facts);
  all.reserve(placement.usage().blocks);
  placement.for_each_live([&](const live_block& b) {
    all.add(b.memory, b.asked.bytes, bytes_held(placement, b.memory, b.asked), b.asked.role);
  });
  return all.take();
}

inspect::snapshot layout_of(const subject_facts& facts, const catalog::erased_map& map) {
  typed_blocks all(facts);
  const bool shown = map.visit_nodes(
      [](void* to, const void* memory, std::size_t bytes, memory_role role) {
        static_cast<typed_blocks*>(to)->add(memory, bytes, bytes, role);
      },
      &all);
  if (!shown) throw std::logic_error(facts.name + " does not show where its blocks lie");
  return all.take();
}

}  // namespace espalier::workload
