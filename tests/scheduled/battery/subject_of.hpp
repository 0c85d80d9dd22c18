#pragma once

#include <cstdint>
#include <utility>

#include "espalier/workload/random.hpp"
#include "scheduled/battery/subject.hpp"
#include "sim/recorded_map.hpp"

namespace espalier::sim::battery {

/// Larger than a word. Each part follows from the first, which shows whether a reader got one value, parts of two, or
/// reclaimed memory.
struct wide_value {
  std::uint64_t first, second, third;
};

}  // namespace espalier::sim::battery

namespace espalier::sim {

template <>
struct recorded_value<battery::wide_value> {
  [[nodiscard]] static battery::wide_value from_word(std::uint64_t word) noexcept {
    return {word, workload::mix64(word), ~word};
  }
  [[nodiscard]] static std::uint64_t to_word(const battery::wide_value& v) {
    require(v.second == workload::mix64(v.first) && v.third == ~v.first,
            "a value came back that nobody wrote");
    return v.first;
  }
};

}  // namespace espalier::sim

namespace espalier::sim::battery {

/// Its own code adds no steps to the run.
template <class Map>
class subject_of final : public subject {
 public:
  [[gnu::no_sanitize_thread]] void start_with(const map_entry& e) override {
    map_.start_with(e.key, e.value);
  }

  [[gnu::no_sanitize_thread]] void play(const step* first, const step* last) override {
    for (const step* s = first; s != last; ++s) play_one(*s);
  }

  [[gnu::no_sanitize_thread]] void play_guarded(const step* first, const step* last) override {
    auto guard = map_.pin();
    for (const step* s = first; s != last; ++s) play_one(*s, guard);
  }

  void check() override { map_.check(); }

 private:
  template <class... Guard>
  [[gnu::no_sanitize_thread]] void play_one(const step& s, Guard&... guard) {
    switch (s.kind) {
      case map_operation::find:
        map_.find(guard..., s.key);
        break;
      case map_operation::contains:
        map_.contains(guard..., s.key);
        break;
      case map_operation::insert:
        map_.insert(guard..., s.key, s.value);
        break;
      case map_operation::insert_or_assign:
        map_.insert_or_assign(guard..., s.key, s.value);
        break;
      case map_operation::erase:
        map_.erase(guard..., s.key);
        break;
      case map_operation::exchange:
        if constexpr (exchanging_ordered_map<Map>) map_.exchange(guard..., s.key, s.value);
        break;
      case map_operation::extract:
        if constexpr (exchanging_ordered_map<Map>) map_.extract(guard..., s.key);
        break;
      case map_operation::update:
        if constexpr (exchanging_ordered_map<Map>) map_.update(guard..., s.key, s.value);
        break;
      case map_operation::scan:
        map_.scan(guard..., s.key, s.value);
        break;
      case map_operation::reverse_scan:
        map_.reverse_scan(guard..., s.key, s.value);
        break;
    }
  }

  recorded<Map> map_;
};

template <class Map>
subject& make_subject(scene& s) {
  return s.make<subject_of<Map>>();
}

/// Without Wide, the scenarios with values larger than a word are left out for this map.
template <class Map, bool Wide = true>
[[nodiscard]] subject_type subject_type_of() {
  subject_type type{make_subject<Map>, nullptr, Map::properties};
  if constexpr (Wide && rebindable<Map>)
    type.make_wide = make_subject<
        typename Map::template rebind<typename Map::key_type, wide_value, typename Map::key_compare>>;
  return type;
}

}  // namespace espalier::sim::battery
