#include "sim/history/timeline.hpp"

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

namespace espalier::sim {
namespace {

constexpr std::size_t widest_drawing = 48;

// Maps moments to columns.
class columns {
 public:
  explicit columns(std::span<const timeline_line> lines) {
    for (const timeline_line& line : lines) {
      moments_.push_back(line.drawn.invoked);
      if (!line.drawn.pending()) moments_.push_back(line.drawn.returned);
    }
    std::ranges::sort(moments_);
    const auto repeated = std::ranges::unique(moments_);
    moments_.erase(repeated.begin(), repeated.end());
  }

  [[nodiscard]] std::size_t width() const { return std::min(2 * moments_.size(), widest_drawing); }

  [[nodiscard]] std::size_t of(moment at) const {
    const auto rank = static_cast<std::size_t>(std::ranges::lower_bound(moments_, at) - moments_.begin());
    return rank * width() / moments_.size();
  }

 private:
  std::vector<moment> moments_;
};

std::string interval_of(const operation& o) {
  return std::to_string(o.invoked) + ".." + (o.pending() ? "" : std::to_string(o.returned));
}

std::string drawing_of(const operation& o, const columns& scale) {
  std::string picture(scale.width(), ' ');
  if (picture.empty()) return picture;
  const std::size_t first = scale.of(o.invoked);
  const std::size_t last = o.pending() ? picture.size() - 1 : scale.of(o.returned);
  std::fill(picture.begin() + static_cast<std::ptrdiff_t>(first),
            picture.begin() + static_cast<std::ptrdiff_t>(last) + 1, '-');
  picture[last] = o.pending() ? '>' : ']';
  picture[first] = first == last ? '|' : '[';
  return picture;
}

}  // namespace

void print_timeline(std::ostream& out, std::span<const timeline_line> lines) {
  std::vector<const timeline_line*> sorted;
  std::size_t thread_width = 0;
  std::size_t interval_width = 0;
  for (const timeline_line& line : lines) {
    sorted.push_back(&line);
    thread_width = std::max(thread_width, std::to_string(line.drawn.thread).size());
    interval_width = std::max(interval_width, interval_of(line.drawn).size());
  }
  // The lines lie in one array, so that their addresses tell their original order.
  std::ranges::sort(sorted, {},
                    [](const timeline_line* line) { return std::pair(line->drawn.invoked, line); });
  const columns scale(lines);
  for (const timeline_line* line : sorted) {
    std::string thread = std::to_string(line->drawn.thread);
    thread.resize(thread_width, ' ');
    std::string interval = interval_of(line->drawn);
    interval.resize(interval_width, ' ');
    out << "  T" << thread << "  " << interval << "  " << drawing_of(line->drawn, scale) << "  " << line->text
        << '\n';
  }
}

void print_timeline(std::ostream& out, const history& observed) {
  std::vector<timeline_line> lines;
  for (const operation& o : observed.operations()) lines.push_back({o, describe(observed, o)});
  print_timeline(out, lines);
}

}  // namespace espalier::sim
