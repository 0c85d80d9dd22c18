#include "apps/common/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace espalier::app {

table::table(std::vector<std::string> heads, std::vector<std::size_t> text_columns, std::size_t gap)
    : text_columns_(std::move(text_columns)), gap_(gap) {
  for (const std::string& head : heads)
    head_lines_ = std::max(head_lines_, 1 + static_cast<std::size_t>(std::ranges::count(head, '\n')));
  rows_.resize(head_lines_, std::vector<std::string>(heads.size()));
  for (std::size_t column = 0; column < heads.size(); ++column) {
    std::string rest = std::move(heads[column]);
    for (std::size_t line = head_lines_; line-- > 0 && !rest.empty();) {
      const std::size_t cut = rest.rfind('\n');
      rows_[line][column] = cut == std::string::npos ? rest : rest.substr(cut + 1);
      rest.erase(cut == std::string::npos ? 0 : cut);
    }
  }
}

void table::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string table::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                        std::size_t from, std::size_t end) const {
  std::string text;
  for (std::size_t i = 0; i < end; i = i == 0 ? from : i + 1) {
    if (i != 0) text.append(gap_, ' ');
    const bool left = std::ranges::find(text_columns_, i) != text_columns_.end();
    text += fmt::format(fmt::runtime(left ? "{:<{}}" : "{:>{}}"), cells[i], widths[i]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string table::text(bool colour, std::size_t width) const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string all;
  for (std::size_t from = 1, end = 0; end < widths.size(); from = end) {
    std::size_t used = widths[0];
    for (end = from; end < widths.size() && (end == from || used + gap_ + widths[end] <= width); ++end)
      used += gap_ + widths[end];
    if (from != 1) all += '\n';
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      all += bold(line(rows_[r], widths, from, end), colour && r < head_lines_);
      all += '\n';
    }
  }
  return all;
}

bool takes_escapes(int descriptor) {
  const char* const kind = std::getenv("TERM");
  return isatty(descriptor) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

bool wants_colour(int descriptor) { return takes_escapes(descriptor) && std::getenv("NO_COLOR") == nullptr; }

std::optional<std::size_t> terminal_width(int descriptor) {
  winsize size{};
  if (isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
    return size.ws_col;
  const char* const promised = std::getenv("COLUMNS");
  if (promised == nullptr) return std::nullopt;
  std::size_t columns = 0;
  const char* const end = promised + std::strlen(promised);
  const auto [stopped, failed] = std::from_chars(promised, end, columns);
  return failed == std::errc() && stopped == end && columns != 0 ? std::optional(columns) : std::nullopt;
}

std::string shortened(const std::string& name, std::size_t most) {
  constexpr std::string_view left_out = "...";
  most = std::max<std::size_t>(most, 8);
  if (name.size() <= most) return name;
  const auto within_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(name[at]) & 0xc0U) == 0x80U;
  };
  const std::size_t kept = most - left_out.size();
  std::size_t front = (kept + 1) / 2;
  std::size_t back = name.size() - (kept - front);
  while (front > 0 && within_character(front)) --front;
  while (back < name.size() && within_character(back)) ++back;
  return name.substr(0, front).append(left_out).append(name, back);
}

std::string number_of(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string bold(std::string_view text, bool colour) {
  return colour ? fmt::format("\033[1m{}\033[0m", text) : std::string(text);
}

std::string wrapped(const std::string& text, const std::string& indent, std::size_t width) {
  std::string all;
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    end = std::min(end, at + width);
    const std::string word = text.substr(at, end - at);
    at = end < text.size() && text[end] != ' ' ? end : end + 1;
    if (word.empty()) continue;
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      all += indent + line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return all + indent + line + '\n';
}

progress_line::progress_line(elsewhere where)
    : terminal_(takes_escapes(STDERR_FILENO)), silent_(!terminal_ && where == elsewhere::nothing) {}

void progress_line::clear() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void progress_line::step(std::size_t done, std::size_t total, const std::string& what) {
  if (silent_) return;
  if (terminal_) {
    clear();
    constexpr std::size_t before =
        sizeof "[100%] ";  // and a last column, after which some terminals begin a line
    const std::size_t width = std::max(terminal_width(STDERR_FILENO).value_or(80), before);
    std::fprintf(stderr, "[%3zu%%] %s", done * 100 / std::max<std::size_t>(total, 1),
                 shortened(what, width - before).c_str());
    std::fflush(stderr);
    return;
  }
  const std::size_t tenths = done * 10 / std::max<std::size_t>(total, 1);
  if (done != 0 && tenths <= tenths_shown_) return;
  tenths_shown_ = tenths;
  std::fprintf(stderr, "%zu%%: %s\n", tenths * 10, what.c_str());
}

}  // namespace espalier::app
