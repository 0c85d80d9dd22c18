#include "sim/history/models.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace espalier::sim {

std::optional<register_state> register_model::apply(const operation& o, const state& before) noexcept {
  const state with_argument{o.value, true};
  if (returns_value(o.kind) && !o.pending() && before != (o.result ? state{o.returned_value, true} : state{}))
    return std::nullopt;
  switch (o.kind) {
    case map_operation::find:
      return before;
    case map_operation::contains:
      if (before.present != o.result) return std::nullopt;
      return before;
    case map_operation::insert:
      if (!o.pending() && before.present == o.result) return std::nullopt;
      return before.present ? before : with_argument;
    case map_operation::insert_or_assign:
      if (!o.pending() && before.present == o.result) return std::nullopt;
      return with_argument;
    case map_operation::erase:
      if (!o.pending() && before.present != o.result) return std::nullopt;
      return state{};
    case map_operation::exchange:
      return with_argument;
    case map_operation::extract:
      return state{};
    case map_operation::update:
      return state{before.value + o.value, true};  // an absent one has the value 0
    case map_operation::scan:
    case map_operation::reverse_scan:
      break;
  }
  return std::nullopt;
}

std::string register_model::describe(const state& s) {
  return s.present ? std::to_string(s.value) : "absent";
}

map_model::state map_model::start() {
  return number_of({observed_.initial().begin(), observed_.initial().end()});
}

std::optional<map_model::state> map_model::apply(const operation& o, const state& before) {
  const contents& now = *contents_[before.number];
  if (is_scan(o.kind)) {
    if (!agrees(o, now)) return std::nullopt;
    return before;
  }
  const auto at = std::ranges::lower_bound(now, o.key, {}, &map_entry::key);
  const bool present = at != now.end() && at->key == o.key;
  const register_state old = present ? register_state{at->value, true} : register_state{};
  const auto next = register_model::apply(o, old);
  if (!next) return std::nullopt;
  if (*next == old) return before;
  const auto index = at - now.begin();
  contents changed = now;
  if (!next->present)
    changed.erase(changed.begin() + index);
  else if (present)
    changed[static_cast<std::size_t>(index)].value = next->value;
  else
    changed.insert(changed.begin() + index, {o.key, next->value});
  return number_of(std::move(changed));
}

bool map_model::agrees(const operation& scan, const contents& c) const {
  const auto visited = observed_.entries(scan);
  const auto visits = [&](auto first, auto end) {
    const auto held = static_cast<std::size_t>(end - first);
    if (scan.result ? held != visited.size() : held < visited.size()) return false;
    return std::equal(visited.begin(), visited.end(), first);
  };
  if (scan.kind == map_operation::scan)
    return visits(std::ranges::lower_bound(c, scan.key, {}, &map_entry::key), c.end());
  return visits(std::make_reverse_iterator(std::ranges::upper_bound(c, scan.key, {}, &map_entry::key)),
                c.rend());
}

map_model::state map_model::number_of(contents&& c) {
  const auto [at, added] = numbers_.try_emplace(std::move(c), static_cast<std::uint32_t>(contents_.size()));
  if (added) {
    contents_.push_back(&at->first);
    const std::size_t bytes = at->first.capacity() * sizeof(map_entry) + sizeof(*at) + 6 * sizeof(void*);
    held_ += bytes;
    budget_.take(bytes);
  }
  return {at->second};
}

std::string map_model::describe(const state& s) const {
  std::string text = "{";
  for (const map_entry& e : *contents_[s.number]) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(e.key) + ": " + std::to_string(e.value);
  }
  return text + "}";
}

}  // namespace espalier::sim
