#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace espalier::app {

/// Rows of text, set in columns: the first left-aligned, the others as told.
class table {
 public:
  enum class align : unsigned char { left, right };

  table(std::vector<std::string> heads, std::vector<align> aligns);
  void add(std::vector<std::string> cells);
  [[nodiscard]] std::string text(bool colour) const;

 private:
  std::vector<align> aligns_;
  std::vector<std::vector<std::string>> rows_;  // the first is the heads
};

/// Whether a stream is a terminal on which colour is welcome (NO_COLOR is honoured).
[[nodiscard]] bool wants_colour(int descriptor);

[[nodiscard]] std::string bold(std::string_view text, bool colour);

}  // namespace espalier::app
