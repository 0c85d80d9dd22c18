#pragma once

#include <cstddef>
#include <string>

namespace espalier::app {

/// Reports the progress of a long job on standard error: on a terminal in a line that is overwritten, elsewhere in an
/// occasional plain line, or not at all.
class progress_line {
 public:
  enum class elsewhere : unsigned char { lines, nothing };
  explicit progress_line(elsewhere where = elsewhere::lines);
  /// `done` of `total` steps are complete; `what` comes next.
  void step(std::size_t done, std::size_t total, const std::string& what);
  /// Clears the line for other output.
  void clear();

 private:
  bool terminal_;
  bool silent_;
  std::size_t tenths_shown_ = 0;
};

}  // namespace espalier::app
