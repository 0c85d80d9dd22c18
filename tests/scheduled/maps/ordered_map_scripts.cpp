// Scripts of operations on ordered_map, of one thread, and what erases of several entries promise beside a writer.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "espalier/map/ordered/key_image.hpp"
#include "fuzz/scripts.hpp"
#include "scheduled/scenes.hpp"
#include "sim/memory/eager_reclaimer.hpp"

// The program has this itself, of the mutant's headers. The library has it of those without a mutant.
#include "espalier/map/ordered/hashed_tree.cpp"

namespace espalier::sim {
namespace {

struct writer {
  measure::random_generator random;
  std::vector<std::uint8_t> script;

  void add(std::uint64_t byte) { script.push_back(static_cast<std::uint8_t>(byte)); }
  void add_any(std::size_t bytes) {
    for (; bytes > 0; --bytes) add(random.next());
  }
  void add(fuzz::operation what) {
    unsigned byte = 0;
    while (fuzz::operation_of(byte).what != what) ++byte;
    add(byte);
  }
};

/// A script at random that begins with inserts: a few for small nodes, enough for some leaves of full size.
std::vector<std::uint8_t> any_operations(std::uint64_t seed, unsigned batches, std::size_t bytes) {
  writer to{measure::random_generator(8008, seed), {}};
  for (unsigned i = 0; i < batches; ++i) {
    to.add(fuzz::operation::insert_batch);
    to.add(255);  // as many keys as there can be
    to.add_any(3);
  }
  if (to.script.size() < bytes) to.add_any(bytes - to.script.size());
  return std::move(to.script);
}

/// Loads, walks, loops over ranges, erases and moves, each with arguments at random.
std::vector<std::uint8_t> whole_maps(std::uint64_t seed) {
  struct operation {
    fuzz::operation what;
    std::size_t arguments;  // bytes
  };
  writer to{measure::random_generator(8009, seed), {}};
  for (unsigned i = 0; i < 8; ++i) {
    for (const auto& [what, arguments] :
         {operation{fuzz::operation::bulk_load, 9}, operation{fuzz::operation::walk, 6},
          operation{fuzz::operation::range, 5}, operation{fuzz::operation::erase_batch, 4},
          operation{fuzz::operation::move, 3}}) {
      to.add(what);
      to.add_any(arguments);
    }
  }
  return std::move(to.script);
}

template <class Kind>
void play(scene& s, const std::vector<std::uint8_t>& script) {
  s.thread("plays", [script] {
    const fuzz::outcome done = fuzz::player<Kind, false>(fuzz::script(script), 1).play();
    require(done.wrong.empty(), done.wrong);
  });
}
// Last among those of one thread, because they take longest.
ESPALIER_SCENE(scripts, narrow, alone()) { play<fuzz::narrow>(s, any_operations(seed_of_round(), 0, 600)); }
ESPALIER_SCENE(scripts, full_size, alone()) {
  play<fuzz::full_size>(s, any_operations(seed_of_round(), 6, 800));
}
ESPALIER_SCENE(scripts, whole_narrow_maps, alone()) { play<fuzz::narrow>(s, whole_maps(seed_of_round())); }

using narrow_map = ordered_map<std::uint64_t, std::uint64_t>::with_fanout<8>;

/// A value for which the predicate is false stays.
ESPALIER_SCENE(scripts, erase_if_beside_a_writer, 50) {
  auto& map = s.make<narrow_map>();
  map.insert(1, 1);
  s.thread("erases", [&map] { map.erase_if([](std::uint64_t, std::uint64_t v) { return v % 2 == 1; }); });
  s.thread("stores", [&map] { map.insert_or_assign(1, 2); });
  s.at_end([&map] { require(map.find(1) == 2, "erase_if has erased an entry of which it is false"); });
}

/// erase_if counts an entry once, however often it is asked about it.
ESPALIER_SCENE(scripts, erase_if_counts_beside_a_writer, 50) {
  auto& map = s.make<narrow_map>();
  map.insert(1, 1);
  s.thread("erases", [&map] {
    const std::size_t n = map.erase_if([](std::uint64_t, std::uint64_t v) { return v % 2 == 1; });
    require(n <= 1, "erase_if counts an entry twice");
  });
  s.thread("stores", [&map] {
    map.insert_or_assign(1, 3);
    map.insert_or_assign(1, 5);
  });
}

/// Each key is erased by one of two threads.
ESPALIER_SCENE(scripts, erases_of_a_range, 50) {
  static constexpr std::uint64_t keys = 3;
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 0; k < keys; ++k) map.insert(k, k);
  auto& erased = s.make<std::atomic<std::size_t>>(0U);
  for (const char* name : {"erases", "erases, too"}) s.thread(name, [&] { erased += map.erase(0, keys); });
  s.at_end([&] { require(erased == keys, "two erases of a range count a key twice, or not at all"); });
}

// Scans of a leaf that is ordered: the second scan has made it so.

template <class Map>
std::vector<std::uint64_t> keys_of(const Map& map) {
  std::vector<std::uint64_t> all;
  map.scan(0, [&all](std::uint64_t k, std::uint64_t v) {
    require(k == v, "a scan visits a key with the value of another one");
    require(all.empty() || all.back() < k, "a scan steps back");
    all.push_back(k);
  });
  return all;
}

/// Threads change the map and scan it. Keys from 1 to 4 stay.
template <class... Change>
void scan_of_ordered_leaf(scene& s, unsigned scans_before, const Change&... change) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 5; ++k) map.insert(k, k);
  for (unsigned i = 0; i < scans_before; ++i) keys_of(map);
  (s.thread("changes", [&map, change] { change(map); }), ...);
  s.thread("scans", [&map] {
    const bool found = map.contains(6);
    const std::vector<std::uint64_t> all = keys_of(map);
    for (std::uint64_t k = 1; k <= 4; ++k) require(std::ranges::count(all, k) == 1, "a scan misses an entry");
    for (const std::uint64_t k : all) require(k <= 20, "a scan visits a key that no thread inserts");
    require(!found || std::ranges::count(all, 6U) == 1, "a scan misses an entry that a find has found");
  });
  s.at_end([&map] {
    std::vector<std::uint64_t> there;
    for (std::uint64_t k = 0; k <= 20; ++k)
      if (map.contains(k)) there.push_back(k);
    require(keys_of(map) == there, "a scan does not visit what finds find");
    require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

ESPALIER_SCENE(scripts, scan_beside_an_insert, 50) {
  scan_of_ordered_leaf(s, 2, [](narrow_map& m) { m.insert(6, 6); });
}
ESPALIER_SCENE(scripts, scan_makes_the_order_beside_an_insert, 50) {
  scan_of_ordered_leaf(s, 1, [](narrow_map& m) { m.insert(6, 6); });
}
ESPALIER_SCENE(scripts, scan_beside_an_erase, 50) {
  scan_of_ordered_leaf(s, 2, [](narrow_map& m) {
    m.erase(5);
    for (std::uint64_t k = 10; k < 13; ++k) m.insert(k, k);
  });
}
ESPALIER_SCENE(scripts, scan_beside_an_erase_of_a_later_entry, 50) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 4; ++k) map.insert(k, k);
  for (unsigned i = 0; i < 2; ++i) keys_of(map);
  map.insert(5, 5);
  s.thread("erases", [&map] {
    map.erase(5);
    for (std::uint64_t k = 10; k < 13; ++k) map.insert(k, k);  // one of them comes to its slot
  });
  s.thread("scans", [&map] {
    for (const std::uint64_t k : keys_of(map))
      require(k <= 5 || (k >= 10 && k < 13), "a scan visits a key that no thread inserts");
  });
}
/// More inserts than an order remembers, and scans that make another one, while a scan goes by the former one.
ESPALIER_SCENE(scripts, scan_beside_another_order, 100, 2, {.strategies = {"pct:2"}}) {
  auto& map = s.make<ordered_map<std::uint64_t, std::uint64_t>::with_fanout<16>>();
  for (std::uint64_t k = 40; k <= 50; ++k) map.insert(k, k);
  for (std::uint64_t k = 44; k <= 50; ++k) map.erase(k);  // it has no first leaf any more
  for (unsigned i = 0; i < 2; ++i) keys_of(map);
  s.thread("changes", [&map] {
    for (std::uint64_t k = 1; k <= 7; ++k) map.insert(k, k);
    for (unsigned i = 0; i < 2; ++i) keys_of(map);
  });
  s.thread("scans", [&map] {
    const std::vector<std::uint64_t> all = keys_of(map);
    for (std::uint64_t k = 40; k <= 43; ++k)
      require(std::ranges::count(all, k) == 1, "a scan misses an entry");
  });
}
/// With values of 4 bytes finds read key and value in two steps.
template <class Value>
void find_beside_an_erase(scene& s) {
  auto& map = s.make<typename ordered_map<std::uint64_t, Value>::template with_fanout<8>>();
  for (const Value k : {1U, 5U, 7U}) map.insert(k, k);
  s.thread("erases", [&map] {
    map.erase(5);
    for (Value k = 10; k < 13; ++k) map.insert(k, k);  // without a split; one of them comes to its slot
    map.erase(7);                                      // whose slot stays empty
  });
  s.thread("finds",
           [&map] { require(map.find(5).value_or(5) == 5, "a find takes the value of another key"); });
  s.at_end([&map] { require(map.check_invariants() == nullptr, "an invariant does not hold"); });
}
/// A later entry comes before those that were there: it is visited first.
ESPALIER_SCENE(scripts, scan_beside_an_erase_of_a_later_first_entry, 100, 2) {
  auto& map = s.make<narrow_map>();
  for (const std::uint64_t k : {16U, 18U, 20U}) map.insert(k, k);
  for (unsigned i = 0; i < 2; ++i) keys_of(map);
  map.insert(5, 5);
  s.thread("erases", [&map] {
    map.erase(5);
    for (std::uint64_t k = 10; k < 15; ++k) map.insert(k, k);
  });
  s.thread("scans", [&map] { keys_of(map); });
}
struct looked_into : narrow_map {
  using narrow_map::change;
  /// One more than the home group of all of them has room for.
  static std::vector<std::uint64_t> keys_of_one_home() {
    const leaf empty;
    std::vector<std::uint64_t> all;
    for (std::uint64_t k = 0; all.size() <= leaf::in_group; ++k)
      if (empty.seek(exclusive_access{}, {}, k).group == 0) all.push_back(k);
    return all;
  }
  /// With no key beside it. The map has no first leaf any more.
  leaf& leaf_of_zero() {
    for (std::uint64_t k = 0; k <= 4; ++k) insert(k, k);
    for (std::uint64_t k = 1; k <= 4; ++k) erase(k);
    return *this->guess_leaf(0);
  }
  /// Threads meet in a leaf where an operation has failed four times to take its lock. Results do not tell.
  void require_marks() {
    leaf& of_keys = leaf_of_zero();
    for (std::uint64_t failing = 0; failing <= 4; ++failing) {
      const std::uint64_t key = 1 + failing;
      const change wanted{.insert_where_absent = true, .word = key};
      applying step{*this, key, wanted};
      {
        auto held = of_keys.lock.try_lock_beside_readers();
        for (std::uint64_t i = 0; i < failing; ++i)
          require(!step(), "an insert changes a leaf whose lock is held");
        held.release_unchanged();
      }
      require(step().has_value(), "an insert does not take a lock that is free");
      require(of_keys.placement.try_read().has(threads_meet) == (failing == 4),
              "a leaf is marked where no threads meet, or is not where they do");
    }
  }
  /// As an operation that has failed so often that it marks the leaf.
  void insert_and_mark(std::uint64_t key) {
    auto guard = pin();
    const change wanted{.insert_where_absent = true, .word = key};
    applying step{*this, key, wanted, attempts_where_threads_meet};
    for (unsigned failed = 0;;) {
      const std::optional<outcome> done = step();
      if (!done) {
        require(++failed < 1000, "a leaf is said to change, and no thread changes it");
        wait_for_others();
      } else if (done->what == effect::full) {
        static_cast<void>(changes().apply_or_make_room(guard, key, wanted));
      } else {
        return;
      }
    }
  }
  /// Where a change was in vain, later ones need no lock to find that they are, until entries move.
  void require_search_first(std::uint64_t key, const change& in_vain) {
    leaf& of_keys = leaf_of_zero();
    const auto searches_first = [&] { return of_keys.placement.try_read().has(changes_are_in_vain); };
    require(!searches_first(), "a leaf says that changes are in vain where none was");
    applying step{*this, key, in_vain};
    require(step().value_or(outcome{.what = effect::full}).what == effect::none, "a change is not in vain");
    require(searches_first(), "a leaf does not say that changes are in vain");
    {
      auto held = of_keys.lock.try_lock_beside_readers();
      require(step().has_value(), "a change in vain wants a lock");
      held.release_unchanged();
    }
    for (std::uint64_t k = 10; searches_first(); ++k)
      require(insert(k, k) && k < 30, "a leaf remembers changes in vain when its entries have moved");
  }
};
ESPALIER_SCENE(scripts, searches_first_where_a_change_was_in_vain, alone()) {
  auto& one = s.make<looked_into>();
  auto& other = s.make<looked_into>();
  s.thread("changes", [&] {
    one.require_search_first(0, {.insert_where_absent = true, .word = 1});
    other.require_search_first(3, {.present = looked_into::change::where_present::erase});
  });
}
ESPALIER_SCENE(scripts, marks_where_threads_meet, alone()) {
  auto& map = s.make<looked_into>();
  s.thread("inserts", [&map] { map.require_marks(); });
}
/// A leaf is marked while another thread splits it.
ESPALIER_SCENE(scripts, marks_beside_a_split, 200, 4) {
  auto& map = s.make<looked_into>();
  for (std::uint64_t k = 10; k <= 17; ++k) map.insert(k, k);
  s.thread("inserts and marks", [&map] { map.insert_and_mark(5); });
  s.thread("splits", [&map] { map.insert(18, 18); });
  s.thread("finds", [&map] {
    for (const std::uint64_t k : {10U, 17U}) require(map.contains(k), "a find misses an entry");
  });
  s.at_end([&map] {
    require(map.check_invariants() == nullptr, "an invariant does not hold");
    for (const std::uint64_t k : {5, 10, 17, 18}) require(map.contains(k), "a key is lost");
  });
}
/// The insert is the first one that passes a full group.
ESPALIER_SCENE(scripts, find_of_what_a_scan_has_visited, 200, 4, {.strategies = {"pct:2"}}) {
  const std::vector<std::uint64_t> keys = looked_into::keys_of_one_home();
  auto& map = s.make<narrow_map>();
  for (const std::uint64_t k : keys)
    if (k != keys.back()) map.insert(k, k);
  // With another key it has no first leaf any more.
  std::uint64_t other = 0;
  while (std::ranges::count(keys, other) != 0) ++other;
  map.insert(other, other);
  s.thread("inserts", [&map, k = keys.back()] { map.insert(k, k); });
  s.thread("finds", [&map, k = keys.back()] {
    const bool visited = std::ranges::count(keys_of(map), k) != 0;
    require(!visited || map.contains(k), "a find misses an entry that a scan has visited");
  });
}
/// In order, and they lead back to the keys.
template <class Order, class Key>
void require_images(std::initializer_list<Key> in_order) {
  using image = btree::key_image<Key, Order>;
  std::uint64_t before = 0;
  for (const Key k : in_order) {
    require(before < image::of(k), "images of keys are not in their order");
    before = image::of(k);
    require(image::key(before) == k, "an image does not lead back to its key");
  }
}
ESPALIER_SCENE(scripts, images_of_keys, alone()) {
  s.thread("compares", [] {
    require_images<std::less<>>({-7, -1, 0, 1, 7});
    require_images<std::greater<>>({7, 1, 0, -1, -7});
    require_images<std::less<>>({-2.5, -0.5, 0.0, 0.5, 2.5});
    using image = btree::key_image<double, std::less<>>;
    require(image::of(-0.0) == image::of(0.0), "both zeros are keys");
  });
}
/// A load that is refused, wherever a key is not larger than the one before, frees the values that it has made.
ESPALIER_SCENE(scripts, refused_loads, alone()) {
  using value = fuzz::doubles::three_words;  // it lies in a cell
  auto& map = s.make<ordered_map<std::uint64_t, value, fuzz::policies>::with_fanout<8>>();
  s.thread("loads", [&map] {
    std::array<std::pair<std::uint64_t, value>, 20> entries{};
    for (std::uint64_t equal = 1; equal < entries.size(); ++equal) {
      for (std::uint64_t k = 0; k < entries.size(); ++k) entries[k].first = k - std::uint64_t{k == equal};
      try {
        map.bulk_load(entries);
        fail("a load takes keys that are equal");
      } catch (const std::invalid_argument&) {
      }
    }
  });
}
ESPALIER_SCENE(scripts, nothing_is_behind_the_largest_key, alone()) {
  auto& map = s.make<narrow_map>();
  s.thread("seeks", [&map] {
    map.insert(1, 1);
    const auto behind = map.upper_bound(std::numeric_limits<std::uint64_t>::max());
    require(!behind.has_value(), "a scan begins anew behind the largest key");
  });
}
/// A cursor that is assigned is where the other one is.
ESPALIER_SCENE(scripts, assigned_cursor, alone()) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 3; ++k) map.insert(k, k);
  s.thread("walks", [&map] {
    narrow_map::cursor at(map);
    at.seek_first();
    narrow_map::cursor last(map);
    last.seek(3);
    at = last;
    require(at.valid() && at.key() == 3, "an assigned cursor is elsewhere");
    at.next();
    require(!at.valid(), "an assigned cursor goes on elsewhere");
  });
}
/// A visitor that ends the scan is not called again, wherever that is.
ESPALIER_SCENE(scripts, scan_ends_at_each_entry, alone()) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 5; ++k) map.insert(2 * k, 2 * k);
  for (const std::uint64_t k : {8, 10}) map.erase(k);  // it has no first leaf any more
  for (unsigned i = 0; i < 2; ++i) keys_of(map);
  for (const std::uint64_t k : {3U, 8U, 9U, 10U}) map.insert(k, k);
  s.thread("scans", [&map] {
    for (unsigned most = 1; most <= 7; ++most) {
      unsigned visits = 0;
      map.scan(0, [&](std::uint64_t, std::uint64_t) { return ++visits != most; });
      require(visits == most, "a scan calls a visitor that has ended it");
    }
  });
}
/// A split moves entries that the scan has not visited yet.
ESPALIER_SCENE(scripts, scan_beside_a_split, 200, 4, {.strategies = {"pct:2"}}) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 10; k <= 15; ++k) map.insert(k, k);
  for (unsigned i = 0; i < 2; ++i) keys_of(map);
  s.thread("inserts", [&map] {
    for (std::uint64_t k = 1; k <= 3; ++k) map.insert(k, k);
  });
  s.thread("scans", [&map] {
    const std::vector<std::uint64_t> all = keys_of(map);
    for (std::uint64_t k = 10; k <= 15; ++k)
      require(std::ranges::count(all, k) == 1, "a scan misses an entry");
  });
}

