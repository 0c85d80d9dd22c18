#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/delegation/partitioned_structure.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

// partitioned<Map>: a map in partitions, one or more for each locality. Its operations move to the locality of the key
// (delegation/runtime.hpp; Ren and Parmer, Middleware 2019):
//
//     espalier::delegation::runtime threads(espalier::delegation::localities::numa_nodes());
//     espalier::partitioned<espalier::ordered_map<std::uint64_t, std::uint64_t>> map(threads);
//
// What differs from the contract (map_concept.hpp):
//
//   where code runs    A function of update() or find_or_compute() and the copies of values run in a thread of the key's
//                      partition, which may be any thread that waits in the runtime; visitors of scans and finds run in the
//                      calling thread.
//   guards             They protect nothing and cost nothing: each operation pins in its partition.
//   one key            As in the map of the partition: linearizable, and atomic.
//   several keys       first, last, lower_bound, upper_bound, empty and size ask all partitions, one after the other:
//                      map_properties::asks_partitions. Scans merge the partitions, each of which they read as its map is read.
//   batches            Each partition gets one message with all of its keys. They take effect in the caller's order within a
//                      partition; if one throws, some of the others may have taken effect.
//
// Keys are divided by their hash where the comparator is the usual one, because equivalent keys are equal then. With a
// comparator of its own a map has all keys in one partition, unless the program gives another route.
//
// Progress: blocking. A thread waits for the one that runs its operation (runtime.hpp).

namespace espalier {

namespace detail {

/// What is known of the nodes of a map.
template <class Map>
struct nodes_of {};
template <class Map>
  requires requires { Map::node_bytes; }
struct nodes_of<Map> {
  static constexpr std::size_t node_bytes = Map::node_bytes;
  [[nodiscard]] static std::vector<node_type> node_types() { return node_types_of<Map>(); }
};
template <class Map>
inline constexpr unsigned node_entries_of = 1;
template <class Map>
  requires requires { Map::node_entries; }
inline constexpr unsigned node_entries_of<Map> = Map::node_entries;

[[nodiscard]] constexpr map_properties partitioned_properties(const map_properties& inner) noexcept {
  return {.name = "partitioned",
          .find_progress = progress::blocking,
          .update_progress = progress::blocking,
          .shape = inner.shape,
          .region_protection = false,
          .paper =
              "Ren and Parmer, Scalable Data-structures with Hierarchical, Distributed Delegation, "
              "Middleware 2019",
          .reads_beside_writers = inner.reads_beside_writers,
          .updates_await_reads = inner.updates_await_reads,
          .exchanges = inner.exchanges,
          .bidirectional = inner.bidirectional,
          .asks_partitions = true,
          .linear = inner.linear};
}

}  // namespace detail

template <class Map, class Route = detail::usual_route<Map>>
class partitioned
    : public map_facade<partitioned<Map, Route>, typename Map::key_type, typename Map::mapped_type,
                        typename Map::key_compare, no_guard, uncounted_size>,
      public detail::partitioned_structure<Map, Route>,
      public detail::nodes_of<Map> {
  using facade = map_facade<partitioned, typename Map::key_type, typename Map::mapped_type,
                            typename Map::key_compare, no_guard, uncounted_size>;
  friend facade;
  using Key = typename Map::key_type;
  using Value = typename Map::mapped_type;
  using Compare = typename Map::key_compare;
  using carried = detail::carried_key<typename facade::key_view>;
  using structure = detail::partitioned_structure<Map, Route>;
  using typename structure::part;

 public:
  using structure::parts;
  using typename structure::parts_type;
  using map_type = Map;
  using traits_type = typename Map::traits_type;
  using reclaimer_type = unprotected;
  using typename facade::guard_type;
  using typename facade::key_view;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = default_order<K>, class T = traits_type>
  using rebind = partitioned<typename Map::template rebind<K, V, C, T>>;

  static constexpr map_properties properties = detail::partitioned_properties(Map::properties);
  static constexpr unsigned node_entries = detail::node_entries_of<Map>;

  /// In the localities of a runtime, which outlives the map; `partitions` is their number in all, 0 one for each locality.
  /// Throws std::bad_alloc.
  explicit partitioned(delegation::runtime& threads, unsigned partitions = 0, Route route = {},
                       const Compare& less = Compare())
    requires std::is_default_constructible_v<Compare>
      : facade(less), structure(threads, partitions, std::move(route), less) {}

  /// With a runtime of its own that has two localities, to which threads come in turn. The domain is not used; with it every
  /// map is constructed in the same way.
  explicit partitioned(reclaimer_type* /*domain*/ = nullptr) : partitioned(Compare()) {}
  explicit partitioned(const Compare& less, reclaimer_type* /*domain*/ = nullptr)
      : facade(less), structure(less) {}
  /// No other thread may use the map any more.
  ~partitioned() = default;

  [[nodiscard]] guard_type pin() const noexcept { return {}; }

  // Quiescent only, for tests and inspection.

  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    for (unsigned i = 0; i < parts().count(); ++i) parts()[i].visit_nodes(visitor);
  }
  /// Of the first partition: each has one of its own, of the same type.
  [[nodiscard]] const auto& placement() const noexcept
    requires requires(const Map& map) { map.placement(); }
  {
    return parts()[0].placement();
  }

