#pragma once

#include <cstddef>
#include <string>

namespace espalier::app {

/// Says on standard error how far a long job is: on a terminal in a line that is overwritten, elsewhere in a
/// plain line now and then, or nothing.
class progress_line {
 public:
  enum class elsewhere : unsigned char { lines, nothing };
  explicit progress_line(elsewhere where = elsewhere::lines);
  /// `done` of `total` steps are behind; `what` comes next.
  void step(std::size_t done, std::size_t total, const std::string& what);
  /// Makes room for other output.
  void clear();

 private:
  bool terminal_;
  bool silent_;
  std::size_t tenths_shown_ = 0;
};

}  // namespace espalier::app
