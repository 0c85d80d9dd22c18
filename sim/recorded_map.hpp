#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/workload/codec.hpp"
#include "sim/explore.hpp"
#include "sim/history/recorder.hpp"

namespace espalier::sim {

/// A map in a scene; its keys and values are given as numbers, which a codec translates if they are no integers. Its operations are recorded, so that its history can be
/// checked at the end of the run:
///
///     auto& map = s.make<sim::recorded<espalier::ticket<std::uint64_t, std::uint64_t, traits>>>();
///     map.start_with(1, 10);
///     s.thread("a", [&] { map.erase(1); });
///     s.thread("b", [&] { map.find(1); });
///     s.at_end([&] { map.check(); });
///
/// Recording adds no step to the run. Only the map's own code does, because these functions are not instrumented.
template <class Map,
          workload::codec Codec = workload::number_codec<typename Map::key_type, typename Map::mapped_type>>
class recorded {
  using key_type = typename Map::key_type;
  using mapped_type = typename Map::mapped_type;

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
    require(map_.insert(Codec::encode_key(key), Codec::encode_value(value)),
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

  std::optional<std::uint64_t> exchange(std::uint64_t key, std::uint64_t value) {
    return do_exchange(key, value);
  }
  std::optional<std::uint64_t> exchange(guard_type& guard, std::uint64_t key, std::uint64_t value) {
    return do_exchange(key, value, guard);
  }

  std::optional<std::uint64_t> extract(std::uint64_t key) { return do_extract(key); }
  std::optional<std::uint64_t> extract(guard_type& guard, std::uint64_t key) {
    return do_extract(key, guard);
  }

  /// Adds to the value, or inserts the amount if the key is absent. The value type must hold the sum.
  std::optional<std::uint64_t> update(std::uint64_t key, std::uint64_t amount) {
    return do_update(key, amount);
  }
  std::optional<std::uint64_t> update(guard_type& guard, std::uint64_t key, std::uint64_t amount) {
    return do_update(key, amount, guard);
  }

  /// Visits at most `most` entries; returns how many.
  std::size_t scan(std::uint64_t from, std::uint64_t most = all) {
    return do_scan(map_operation::scan, from, most);
  }
  std::size_t scan(guard_type& guard, std::uint64_t from, std::uint64_t most = all) {
    return do_scan(map_operation::scan, from, most, guard);
  }
  std::size_t reverse_scan(std::uint64_t from, std::uint64_t most = all) {
    return do_scan(map_operation::reverse_scan, from, most);
  }
  std::size_t reverse_scan(guard_type& guard, std::uint64_t from, std::uint64_t most = all) {
    return do_scan(map_operation::reverse_scan, from, most, guard);
  }

  static constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();

  /// Call when all threads have ended. Fails the run if the history, which includes the map's present contents, is not
  /// linearizable, if size() is wrong, if check_invariants() reports a fault, or if the map holds blocks that it does
  /// not reach. Reclaims the retired blocks.
  void check() {
    const std::size_t entries = scan(0);
    log_.check();
    if constexpr (requires { map_.size(); })
      require(map_.size() == entries, "size() is not the number of keys");
    if constexpr (requires { map_.check_invariants(); }) {
      if (const char* const wrong = map_.check_invariants()) fail(wrong);
    }
    if constexpr (requires { map_.domain().collect(); })
      require(map_.domain().collect() == 0, "what was retired is not given back when no thread is pinned");
    if constexpr (requires {
                    map_.usage();
                    map_.visit_nodes(count_block{});
                  }) {
      if constexpr (Map::reclaimer_type::reclaims) {
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

    [[gnu::no_sanitize_thread]] bool operator()(const key_type& key, const mapped_type& value) {
      log->visit(Codec::decode_key(key), Codec::decode_value(value));
      return --left != 0;
    }
  };

  struct adder {
    recorder* log;
    std::uint64_t amount;

    [[gnu::no_sanitize_thread]] std::optional<mapped_type> operator()(const std::optional<mapped_type>& now) {
      const std::uint64_t sum = now ? Codec::decode_value(*now) + amount : amount;
      log->stores(sum);
      return Codec::encode_value(sum);
    }
  };

  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> ended(const std::optional<mapped_type>& before) {
    std::uint64_t word = 0;
    if (before) word = Codec::decode_value(*before);
    log_.end_with(before ? &word : nullptr);
    if (!before) return std::nullopt;
    return word;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> do_find(std::uint64_t key, Guard&... guard) {
    log_.begin(map_operation::find, key);
    return ended(map_.find(guard..., Codec::encode_key(key)));
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] bool do_contains(std::uint64_t key, Guard&... guard) {
    log_.begin(map_operation::contains, key);
    const bool present = map_.contains(guard..., Codec::encode_key(key));
    log_.end(present);
    return present;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] bool do_insert(std::uint64_t key, std::uint64_t value, Guard&... guard) {
    log_.begin(map_operation::insert, key, value);
    const bool fresh = map_.insert(guard..., Codec::encode_key(key), Codec::encode_value(value));
    log_.end(fresh);
    return fresh;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] bool do_assign(std::uint64_t key, std::uint64_t value, Guard&... guard) {
    log_.begin(map_operation::insert_or_assign, key, value);
    const bool fresh = map_.insert_or_assign(guard..., Codec::encode_key(key), Codec::encode_value(value));
    log_.end(fresh);
    return fresh;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] bool do_erase(std::uint64_t key, Guard&... guard) {
    log_.begin(map_operation::erase, key);
    const bool removed = map_.erase(guard..., Codec::encode_key(key));
    log_.end(removed);
    return removed;
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> do_exchange(std::uint64_t key, std::uint64_t value,
                                                                       Guard&... guard) {
    log_.begin(map_operation::exchange, key, value);
    return ended(map_.exchange(guard..., Codec::encode_key(key), Codec::encode_value(value)));
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> do_extract(std::uint64_t key, Guard&... guard) {
    log_.begin(map_operation::extract, key);
    return ended(map_.extract(guard..., Codec::encode_key(key)));
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> do_update(std::uint64_t key, std::uint64_t amount,
                                                                     Guard&... guard) {
    log_.begin(map_operation::update, key, amount);
    return ended(map_.update(guard..., Codec::encode_key(key), adder{&log_, amount}));
  }

  template <class... Guard>
  [[gnu::no_sanitize_thread]] std::size_t do_scan(map_operation kind, std::uint64_t from, std::uint64_t most,
                                                  Guard&... guard) {
    log_.begin(kind, from);
    visitor visit{&log_, most};
    std::size_t visits = 0;
    if constexpr (bidirectional_ordered_map<Map>) {
      if (kind == map_operation::reverse_scan)
        visits = map_.reverse_scan(guard..., Codec::encode_key(from), visit);
    }
    if (kind == map_operation::scan) visits = map_.scan(guard..., Codec::encode_key(from), visit);
    log_.end_scan(visit.left != 0);
    return visits;
  }

  Map map_;
  recorder log_;
};

}  // namespace espalier::sim
