#include "sim/schedule/schedule.hpp"

#include <charconv>
#include <numeric>
#include <stdexcept>

namespace espalier::sim {
namespace {

template <class Number>
Number take_number(std::string_view& rest, std::string_view whole) {
  Number n{};
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), n);
  if (error != std::errc{})
    throw std::invalid_argument("a schedule is written AGENTxSTEPS.AGENTxSTEPS..., as in 0x12.1x3; '" +
                                std::string(rest.substr(0, 12)) + "' at character " +
                                std::to_string(whole.size() - rest.size()) + " is not a number");
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return n;
}

}  // namespace

std::uint64_t schedule::steps() const noexcept {
  return std::accumulate(segments_.begin(), segments_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const segment& s) { return sum + s.steps; });
}

void schedule::normalise() {
  std::vector<segment> joined;
  for (const segment& s : segments_) {
    if (s.steps == 0) continue;
    if (!joined.empty() && joined.back().agent == s.agent)
      joined.back().steps += s.steps;
    else
      joined.push_back(s);
  }
  segments_ = std::move(joined);
}

std::string schedule::to_text() const {
  std::string text;
  for (const segment& s : segments_) {
    if (!text.empty()) text += '.';
    text += std::to_string(s.agent) + 'x' + std::to_string(s.steps);
  }
  return text;
}

schedule schedule::parse(std::string_view text) {
  schedule parsed;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto agent = take_number<unsigned>(rest, text);
    if (rest.empty() || rest.front() != 'x')
      throw std::invalid_argument("in a schedule an 'x' stands between agent and steps, as in 0x12.1x3");
    rest.remove_prefix(1);
    parsed.segments_.push_back({agent, take_number<std::uint64_t>(rest, text)});
    if (rest.empty()) break;
    if (rest.front() != '.')
      throw std::invalid_argument("in a schedule a '.' stands between segments, as in 0x12.1x3");
    rest.remove_prefix(1);
  }
  return parsed;
}

}  // namespace espalier::sim
