#include "sim/history/linearizability.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <sstream>
#include <tuple>
#include <utility>

#include "sim/history/explanation.hpp"
#include "sim/history/history.hpp"
#include "sim/history/models.hpp"

namespace espalier::sim {
namespace {

// An operation of one key. For a scan, its result for the key.
struct key_use {
  std::uint64_t key;
  moment invoked;
  std::uint32_t source;
  friend bool operator<(const key_use& a, const key_use& b) noexcept {
    return std::tie(a.key, a.invoked, a.source) < std::tie(b.key, b.invoked, b.source);
  }
};

// A fault in the entries of a scan by themselves, or null.
const char* disorder(const operation& scan, std::span<const map_entry> visited) {
  const visiting_order precedes{scan.kind};
  if (!visited.empty() && precedes(visited.front().key, scan.key))
    return "visited a key before its beginning";
  const auto out_of_order = [&](const map_entry& a, const map_entry& b) { return !precedes(a.key, b.key); };
  if (std::ranges::adjacent_find(visited, out_of_order) != visited.end()) {
    return "visited a key that does not follow the one before";
  }
  return nullptr;
}

class checker {
 public:
  checker(const history& observed, const check_limits& limits)
      : observed_(observed), limits_(limits), budget_(limits) {}

  verdict check(scan_guarantee scans) {
    if (!scans_in_order()) return finish();
    check_keys();
    // A violation of one key is one of the map. The reverse holds if no scan ties keys together.
    if (result_.result != outcome::violation && has_scans_ && scans == scan_guarantee::snapshot) check_map();
    return finish();
  }

 private:
  verdict finish() {
    result_.steps = budget_.steps();
    return std::move(result_);
  }

  bool scans_in_order() {
    for (const operation& o : observed_.operations()) {
      if (!is_scan(o.kind) || o.pending()) continue;
      has_scans_ = true;
      const char* const wrong = disorder(o, observed_.entries(o));
      if (wrong == nullptr) continue;
      std::ostringstream text;
      text << "a scan " << wrong << ":\n";
      print_timeline(text, std::array{timeline_line{o, describe(observed_, o)}});
      result_ = {outcome::violation, text.str(), std::nullopt, {o}, 0};
      return false;
    }
    return true;
  }

  void check_keys() {
    const std::vector<key_use> uses = uses_of_keys();
    result_.result = outcome::linearizable;
    register_model model;
    order_search<register_model> search(model, budget_);
    std::vector<observation> operations;
    for (auto first = uses.begin(); first != uses.end();) {
      const std::uint64_t key = first->key;
      operations.clear();
      for (; first != uses.end() && first->key == key; ++first) operations.push_back(seen_by(*first));
      const register_state start = initial_state(key);
      const std::string name = "key " + std::to_string(key);
      if (!take(name, search, std::array{start}, operations)) continue;
      search_budget more(limits_);
      finding why = explain(observed_, model, more, name, operations, start, search.blocked());
      result_ = {outcome::violation, std::move(why.text), key, std::move(why.evidence), 0};
      return;
    }
  }

  void check_map() {
    std::vector<observation> operations;
    for (std::uint32_t i = 0; i < observed_.operations().size(); ++i) {
      const operation& o = observed_.operations()[i];
      if (!o.pending() || !only_observes(o)) operations.push_back({o, i});
    }
    std::ranges::sort(operations, {},
                      [](const observation& o) { return std::pair(o.what.invoked, o.source); });
    map_model model(observed_, budget_);
    const map_model::state start = model.start();
    order_search<map_model> search(model, budget_);
    if (!take("the map", search, std::array{start}, operations)) return;
    search_budget more(limits_);
    map_model again(observed_, more);
    finding why = explain(observed_, again, more, "the map", operations, again.start(), search.blocked());
    result_ = {outcome::violation, std::move(why.text), std::nullopt, std::move(why.evidence), 0};
  }

  // Records the outcome of a search, unless it is a violation: then returns true.
  template <class Model, std::size_t N>
  bool take(const std::string& subject, order_search<Model>& search,
            const std::array<typename Model::state, N>& starts, const std::vector<observation>& operations) {
    const outcome found = budget_.renew() ? search.run(operations, starts) : outcome::unknown;
    if (found == outcome::unknown && result_.result != outcome::unknown) {
      result_.result = outcome::unknown;
      result_.explanation = subject + ", " + std::to_string(operations.size()) +
                            " operations: " + budget_.why() + " before the search was complete";
    }
    return found == outcome::violation;
  }

  std::vector<key_use> uses_of_keys() {
    const auto operations = observed_.operations();
    std::vector<key_use> uses;
    uses.reserve(operations.size());
    for (std::uint32_t i = 0; i < operations.size(); ++i) {
      const operation& o = operations[i];
      if (is_scan(o.kind) || (o.pending() && only_observes(o))) continue;
      uses.push_back({o.key, o.invoked, i});
    }
    if (has_scans_) {
      const std::vector<std::uint64_t> keys = mentioned_keys();
      for (std::uint32_t i = 0; i < operations.size(); ++i) {
        const operation& o = operations[i];
        if (!is_scan(o.kind) || o.pending()) continue;
        const auto visited = observed_.entries(o);
        if (visited.empty() && !o.result) continue;
        const bool reverse = o.kind == map_operation::reverse_scan;
        const std::uint64_t end = !o.result ? visited.back().key : reverse ? 0 : ~std::uint64_t{0};
        const auto [lowest, largest] = reverse ? std::pair(end, o.key) : std::pair(o.key, end);
        for (auto key = std::ranges::lower_bound(keys, lowest); key != keys.end() && *key <= largest; ++key)
          uses.push_back({*key, o.invoked, i});
      }
    }
    std::ranges::sort(uses, std::less<>{});
    return uses;
  }

  [[nodiscard]] std::vector<std::uint64_t> mentioned_keys() const {
    std::vector<std::uint64_t> keys;
    for (const map_entry& e : observed_.initial()) keys.push_back(e.key);
    for (const operation& o : observed_.operations()) {
      if (!is_scan(o.kind)) {
        keys.push_back(o.key);
      } else if (!o.pending()) {
        for (const map_entry& e : observed_.entries(o)) keys.push_back(e.key);
      }
    }
    std::ranges::sort(keys);
    const auto repeated = std::ranges::unique(keys);
    keys.erase(repeated.begin(), repeated.end());
    return keys;
  }

  [[nodiscard]] observation seen_by(const key_use& use) const {
    observation seen{observed_.operations()[use.source], use.source};
    if (is_scan(seen.what.kind)) {
      const auto visited = observed_.entries(seen.what);
      const auto at =
          std::ranges::lower_bound(visited, use.key, visiting_order{seen.what.kind}, &map_entry::key);
      const bool found = at != visited.end() && at->key == use.key;
      seen.what.kind = map_operation::find;
      seen.what.key = use.key;
      seen.what.result = found;
      seen.what.returned_value = found ? at->value : 0;
    }
    return seen;
  }

  [[nodiscard]] register_state initial_state(std::uint64_t key) const {
    const auto initial = observed_.initial();
    const auto at = std::ranges::lower_bound(initial, key, {}, &map_entry::key);
    if (at == initial.end() || at->key != key) return {};
    return {at->value, true};
  }

  const history& observed_;
  const check_limits& limits_;
  search_budget budget_;
  bool has_scans_ = false;
  verdict result_;
};

}  // namespace

verdict check(const history& observed, const check_limits& limits, scan_guarantee scans) {
  return checker(observed, limits).check(scans);
}

}  // namespace espalier::sim