 private:
  [[nodiscard]] std::optional<Value> do_find(guard_type&, key_view key) const {
    return parts().call(key, [k = carried(key)](part& m) { return m.find(*k); });
  }
  [[nodiscard]] bool do_contains(guard_type&, key_view key) const {
    return parts().call(key, [k = carried(key)](part& m) { return m.contains(*k); });
  }
  // A value is moved from, or copied, where it lies: the caller waits.
  template <class Source>
  bool do_insert(guard_type&, key_view key, Source&& value) {
    return parts().call(
        key, [k = carried(key), &value](part& m) { return m.insert(*k, std::forward<Source>(value)); });
  }
  template <class Source>
  bool do_assign(guard_type&, key_view key, Source&& value) {
    return parts().call(key, [k = carried(key), &value](part& m) {
      return m.insert_or_assign(*k, std::forward<Source>(value));
    });
  }
  bool do_erase(guard_type&, key_view key) {
    return parts().call(key, [k = carried(key)](part& m) { return m.erase(*k); });
  }
  template <class Function>
  std::optional<Value> do_update(guard_type&, key_view key, Function&& f) {
    const auto changed = [&f](const std::optional<Value>& now) { return apply(f, now); };
    return parts().call(key, [k = carried(key), &changed](part& m) { return m.update(*k, changed).before; });
  }
  /// A call, as it comes from a message anyway: inlined, g++ 12 would see reads of the value of an empty std::optional.
  template <class Function>
  [[gnu::noinline]] static std::optional<Value> apply(Function& f, const std::optional<Value>& now) {
    return f(now);
  }

  using bare_key = std::remove_cvref_t<key_view>;

  /// The elements of one batch, those of each partition together and in the caller's order.
  class division {
   public:
    template <class KeyAt>
    division(parts_type& parts, std::size_t n, const KeyAt& key_at) : parts_(parts), n_(n) {
      for (std::size_t i = 0; i < n; ++i) {
        const unsigned its = parts.index_of(key_at(i));
        std::size_t at = i;
        for (; at != 0 && partition_[at - 1] > its; --at) {
          partition_[at] = partition_[at - 1];
          position_[at] = position_[at - 1];
        }
        partition_[at] = its;
        position_[at] = static_cast<std::uint8_t>(i);
      }
    }
    /// Where the element is in the caller's order.
    [[nodiscard]] std::size_t position(std::size_t at) const noexcept { return position_[at]; }

    /// Runs operation(map, begin, end) on each partition that has elements, and returns the sum of the results.
    template <class Operation>
    std::size_t run(const Operation& operation) const {
      delegation::awaited_together<std::size_t, together_most> answers(parts_.threads());
      const unsigned here = parts_.threads().here();
      // First those that other threads run.
      for (const bool local : {false, true}) {
        for (std::size_t begin = 0, end = 0; begin < n_; begin = end) {
          const unsigned its = partition_[begin];
          while (end < n_ && partition_[end] == its) ++end;
          if ((parts_.locality_of(its) == here) != local) continue;
          answers.add(begin, parts_.execute_at(its, [&operation, begin, end](part& m) {
            return operation(m, begin, end);
          }));
        }
      }
      std::size_t sum = 0;
      std::exception_ptr thrown;
      answers.take(thrown, [&sum](std::size_t result) { sum += result; });
      if (thrown) std::rethrow_exception(thrown);
      return sum;
    }

   private:
    parts_type& parts_;
    std::size_t n_;
    std::array<std::uint8_t, together_most> position_;
    std::array<unsigned, together_most> partition_;
  };
  /// Calls each(batch) with at most together_most elements at a time, and returns the sum of the results.
  template <class Element, class Each>
  static std::size_t in_batches(std::span<const Element> elements, const Each& each) {
    std::size_t sum = 0;
    for (std::size_t first = 0; first < elements.size(); first += together_most)
      sum += each(elements.subspan(first, std::min(together_most, elements.size() - first)));
    return sum;
  }
  /// Copies of the elements in the order of a division.
  template <class Element>
  static std::array<Element, together_most> in_order(const division& by, std::span<const Element> elements) {
    std::array<Element, together_most> ordered;
    for (std::size_t i = 0; i < elements.size(); ++i) ordered[i] = elements[by.position(i)];
    return ordered;
  }

