#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "scheduled/battery/refusing_htm.hpp"
#include "scheduled/battery/subject.hpp"
#include "sim/recorded_map.hpp"
#include "support/codec.hpp"

namespace espalier::sim::battery {

/// Its own code adds no steps to the run.
template <class Map, class Codec>
class subject_of final : public subject {
 public:
  [[gnu::no_sanitize_thread]] void start_with(const map_entry& e) override {
    map_.start_with(e.key, e.value);
  }

  void play(const step* first, const step* last) override { play_each(first, last); }

  // Instrumented: it has the end of the guard.
  void play_guarded(const step* first, const step* last) override {
    auto guard = map_.pin();
    play_each(first, last, guard);
  }

  void check() override { map_.check(); }

 private:
  template <class... Guard>
  [[gnu::no_sanitize_thread]] void play_each(const step* first, const step* last, Guard&... guard) {
    for (const step* s = first; s != last; ++s) play_one(*s, guard...);
  }
  template <class... Guard>
  [[gnu::no_sanitize_thread]] void play_one(const step& s, Guard&... guard) {
    switch (s.op) {
      case map_operation::find:
        if (s.argument == find_together)
          map_.find_together(guard..., s.key);
        else
          map_.find(guard..., s.key);
        break;
      case map_operation::contains:
        map_.contains(guard..., s.key);
        break;
      case map_operation::insert:
        map_.insert(guard..., s.key, s.argument);
        break;
      case map_operation::insert_or_assign:
        map_.insert_or_assign(guard..., s.key, s.argument);
        break;
      case map_operation::erase:
        map_.erase(guard..., s.key);
        break;
      case map_operation::exchange:
        if constexpr (exchanging_ordered_map<Map>) map_.exchange(guard..., s.key, s.argument);
        break;
      case map_operation::extract:
        if constexpr (exchanging_ordered_map<Map>) map_.extract(guard..., s.key);
        break;
      case map_operation::update:
        if constexpr (exchanging_ordered_map<Map>) map_.update(guard..., s.key, s.argument);
        break;
      case map_operation::scan:
        map_.scan(guard..., s.key, s.argument);
        break;
      case map_operation::reverse_scan:
        if constexpr (bidirectional_ordered_map<Map>) map_.reverse_scan(guard..., s.key, s.argument);
        break;
    }
  }

  recorded<Map, Codec> map_;
};

template <class Map, class Codec>
subject& make_subject(scene& s) {
  return s.make<subject_of<Map, Codec>>();
}

/// A map whose operations are transactions that a run may refuse.
template <class Map>
concept refusable =
    counts_transactions<Map> && std::is_same_v<typename Map::traits_type::htm_type, refusing_htm>;

template <class Map>
concept with_node_entries = requires { Map::node_entries; };

/// Without Wide, the scenarios with values larger than a word are left out for this map.
template <class Map, bool Wide = true, class Codec = test::plain_codec>
[[nodiscard]] subject_type subject_type_of() {
  subject_type type{make_subject<Map, Codec>, nullptr, Map::properties, refusable<Map>,
                    with_node_entries<Map>};
  if constexpr (Wide && rebindable<Map>)
    type.make_wide = make_subject<
        typename Map::template rebind<std::uint64_t, test::wide_codec::value_type, typename Map::key_compare>,
        test::wide_codec>;
  return type;
}

}  // namespace espalier::sim::battery
