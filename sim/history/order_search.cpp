#include "sim/history/order_search.hpp"

namespace espalier::sim {

std::optional<register_state> apply(const operation& o, const register_state& before) noexcept {
  const register_state with_argument{o.value, true};
  if (returns_value(o.kind) && !o.pending() &&
      before != (o.result ? register_state{o.returned_value, true} : register_state{}))
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
      return register_state{};
    case map_operation::exchange:
      return with_argument;
    case map_operation::extract:
      return register_state{};
    case map_operation::update:
      return register_state{before.value + o.value, true};  // an absent one has the value 0
    case map_operation::scan:
    case map_operation::reverse_scan:
      break;
  }
  return std::nullopt;
}

std::string describe(const register_state& s) { return s.present ? std::to_string(s.value) : "absent"; }

}  // namespace espalier::sim
