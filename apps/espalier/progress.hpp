#pragma once

#include <string>
#include <vector>

#include "apps/common/progress_line.hpp"
#include "espalier/workload/session.hpp"

namespace espalier::app {

/// Shows the progress of a session, and the table of each group of measurements as soon as it is complete.
class progress final : public workload::session_observer {
 public:
  void step(std::size_t done, std::size_t total, const std::string& what) override;
  void skipped(const workload::subject_facts& map, const workload::workload_plan& plan,
               const std::string& why) override;
  void finished(const std::vector<workload::measurement>& group) override;

 private:
  progress_line line_;
};

}  // namespace espalier::app