  // One message to each partition that has keys of the batch.
  std::size_t do_find_batch(guard_type&, std::span<const bare_key> keys,
                            std::span<std::optional<Value>> results) const
    requires std::is_default_constructible_v<bare_key>
  {
    return in_batches(keys, [&](std::span<const bare_key> some) {
      const auto offset = static_cast<std::size_t>(some.data() - keys.data());
      const division by(parts(), some.size(), [&](std::size_t i) -> const bare_key& { return some[i]; });
      const auto ordered = in_order(by, some);
      std::array<std::optional<Value>, together_most> found;
      const std::size_t present = by.run([&](part& m, std::size_t begin, std::size_t end) {
        return m.find_batch({ordered.data() + begin, end - begin}, {found.data() + begin, end - begin});
      });
      for (std::size_t i = 0; i < some.size(); ++i) {
        std::optional<Value>& to = results[offset + by.position(i)];
        to.reset();
        if (found[i]) to.emplace(std::move(*found[i]));
      }
      return present;
    });
  }
  std::size_t do_insert_batch(guard_type&, std::span<const typename facade::value_type> entries)
    requires std::is_default_constructible_v<typename facade::value_type> &&
             std::is_trivially_copyable_v<typename facade::value_type>
  {
    using entry = typename facade::value_type;
    return in_batches(entries, [&](std::span<const entry> some) {
      const division by(parts(), some.size(), [&](std::size_t i) -> key_view { return some[i].key; });
      const auto ordered = in_order(by, some);
      return by.run([&](part& m, std::size_t begin, std::size_t end) {
        return m.insert_batch({ordered.data() + begin, end - begin});
      });
    });
  }
  std::size_t do_erase_batch(guard_type&, std::span<const bare_key> keys)
    requires std::is_default_constructible_v<bare_key>
  {
    return in_batches(keys, [&](std::span<const bare_key> some) {
      const division by(parts(), some.size(), [&](std::size_t i) -> const bare_key& { return some[i]; });
      const auto ordered = in_order(by, some);
      return by.run([&](part& m, std::size_t begin, std::size_t end) {
        return m.erase_batch({ordered.data() + begin, end - begin});
      });
    });
  }

  [[nodiscard]] std::size_t do_size() const {
    return parts().broadcast(std::size_t{0}, [](part& m) { return m.size(); }, std::plus<std::size_t>());
  }

  /// What a scan has of one partition.
  template <class Bound>
  struct stream {
    entry_batch<Key, Value> batch;
    std::size_t at = 0;
    std::optional<Bound> next;  ///< nothing when the partition has no more
    std::optional<Key> last;

    [[nodiscard]] bool is_empty() const noexcept { return at == batch.size(); }
    [[nodiscard]] const map_entry<Key, Value>& entry() const noexcept { return batch.begin()[at]; }

    /// In the partition.
    void fill(const Map& m, std::size_t most) {
      at = 0;
      batch.clear();
      const Bound from = *next;
      const auto add = [&](const auto& key, const Value& value) {
        if (from.admits(key)) batch.add(key, value);
        return batch.size() != most;
      };
      if constexpr (Bound::reverse) {
        if (from.key())
          m.reverse_scan(*from.key(), add);
        else
          m.reverse_scan(add);
      } else {
        if (from.key())
          m.scan(*from.key(), add);
        else
          m.scan(add);
      }
      if (batch.size() != most) return next.reset();
      last.reset();
      last.emplace((batch.end() - 1)->key);
      next->move_behind(*last);
    }
  };

  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    constexpr bool one = is_first_only<std::remove_cvref_t<Visit>>;
    constexpr std::size_t most = one ? 1 : entry_batch<Key, Value>::capacity;
    detail::one_for_each<stream<Bound>> streams(parts().count());
    stream<Bound>* const all = streams.begin();
    for (stream<Bound>& s : streams) s.next.emplace(bound);
    const auto fill = [this, all](unsigned i) {
      parts().call_at(i, [s = &all[i]](part& m) { s->fill(m, most); });
    };
    {
      // All partitions at the same time.
      parts().broadcast(
          0U,
          [this, all](part& m) {
            unsigned i = 0;
            while (&parts()[i] != &m) ++i;
            all[i].fill(m, most);
            return 0U;
          },
          [](unsigned, unsigned) { return 0U; });
    }
    while (true) {
      stream<Bound>* least = nullptr;
      for (unsigned i = 0; i < parts().count(); ++i) {
        stream<Bound>& s = all[i];
        if (s.is_empty() && s.next) fill(i);
        if (s.is_empty()) continue;
        if (least == nullptr || bound.precedes(s.entry().key, least->entry().key)) least = &s;
      }
      if (least == nullptr || !visit(least->entry().key, least->entry().value)) return;
      ++least->at;
    }
  }
};

}  // namespace espalier
