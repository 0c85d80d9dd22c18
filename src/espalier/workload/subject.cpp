#include "espalier/workload/subject.hpp"

namespace espalier::workload {

std::vector<registration>& registry() {
  static std::vector<registration> all;
  return all;
}

std::string subject_facts::cannot_run(const workload_plan& plan) const {
  const auto uses = [&](operation op, trace_operation recorded) {
    if (plan.trace.empty()) return plan.mix.share(op) != 0;
    for (const trace_record& r : plan.trace) {
      if (r.operation == recorded) return true;
    }
    return false;
  };
  if (!supports_erase && uses(operation::erase, trace_operation::erase)) return "it has no concurrent erase";
  if (!supports_scan && uses(operation::scan, trace_operation::scan)) return "it has no concurrent scan";
  return {};
}

}  // namespace espalier::workload
