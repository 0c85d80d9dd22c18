#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "espalier/measure/random.hpp"
#include "sim/history/history.hpp"

// Searches for an order of operations that agrees with their intervals and their results.
//
// Sources: the depth-first search of J. Wing and C. Gong, "Testing and verifying concurrent objects", JPDC 17(1), 1993;
// the memory of failed configurations (operations ordered, state), and the rule to order operations no earlier than
// necessary, of G. Lowe, "Testing for linearizability", CCPE 29(4), 2017.
//
// The search steps through the events. An operation is placed in the order at the latest possible moment: when an
// operation returns and has no place yet, operations open at that moment are placed one after the other until it has
// one. Every operation that has returned has its place in every configuration that gets so far. Therefore a
// configuration is (event, which of the open operations have a place, state). Its size does not depend on the length of
// the history. At a quiescent moment it is the state alone, so that a segment between two such moments is searched once
// for each state in which it can begin.
//
// Two rules keep the search narrow. An operation that leaves the state unchanged is placed as soon as its result agrees
// with the state, since nothing later can tell the difference. So only the other operations branch. A pending operation
// has no return that requires a place; it is placed only for the sake of another operation that returns.
//
// The operations are those of one key, and the state is what a map has there. Time and memory are at worst exponential in the number of operations open at once, and linear in the rest.

namespace espalier::sim {

// The limits of a check, and the account of its use. The check reads no clock: a time limit is the caller's function.

struct check_limits {
  /// A step is an event passed or an operation tried in the order, and takes some tens of nanoseconds.
  std::uint64_t steps = 1'000'000'000;
  /// Bytes for the configurations that one search remembers.
  std::size_t memo_bytes = std::size_t{1} << 30;
  /// Called occasionally; true ends the check. May be empty.
  std::function<bool()> expired;
};

class search_budget {
 public:
  explicit search_budget(const check_limits& limits) : limits_(limits) {}

  /// Spends one step; false if the search must end.
  bool spend() {
    if (!why_.empty() || ++steps_ > limits_.steps) return refuse("the limit of steps is reached");
    if (steps_ % 1024 == 0 && limits_.expired && limits_.expired()) return refuse("the time is over");
    return true;
  }

  /// Charges this many more bytes; false if the search must end.
  bool take(std::size_t bytes) {
    held_ += bytes;
    return held_ <= limits_.memo_bytes || refuse("the limit of memory is reached");
  }
  void release(std::size_t bytes) noexcept { held_ -= bytes; }

  /// Ends the search for this reason, unless it has ended; returns false.
  bool refuse(const char* reason) {
    if (why_.empty()) why_ = reason;
    return false;
  }

  [[nodiscard]] bool ended() const noexcept { return !why_.empty(); }
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

  /// Allows another search: memory and width end one search only, steps and time end all.
  [[nodiscard]] bool renew() {
    if (ended() && (steps_ > limits_.steps || (limits_.expired && limits_.expired()))) return false;
    why_.clear();
    return true;
  }

  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  const check_limits& limits_;
  std::uint64_t steps_ = 0;
  std::size_t held_ = 0;
  std::string why_;
};

/// One key: absent, with the value 0, or present.
struct register_state {
  std::uint64_t value = 0;
  bool present = false;

  [[nodiscard]] std::uint64_t hash() const noexcept {
    return measure::mix64(value) + static_cast<std::uint64_t>(present);
  }
  friend bool operator==(const register_state&, const register_state&) = default;
};

/// The state that follows an operation of the key, which is no scan; nothing if its result does not agree. A pending
/// operation agrees with every state.
[[nodiscard]] std::optional<register_state> apply(const operation& o, const register_state& before) noexcept;
[[nodiscard]] std::string describe(const register_state& s);

enum class outcome : std::uint8_t { linearizable, violation, unknown };

/// For parts of a history: the moment of return of an operation that returned after the part's end. Its result is
/// known, but it need not have a place in the order.
inline constexpr moment after_the_end = never - 1;

/// An operation as one key sees it.
struct observation {
  operation what;
  /// Its index in the history.
  std::uint32_t source;
};

/// Whether the operation, according to its result, left the map unchanged.
[[nodiscard]] inline bool only_observes(const operation& o) noexcept {
  return o.pending() ? !is_write(o.kind) : !changes_map(o.kind, o.result);
}

/// The configurations that a search has visited: a hash table with open addressing.
class visited_set {
 public:
  explicit visited_set(search_budget& budget) : budget_(budget) { clear(); }
  visited_set(const visited_set&) = delete;
  visited_set& operator=(const visited_set&) = delete;
  ~visited_set() { budget_.release(bytes(slots_)); }

  void clear() {
    budget_.release(bytes(slots_));
    slots_.assign(64, slot{});
    size_ = 0;
    budget_.take(bytes(slots_));
  }

