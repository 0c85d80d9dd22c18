#include "table.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace espalier::app {

table::table(std::vector<std::string> heads, std::vector<align> aligns) : aligns_(std::move(aligns)) {
  rows_.push_back(std::move(heads));
}

void table::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string table::text(bool colour) const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string all;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i != 0) line += "  ";
      line += aligns_[i] == align::left ? fmt::format("{:<{}}", rows_[r][i], widths[i])
                                        : fmt::format("{:>{}}", rows_[r][i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    all += r == 0 ? bold(line, colour) : line;
    all += '\n';
  }
  return all;
}

bool wants_colour(int descriptor) { return isatty(descriptor) == 1 && std::getenv("NO_COLOR") == nullptr; }

std::string bold(std::string_view text, bool colour) {
  return colour ? fmt::format("\033[1m{}\033[0m", text) : std::string(text);
}

}  // namespace espalier::app
