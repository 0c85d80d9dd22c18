#include "espalier/workload/subject.hpp"

#include <algorithm>

namespace espalier::workload {

std::vector<registration>& registry() {
  static std::vector<registration> all;
  return all;
}

subject_facts placed_facts(const subject_facts& facts, std::string_view placement) {
  subject_facts placed = facts;
  placed.name.append("/").append(placement);
  placed.placement = placement;
  return placed;
}

std::string subject_facts::cannot_run(const workload_plan& plan) const {
  const bool drawn = plan.trace.empty();
  const auto uses = [&](const auto& wanted) {
    if (drawn)
      return std::ranges::any_of(drawn_operations,
                                 [&](map_operation op) { return wanted(op) && plan.mix.share(op) != 0; });
    return std::ranges::any_of(plan.trace, [&](const trace_record& r) { return wanted(r.operation); });
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

}  // namespace espalier::workload