  /// False if it was present already, or if the budget's memory is exhausted.
  bool insert(std::uint32_t position, std::uint64_t placed, const register_state& state) {
    if (2 * (size_ + 1) > slots_.size() && !grow()) return false;
    slot& at = find(slots_, {placed, state, position});
    if (at.position != nowhere) return false;
    at = {placed, state, position};
    ++size_;
    return true;
  }

 private:
  static constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

  struct slot {
    std::uint64_t placed = 0;
    register_state state{};
    std::uint32_t position = nowhere;
  };

  static std::size_t bytes(const std::vector<slot>& slots) { return slots.size() * sizeof(slot); }

  static slot& find(std::vector<slot>& slots, const slot& sought) {
    const std::size_t mask = slots.size() - 1;
    auto at = static_cast<std::size_t>(measure::mix64(
        measure::mix64(sought.placed + 0x9e3779b97f4a7c15U * sought.position) ^ sought.state.hash()));
    for (;; ++at) {
      slot& s = slots[at & mask];
      if (s.position == nowhere ||
          (s.position == sought.position && s.placed == sought.placed && s.state == sought.state)) {
        return s;
      }
    }
  }

  bool grow() {
    const std::size_t larger = 2 * bytes(slots_);
    if (!budget_.take(larger)) {
      budget_.release(larger);
      return false;
    }
    std::vector<slot> slots(2 * slots_.size());
    for (const slot& s : slots_)
      if (s.position != nowhere) find(slots, s) = s;
    slots_.swap(slots);
    budget_.release(bytes(slots));
    return true;
  }

  search_budget& budget_;
  std::vector<slot> slots_;
  std::size_t size_ = 0;
};

class order_search {
 public:
  using state = register_state;

  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  explicit order_search(search_budget& budget) : budget_(budget), visited_(budget) {}

  /// `operations` are ordered by invocation, without pending ones that only observe, and must outlive the search.
  /// `starts`: the states before them. If the outcome is unknown, budget.why() gives the reason.
  outcome run(std::span<const observation> operations, std::span<const state> starts) {
    return search(operations, starts, nullptr);
  }

  /// Like run; also adds to `ends` every state that can follow the operations, once.
  outcome collect(std::span<const observation> operations, std::span<const state> starts,
                  std::vector<state>& ends) {
    return search(operations, starts, &ends);
  }

  /// After run returned linearizable: an order, as indices of operations. Pending operations without effect are
  /// missing.
  [[nodiscard]] const std::vector<std::uint32_t>& order() const noexcept { return order_; }

  /// After a violation: the operation at which the search stopped. No order reaches its return, although one reaches
  /// all earlier returns.
  [[nodiscard]] std::size_t blocked() const noexcept { return blocked_; }

 private:
  static constexpr std::uint32_t no_operation = std::numeric_limits<std::uint32_t>::max();

  struct event {
    moment at;
    std::uint32_t op;
    bool is_return;
  };

  // A configuration in which several operations could come next.
  struct junction {
    std::uint64_t placed;
    std::uint64_t untried;
    state before;
    std::uint32_t position;
    std::uint32_t ordered;
  };

  enum class stop : std::uint8_t { end, choice, dead };

  outcome search(std::span<const observation> operations, std::span<const state> starts,
                 std::vector<state>* ends) {
    operations_ = operations;
    blocked_ = none;
    furthest_ = 0;
    visited_.clear();
    if (!prepare()) return outcome::unknown;
    bool found = false;
    for (const state& start : starts) {
      found |= search_from(start, ends);
      if (budget_.ended()) return outcome::unknown;
      if (found && ends == nullptr) return outcome::linearizable;
    }
    if (found) return outcome::linearizable;
    if (!events_.empty()) blocked_ = events_[furthest_].op;
    return outcome::violation;
  }

  // Orders the events and assigns to every operation a bit that it alone has while it is open.
  bool prepare() {
    events_.clear();
    for (std::uint32_t i = 0; i < operations_.size(); ++i) {
      const operation& o = operations_[i].what;
      events_.push_back({o.invoked, i, false});
      if (o.returned < after_the_end) events_.push_back({o.returned, i, true});
    }
    // Of events at one moment, invocations come first: operations that touch there overlap.
    std::ranges::sort(events_, [](const event& a, const event& b) {
      if (a.at != b.at) return a.at < b.at;
      return a.is_return != b.is_return ? b.is_return : a.op < b.op;
    });
    bit_.resize(operations_.size());
    before_.resize(operations_.size());
    std::ranges::fill(holder_, no_operation);
    std::uint64_t free = ~std::uint64_t{0};
    for (const event& e : events_) {
      if (e.is_return) {
        free |= std::uint64_t{1} << bit_[e.op];
        continue;
      }
      if (free == 0) return budget_.refuse("more than 64 operations are open at one moment");
      const int bit = std::countr_zero(free);
      free &= free - 1;
      bit_[e.op] = static_cast<std::uint8_t>(bit);
      before_[e.op] = std::exchange(holder_[bit], e.op);
    }
    std::ranges::fill(holder_, no_operation);
    position_ = 0;
    open_ = 0;
    changing_ = 0;
    return true;
  }

