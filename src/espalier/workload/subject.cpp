#include "espalier/workload/subject.hpp"

#include <utility>

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
  const auto uses = [&](operation op, trace_operation recorded) {
    if (plan.trace.empty()) return plan.mix.share(op) != 0;
    for (const trace_record& r : plan.trace) {
      if (r.operation == recorded) return true;
    }
    return false;
  };
  static constexpr std::pair<operation, trace_operation> writers[] = {
      {operation::insert, trace_operation::insert},
      {operation::erase, trace_operation::erase},
      {operation::update, trace_operation::assign},
      {operation::read_modify_write, trace_operation::assign},
  };
  if (!properties.reads_beside_writers) {
    for (const auto& [op, recorded] : writers) {
      if (uses(op, recorded)) return "its reads are right only while nobody writes";
    }
  }
  if (!supports_erase && uses(operation::erase, trace_operation::erase)) return "it has no concurrent erase";
  if (!supports_scan && uses(operation::scan, trace_operation::scan)) return "it has no concurrent scan";
  return {};
}

}  // namespace espalier::workload
