#include "sim/history/linearizability.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/history/history.hpp"
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

namespace {

// Explains why a history is not linearizable, with as few operations as possible.
//
// The search stops at the return of one operation; later events do not matter. Events before a cut are represented by
// the states that are possible there. A cut is exact at a moment when no operation is open. Elsewhere, open operations
// are treated as pending, and the remaining part may have an order although the whole has none. Such a cut is therefore
// accepted only after a search has shown that the part still has no order. Operations that only observe are removed one
// by one as long as the rest still has no order.

struct finding {
  std::string text;
  std::vector<operation> evidence;
};

constexpr std::size_t easily_read = 24;
constexpr std::size_t most_lines = 40;
constexpr std::size_t most_reduced = 64;
constexpr std::size_t most_listed = 12;
constexpr std::size_t most_tried = 256;

// "a, b, c and 4 more"
std::string listed(const std::vector<std::string>& items, const char* separator) {
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), most_listed); ++i)
    text += (i == 0 ? "" : separator) + items[i];
  if (items.size() > most_listed) text += " and " + std::to_string(items.size() - most_listed) + " more";
  return text;
}

class explainer {
 public:
  using state = register_state;

  explainer(const history& observed, search_budget& budget, const std::vector<observation>& operations,
            state start, std::size_t blocked)
      : observed_(observed),
        budget_(budget),
        search_(budget),
        operations_(operations),
        start_(start),
        blocked_(blocked) {}

  finding explain(const std::string& subject) {
    part found = smallest_part();
    leave_out_observers(found);
    finding result;
    result.text = text_of(found, subject);
    std::set<std::uint32_t> taken;
    for (const observation& o : found.operations)
      if (taken.insert(o.source).second) result.evidence.push_back(observed_.operations()[o.source]);
    return result;
  }

 private:
  // Operations that have no order from any of the starts. The one at index `blocked` returns last.
  struct part {
    std::size_t cut = 0;
    std::vector<state> starts;
    std::vector<observation> operations;
    std::size_t blocked = 0;
  };

  // The part that remains after a cut before operations_[cut]. It has no starts if the budget is exhausted.
  part behind(std::size_t cut) {
    part p;
    p.cut = cut;
    const moment edge = operations_[cut].what.invoked;
    const moment close = operations_[blocked_].what.returned;
    std::vector<observation> before;
    for (std::size_t i = 0; i < cut; ++i) {
      observation o = operations_[i];
      if (o.what.returned < edge) {
        before.push_back(o);
      } else if (!only_observes(o.what)) {
        if (!o.what.pending()) o.what.returned = after_the_end;
        before.push_back(o);
        p.operations.push_back(o);
      }
    }
    for (std::size_t i = cut; i < operations_.size() && operations_[i].what.invoked <= close; ++i) {
      observation o = operations_[i];
      if (i == blocked_) {
        p.blocked = p.operations.size();
      } else if (o.what.returned >= close) {
        if (only_observes(o.what)) continue;
        if (!o.what.pending()) o.what.returned = after_the_end;
      }
      p.operations.push_back(o);
    }
    if (before.empty()) {
      p.starts = {start_};
    } else {
      search_.collect(before, std::array{start_}, p.starts);
      if (budget_.ended()) p.starts.clear();
    }
    return p;
  }

  bool has_no_order(const part& p) {
    return !p.starts.empty() && search_.run(p.operations, p.starts) == outcome::violation;
  }

  part smallest_part() {
    std::size_t quiescent = 0;  // disregarding pending operations
    std::size_t exact = 0;
    bool pending = false;
    moment latest = 0;
    for (std::size_t i = 0; i <= blocked_; ++i) {
      const operation& o = operations_[i].what;
      if (i > 0 && latest < o.invoked) {
        quiescent = i;
        if (!pending) exact = i;
      }
      pending |= o.pending();
      if (!o.pending()) latest = std::max(latest, o.returned);
    }
    part p = behind(quiescent);
    if (p.operations.size() <= easily_read && has_no_order(p)) return p;
    for (std::size_t back = 0; back < std::min(blocked_ - quiescent, most_tried); back = 2 * back + 1)
      if (part shorter = behind(blocked_ - back); has_no_order(shorter)) return shorter;
    if (has_no_order(p)) return p;
    p = behind(exact);
    return p.starts.empty() ? behind(0) : p;
  }

  void leave_out_observers(part& p) {
    if (p.operations.size() > most_reduced) return;
    for (std::size_t i = p.operations.size(); i-- > 0;) {
      if (i == p.blocked || !only_observes(p.operations[i].what)) continue;
      part smaller = p;
      smaller.operations.erase(smaller.operations.begin() + static_cast<std::ptrdiff_t>(i));
      if (i < p.blocked) --smaller.blocked;
      if (has_no_order(smaller)) p = std::move(smaller);
    }
  }

  [[nodiscard]] std::string name_of(const observation& o) const {
    const operation& original = observed_.operations()[o.source];
    if (!is_scan(original.kind)) return describe(observed_, original);
    return std::string(to_string(original.kind)) + "(" + std::to_string(original.key) + ") saw " +
           std::to_string(o.what.key) + " -> " +
           (o.what.result ? std::to_string(o.what.returned_value) : "absent");
  }

  // The results with which the blocked operation would have an order.
  std::string possible_results(const part& p) {
    const operation& o = p.operations[p.blocked].what;
    std::string possible;
    if (returns_value(o.kind))
      possible = possible_values(p);
    else
      possible = o.result ? "false" : "true";
    return possible.empty() ? "" : ", whose result could only be " + possible;
  }

