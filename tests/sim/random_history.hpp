#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "espalier/workload/random.hpp"
#include "sim/history/history.hpp"

// Histories of a map that works, or nearly works: threads that take turns at random, each going from
// invocation to effect to return.

namespace espalier::sim {

struct random_history_options {
  std::uint32_t threads = 3;
  std::size_t operations = 6;
  std::uint64_t keys = 2;
  std::uint64_t values = 2;
  /// In percent: effects that come after the return, results that are wrong, operations without a return.
  unsigned late = 0;
  unsigned wrong = 0;
  unsigned pending = 0;
  unsigned scans = 0;
};

class random_history {
 public:
  random_history(const random_history_options& options, std::uint64_t seed)
      : options_(options), random_(seed), threads_(options.threads) {
    for (std::uint32_t t = 0; t < options.threads; ++t)
      lanes_.emplace_back(t, options.operations / options.threads + 1);
  }

  [[nodiscard]] history make() {
    history made;
    for (std::uint64_t key = 0; key < options_.keys; ++key) {
      if (below(2) == 0) continue;
      made.add_initial(key, below(options_.values));
      map_[key] = made.initial().back().value;
    }
    for (std::size_t begun = 0; begun < options_.operations;) {
      const auto t = static_cast<std::size_t>(below(options_.threads));
      if (threads_[t].now == stage::idle) ++begun;
      step(threads_[t], lanes_[t]);
    }
    for (std::size_t t = 0; t < threads_.size(); ++t)
      while (threads_[t].now != stage::idle) step(threads_[t], lanes_[t]);
    for (const history_lane& lane : lanes_) made.add(lane);
    return made;
  }

 private:
  static constexpr std::size_t all_but_scans = map_operations.size() - 2;
  static_assert(is_scan(map_operations[all_but_scans]) && is_scan(map_operations.back()));

  enum class stage : std::uint8_t { idle, invoked, effective };

  struct thread_state {
    stage now = stage::idle;
    map_operation kind = map_operation::find;
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    bool result = false;
    /// The value before, for the operations that return it.
    std::optional<std::uint64_t> before;
    std::vector<map_entry> visited;
  };

  std::uint64_t below(std::uint64_t bound) { return random_.next() % bound; }
  bool chance(unsigned percent) { return below(100) < percent; }

  void step(thread_state& t, history_lane& lane) {
    switch (t.now) {
      case stage::idle:
        t = {};
        t.now = stage::invoked;
        t.kind = map_operations[chance(options_.scans) ? all_but_scans + below(2) : below(all_but_scans)];
        t.key = below(options_.keys);
        t.value = below(options_.values);
        lane.begin(t.kind, t.key, t.value, ++clock_);
        break;
      case stage::invoked:
        if (chance(options_.late)) {
          // As a map that answers from what it saw and writes later.
          auto before = map_;
          take_effect(t);
          end(t, lane);
          map_.swap(before);
          later_.push_back(t);
        } else if (chance(options_.pending)) {
          if (below(2) == 0) take_effect(t);
          t.now = stage::idle;
        } else {
          take_effect(t);
          t.now = stage::effective;
        }
        break;
      case stage::effective:
        end(t, lane);
        break;
    }
    if (!later_.empty() && below(3) == 0) {
      take_effect(later_.back());
      later_.pop_back();
    }
  }

  void take_effect(thread_state& t) {
    const auto at = map_.find(t.key);
    const bool present = at != map_.end();
    if (present) t.before = at->second;
    switch (t.kind) {
      case map_operation::find:
        break;
      case map_operation::contains:
        t.result = present;
        break;
      case map_operation::insert:
        t.result = map_.emplace(t.key, t.value).second;
        break;
      case map_operation::insert_or_assign:
        t.result = map_.insert_or_assign(t.key, t.value).second;
        break;
      case map_operation::erase:
        t.result = map_.erase(t.key) != 0;
        break;
      case map_operation::exchange:
        map_[t.key] = t.value;
        break;
      case map_operation::extract:
        map_.erase(t.key);
        break;
      case map_operation::update:
        map_[t.key] += t.value;
        break;
      case map_operation::scan:
        visit(t, map_.lower_bound(t.key), map_.end());
        break;
      case map_operation::reverse_scan:
        visit(t, std::make_reverse_iterator(map_.upper_bound(t.key)), map_.rend());
        break;
    }
  }

  template <class Iterator>
  void visit(thread_state& t, Iterator from, Iterator end) {
    t.result = true;
    for (; from != end && t.result; ++from) {
      t.visited.push_back({from->first, from->second});
      t.result = below(4) != 0;
    }
  }

  void end(thread_state& t, history_lane& lane) {
    t.now = stage::idle;
    if (is_scan(t.kind)) {
      for (const map_entry& e : t.visited) {
        if (chance(options_.wrong)) continue;
        lane.visit(e.key, chance(options_.wrong) ? below(options_.values) : e.value);
      }
      lane.end_scan(t.result, ++clock_);
    } else if (returns_value(t.kind)) {
      if (chance(options_.wrong)) t.before = below(options_.values);
      lane.end_with(t.before, ++clock_);
    } else {
      lane.end(t.result != chance(options_.wrong), ++clock_);
    }
  }

  random_history_options options_;
  workload::random_generator random_;
  std::vector<history_lane> lanes_;
  std::vector<thread_state> threads_;
  std::vector<thread_state> later_;
  std::map<std::uint64_t, std::uint64_t> map_;
  moment clock_ = 0;
};

}  // namespace espalier::sim
