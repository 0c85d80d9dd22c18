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
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/map/ordered/key_image.hpp"
#include "fuzz/scripts.hpp"
#include "mutants/driver.hpp"
#include "sim/memory/eager_reclaimer.hpp"

// The program has this itself, of the mutant's headers. The library has it of those without a mutant.
#include "espalier/map/ordered/hashed_tree.cpp"

namespace espalier::mutants {
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
void play(scenes& all, std::string_view name, const std::vector<std::uint8_t>& script) {
  all.run_alone(name, [&](sim::scene& s) {
    s.thread("plays", [script] {
      const fuzz::outcome done = fuzz::player<Kind, false>(fuzz::script(script), 1).play();
      sim::require(done.wrong.empty(), done.wrong);
    });
  });
}

using narrow_map = ordered_map<std::uint64_t, std::uint64_t>::with_fanout<8>;

/// A value for which the predicate is false stays.
void erase_if_beside_a_writer(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  map.insert(1, 1);
  s.thread("erases", [&map] { map.erase_if([](std::uint64_t, std::uint64_t v) { return v % 2 == 1; }); });
  s.thread("stores", [&map] { map.insert_or_assign(1, 2); });
  s.at_end([&map] { sim::require(map.find(1) == 2, "erase_if has erased an entry of which it is false"); });
}

/// erase_if counts an entry once, however often it is asked about it.
void erase_if_counts_beside_a_writer(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  map.insert(1, 1);
  s.thread("erases", [&map] {
    const std::size_t n = map.erase_if([](std::uint64_t, std::uint64_t v) { return v % 2 == 1; });
    sim::require(n <= 1, "erase_if counts an entry twice");
  });
  s.thread("stores", [&map] {
    map.insert_or_assign(1, 3);
    map.insert_or_assign(1, 5);
  });
}

/// Each key is erased by one of two threads.
void erases_of_a_range(sim::scene& s) {
  static constexpr std::uint64_t keys = 3;
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 0; k < keys; ++k) map.insert(k, k);
  auto& erased = s.make<std::atomic<std::size_t>>(0U);
  for (const char* name : {"erases", "erases, too"}) s.thread(name, [&] { erased += map.erase(0, keys); });
  s.at_end([&] { sim::require(erased == keys, "two erases of a range count a key twice, or not at all"); });
}

// Scans of a leaf that is ordered: the second scan has made it so.

template <class Map>
std::vector<std::uint64_t> keys_of(const Map& map) {
  std::vector<std::uint64_t> all;
  map.scan(0, [&all](std::uint64_t k, std::uint64_t v) {
    sim::require(k == v, "a scan visits a key with the value of another one");
    sim::require(all.empty() || all.back() < k, "a scan steps back");
    all.push_back(k);
  });
  return all;
}

