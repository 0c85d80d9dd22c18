#pragma once

#include <algorithm>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "support/codec.hpp"
#include "support/subject.hpp"
#include "support/suite.hpp"

namespace espalier::test {

template <class Map, catalog::ordered_codec Codec>
using rebind_to_codec = typename Map::template rebind<typename Codec::key_type, typename Codec::value_type,
                                                      decltype(Codec::order())>;

/// Which forms of the contract are compiled. With `guarded` alone, a call without a guard is one with a guard of its own.
enum class call_forms : bool { guarded, both };

/// The operations of a map, without a guard, or with the given one, or with one for each call.
template <class Map, class Codec, class... Guard>
class operations_of final : public operations {
  using map_key = typename Codec::key_type;
  using map_value = typename Codec::value_type;

 public:
  explicit operations_of(Map& map, typename Map::guard_type* guard = nullptr) noexcept
      : map_(map), guard_(guard) {}

  std::optional<value> find(key k) override {
    return decoded(call([&](Guard&... g) { return map_.find(g..., Codec::encode_key(k)); }));
  }
  bool contains(key k) override {
    return call([&](Guard&... g) { return map_.contains(g..., Codec::encode_key(k)); });
  }
  std::size_t find_batch(std::span<const key> keys, std::span<std::optional<value>> results) override {
    std::vector<decltype(Codec::encode_key(0))> encoded_keys;
    for (const key k : keys) encoded_keys.push_back(Codec::encode_key(k));
    const std::vector<std::remove_cvref_t<typename Map::key_view>> of_map(encoded_keys.begin(),
                                                                          encoded_keys.end());
    std::vector<std::optional<map_value>> found;
    for (const std::optional<value>& v : results) found.push_back(encoded(v));
    const std::size_t present = call([&](Guard&... g) { return map_.find_batch(g..., of_map, found); });
    std::transform(found.begin(), found.end(), results.begin(), decoded);
    return present;
  }
  std::optional<entry_pair> lower_bound(key k) override {
    return decoded_entry(call([&](Guard&... g) { return map_.lower_bound(g..., Codec::encode_key(k)); }));
  }
  std::optional<entry_pair> first() override {
    return decoded_entry(call([&](Guard&... g) { return map_.first(g...); }));
  }
  bool insert(key k, value v) override {
    return call([&](Guard&... g) { return map_.insert(g..., Codec::encode_key(k), Codec::encode_value(v)); });
  }
  bool try_emplace(key k, value v) override {
    return call(
        [&](Guard&... g) { return map_.try_emplace(g..., Codec::encode_key(k), Codec::encode_value(v)); });
  }
  bool insert_or_assign(key k, value v) override {
    return call([&](Guard&... g) {
      return map_.insert_or_assign(g..., Codec::encode_key(k), Codec::encode_value(v));
    });
  }
  bool erase(key k) override {
    return call([&](Guard&... g) { return map_.erase(g..., Codec::encode_key(k)); });
  }
  std::size_t scan(key from, function_ref<bool(key, value)> visit) override {
    return call([&](Guard&... g) { return map_.scan(g..., Codec::encode_key(from), decoding<bool>(visit)); });
  }
  std::size_t scan(key from, key to, function_ref<bool(key, value)> visit) override {
    return call([&](Guard&... g) {
      return map_.scan(g..., Codec::encode_key(from), Codec::encode_key(to), decoding<bool>(visit));
    });
  }
  std::size_t scan_to_end(key from, function_ref<void(key, value)> visit) override {
    return call([&](Guard&... g) { return map_.scan(g..., Codec::encode_key(from), decoding<void>(visit)); });
  }

  void for_each(function_ref<bool(key, value)> visit) override {
    for (const auto& [k, v] : map_) {
      if (!visit(Codec::decode_key(k), Codec::decode_value(v))) break;
    }
  }
  std::size_t size() override { return map_.size(); }
  bool empty() override { return map_.empty(); }
  void clear() override { map_.clear(); }

