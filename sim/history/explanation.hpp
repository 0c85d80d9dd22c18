#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/history/history.hpp"
#include "sim/history/linearizability.hpp"
#include "sim/history/models.hpp"
#include "sim/history/order_search.hpp"

// Says why a history is not linearizable, with as few operations as it can.
//
// Of a history that the search gave up at the return of one operation, what came later does not matter. What
// came before a cut is told by the states possible there. A cut is exact at a moment when nothing is open.
// Elsewhere, what is open is taken for pending, and the part that remains may be ordered although the
// whole may not; so a cut counts only after a search has found that the part still has no order. Operations
// that only observe are left out one by one as long as there is none.

namespace espalier::sim {

struct finding {
  std::string text;
  std::vector<operation> evidence;
};

/// `operations`, by invocation, have no order from `start`; the search ended at the return of
/// operations[blocked]. `subject`: "key 7", "the map".
template <class Model>
[[nodiscard]] finding explain(const history& observed, Model& model, search_budget& budget,
                              const std::string& subject, const std::vector<observation>& operations,
                              typename Model::state start, std::size_t blocked);

extern template finding explain(const history&, register_model&, search_budget&, const std::string&,
                                const std::vector<observation>&, register_model::state, std::size_t);
extern template finding explain(const history&, map_model&, search_budget&, const std::string&,
                                const std::vector<observation>&, map_model::state, std::size_t);

}  // namespace espalier::sim