/// Threads change the map and scan it. Keys from 1 to 4 stay.
template <class... Change>
void scan_of_ordered_leaf(sim::scene& s, unsigned scans_before, const Change&... change) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 5; ++k) map.insert(k, k);
  for (unsigned i = 0; i < scans_before; ++i) keys_of(map);
  (s.thread("changes", [&map, change] { change(map); }), ...);
  s.thread("scans", [&map] {
    const bool found = map.contains(6);
    const std::vector<std::uint64_t> all = keys_of(map);
    for (std::uint64_t k = 1; k <= 4; ++k)
      sim::require(std::ranges::count(all, k) == 1, "a scan misses an entry");
    for (const std::uint64_t k : all) sim::require(k <= 20, "a scan visits a key that no thread inserts");
    sim::require(!found || std::ranges::count(all, 6U) == 1, "a scan misses an entry that a find has found");
  });
  s.at_end([&map] {
    std::vector<std::uint64_t> there;
    for (std::uint64_t k = 0; k <= 20; ++k)
      if (map.contains(k)) there.push_back(k);
    sim::require(keys_of(map) == there, "a scan does not visit what finds find");
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

void scan_beside_an_insert(sim::scene& s) {
  scan_of_ordered_leaf(s, 2, [](narrow_map& m) { m.insert(6, 6); });
}
void scan_makes_the_order_beside_an_insert(sim::scene& s) {
  scan_of_ordered_leaf(s, 1, [](narrow_map& m) { m.insert(6, 6); });
}
void scan_beside_an_erase(sim::scene& s) {
  scan_of_ordered_leaf(s, 2, [](narrow_map& m) {
    m.erase(5);
    for (std::uint64_t k = 10; k < 13; ++k) m.insert(k, k);
  });
}
void scan_beside_an_erase_of_a_later_entry(sim::scene& s) {
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
      sim::require(k <= 5 || (k >= 10 && k < 13), "a scan visits a key that no thread inserts");
  });
}
/// More inserts than an order remembers, and scans that make another one, while a scan goes by the former one.
void scan_beside_another_order(sim::scene& s) {
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
      sim::require(std::ranges::count(all, k) == 1, "a scan misses an entry");
  });
}
/// With values of 4 bytes finds read key and value in two steps.
template <class Value>
void find_beside_an_erase(sim::scene& s) {
  auto& map = s.make<typename ordered_map<std::uint64_t, Value>::template with_fanout<8>>();
  for (const Value k : {1U, 5U, 7U}) map.insert(k, k);
  s.thread("erases", [&map] {
    map.erase(5);
    for (Value k = 10; k < 13; ++k) map.insert(k, k);  // without a split; one of them comes to its slot
    map.erase(7);                                      // whose slot stays empty
  });
  s.thread("finds",
           [&map] { sim::require(map.find(5).value_or(5) == 5, "a find takes the value of another key"); });
  s.at_end([&map] { sim::require(map.check_invariants() == nullptr, "an invariant does not hold"); });
}
/// A later entry comes before those that were there: it is visited first.
void scan_beside_an_erase_of_a_later_first_entry(sim::scene& s) {
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
          sim::require(!step(), "an insert changes a leaf whose lock is held");
        held.release_unchanged();
      }
      sim::require(step().has_value(), "an insert does not take a lock that is free");
      sim::require(of_keys.placement.try_read().has(threads_meet) == (failing == 4),
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
        sim::require(++failed < 1000, "a leaf is said to change, and no thread changes it");
        sim::wait_for_others();
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
    sim::require(!searches_first(), "a leaf says that changes are in vain where none was");
    applying step{*this, key, in_vain};
    sim::require(step().value_or(outcome{.what = effect::full}).what == effect::none,
                 "a change is not in vain");
    sim::require(searches_first(), "a leaf does not say that changes are in vain");
    {
      auto held = of_keys.lock.try_lock_beside_readers();
      sim::require(step().has_value(), "a change in vain wants a lock");
      held.release_unchanged();
    }
    for (std::uint64_t k = 10; searches_first(); ++k)
      sim::require(insert(k, k) && k < 30, "a leaf remembers changes in vain when its entries have moved");
  }
};
void searches_first_where_a_change_was_in_vain(sim::scene& s) {
  auto& one = s.make<looked_into>();
  auto& other = s.make<looked_into>();
  s.thread("changes", [&] {
    one.require_search_first(0, {.insert_where_absent = true, .word = 1});
    other.require_search_first(3, {.present = looked_into::change::where_present::erase});
  });
}
void marks_where_threads_meet(sim::scene& s) {
  auto& map = s.make<looked_into>();
  s.thread("inserts", [&map] { map.require_marks(); });
}
/// A leaf is marked while another thread splits it.
void marks_beside_a_split(sim::scene& s) {
  auto& map = s.make<looked_into>();
  for (std::uint64_t k = 10; k <= 17; ++k) map.insert(k, k);
  s.thread("inserts and marks", [&map] { map.insert_and_mark(5); });
  s.thread("splits", [&map] { map.insert(18, 18); });
  s.thread("finds", [&map] {
    for (const std::uint64_t k : {10U, 17U}) sim::require(map.contains(k), "a find misses an entry");
  });
  s.at_end([&map] {
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
    for (const std::uint64_t k : {5, 10, 17, 18}) sim::require(map.contains(k), "a key is lost");
  });
}
/// The insert is the first one that passes a full group.
void find_of_what_a_scan_has_visited(sim::scene& s) {
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
    sim::require(!visited || map.contains(k), "a find misses an entry that a scan has visited");
  });
}
/// In order, and they lead back to the keys.
template <class Order, class Key>
void require_images(std::initializer_list<Key> in_order) {
  using image = btree::key_image<Key, Order>;
  std::uint64_t before = 0;
  for (const Key k : in_order) {
    sim::require(before < image::of(k), "images of keys are not in their order");
    before = image::of(k);
    sim::require(image::key(before) == k, "an image does not lead back to its key");
  }
}
void images_of_keys(sim::scene& s) {
  s.thread("compares", [] {
    require_images<std::less<>>({-7, -1, 0, 1, 7});
    require_images<std::greater<>>({7, 1, 0, -1, -7});
    require_images<std::less<>>({-2.5, -0.5, 0.0, 0.5, 2.5});
    using image = btree::key_image<double, std::less<>>;
    sim::require(image::of(-0.0) == image::of(0.0), "both zeros are keys");
  });
}
/// A load that is refused, wherever a key is not larger than the one before, frees the values that it has made.
void refused_loads(sim::scene& s) {
  using value = fuzz::doubles::three_words;  // it lies in a cell
  auto& map = s.make<ordered_map<std::uint64_t, value, fuzz::policies>::with_fanout<8>>();
  s.thread("loads", [&map] {
    std::array<std::pair<std::uint64_t, value>, 20> entries{};
    for (std::uint64_t equal = 1; equal < entries.size(); ++equal) {
      for (std::uint64_t k = 0; k < entries.size(); ++k) entries[k].first = k - std::uint64_t{k == equal};
      try {
        map.bulk_load(entries);
        sim::fail("a load takes keys that are equal");
      } catch (const std::invalid_argument&) {
      }
    }
  });
}
void nothing_is_behind_the_largest_key(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  s.thread("seeks", [&map] {
    map.insert(1, 1);
    const auto behind = map.upper_bound(std::numeric_limits<std::uint64_t>::max());
    sim::require(!behind.has_value(), "a scan begins anew behind the largest key");
  });
}
/// A cursor that is assigned is where the other one is.
void assigned_cursor(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 3; ++k) map.insert(k, k);
  s.thread("walks", [&map] {
    narrow_map::cursor at(map);
    at.seek_first();
    narrow_map::cursor last(map);
    last.seek(3);
    at = last;
    sim::require(at.valid() && at.key() == 3, "an assigned cursor is elsewhere");
    at.next();
    sim::require(!at.valid(), "an assigned cursor goes on elsewhere");
  });
}
/// A visitor that ends the scan is not called again, wherever that is.
void scan_ends_at_each_entry(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 5; ++k) map.insert(2 * k, 2 * k);
  for (const std::uint64_t k : {8, 10}) map.erase(k);  // it has no first leaf any more
  for (unsigned i = 0; i < 2; ++i) keys_of(map);
  for (const std::uint64_t k : {3U, 8U, 9U, 10U}) map.insert(k, k);
  s.thread("scans", [&map] {
    for (unsigned most = 1; most <= 7; ++most) {
      unsigned visits = 0;
      map.scan(0, [&](std::uint64_t, std::uint64_t) { return ++visits != most; });
      sim::require(visits == most, "a scan calls a visitor that has ended it");
    }
  });
}
/// A split moves entries that the scan has not visited yet.
void scan_beside_a_split(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 10; k <= 15; ++k) map.insert(k, k);
  for (unsigned i = 0; i < 2; ++i) keys_of(map);
  s.thread("inserts", [&map] {
    for (std::uint64_t k = 1; k <= 3; ++k) map.insert(k, k);
  });
  s.thread("scans", [&map] {
    const std::vector<std::uint64_t> all = keys_of(map);
    for (std::uint64_t k = 10; k <= 15; ++k)
      sim::require(std::ranges::count(all, k) == 1, "a scan misses an entry");
  });
}