  [[nodiscard]] const map_properties& properties() const override { return Map::properties; }
  std::optional<entry_pair> last() override {
    if constexpr (Map::properties.bidirectional) {
      return decoded_entry(call([&](Guard&... g) { return map_.last(g...); }));
    }
    refuse();
  }
  std::size_t reverse_scan(key from, function_ref<bool(key, value)> visit) override {
    if constexpr (Map::properties.bidirectional) {
      return call([&](Guard&... g) {
        return map_.reverse_scan(g..., Codec::encode_key(from), decoding<bool>(visit));
      });
    }
    refuse();
  }
  std::size_t reverse_scan(key from, key to, function_ref<bool(key, value)> visit) override {
    if constexpr (Map::properties.bidirectional) {
      return call([&](Guard&... g) {
        return map_.reverse_scan(g..., Codec::encode_key(from), Codec::encode_key(to), decoding<bool>(visit));
      });
    }
    refuse();
  }
  std::optional<value> exchange(key k, value v) override {
    if constexpr (Map::properties.exchanges) {
      return decoded(call(
          [&](Guard&... g) { return map_.exchange(g..., Codec::encode_key(k), Codec::encode_value(v)); }));
    }
    refuse();
  }
  std::optional<value> extract(key k) override {
    if constexpr (Map::properties.exchanges) {
      return decoded(call([&](Guard&... g) { return map_.extract(g..., Codec::encode_key(k)); }));
    }
    refuse();
  }
  std::optional<value> update(key k, function_ref<std::optional<value>(std::optional<value>)> f) override {
    if constexpr (Map::properties.exchanges) {
      const auto translated = [&](const std::optional<map_value>& now) { return encoded(f(decoded(now))); };
      return decoded(
          call([&](Guard&... g) { return map_.update(g..., Codec::encode_key(k), translated).before; }));
    }
    refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    throw std::logic_error(std::string(Map::properties.name).append(" has no such operation"));
  }
  static std::optional<value> decoded(const std::optional<map_value>& v) {
    return v ? std::optional(Codec::decode_value(*v)) : std::nullopt;
  }
  static std::optional<map_value> encoded(const std::optional<value>& v) {
    return v ? std::optional(Codec::encode_value(*v)) : std::nullopt;
  }
  static std::optional<entry_pair> decoded_entry(const std::optional<map_entry<map_key, map_value>>& e) {
    return e ? std::optional<entry_pair>({Codec::decode_key(e->key), Codec::decode_value(e->value)})
             : std::nullopt;
  }
  template <class Result>
  static auto decoding(function_ref<Result(key, value)> visit) {
    return [visit](const map_key& k, const map_value& v) -> Result {
      return visit(Codec::decode_key(k), Codec::decode_value(v));
    };
  }
  template <class Call>
  auto call(Call&& body) {
    if constexpr (sizeof...(Guard) == 0) {
      return body();
    } else {
      if (guard_ != nullptr) return body(*guard_);
      auto own = map_.pin();
      return body(own);
    }
  }

  Map& map_;
  typename Map::guard_type* guard_;
};

template <class Map, class Codec>
class position_of final : public position {
 public:
  explicit position_of(const Map& map) noexcept : at_(map) {}

  void seek(key k) override { at_.seek(Codec::encode_key(k)); }
  void seek_first() override { at_.seek_first(); }
  void next() override { at_.next(); }
  std::optional<entry_pair> entry() override {
    if (!at_) return std::nullopt;
    return entry_pair{Codec::decode_key(at_.key()), Codec::decode_value(at_.value())};
  }
  void seek_last() override {
    if constexpr (Map::properties.bidirectional) at_.seek_last();
  }
  void previous() override {
    if constexpr (Map::properties.bidirectional) at_.previous();
  }

 private:
  typename Map::cursor at_;
};

template <class Map>
concept takes_domain = requires(typename Map::reclaimer_type* domain) { Map(domain); };

template <class Map, class Codec, call_forms Forms>
class subject_of final : public subject {
 public:
  explicit subject_of(const std::shared_ptr<void>& domain)
      : domain_(domain), map_(construct(domain.get())), plain_(map_) {}
  template <class... Arguments>
  subject_of(std::shared_ptr<void> domain, const Arguments&... for_the_map)
      : domain_(std::move(domain)), map_(for_the_map...), plain_(map_) {}

