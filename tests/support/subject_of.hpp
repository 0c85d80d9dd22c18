#pragma once

#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "espalier/map/catalog.hpp"
#include "support/codec.hpp"
#include "support/subject.hpp"
#include "support/suite.hpp"

namespace espalier::test {

template <class Map, class Codec>
using rebind_to_codec = typename Map::template rebind<typename Codec::key_type, typename Codec::value_type,
                                                      decltype(Codec::order())>;

/// The operations of a map, without a guard or with one.
template <class Map, class Codec, class... Guard>
class operations_of final : public operations {
 public:
  explicit operations_of(Map& map, Guard&... guard) noexcept : map_(map), guard_(guard...) {}

  std::optional<value> find(key k) override {
    const auto found = call([&](Guard&... g) { return map_.find(g..., Codec::encode_key(k)); });
    if (!found) return std::nullopt;
    return Codec::decode_value(*found);
  }
  bool contains(key k) override {
    return call([&](Guard&... g) { return map_.contains(g..., Codec::encode_key(k)); });
  }
  bool insert(key k, value v) override {
    return call([&](Guard&... g) { return map_.insert(g..., Codec::encode_key(k), Codec::encode_value(v)); });
  }
  bool insert_or_assign(key k, value v) override {
    return call([&](Guard&... g) {
      return map_.insert_or_assign(g..., Codec::encode_key(k), Codec::encode_value(v));
    });
  }
  bool erase(key k) override {
    return call([&](Guard&... g) { return map_.erase(g..., Codec::encode_key(k)); });
  }
  std::size_t scan(key from, function_ref<bool(key, value)> visit) override { return scan_with(from, visit); }
  std::size_t scan_to_end(key from, function_ref<void(key, value)> visit) override {
    return scan_with(from, visit);
  }

 private:
  template <class Call>
  auto call(Call&& body) {
    return std::apply(body, guard_);
  }
  template <class Result>
  std::size_t scan_with(key from, function_ref<Result(key, value)> visit) {
    return call([&](Guard&... g) {
      return map_.scan(g..., Codec::encode_key(from),
                       [&](const typename Codec::key_type& k, const typename Codec::value_type& v) -> Result {
                         return visit(Codec::decode_key(k), Codec::decode_value(v));
                       });
    });
  }

  Map& map_;
  std::tuple<Guard&...> guard_;
};

template <class Map>
concept takes_domain = requires(typename Map::reclaimer_type* domain) { Map(domain); };

template <class Map, class Codec>
class subject_of final : public subject {
 public:
  explicit subject_of(const std::shared_ptr<void>& domain) : domain_(domain), map_(construct(domain.get())) {}

  operations& plain() override { return plain_; }
  void with_guard(function_ref<void(operations&)> body) override {
    auto guard = map_.pin();
    operations_of<Map, Codec, typename Map::guard_type> guarded(map_, guard);
    body(guarded);
  }
  void visit_blocks(function_ref<void(const void*, std::size_t, memory_role)> visit) override {
    map_.visit_nodes(visit);
  }
  const char* check_invariants() override { return map_.check_invariants(); }
  memory_usage usage() override { return map_.usage(); }
  std::size_t collect() override {
    if constexpr (requires { map_.domain().collect(); }) return map_.domain().collect();
    return 0;
  }
  std::string reclaimer_state() override {
    if constexpr (requires { map_.domain().statistics(); }) {
      const auto s = map_.domain().statistics();
      std::ostringstream out;
      out << "epoch " << s.epoch << ", pinned threads " << s.pinned_threads << ", retired " << s.retired
          << ", reclaimed " << s.reclaimed;
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
  operations_of<Map, Codec> plain_{map_};
};

template <class Entry, class Codec, class Map>
[[nodiscard]] subject_type describe(std::string name) {
  subject_type type{};
  type.name = std::move(name);
  type.algorithm = Entry::algorithm;
  type.variant = Entry::variant;
  type.codec = Codec::suffix;
  type.properties = Map::properties;
  type.largest_key = Codec::largest_key;
  type.gives_back = Map::reclaimer_type::gives_back;
  type.placement = Map::traits_type::placement_type::name;
  type.from_heap = heap_placement<typename Map::traits_type::placement_type>;
  type.layout = Map::traits_type::layout_type::name;
  if constexpr (requires { Map::node_bytes; }) type.node_bytes = Map::node_bytes;
  if constexpr (requires { Map::node_members; }) type.node_members = Map::node_members;
  type.make = [](const std::shared_ptr<void>& domain) -> std::unique_ptr<subject> {
    return std::make_unique<subject_of<Map, Codec>>(domain);
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
    heap_placement<typename Map::traits_type::placement_type> && !Map::reclaimer_type::gives_back;

/// Adds the map of a catalogue entry, translated by the codec, to the subjects of this executable.
template <class Entry, class Codec>
void add_subject_of(std::string name = Entry::name()) {
  using map = rebind_to_codec<typename Entry::map_type, Codec>;
  static_assert(concurrent_ordered_map<map>);
  add_subject(describe<Entry, Codec, map>(name.append(Codec::suffix)));
}

}  // namespace espalier::test
