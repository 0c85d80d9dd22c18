#pragma once

#include <cstddef>
#include <string>

namespace espalier::app {

/// Says on standard error how far a long job is: on a terminal in a line that is overwritten, elsewhere in a
/// plain line now and then.
class progress_line {
 public:
  progress_line();
  /// `done` of `total` steps are behind; `what` comes next.
  void step(std::size_t done, std::size_t total, const std::string& what);
  /// Makes room for other output.
  void clear();

 private:
  bool terminal_;
  std::size_t tenths_shown_ = 0;
};

}  // namespace espalier::app