  // One search from one start; true if it reached an end.
  bool search_from(state now, std::vector<state>* ends) {
    rewind(0);
    order_.clear();
    junctions_.clear();
    std::uint64_t placed = 0;
    bool found = false;
    do {
      if (advance(now, placed) == stop::end) {
        found = true;
        if (ends == nullptr) return true;
        if (std::ranges::find(*ends, now) == ends->end()) ends->push_back(now);
      }
    } while (next_choice(now, placed));
    return found;
  }

  // Advances to the end, or to a return that requires a choice. The latter becomes a junction if it is new.
  stop advance(state& now, std::uint64_t& placed) {
    while (position_ < events_.size()) {
      if (!budget_.spend()) return stop::dead;
      const event& e = events_[position_];
      const std::uint64_t bit = std::uint64_t{1} << bit_[e.op];
      if (!e.is_return) {
        enter(e.op, bit);
        ++position_;
        if ((changing_ & bit) == 0) place_observers(now, placed, bit);
        continue;
      }
      if ((placed & bit) == 0) {
        furthest_ = std::max(furthest_, position_);
        const std::uint64_t candidates = open_ & ~placed & changing_;
        if (candidates != bit) {
          const auto position = static_cast<std::uint32_t>(position_);
          if (candidates == 0 || !visited_.insert(position, placed, now)) return stop::dead;
          junctions_.push_back(
              {placed, candidates, now, position, static_cast<std::uint32_t>(order_.size())});
          return stop::choice;
        }
        if (!place(bit, now, placed)) return stop::dead;
      }
      placed &= ~bit;
      open_ &= ~bit;
      ++position_;
    }
    return stop::end;
  }

  // Returns to the last junction with an untried operation and tries it; false if there is none.
  bool next_choice(state& now, std::uint64_t& placed) {
    while (!junctions_.empty() && budget_.spend()) {
      junction& j = junctions_.back();
      if (j.untried == 0) {
        junctions_.pop_back();
        continue;
      }
      rewind(j.position);
      order_.resize(j.ordered);
      const std::uint64_t tried = first_to_return(j.untried);
      j.untried &= ~tried;
      now = j.before;
      placed = j.placed;
      if (place(tried, now, placed)) return true;
    }
    return false;
  }

  // The operation that returns first is tried first: this finds an order sooner, if there is one.
  [[nodiscard]] std::uint64_t first_to_return(std::uint64_t untried) const {
    int first = std::countr_zero(untried);
    for (untried &= untried - 1; untried != 0; untried &= untried - 1) {
      const int bit = std::countr_zero(untried);
      if (returned(bit) < returned(first)) first = bit;
    }
    return std::uint64_t{1} << first;
  }

  [[nodiscard]] moment returned(int bit) const { return operations_[holder_[bit]].what.returned; }

  bool place(std::uint64_t bit, state& now, std::uint64_t& placed) {
    const std::uint32_t op = holder_[std::countr_zero(bit)];
    const auto next = apply(operations_[op].what, now);
    if (!next) return false;
    now = *next;
    placed |= bit;
    order_.push_back(op);
    place_observers(now, placed, open_ & ~placed & ~changing_);
    return true;
  }

  void place_observers(const state& now, std::uint64_t& placed, std::uint64_t observers) {
    for (; observers != 0; observers &= observers - 1) {
      const int bit = std::countr_zero(observers);
      if (!apply(operations_[holder_[bit]].what, now)) continue;
      placed |= std::uint64_t{1} << bit;
      order_.push_back(holder_[bit]);
    }
  }

  void enter(std::uint32_t op, std::uint64_t bit) {
    open_ |= bit;
    hold(op, bit);
  }

  void hold(std::uint32_t op, std::uint64_t bit) {
    holder_[std::countr_zero(bit)] = op;
    const bool changes = op != no_operation && !only_observes(operations_[op].what);
    changing_ = changes ? changing_ | bit : changing_ & ~bit;
  }

  void rewind(std::size_t position) {
    while (position_ > position) {
      const event& e = events_[--position_];
      const std::uint64_t bit = std::uint64_t{1} << bit_[e.op];
      if (e.is_return) {
        open_ |= bit;
      } else {
        open_ &= ~bit;
        hold(before_[e.op], bit);
      }
    }
  }

  search_budget& budget_;
  visited_set visited_;
  std::span<const observation> operations_;
  std::vector<event> events_;
  std::vector<std::uint8_t> bit_;
  // The previous holder of the operation's bit, for going back.
  std::vector<std::uint32_t> before_;
  std::vector<junction> junctions_;
  std::vector<std::uint32_t> order_;
  std::uint32_t holder_[64]{};
  std::uint64_t open_ = 0;
  std::uint64_t changing_ = 0;
  std::size_t position_ = 0;
  std::size_t furthest_ = 0;
  std::size_t blocked_ = none;
};

}  // namespace espalier::sim
