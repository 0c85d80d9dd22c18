#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/history/history.hpp"
#include "sim/history/linearizability.hpp"
#include "sim/history/models.hpp"
#include "sim/history/order_search.hpp"

// Explains why a history is not linearizable, with as few operations as possible.
//
// The search stops at the return of one operation; later events do not matter. Events before a cut are represented by
// the states that are possible there. A cut is exact at a moment when no operation is open. Elsewhere, open operations
// are treated as pending, and the remaining part may have an order although the whole has none. Such a cut is therefore
// accepted only after a search has shown that the part still has no order. Operations that only observe are removed one
// by one as long as the rest still has no order.

namespace espalier::sim {

struct finding {
  std::string text;
  std::vector<operation> evidence;
};

/// `operations`, by invocation, have no order from `start`. The search ended at the return of operations[blocked].
/// `subject`: "key 7", "the map".
template <class Model>
[[nodiscard]] finding explain(const history& observed, Model& model, search_budget& budget,
                              const std::string& subject, const std::vector<observation>& operations,
                              typename Model::state start, std::size_t blocked);

extern template finding explain(const history&, register_model&, search_budget&, const std::string&,
                                const std::vector<observation>&, register_model::state, std::size_t);
extern template finding explain(const history&, map_model&, search_budget&, const std::string&,
                                const std::vector<observation>&, map_model::state, std::size_t);

}  // namespace espalier::sim