  operations& plain() override { return plain_; }
  void with_guard(function_ref<void(operations&)> body) override {
    auto guard = map_.pin();
    guarded_operations guarded(map_, &guard);
    body(guarded);
  }
  void with_cursor(function_ref<void(position&)> body) override {
    position_of<Map, Codec> at(map_);
    body(at);
  }
  void for_each_in(key from, std::optional<key> to, function_ref<void(key, value)> visit) override {
    const auto range = to ? map_.range(Codec::encode_key(from), Codec::encode_key(*to))
                          : map_.range(Codec::encode_key(from));
    for (const auto& [k, v] : range) visit(Codec::decode_key(k), Codec::decode_value(v));
  }
  void bulk_load(std::span<const entry_pair> entries, unsigned threads) override {
    std::vector<typename Map::value_type> encoded;
    for (const auto& [k, v] : entries)
      encoded.push_back({typename Map::key_type(Codec::encode_key(k)), Codec::encode_value(v)});
    map_.bulk_load(encoded, threads);
  }
  void visit_blocks(function_ref<void(const void*, std::size_t, memory_role)> visit) override {
    map_.visit_nodes(visit);
  }
  const char* check_invariants() override { return map_.check_invariants(); }
  memory_usage usage() override { return map_.usage(); }
  std::size_t collect() override {
    if constexpr (requires { map_.collect(); }) return map_.collect();
    if constexpr (requires { map_.domain().collect(); }) return map_.domain().collect();
    return 0;
  }
  std::string reclaimer_state() override {
    if constexpr (requires { map_.domain().statistics(); }) {
      const auto s = map_.domain().statistics();
      std::ostringstream out;
      out << "pinned threads " << s.pinned_threads << ", retired " << s.retired << ", reclaimed "
          << s.reclaimed;
      if (s.oldest) {
        out << "; furthest behind: slot " << s.oldest->slot << " (thread " << s.oldest->thread << ") by "
            << s.oldest->lag << ", advances refused " << s.oldest->refusals;
      }
      return out.str();
    }
    return "unavailable";
  }
  std::optional<reclaimer_figures> reclaimed() override {
    if constexpr (requires { map_.domain().statistics(); }) {
      const auto s = map_.domain().statistics();
      reclaimer_figures figures{s.retired, s.reclaimed, std::nullopt, 0};
      if (s.oldest) {
        figures.oldest_slot = s.oldest->slot;
        figures.refusals = s.oldest->refusals;
      }
      return figures;
    } else {
      return std::nullopt;
    }
  }

 private:
  using guarded_operations = operations_of<Map, Codec, typename Map::guard_type>;

  static Map construct([[maybe_unused]] void* domain) {
    if constexpr (takes_domain<Map>) {
      auto* const own = static_cast<typename Map::reclaimer_type*>(domain);
      if constexpr (std::is_empty_v<decltype(Codec::order())>)
        return Map(own);
      else
        return Map(Codec::order(), own);
    } else {
      return Map();
    }
  }

  std::shared_ptr<void> domain_;
  Map map_;
  std::conditional_t<Forms == call_forms::both, operations_of<Map, Codec>, guarded_operations> plain_;
};

/// A map of the entry's algorithm. `Placement` is the one to name, which a chosen_placement then is.
template <class Entry, class Codec, class Map, class Placement, call_forms Forms>
[[nodiscard]] subject_type describe(std::string name) {
  subject_type type{};
  type.name = std::move(name);
  type.algorithm = Entry::algorithm;
  type.variant = Entry::variant;
  type.codec = Codec::suffix;
  type.properties = Map::properties;
  type.largest_key = Codec::largest_key;
  type.reclaims = Map::reclaimer_type::reclaims;
  type.placement = Placement::name;
  type.from_heap = heap_placement<Placement>;
  type.queues = queue_lockable<typename Map::traits_type::lock_type>;
  if constexpr (node_layout<typename Map::traits_type::layout_type>)
    type.layout = Map::traits_type::layout_type::name;
  if constexpr (requires { Map::node_bytes; }) type.node_bytes = Map::node_bytes;
  if constexpr (requires { Map::node_entries; }) type.node_entries = Map::node_entries;
  type.node_types = node_types_of<Map>();
  type.make = [](const std::shared_ptr<void>& domain) -> std::unique_ptr<subject> {
    return std::make_unique<subject_of<Map, Codec, Forms>>(domain);
  };
  type.make_domain = []() -> std::shared_ptr<void> {
    if constexpr (takes_domain<Map>) return std::make_shared<typename Map::reclaimer_type>();
    return nullptr;
  };
  type.construct_only = [] { [[maybe_unused]] Map map; };
  return type;
}

/// Reproduces code that leaks, and from the heap: leak detectors rightly report it.
template <class Map>
concept loses_heap_memory =
    heap_placement<typename Map::traits_type::placement_type> && !Map::reclaimer_type::reclaims;

/// Adds the map of a catalogue entry, translated by the codec, to the subjects of this executable.
template <class Entry, class Codec>
void add_subject_of(std::string name = Entry::name()) {
  using map = rebind_to_codec<typename Entry::map_type, Codec>;
  static_assert(concurrent_ordered_map<map>);
  static_assert(exchanging_ordered_map<map> == map::properties.exchanges);
  static_assert(bidirectional_ordered_map<map> == map::properties.bidirectional);
  add_subject(describe<Entry, Codec, map, typename map::traits_type::placement_type, call_forms::both>(
      name.append(Codec::suffix)));
}

}  // namespace espalier::test
