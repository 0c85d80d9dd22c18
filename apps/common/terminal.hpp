#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What programs show on a terminal: tables, wrapped text, and progress.

namespace espalier::app {

/// Rows of text, aligned in columns. A head may have several lines; the last one stands directly above the first row.
class table {
 public:
  /// Columns of text, counted from 0, are aligned to the left, the others to the right. `gap` spaces lie between
  /// columns.
  explicit table(std::vector<std::string> heads, std::vector<std::size_t> text_columns = {0},
                 std::size_t gap = 2);
  void add(std::vector<std::string> cells);
  /// Columns beyond `width` follow below, in parts that repeat the first column.
  [[nodiscard]] std::string text(bool colour, std::size_t width = SIZE_MAX) const;

 private:
  [[nodiscard]] std::string line(const std::vector<std::string>& cells,
                                 const std::vector<std::size_t>& widths, std::size_t from,
                                 std::size_t end) const;

  std::vector<std::size_t> text_columns_;
  std::size_t gap_;
  std::size_t head_lines_ = 1;
  std::vector<std::vector<std::string>> rows_;  // the heads' lines first
};

/// Whether a stream is a terminal that executes escape sequences: all do but those with TERM=dumb.
[[nodiscard]] bool takes_escapes(int descriptor);

/// Whether a stream is such a terminal on which colour is welcome (NO_COLOR is honoured).
[[nodiscard]] bool wants_colour(int descriptor);

/// The width of the terminal behind a stream, or else the value of COLUMNS; nullopt if neither is known.
[[nodiscard]] std::optional<std::size_t> terminal_width(int descriptor);

/// At most `most` bytes, at least 8: "..." replaces the excess in the middle.
[[nodiscard]] std::string shortened(const std::string& name, std::size_t most);

/// In place of a value that could not be measured.
inline constexpr const char* unavailable = "unavailable";

/// "1 thread", "2 threads".
[[nodiscard]] std::string number_of(std::uint64_t count, std::string_view noun);

/// "512 B", "12.4 kB", "31.0 MB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

[[nodiscard]] std::string bold(std::string_view text, bool colour);

inline constexpr std::size_t text_width = 100;
/// The text in lines of at most `width` characters after an indent, broken at spaces, and within longer words.
[[nodiscard]] std::string wrapped(const std::string& text, const std::string& indent,
                                  std::size_t width = text_width);

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