/// A leaf that was split has a hint: what its range is now comes with it.
ESPALIER_SCENE(scripts, insert_beside_a_split_and_a_hint, 200, 4, {.model = memory_model::weak}) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 10; k <= 17; ++k) map.insert(k, k);
  s.thread("inserts in vain", [&map] {
    map.insert(5, 5);
    map.insert(5, 6);
  });
  s.thread("inserts", [&map] { map.insert(18, 18); });
  s.at_end([&map] {
    require(map.check_invariants() == nullptr, "an invariant does not hold");
    for (const std::uint64_t k : {5, 10, 17, 18}) require(map.contains(k), "a key is lost beside a split");
  });
}

// A map with few entries has one leaf of half the size: here of four entries.

ESPALIER_SCENE(scripts, first_leaf_grows, 100, 2) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 4; ++k) map.insert(k, k);
  s.thread("grows", [&map] { map.insert(5, 5); });
  s.thread("changes", [&map] {
    require(map.erase(1), "an entry is lost while the map grows");
    require(map.insert(6, 6), "an insert finds its key while the map grows");
    require(map.find(6) == 6, "an insert is lost while the map grows");
  });
  s.thread("reads", [&map] {
    for (std::uint64_t k = 2; k <= 4; ++k)
      require(map.find(k) == k, "a find misses an entry while the map grows");
    const std::vector<std::uint64_t> all = keys_of(map);
    for (std::uint64_t k = 2; k <= 4; ++k)
      require(std::ranges::count(all, k) == 1, "a scan misses an entry while the map grows");
  });
  s.at_end([&map] {
    require(keys_of(map) == std::vector<std::uint64_t>{2, 3, 4, 5, 6}, "an entry is lost or comes back");
    require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

ESPALIER_SCENE(scripts, first_leaf_goes, 100, 2) {
  auto& map = s.make<narrow_map>();
  map.insert(1, 1);
  s.thread("erases", [&map] { require(map.erase(1), "an entry is lost"); });
  for (const std::uint64_t k : {2, 3}) {
    s.thread("inserts " + std::to_string(k), [&map, k] {
      require(map.insert(k, k), "an insert finds a key that is absent");
      require(map.find(k) == k, "an insert is lost");
      if (k == 3) require(map.erase(k), "an entry is lost");
    });
  }
  s.at_end([&map] {
    require(keys_of(map) == std::vector<std::uint64_t>{2}, "an entry is lost or comes back");
    require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

/// The first leaf is retired, and then the value that another thread has inserted meanwhile.
ESPALIER_SCENE(scripts, first_leaf_grows_for_an_assignment, 100, 2, {.strategies = {"pct:2"}}) {
  using value = fuzz::doubles::three_words;  // it lies in a cell
  using policies = map_traits::with_reclaimer<sim::eager_reclaimer>;
  auto& map = s.make<ordered_map<std::uint64_t, value, policies>::with_fanout<8>>();
  for (std::uint64_t k = 1; k <= 4; ++k) map.insert(k, value{});
  for (const std::uint64_t v : {1, 2})
    s.thread("assigns " + std::to_string(v), [&map, v] { map.insert_or_assign(5, value{v, v, v}); });
  s.at_end([&map] {
    require(map.size() == 5, "an entry is lost");
    require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

/// A full leaf comes to share with a neighbour that has room, and finds it full.
ESPALIER_SCENE(scripts, share_with_a_leaf_that_fills, 200, 4, {.strategies = {"pct:2"}}) {
  auto& map = s.make<ordered_map<std::uint64_t, std::uint64_t>::with_fanout<3>>();
  for (const std::uint64_t k : {10, 20, 30, 40, 15}) map.insert(k, k);
  map.erase(40);
  s.thread("shares", [&map] { map.insert(16, 16); });
  s.thread("fills", [&map] {
    map.insert(31, 31);
    map.insert(32, 32);
  });
  s.at_end([&map] {
    for (const std::uint64_t k : {10, 15, 16, 20, 30, 31, 32})
      require(map.contains(k), "a key is lost where two leaves share");
    require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

ESPALIER_SCENE(scripts, find_in_one_step_beside_an_erase, 50) { find_beside_an_erase<std::uint64_t>(s); }
ESPALIER_SCENE(scripts, find_in_two_steps_beside_an_erase, 50) { find_beside_an_erase<std::uint32_t>(s); }
ESPALIER_SCENE(scripts, scan_interrupted_by_an_erase, 200, 4, {.strategies = {"pct:2"}}) {
  scripts_scan_beside_an_erase(s);
}

}  // namespace
}  // namespace espalier::sim
