#include "sim/history/history.hpp"

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace espalier::sim {
namespace {

void check_interval(const operation& o) {
  if (o.returned < o.invoked) {
    throw std::invalid_argument("history: an operation of thread " + std::to_string(o.thread) +
                                " returned at moment " + std::to_string(o.returned) +
                                ", but moments do not decrease and it was invoked at " +
                                std::to_string(o.invoked));
  }
}

[[noreturn]] void refuse_moment(std::uint32_t thread, moment last, moment at) {
  throw std::invalid_argument("history_lane: moment " + std::to_string(at) + " of thread " +
                              std::to_string(thread) + " follows " + std::to_string(last) +
                              ", but the moments of one thread must increase and stay below never");
}

}  // namespace

history_lane::history_lane(std::uint32_t thread, std::size_t expected) : thread_(thread) {
  operations_.reserve(expected);
}

void history_lane::begin(map_operation kind, std::uint64_t key, std::uint64_t value, moment at) {
  if (at == never || (last_ && at <= *last_)) refuse_moment(thread_, last_.value_or(0), at);
  last_ = at;
  open_ = true;
  operation o;
  o.invoked = at;
  o.key = key;
  o.value = is_scan(kind) ? pool_.size() : value;
  o.thread = thread_;
  o.kind = kind;
  operations_.push_back(o);
}

operation& history_lane::close(bool fits, moment at) {
  if (!open_ || !fits) {
    throw std::invalid_argument("history_lane: thread " + std::to_string(thread_) +
                                " ended an operation that is not the one it began last");
  }
  if (at == never || at <= operations_.back().invoked) refuse_moment(thread_, operations_.back().invoked, at);
  last_ = at;
  open_ = false;
  operations_.back().returned = at;
  return operations_.back();
}

void history_lane::end(bool result, moment at) {
  const bool fits = open_ && !returns_value(operations_.back().kind) && !is_scan(operations_.back().kind);
  close(fits, at).result = result;
}

void history_lane::end_with(std::optional<std::uint64_t> before, moment at) {
  operation& o = close(open_ && returns_value(operations_.back().kind), at);
  o.result = before.has_value();
  o.returned_value = before.value_or(0);
}

void history_lane::end_scan(bool reached_end, moment at) {
  close(open_ && is_scan(operations_.back().kind), at).result = reached_end;
}

void history_lane::visit(std::uint64_t key, std::uint64_t value) {
  if (!open_ || !is_scan(operations_.back().kind)) {
    throw std::invalid_argument("history_lane: thread " + std::to_string(thread_) +
                                " visited an entry, but the operation it began last is no open scan");
  }
  pool_.push_back({key, value});
  ++operations_.back().entries;
}

void history::add_initial(std::uint64_t key, std::uint64_t value) {
  const auto at = std::ranges::lower_bound(initial_, key, {}, &map_entry::key);
  if (at != initial_.end() && at->key == key) {
    throw std::invalid_argument("history: the initial contents hold key " + std::to_string(key) +
                                " already; give each key once");
  }
  initial_.insert(at, {key, value});
}

void history::add(const history_lane& lane) {
  const std::uint64_t shift = pool_.size();
  pool_.insert(pool_.end(), lane.pool().begin(), lane.pool().end());
  operations_.reserve(operations_.size() + lane.operations().size());
  for (operation o : lane.operations()) {
    if (is_scan(o.kind)) o.value += shift;
    operations_.push_back(o);
  }
}

void history::add(const operation& o) {
  check_interval(o);
  if (is_scan(o.kind))
    throw std::invalid_argument("history: a scan is added together with the entries that it visited");
  operations_.push_back(o);
}

void history::add(const operation& scan, std::span<const map_entry> visited) {
  check_interval(scan);
  if (!is_scan(scan.kind))
    throw std::invalid_argument("history: only a scan is added together with visited entries");
  operation o = scan;
  o.value = pool_.size();
  o.entries = static_cast<std::uint32_t>(visited.size());
  pool_.insert(pool_.end(), visited.begin(), visited.end());
  operations_.push_back(o);
}

std::span<const map_entry> history::entries(const operation& scan) const {
  return std::span(pool_).subspan(scan.value, scan.entries);
}

std::string describe(const history& observed, const operation& o) {
  std::string text(to_string(o.kind));
  text += '(' + std::to_string(o.key);
  if (o.kind == map_operation::insert || o.kind == map_operation::insert_or_assign ||
      o.kind == map_operation::exchange) {
    text += ", " + std::to_string(o.value);
  } else if (o.kind == map_operation::update) {
    text += ", +" + std::to_string(o.value);
  }
  text += ')';
  if (o.pending()) return text + " pending";
  text += " -> ";
  if (returns_value(o.kind)) return text + (o.result ? std::to_string(o.returned_value) : "absent");
  if (!is_scan(o.kind)) return text + (o.result ? "true" : "false");
  for (const map_entry& e : observed.entries(o))
    text += std::to_string(e.key) + ": " + std::to_string(e.value) + ", ";
  return text + (o.result ? "end" : "stopped");
}

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
