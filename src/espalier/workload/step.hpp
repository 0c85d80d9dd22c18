#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "espalier/hw/opaque.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/workload/codec.hpp"
#include "espalier/workload/operation_mix.hpp"
#include "espalier/workload/plan.hpp"
#include "espalier/workload/trace.hpp"

// The operations of a plan in sequence, as each thread of a run receives them.

namespace espalier::workload {

/// One operation, drawn or replayed.
struct step {
  map_operation op;
  std::uint64_t key;
  std::uint64_t argument;  // the value to store, the amount to add, or how many keys to scan
};

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

  step next() noexcept {
    const trace_record& r = trace_[at_++];
    return {r.operation, r.key, r.argument};
  }

 private:
  const std::vector<trace_record>& trace_;
  std::atomic<std::uint64_t>& cursor_;
  std::uint64_t at_ = 0;
};

namespace detail {

template <codec Codec, class Value>
[[nodiscard, gnu::always_inline]] inline std::uint64_t number_of(const std::optional<Value>& value) {
  // A branch in the middle of the map's code would measure what no processor foresees.
  return hw::opaque(value.has_value()) ? Codec::decode_value(*value) : 0;
}

/// Performs a step of one kind, but no find. Each kind is a function of its own: inlined into the loop of a find, which may
/// be short, they would take registers from it.
template <map_operation Op, codec Codec, class Map>
[[gnu::noinline]] std::uint64_t apply_one(Map& map, const step& s) {
  using value = typename Map::mapped_type;
  const auto key = Codec::encode_key(s.key);
  if constexpr (Op == map_operation::contains) {
    return map.contains(key) ? 1 : 0;
  } else if constexpr (Op == map_operation::insert) {
    return map.insert(key, Codec::encode_value(s.argument)) ? 1 : 0;
  } else if constexpr (Op == map_operation::insert_or_assign) {
    return map.insert_or_assign(key, Codec::encode_value(s.argument)) ? 1 : 0;
  } else if constexpr (Op == map_operation::erase) {
    return map.erase(key) ? 1 : 0;
  } else if constexpr (Op == map_operation::exchange) {
    return number_of<Codec>(map.exchange(key, Codec::encode_value(s.argument)));
  } else if constexpr (Op == map_operation::extract) {
    return number_of<Codec>(map.extract(key));
  } else if constexpr (Op == map_operation::update) {
    const auto add = [&](const std::optional<value>& v) {
      return Codec::encode_value(number_of<Codec>(v) + s.argument);
    };
    if constexpr (exchanging_ordered_map<Map>)
      return number_of<Codec>(map.update(key, add).before);
    else
      return map.insert_or_assign(key, add(map.find(key))) ? 1 : 0;
  } else {
    static_assert(Op == map_operation::scan);
    std::uint64_t sum = 0;
    std::uint64_t left = s.argument;
    if (left != 0) {
      map.scan(key, [&](const auto&, const value& v) {
        sum += Codec::decode_value(v);
        return --left != 0;
      });
    }
    return sum;
  }
}

}  // namespace detail

/// Performs a step on a map, whose keys and values the codec makes. The caller sums the results, so that no operation can
/// be optimised away. An update adds the argument to the value; on a map that does not exchange, it is a find and an
/// insert_or_assign, together not atomic. Throws std::logic_error for an exchange or extract on such a map, and for a
/// reverse_scan, which no workload has.
template <codec Codec = number_codec<>, class Map>
[[gnu::always_inline]] inline std::uint64_t apply(Map& map, const step& s) {
  using enum map_operation;
  switch (s.op) {
    case find:
      return detail::number_of<Codec>(map.find(Codec::encode_key(s.key)));
    case contains:
      return detail::apply_one<contains, Codec>(map, s);
    case insert:
      return detail::apply_one<insert, Codec>(map, s);
    case insert_or_assign:
      return detail::apply_one<insert_or_assign, Codec>(map, s);
    case erase:
      return detail::apply_one<erase, Codec>(map, s);
    case exchange:
      if constexpr (exchanging_ordered_map<Map>) return detail::apply_one<exchange, Codec>(map, s);
      break;
    case extract:
      if constexpr (exchanging_ordered_map<Map>) return detail::apply_one<extract, Codec>(map, s);
      break;
    case update:
      return detail::apply_one<update, Codec>(map, s);
    case scan:
      return detail::apply_one<scan, Codec>(map, s);
    case reverse_scan:
      break;
  }
  throw std::logic_error(std::string(to_string(s.op)).append(" on a map that has none"));
}

}  // namespace espalier::workload