  // What the key can hold before the blocked operation, and perhaps more; stops soon after most_tried.
  static std::set<std::pair<bool, std::uint64_t>> values_of(const part& p) {
    std::set<std::pair<bool, std::uint64_t>> values{{false, 0}};
    for (const state& s : p.starts) values.insert({s.present, s.value});
    std::vector<std::uint64_t> unknown_sums;
    for (std::size_t i = 0; i < p.operations.size(); ++i) {
      const operation& o = p.operations[i].what;
      if (i == p.blocked) continue;
      if (only_observes(o) || o.kind == map_operation::erase || o.kind == map_operation::extract) continue;
      if (o.kind == map_operation::update && o.pending())
        unknown_sums.push_back(o.value);
      else
        values.insert({true, o.kind == map_operation::update ? o.returned_value + o.value : o.value});
    }
    // Each may add to a value that another has stored.
    for (const std::uint64_t amount : unknown_sums) {
      if (values.size() > most_tried) break;
      for (const auto& [present, value] : std::vector(values.begin(), values.end()))
        values.insert({true, value + amount});
    }
    return values;
  }

  std::string possible_values(const part& p) {
    const auto values = values_of(p);
    if (values.size() > most_tried) return "";
    part other = p;
    operation& o = other.operations[p.blocked].what;
    std::vector<std::string> possible;
    for (const auto& [present, value] : values) {
      o.result = present;
      o.returned_value = value;
      if (search_.run(other.operations, p.starts) == outcome::linearizable)
        possible.push_back(present ? std::to_string(value) : "absent");
    }
    return listed(possible, " or ");
  }

  // An order of the operations that returned before.
  std::string order_of(part p) {
    operation& last = p.operations[p.blocked].what;
    last.returned = after_the_end;
    if (search_.run(p.operations, p.starts) != outcome::linearizable) return "";
    const auto& order = search_.order();
    const std::size_t left_out = order.size() - std::min(order.size(), most_listed);
    std::vector<std::string> names;
    for (std::size_t i = left_out; i < order.size(); ++i) names.push_back(name_of(p.operations[order[i]]));
    if (left_out > 0) names.front() = "... " + names.front();
    return names.empty() ? "" : "What returned before it has an order: " + listed(names, "; ") + ".\n";
  }

  std::string text_of(const part& p, const std::string& subject) {
    const observation& last = p.operations[p.blocked];
    std::ostringstream out;
    out << subject << ": no order agrees with " << name_of(last) << " of thread " << last.what.thread
        << ", returned at " << last.what.returned << possible_results(p) << ".\n";

    std::vector<std::string> starts;
    starts.reserve(p.starts.size());
    for (const state& s : p.starts) starts.push_back(describe(s));
    out << "Before moment " << operations_[p.cut].what.invoked << ": " << listed(starts, " or ") << ".\n";

    std::vector<timeline_line> lines;
    lines.reserve(p.operations.size());
    for (std::size_t i = 0; i < p.operations.size(); ++i) {
      lines.push_back({observed_.operations()[p.operations[i].source],
                       name_of(p.operations[i]) + (i == p.blocked ? "  <--" : "")});
    }
    if (lines.size() > most_lines) {
      // The blocked operation and those that were invoked last before its return.
      const std::size_t left_out = lines.size() - most_lines;
      std::swap(lines[std::min(p.blocked, left_out)], lines[left_out]);
      lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(left_out));
      out << "  (" << left_out << " operations before these left out)\n";
    }
    print_timeline(out, lines);
    out << order_of(p);

    std::vector<timeline_line> earlier;
    for (std::size_t i = p.cut; i-- > 0 && earlier.size() < 4;) {
      const auto same = [&](const observation& o) { return o.source == operations_[i].source; };
      if (std::ranges::any_of(p.operations, same)) continue;
      earlier.push_back({observed_.operations()[operations_[i].source], name_of(operations_[i])});
    }
    if (!earlier.empty()) {
      out << "Before:\n";
      print_timeline(out, earlier);
    }
    return out.str();
  }

  const history& observed_;
  search_budget& budget_;
  order_search search_;
  const std::vector<observation>& operations_;
  state start_;
  std::size_t blocked_;
};

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
  if (std::ranges::adjacent_find(visited, out_of_order) != visited.end())
    return "visited a key that does not follow the one before";
  return nullptr;
}

class checker {
 public:
  checker(const history& observed, const check_limits& limits)
      : observed_(observed), limits_(limits), budget_(limits) {}

  verdict check() {
    if (scans_in_order()) check_keys();
    result_.steps = budget_.steps();
    return std::move(result_);
  }

 private:
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
    order_search search(budget_);
    std::vector<observation> operations;
    for (auto first = uses.begin(); first != uses.end();) {
      const std::uint64_t key = first->key;
      operations.clear();
      for (; first != uses.end() && first->key == key; ++first) operations.push_back(seen_by(*first));
      const register_state start = initial_state(key);
      const std::string name = "key " + std::to_string(key);
      if (!take(name, search, start, operations)) continue;
      search_budget more(limits_);
      finding why = explainer(observed_, more, operations, start, search.blocked()).explain(name);
      result_ = {outcome::violation, std::move(why.text), key, std::move(why.evidence), 0};
      return;
    }
  }

  // Records the outcome of a search, unless it is a violation: then returns true.
  bool take(const std::string& subject, order_search& search, const register_state& start,
            const std::vector<observation>& operations) {
    const outcome found = budget_.renew() ? search.run(operations, std::array{start}) : outcome::unknown;
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
      if (!is_scan(o.kind))
        keys.push_back(o.key);
      else if (!o.pending())
        for (const map_entry& e : observed_.entries(o)) keys.push_back(e.key);
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

verdict check(const history& observed, const check_limits& limits) {
  return checker(observed, limits).check();
}

}  // namespace espalier::sim
