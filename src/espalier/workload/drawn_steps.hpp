#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/catalog/step.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/workload/operation_mix.hpp"
#include "espalier/workload/plan.hpp"

// The operations of a plan in sequence, as each thread of a run receives them.

namespace espalier::workload {

using catalog::step;

/// The value of a key unless an operation specifies another.
[[nodiscard]] constexpr std::uint64_t value_for(std::uint64_t key) noexcept {
  return key ^ 0x9e3779b97f4a7c15U;
}

/// Steps between two checks of the clock or the shared cursor.
inline constexpr std::uint64_t steps_per_batch = 256;

/// Inserts the keys that a plan has at its start: the share of one of several threads.
class filling_steps {
 public:
  filling_steps(const workload_plan& plan, unsigned thread, unsigned threads)
      : plan_(plan), left_(share_of(plan.loaded, thread, threads)) {}

  std::uint64_t more(bool) const noexcept { return std::min(left_.end - left_.begin, steps_per_batch); }

  step next() noexcept {
    const std::uint64_t key = plan_.keys.key(plan_.fill(left_.begin++));
    return {map_operation::insert, key, value_for(key)};
  }

 private:
  const workload_plan& plan_;
  index_range left_;
};

/// Draws operations from a plan's mix and distribution, for one thread. new_keys counts the keys that were ever
/// inserted, for plans with inserts of new keys.
class drawn_steps {
 public:
  drawn_steps(const run_request& request, unsigned thread, std::atomic<std::uint64_t>& new_keys)
      : plan_(request.plan),
        random_(request.seed, thread * 2 + 1),
        draws_(request.plan.draws, request.seed, thread, request.threads),
        new_keys_(new_keys),
        follows_(request.plan.draws.spec().kind == measure::distribution_kind::latest) {
    if (request.operations) {
      const index_range mine = share_of(*request.operations, thread, request.threads);
      left_ = mine.end - mine.begin;
    }
  }

  /// The number of steps that may be taken before the next call; 0 ends the run.
  std::uint64_t more(bool stopped) noexcept {
    const std::uint64_t batch = follows_ ? 1 : steps_per_batch;
    if (!left_) return stopped ? 0 : batch;
    const std::uint64_t now = std::min(*left_, batch);
    *left_ -= now;
    return now;
  }

  step next() noexcept {
    const map_operation op = plan_.mix.draw(random_);
    if (op == map_operation::insert && plan_.inserts_new_keys) {
      const std::uint64_t key = plan_.keys.key(new_keys_.fetch_add(1, std::memory_order_relaxed));
      return {op, key, value_for(key)};
    }
    const std::uint64_t index =
        follows_ ? draws_.next(new_keys_.load(std::memory_order_relaxed)) : draws_.next();
    const std::uint64_t key = plan_.keys.key(index);
    if (op == map_operation::scan) return {op, key, plan_.mix.draw_scan_length(random_)};
    return {op, key, op == map_operation::update ? 1 : value_for(key)};
  }

 private:
  const workload_plan& plan_;
  measure::random_generator random_;
  measure::sampler draws_;
  std::atomic<std::uint64_t>& new_keys_;
  // Where keys follow the newest one, none is drawn before the inserts of those that it follows are performed.
  const bool follows_;
  std::optional<std::uint64_t> left_;
};

/// Hands out a trace in order: each batch goes to the next thread that asks.
class traced_steps {
 public:
  traced_steps(const run_request& request, std::atomic<std::uint64_t>& cursor)
      : trace_(request.plan.trace), cursor_(cursor) {}

  std::uint64_t more(bool) noexcept {
    at_ = cursor_.fetch_add(steps_per_batch, std::memory_order_relaxed);
    return at_ >= trace_.size() ? 0 : std::min<std::uint64_t>(steps_per_batch, trace_.size() - at_);
  }

  step next() noexcept { return trace_[at_++]; }

 private:
  const std::vector<step>& trace_;
  std::atomic<std::uint64_t>& cursor_;
  std::uint64_t at_ = 0;
};

}  // namespace espalier::workload
