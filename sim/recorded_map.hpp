#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "espalier/catalog/codec.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "sim/explore.hpp"
#include "sim/history/recorder.hpp"

namespace espalier::sim {

/// The operations of a recorded map, without a guard or with one.
template <class Map, class Codec, class... Guard>
class recorded_operations {
  using key_type = typename Map::key_type;
  using mapped_type = typename Map::mapped_type;

 public:
  static constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();

  recorded_operations(Map& map, recorder& log) noexcept : map_(map), log_(log) {}

  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> find(Guard&... guard, std::uint64_t key) {
    log_.begin(map_operation::find, key);
    return ended(find_in(map_, guard..., key));
  }
  /// A find that is one of a batch.
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> find_together(Guard&... guard, std::uint64_t key) {
    log_.begin(map_operation::find, key);
    return ended(find_together_in(map_, guard..., key));
  }
  [[gnu::no_sanitize_thread]] bool contains(Guard&... guard, std::uint64_t key) {
    log_.begin(map_operation::contains, key);
    return ended(map_.contains(guard..., Codec::encode_key(key)));
  }
  [[gnu::no_sanitize_thread]] bool insert(Guard&... guard, std::uint64_t key, std::uint64_t value) {
    log_.begin(map_operation::insert, key, value);
    return ended(map_.insert(guard..., Codec::encode_key(key), Codec::encode_value(value)));
  }
  [[gnu::no_sanitize_thread]] bool insert_or_assign(Guard&... guard, std::uint64_t key, std::uint64_t value) {
    log_.begin(map_operation::insert_or_assign, key, value);
    return ended(map_.insert_or_assign(guard..., Codec::encode_key(key), Codec::encode_value(value)));
  }
  [[gnu::no_sanitize_thread]] bool erase(Guard&... guard, std::uint64_t key) {
    log_.begin(map_operation::erase, key);
    return ended(map_.erase(guard..., Codec::encode_key(key)));
  }
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> exchange(Guard&... guard, std::uint64_t key,
                                                                    std::uint64_t value) {
    log_.begin(map_operation::exchange, key, value);
    return ended(map_.exchange(guard..., Codec::encode_key(key), Codec::encode_value(value)));
  }
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> extract(Guard&... guard, std::uint64_t key) {
    log_.begin(map_operation::extract, key);
    return ended(map_.extract(guard..., Codec::encode_key(key)));
  }
  /// Adds to the value, or inserts the amount if the key is absent. The value type must hold the sum.
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> update(Guard&... guard, std::uint64_t key,
                                                                  std::uint64_t amount) {
    log_.begin(map_operation::update, key, amount);
    return ended(map_.update(guard..., Codec::encode_key(key), adder{&log_, amount}).before);
  }
  /// Visits at most `most` entries; returns how many.
  [[gnu::no_sanitize_thread]] std::size_t scan(Guard&... guard, std::uint64_t from,
                                               std::uint64_t most = all) {
    log_.begin(map_operation::scan, from);
    visitor visit{&log_, most};
    const std::size_t visits = map_.scan(guard..., Codec::encode_key(from), visit);
    log_.end_scan(visit.left != 0);
    return visits;
  }
  [[gnu::no_sanitize_thread]] std::size_t reverse_scan(Guard&... guard, std::uint64_t from,
                                                       std::uint64_t most = all) {
    log_.begin(map_operation::reverse_scan, from);
    visitor visit{&log_, most};
    const std::size_t visits = map_.reverse_scan(guard..., Codec::encode_key(from), visit);
    log_.end_scan(visit.left != 0);
    return visits;
  }

 private:
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

  /// Inlined into a function that is not instrumented, as map.find() always is, the map's code would not be either.
  [[gnu::noinline]] static std::optional<mapped_type> find_in(Map& map, Guard&... guard, std::uint64_t key) {
    return map.find(guard..., Codec::encode_key(key));
  }
  [[gnu::noinline]] static std::optional<mapped_type> find_together_in(Map& map, Guard&... guard,
                                                                       std::uint64_t key) {
    const auto encoded = Codec::encode_key(key);
    const std::remove_cvref_t<typename Map::key_view> sought(encoded);
    std::optional<mapped_type> found;
    const std::size_t present = map.find_batch(guard..., std::span(&sought, 1), std::span(&found, 1));
    require(present == std::size_t{found.has_value()},
            "a batch has found another number of keys than it says");
    return found;
  }

  [[gnu::no_sanitize_thread]] bool ended(bool result) {
    log_.end(result);
    return result;
  }
  [[gnu::no_sanitize_thread]] std::optional<std::uint64_t> ended(const std::optional<mapped_type>& before) {
    std::uint64_t word = 0;
    if (before) word = Codec::decode_value(*before);
    log_.end_with(before ? &word : nullptr);
    if (!before) return std::nullopt;
    return word;
  }

  Map& map_;
  recorder& log_;
};

/// A map in a scene; its keys and values are given as numbers, which a codec translates if they are no integers. Its
/// operations are recorded, so that its history can be checked at the end of the run:
///
///     auto& map = s.make<sim::recorded<espalier::ticket<std::uint64_t, std::uint64_t, traits>>>();
///     map.start_with(1, 10);
///     s.thread("a", [&] { map.erase(1); });
///     s.thread("b", [&] { map.find(1); });
///     s.at_end([&] { map.check(); });
///
/// Recording adds no step to the run. Only the map's own code does, because these functions are not instrumented.
template <class Map,
          catalog::codec Codec = catalog::number_codec<typename Map::key_type, typename Map::mapped_type>>
class recorded : recorded_operations<Map, Codec>, recorded_operations<Map, Codec, typename Map::guard_type> {
  using plain = recorded_operations<Map, Codec>;
  using guarded = recorded_operations<Map, Codec, typename Map::guard_type>;

 public:
  using guard_type = typename Map::guard_type;

  /// The arguments construct the map.
  template <class... Arguments>
  explicit recorded(Arguments&&... arguments)
      : plain(map_, log_), guarded(map_, log_), map_(std::forward<Arguments>(arguments)...) {}
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
  using guarded::contains, guarded::erase, guarded::exchange, guarded::extract, guarded::find,
      guarded::find_together, guarded::insert, guarded::insert_or_assign, guarded::reverse_scan,
      guarded::scan, guarded::update;
  using plain::all;
  using plain::contains, plain::erase, plain::exchange, plain::extract, plain::find, plain::find_together,
      plain::insert, plain::insert_or_assign, plain::reverse_scan, plain::scan, plain::update;

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

  Map map_;
  recorder log_;
};

}  // namespace espalier::sim
