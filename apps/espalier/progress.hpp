#pragma once

#include <string>
#include <vector>

#include "espalier/workload/session.hpp"

namespace espalier::app {

/// Shows a session as it goes: on a terminal a line that is overwritten, elsewhere a plain line now and then;
/// and the table of each group of measurements as soon as it is there.
class progress final : public workload::session_observer {
 public:
  progress();
  void step(std::size_t done, std::size_t total, const std::string& what) override;
  void skipped(const workload::subject_facts& map, const workload::workload_plan& plan,
               const std::string& why) override;
  void finished(const std::vector<workload::measurement>& group) override;

 private:
  void clear();
  bool terminal_;
  std::size_t tenths_shown_ = 0;
};

}  // namespace espalier::app