/// A leaf that was split has a hint: what its range is now comes with it.
void insert_beside_a_split_and_a_hint(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 10; k <= 17; ++k) map.insert(k, k);
  s.thread("inserts in vain", [&map] {
    map.insert(5, 5);
    map.insert(5, 6);
  });
  s.thread("inserts", [&map] { map.insert(18, 18); });
  s.at_end([&map] {
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
    for (const std::uint64_t k : {5, 10, 17, 18})
      sim::require(map.contains(k), "a key is lost beside a split");
  });
}

// A map with few entries has one leaf of half the size: here of four entries.

void first_leaf_grows(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  for (std::uint64_t k = 1; k <= 4; ++k) map.insert(k, k);
  s.thread("grows", [&map] { map.insert(5, 5); });
  s.thread("changes", [&map] {
    sim::require(map.erase(1), "an entry is lost while the map grows");
    sim::require(map.insert(6, 6), "an insert finds its key while the map grows");
    sim::require(map.find(6) == 6, "an insert is lost while the map grows");
  });
  s.thread("reads", [&map] {
    for (std::uint64_t k = 2; k <= 4; ++k)
      sim::require(map.find(k) == k, "a find misses an entry while the map grows");
    const std::vector<std::uint64_t> all = keys_of(map);
    for (std::uint64_t k = 2; k <= 4; ++k)
      sim::require(std::ranges::count(all, k) == 1, "a scan misses an entry while the map grows");
  });
  s.at_end([&map] {
    sim::require(keys_of(map) == std::vector<std::uint64_t>{2, 3, 4, 5, 6}, "an entry is lost or comes back");
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

void first_leaf_goes(sim::scene& s) {
  auto& map = s.make<narrow_map>();
  map.insert(1, 1);
  s.thread("erases", [&map] { sim::require(map.erase(1), "an entry is lost"); });
  for (const std::uint64_t k : {2, 3}) {
    s.thread("inserts " + std::to_string(k), [&map, k] {
      sim::require(map.insert(k, k), "an insert finds a key that is absent");
      sim::require(map.find(k) == k, "an insert is lost");
      if (k == 3) sim::require(map.erase(k), "an entry is lost");
    });
  }
  s.at_end([&map] {
    sim::require(keys_of(map) == std::vector<std::uint64_t>{2}, "an entry is lost or comes back");
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

/// The first leaf is retired, and then the value that another thread has inserted meanwhile.
void first_leaf_grows_for_an_assignment(sim::scene& s) {
  using value = fuzz::doubles::three_words;  // it lies in a cell
  using policies = map_traits::with_reclaimer<sim::eager_reclaimer>;
  auto& map = s.make<ordered_map<std::uint64_t, value, policies>::with_fanout<8>>();
  for (std::uint64_t k = 1; k <= 4; ++k) map.insert(k, value{});
  for (const std::uint64_t v : {1, 2})
    s.thread("assigns " + std::to_string(v), [&map, v] { map.insert_or_assign(5, value{v, v, v}); });
  s.at_end([&map] {
    sim::require(map.size() == 5, "an entry is lost");
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

/// A full leaf comes to share with a neighbour that has room, and finds it full.
void share_with_a_leaf_that_fills(sim::scene& s) {
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
      sim::require(map.contains(k), "a key is lost where two leaves share");
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

}  // namespace

void explore_all(scenes& all) {
  // All that a thread does comes between two steps of another.
  sim::exploration_options once;
  once.strategies = {"pct:2"};
  all.run_alone("images_of_keys", images_of_keys);
  all.run_alone("refused_loads", refused_loads);
  all.run("erase_if_beside_a_writer", erase_if_beside_a_writer);
  all.run("erase_if_counts_beside_a_writer", erase_if_counts_beside_a_writer);
  all.run("erases_of_a_range", erases_of_a_range);
  all.run("find_beside_an_erase", find_beside_an_erase<std::uint64_t>);
  all.run("find_in_two_steps_beside_an_erase", find_beside_an_erase<std::uint32_t>);
  all.run("scan_beside_an_insert", scan_beside_an_insert);
  all.run("scan_makes_the_order_beside_an_insert", scan_makes_the_order_beside_an_insert);
  all.run("scan_beside_an_erase", scan_beside_an_erase);
  all.run("scan_interrupted_by_an_erase", scan_beside_an_erase, once, 4);
  all.run("scan_beside_an_erase_of_a_later_entry", scan_beside_an_erase_of_a_later_entry);
  all.run("scan_beside_an_erase_of_a_later_first_entry", scan_beside_an_erase_of_a_later_first_entry, {}, 2);
  all.run_alone("scan_ends_at_each_entry", scan_ends_at_each_entry);
  all.run("scan_beside_another_order", scan_beside_another_order, once, 2);
  all.run("marks_beside_a_split", marks_beside_a_split, {}, 4);
  all.run_alone("marks_where_threads_meet", marks_where_threads_meet);
  all.run_alone("searches_first_where_a_change_was_in_vain", searches_first_where_a_change_was_in_vain);
  all.run("scan_beside_a_split", scan_beside_a_split, once, 4);
  sim::exploration_options weak;
  weak.model = sim::memory_model::weak;
  all.run("insert_beside_a_split_and_a_hint", insert_beside_a_split_and_a_hint, weak, 4);
  all.run("find_of_what_a_scan_has_visited", find_of_what_a_scan_has_visited, once, 4);
  all.run("first_leaf_grows", first_leaf_grows, {}, 2);
  all.run("first_leaf_goes", first_leaf_goes, {}, 2);
  all.run("first_leaf_grows_for_an_assignment", first_leaf_grows_for_an_assignment, once, 2);
  all.run("share_with_a_leaf_that_fills", share_with_a_leaf_that_fills, once, 4);
  all.run_alone("nothing_is_behind_the_largest_key", nothing_is_behind_the_largest_key);
  all.run_alone("assigned_cursor", assigned_cursor);
  // Last, because they take longest.
  const std::uint64_t seed = all.options.seed;
  play<fuzz::narrow>(all, "narrow", any_operations(seed, 0, 600));
  play<fuzz::middling>(all, "middling", any_operations(seed, 2, 600));
  play<fuzz::full_size>(all, "full_size", any_operations(seed, 6, 400));
  play<fuzz::narrow>(all, "whole narrow maps", whole_maps(seed));
}

}  // namespace espalier::mutants
