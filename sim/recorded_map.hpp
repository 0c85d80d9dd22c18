#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "sim/explore.hpp"
#include "sim/history/recorder.hpp"

namespace espalier::sim {

/// How a map's values are represented in a history, one word each. Specialise it for values that are not integers.
template <class Value>
struct recorded_value {
  static_assert(std::is_integral_v<Value>, "specialise recorded_value for values that are no integers");
  [[nodiscard]] static Value from_word(std::uint64_t word) noexcept { return static_cast<Value>(word); }
  [[nodiscard]] static std::uint64_t to_word(Value v) noexcept { return static_cast<std::uint64_t>(v); }
};

/// A map of integers in a scene. Its operations are recorded, so that its history can be checked at the end of the run:
///
///     auto& map = s.make<sim::recorded<espalier::ticket<std::uint64_t, std::uint64_t, traits>>>();
///     map.start_with(1, 10);
///     s.thread("a", [&] { map.erase(1); });
///     s.thread("b", [&] { map.find(1); });
///     s.at_end([&] { map.check(); });
///
/// Recording adds no step to the run. Only the map's own code does, because these functions are not instrumented.
template <class Map>
class recorded {
  using key_type = typename Map::key_type;
  using values = recorded_value<typename Map::mapped_type>;

 public:
  using guard_type = typename Map::guard_type;

  /// The arguments construct the map.
  template <class... Arguments>
  explicit recorded(Arguments&&... arguments) : map_(std::forward<Arguments>(arguments)...) {}
  recorded(const recorded&) = delete;
  recorded& operator=(const recorded&) = delete;

  [[nodiscard]] Map& map() noexcept { return map_; }
  [[nodiscard]] guard_type pin() { return map_.pin(); }

  /// Call while the scene is set up: adds to the contents with which the history begins.
  void start_with(std::uint64_t key, std::uint64_t value) {
    require(map_.insert(static_cast<key_type>(key), values::from_word(value)),
            "the set-up inserts a key which is there");
    log_.initial(key, value);
  }

  // The contract's operations, with a guard of the map or without.

  std::optional<std::uint64_t> find(std::uint64_t key) { return do_find(key); }
  std::optional<std::uint64_t> find(guard_type& guard, std::uint64_t key) { return do_find(key, guard); }

  bool contains(std::uint64_t key) { return do_contains(key); }
  bool contains(guard_type& guard, std::uint64_t key) { return do_contains(key, guard); }

  bool insert(std::uint64_t key, std::uint64_t value) { return do_insert(key, value); }
  bool insert(guard_type& guard, std::uint64_t key, std::uint64_t value) {
    return do_insert(key, value, guard);
  }

  bool insert_or_assign(std::uint64_t key, std::uint64_t value) { return do_assign(key, value); }
  bool insert_or_assign(guard_type& guard, std::uint64_t key, std::uint64_t value) {
    return do_assign(key, value, guard);
  }

  bool erase(std::uint64_t key) { return do_erase(key); }
  bool erase(guard_type& guard, std::uint64_t key) { return do_erase(key, guard); }

  /// Visits at most `most` entries; returns how many.
  std::size_t scan(std::uint64_t from, std::uint64_t most = all) { return do_scan(from, most); }
  std::size_t scan(guard_type& guard, std::uint64_t from, std::uint64_t most = all) {
    return do_scan(from, most, guard);
  }

  static constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();

  /// Call when all threads have ended. Fails the run if the history, which includes the map's present contents, is not
  /// linearizable, if check_invariants() reports a fault, or if the map holds blocks that it does not reach. Reclaims
  /// the retired blocks.
  void check() {
    scan(0);
    log_.check();
    if constexpr (requires { map_.check_invariants(); }) {
      if (const char* const wrong = map_.check_invariants()) fail(wrong);
    }
    if constexpr (requires { map_.domain().collect(); })
      require(map_.domain().collect() == 0, "what was retired is not given back when no thread is pinned");
    if constexpr (requires {
                    map_.usage();
                    map_.visit_nodes(count_block{});
                  }) {
      if constexpr (Map::reclaimer_type::gives_back) {
        std::uint64_t reached = 0;
        map_.visit_nodes(count_block{&reached});
        require(map_.usage().blocks == reached, "the map holds a block that it does not reach");
      }
    }
  }

 private:
  struct count_block {
    std::uint64_t* reached;
    void operator()(const void*, std::size_t, memory_role) const noexcept { ++*reached; }
  };

  struct visitor {
    recorder* log;
    std::uint64_t left;

    [[gnu::no_sanitize_thread]] bool operator()(const key_type& key, const typename Map::mapped_type& value) {
      log->visit(static_cast<std::uint64_t>(key), values::to_word(value));
      return --left != 0;
    }
  };

  template <class... Guard>
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> do_find(std::uint64_t key, Guard&... guard) {
    log_.begin(operation_kind::find, key);
    const std::optional<typename Map::mapped_type> found = map_.find(guard..., static_cast<key_type>(key));
    std::uint64_t word = 0;
    if (found) word = values::to_word(*found);
    log_.end_find(found ? &word : nullptr);
    if (!found) return std::nullopt;
    return word;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] bool do_contains(std::uint64_t key, Guard&... guard) {
    log_.begin(operation_kind::contains, key);
    const bool present = map_.contains(guard..., static_cast<key_type>(key));
    log_.end(present);
    return present;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] bool do_insert(std::uint64_t key, std::uint64_t value, Guard&... guard) {
    log_.begin(operation_kind::insert, key, value);
    const bool fresh = map_.insert(guard..., static_cast<key_type>(key), values::from_word(value));
    log_.end(fresh);
    return fresh;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] bool do_assign(std::uint64_t key, std::uint64_t value, Guard&... guard) {
    log_.begin(operation_kind::insert_or_assign, key, value);
    const bool fresh = map_.insert_or_assign(guard..., static_cast<key_type>(key), values::from_word(value));
    log_.end(fresh);
    return fresh;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] bool do_erase(std::uint64_t key, Guard&... guard) {
    log_.begin(operation_kind::erase, key);
    const bool removed = map_.erase(guard..., static_cast<key_type>(key));
    log_.end(removed);
    return removed;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] std::size_t do_scan(std::uint64_t from, std::uint64_t most, Guard&... guard) {
    log_.begin(operation_kind::scan, from);
    visitor visit{&log_, most};
    const std::size_t visits = map_.scan(guard..., static_cast<key_type>(from), visit);
    log_.end_scan(visit.left != 0);
    return visits;
  }

  Map map_;
  recorder log_;
};

}  // namespace espalier::sim
