// ordered_map for strings: the battery with small nodes; then one thread, nodes of all sizes, and keys that share beginnings,
// end with zeros, or have nothing in common.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/map/ordered/ordered_map.hpp"
#include "scheduled/layered_codec.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

using model = std::map<std::string, std::uint64_t>;

std::string some_key(std::mt19937_64& random) {
  static constexpr std::string_view beginnings[] = {"", "http://", "https://www.",
                                                    "a beginning that many keys have "};
  std::string key(beginnings[random() % 4]);
  for (std::size_t length = random() % 24; length != 0; --length)
    key.push_back(static_cast<char>(80 * (random() % 2)));
  return key;
}

template <class Map>
void require_same(const Map& map, const model& expected, std::mt19937_64& random) {
  require(map.check_invariants() == nullptr, "an invariant does not hold");
  auto at = expected.begin();
  map.scan("", [&](const std::string& k, std::uint64_t v) {
    require(at != expected.end() && at->first == k && at->second == v, "a scan visits another entry");
    ++at;
  });
  require(at == expected.end(), "a scan misses an entry");
  const std::string from = some_key(random);
  auto below = expected.upper_bound(from);
  map.reverse_scan(from, [&](const std::string& k, std::uint64_t v) {
    require(below != expected.begin(), "a reverse scan visits too many entries");
    --below;
    require(below->first == k && below->second == v, "a reverse scan visits another entry");
  });
  require(below == expected.begin(), "a reverse scan misses an entry");
  for (const auto& [k, v] : expected) require(map.find(k) == v, "a find misses an entry");
}

template <class Map>
void grow_and_shrink(Map& map, std::size_t most) {
  model expected;
  std::mt19937_64 random(1);
  for (const bool grows : {true, false}) {
    while (grows ? expected.size() < most : !expected.empty()) {
      if (random() % 4 != 0 ? grows : !grows) {
        const std::string k = some_key(random);
        const std::uint64_t v = random();
        require(map.insert(k, v) == expected.emplace(k, v).second, "an insert errs");
      } else if (!expected.empty()) {
        auto at = expected.lower_bound(some_key(random));
        if (at == expected.end()) at = expected.begin();
        require(map.erase(at->first), "an erase misses an entry");
        require(!map.erase(at->first), "an erase finds what has gone");
        expected.erase(at);
      }
      if (expected.size() % 128 == 0) require_same(map, expected, random);
    }
  }
  require(map.empty(), "an entry is left");
}

template <class Map>
void sequence(scene& s) {
  auto& map = s.make<Map>();
  s.thread("changes", [&map] { grow_and_shrink(map, 500); });
}

/// More than sixteen levels: strings that begin with one another.
ESPALIER_SCENE(strings, strings_in_one_another, alone()) {
  using map_type = ordered_map<std::string, std::uint64_t>::with_fanout<4>;
  auto& map = s.make<map_type>();
  s.thread("changes", [&map] {
    // Lengths; those that are negative are erased.
    constexpr std::array lengths{276,  78, 199, 32,  197, 0,   190, 18,  25,  187, 13,  109, 84,   89,  299,
                                 -199, 12, 249, 40,  244, 102, 91,  94,  234, 4,   95,  131, -249, 176, 70,
                                 -89,  87, 211, 143, 206, 68,  167, 101, -87, 128, 200, 215, -32,  -91, 204};
    std::set<std::string> there;
    for (const int length : lengths) {
      const std::string key(static_cast<std::size_t>(std::abs(length)), '\0');
      if (length < 0)
        require(map.erase(key) == (there.erase(key) != 0), "an erase misses a key");
      else
        require(map.insert(key, 1) == there.insert(key).second, "an insert takes an absent key for present");
    }
    for (const std::string& key : there) require(map.contains(key), "a find misses a key");
    require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}
/// Keys with equal beginnings, without an order, and with one twice.
ESPALIER_SCENE(strings, loads, alone()) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>::with_fanout<4>>();
  s.thread("loads", [&map] {
    std::mt19937_64 random(2);
    model expected;
    while (expected.size() < 400) expected.emplace(some_key(random), random());
    std::vector<std::pair<std::string, std::uint64_t>> entries(expected.begin(), expected.end());
    map.bulk_load(entries);
    require_same(map, expected, random);
    map.clear();
    entries[1].first = entries[0].first;
    try {
      map.bulk_load(entries);
      fail("a load takes keys that are equal");
    } catch (const std::invalid_argument&) {
    }
  });
}

/// Keys that a leaf tells apart by all of their bytes alone.
ESPALIER_SCENE(strings, one_tag, alone()) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>>();
  s.thread("finds", [&map] {
    std::map<std::uint64_t, std::string> by_tag;
    for (std::uint64_t i = 100'000;; ++i) {
      const std::string k = std::to_string(i).append("!");
      const auto [at, is_new] = by_tag.emplace(btree::sought_string(k).tag(), k);
      if (is_new) continue;
      map.insert(at->second, 1);
      return require(!map.contains(k), "a key with the tag of another one is found");
    }
  });
}

/// Nodes with longer and longer prefixes on the left, and then keys that lack all of these.
ESPALIER_SCENE(strings, moved_out, 50) {
  using map_type = ordered_map<std::string, std::uint64_t>::with_fanout<3>;
  auto& map = s.make<map_type>();
  const std::string beginning(8, 'm');
  for (const char* end : {"d", "c", "b", "aaaaaaaaaac", "aaaaaaaaaab", "aaaaaaaaaaa", "aaaaaaaaaaaaaaaaaac",
                          "aaaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaa"})
    map.insert(beginning + end, 1);
  const std::string other = "b" + std::string(40, 'z');  // only an exact seek finds it
  map.insert(other, 1);
  s.thread("inserts", [&map, other] {
    for (const char* end : {"1", "2", "3"}) map.insert(other + end, 1);
  });
  s.thread("finds", [&map, other] {
    for (int i = 0; i < 3; ++i) require(map.contains(other), "a key that is moved out is not found");
  });
}

/// All that a thread does comes between two steps of another.
exploration_options once(std::uint64_t step_budget = exploration_options().step_budget) {
  return {.strategies = {"pct:2"}, .step_budget = step_budget};
}

/// A scan beside a change of the nodes that it goes through.
struct scan_beside {
  using map_type = ordered_map<std::string, std::uint64_t>::with_fanout<3>;
  std::vector<std::string> inserted, erased;  ///< before
  void (*change)(map_type&);
  std::string from;
  bool reverse = false;

  void operator()(scene& s) const {
    auto& map = s.make<map_type>();
    for (const auto& k : inserted) map.insert(k, 1);
    for (const auto& k : erased) map.erase(k);
    s.thread("changes", [this, &map] { change(map); });
    s.thread("scans", [this, &map] {
      std::string last;
      const auto visit = [&](const std::string& k, std::uint64_t) {
        require(last.empty() || (reverse ? k < last : last < k), "a scan steps back");
        last = k;
      };
      if (reverse)
        map.reverse_scan(from, visit);
      else
        map.scan(from, visit);
    });
  }
};

/// The leaves are shown as lists of keys.
[[maybe_unused]] const bool scans_are_added = [] {
  using map_type = scan_beside::map_type;
  // (a)(b c d) -> (a b d): an empty leaf goes, its neighbour is too full for a merge and gets the range, and then the key.
  const auto moves_a = [](map_type& m) {
    for (const char* k : {"a", "c"}) m.erase(k);
    m.insert("a", 2);
  };
  add_scene("strings", "scan_to_a_range_that_grows", scan_beside{{"a", "b", "c", "d"}, {}, moves_a, ""},
            {50, 1, once()});
  const auto moves_a_in_order = [](map_type& m) {
    for (const char* k : {"a", "c"}) m.erase(k);
    m.insert("a", 2);
    m.scan("", [](const std::string&, std::uint64_t) {});  // the leaf then keeps the order of its records
  };
  add_scene("strings", "scan_in_order_to_a_range_that_grows",
            scan_beside{{"a", "b", "c", "d"}, {}, moves_a_in_order, ""}, {1600, 32, once()});
  // (a a1 b)(c) -> (a b c)
  const auto moves_c = [](map_type& m) {
    for (const char* k : {"c", "a1"}) m.erase(k);
    m.insert("c", 2);
  };
  add_scene("strings", "reverse_scan_to_a_range_that_grows",
            scan_beside{{"b", "c", "d", "a", "a1"}, {"d"}, moves_c, "z", true}, {50, 1, once()});
  // ((a)(b c))(d)((h i)(j k)(l m)) -> ((a)(b c d))((h i)(j k)(l m)): the end of (b c) is a separator two nodes above.
  const auto moves_d = [](map_type& m) {
    m.erase("d");
    m.insert("d", 2);
  };
  const std::vector<std::string> inserted = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"};
  add_scene("strings", "scan_of_a_range_that_grows", scan_beside{inserted, {"e", "f", "g"}, moves_d, "b"},
            {200, 4, once()});
  return true;
}();

/// A record comes to a leaf while another thread drops it, since it is empty. The root, or a child whose neighbour is too
/// full for a merge: (a)(b c d)
ESPALIER_SCENE(strings, insert_into_an_empty_leaf, 100, 2, once()) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>::with_fanout<3>>();
  for (const char* k : {"a", "b", "c", "d"}) map.insert(k, 1);
  s.thread("erases", [&map] { map.erase("a"); });
  s.thread("inserts", [&map] { map.insert("aa", 1); });
  s.at_end([&map] { require(map.contains("aa"), "an insert is lost"); });
}

/// A leaf is made anew, since a long record is erased, while other threads use it. Or it is merged with its neighbour: the
/// leaves have one key each in the end.
template <bool Merges>
void copied_leaf(scene& s) {
  using map_type = ordered_map<std::string, std::uint64_t>::with_fanout<8>;
  auto& map = s.make<map_type>();
  const std::string longest(4000, 'x');
  for (const char* k : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) map.insert(k, 1);
  if (Merges)
    for (const char* k : {"b", "c", "d", "f", "g", "h"}) map.erase(k);
  else
    map.insert(longest, 1);
  s.thread("erases", [&map, longest] { require(map.erase(Merges ? "i" : longest), "an erase errs"); });
  s.thread("changes", [&map] {
    require(!map.insert_or_assign("e", 2), "an assignment inserts");
    require(map.insert("ea", 2), "an insert errs");
  });
  s.thread("reads", [&map] {
    for (const char* k : {"a", "e"}) require(map.contains(k), "a find misses an entry");
    unsigned visits = 0;
    map.scan("",
             [&visits](const std::string& k, std::uint64_t) { visits += unsigned{k == "a" || k == "e"}; });
    require(visits == 2, "a scan misses an entry");
  });
  s.at_end([&map] {
    require(map.find("e") == 2, "an assignment is lost");
    require(map.find("ea") == 2, "an insert is lost");
    require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

/// Entries come and go, and the map keeps its size.
ESPALIER_SCENE(strings, come_and_go, alone()) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>>();
  s.thread("changes", [&map] {
    map.insert("one that stays", 1);
    for (int i = 0; i < 1000; ++i) {
      const std::string k = "one of those that come and go " + std::to_string(i);
      map.insert(k, 1);
      map.erase(k);
    }
    std::size_t bytes = 0;
    map.visit_nodes([&bytes](const void*, std::size_t of_it, memory_role) { bytes += of_it; });
    require(bytes < 10'000, "erased entries keep their memory");
  });
}

using two_groups = ordered_map<std::string, std::uint64_t>::with_fanout<15, 16>;  // in a leaf

/// Keys by the group of a leaf that is their home.
std::array<std::vector<std::string>, 2> keys_by_home() {
  std::array<std::vector<std::string>, 2> home;
  for (unsigned i = 1000; home[0].size() < 10 || home[1].size() < 10; ++i) {
    std::string k = "k" + std::to_string(i);
    home[btree::sought_string(k).tag() % 2].push_back(std::move(k));
  }
  return home;
}
std::vector<std::string> keys_in(const two_groups& map) {
  std::vector<std::string> all;
  map.scan("", [&](std::string_view k, std::uint64_t) {
    require(all.empty() || all.back() < k, "a scan steps back");
    all.emplace_back(k);
  });
  return all;
}
/// The leaf is ordered. An insert takes the slot of a key that was erased, or one that is not in the order.
template <bool UsesSlot>
void scan_beside_an_insert(scene& s) {
  const auto home = keys_by_home();
  auto& map = s.make<two_groups>();
  const unsigned before = UsesSlot ? 8 : 3;  // a group has 8 slots
  for (unsigned i = 1; i <= before; ++i) map.insert(home[0][i], i);
  for (unsigned i = 0; i < 2; ++i) keys_in(map);
  s.thread("changes", [&map, home, before] {
    if (UsesSlot) map.erase(home[0][before]);
    map.insert(home[0][0], 0);  // the smallest key
  });
  s.thread("scans", [&map, home, before] {
    const bool found = map.contains(home[0][0]);
    const std::vector<std::string> all = keys_in(map);
    require(!found || (!all.empty() && all.front() == home[0][0]), "a scan misses what a find has found");
    for (unsigned i = 1; i < before; ++i)
      require(std::ranges::count(all, home[0][i]) == 1, "a scan misses an entry");
  });
}
/// Scans of an ordered leaf begin at keys that are there, were erased, or lie between.
ESPALIER_SCENE(strings, scans_among_erased_keys, alone()) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>>();
  s.thread("scans", [&map] {
    model there;
    for (unsigned i = 10; i < 100; ++i) there.emplace(std::to_string(i), i);
    for (const auto& [k, v] : there) map.insert(k, v);
    for (unsigned i = 0; i < 2; ++i) map.scan("", [](std::string_view, std::uint64_t) {});
    for (unsigned i = 10; i < 100; ++i) {
      if (i % 3 == 0 || i / 10 == 5)
        require(map.erase(std::to_string(i)) == (there.erase(std::to_string(i)) != 0), "");
    }
    for (unsigned i = 10; i < 100; ++i) {
      for (const char* const end : {"", "5"}) {
        const std::string from = std::to_string(i) + end;
        std::string_view first = "none";
        std::string_view last = "none";
        map.scan(from, [&](std::string_view k, std::uint64_t) { return first = k, false; });
        map.reverse_scan(from, [&](std::string_view k, std::uint64_t) { return last = k, false; });
        const auto above = there.lower_bound(from);
        const auto behind = there.upper_bound(from);
        require(first == (above == there.end() ? "none" : above->first), "a scan begins elsewhere");
        require(last == (behind == there.begin() ? "none" : std::prev(behind)->first),
                "a reverse scan begins elsewhere");
      }
    }
  });
}
/// A scan of a leaf merges what came since the order was made, and keeps that order.
ESPALIER_SCENE(strings, many_records_since_the_order, alone()) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>>();
  s.thread("scans", [&map] {
    model there;
    const auto insert = [&](const std::string& k) {
      map.insert(k, there.emplace(k, there.size()).first->second);
    };
    const auto is_as_model = [&] {
      auto next = there.begin();
      map.scan("", [&](std::string_view k, std::uint64_t v) {
        require(next != there.end() && next->first == k && next->second == v, "a scan visits another entry");
        ++next;
      });
      require(next == there.end(), "a scan misses an entry");
    };
    for (unsigned i = 0; i < 60; ++i) insert("a" + std::to_string(1000 + 7 * i));
    is_as_model();
    for (unsigned i = 0; i < 40; ++i)
      insert("a1000/" + std::to_string(7 * i % 41));  // behind the smallest one
    is_as_model();
    for (unsigned i = 0; i < 40; ++i) insert("a1" + std::to_string(7 * i % 41));
    for (unsigned i = 0; i < 2; ++i) is_as_model();
    require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}
/// The insert is the first one that passes a full group.
ESPALIER_SCENE(strings, find_of_what_a_scan_has_visited, 200, 4, once()) {
  const auto home = keys_by_home()[0];
  auto& map = s.make<two_groups>();
  for (unsigned i = 0; i < 8; ++i) map.insert(home[i], i);
  s.thread("inserts", [&map, k = home[8]] { map.insert(k, 8); });
  s.thread("finds", [&map, k = home[8]] {
    const bool visited = std::ranges::count(keys_in(map), k) != 0;
    require(!visited || map.contains(k), "a find misses an entry that a scan has visited");
  });
}
/// Two leaves have room for a merge, and then one of them gets more.
ESPALIER_SCENE(strings, inserts_beside_a_merge, 200, 4, once(500'000)) {
  auto& map = s.make<two_groups>();
  const auto key = [](unsigned i) { return "k" + std::to_string(10 + i); };
  for (unsigned i = 0; i < 18; ++i) map.insert(key(i), i);                // 7 and 11
  for (const unsigned i : {0U, 1U, 2U, 8U, 10U, 12U}) map.erase(key(i));  // 4 and 8
  s.thread("erases", [&map, key] { map.erase(key(3)); });
  s.thread("inserts", [&map, key] {
    for (const unsigned i : {8U, 10U, 12U, 18U, 19U, 20U}) map.insert(key(i), i);
  });
  s.at_end([&map] {
    require(map.check_invariants() == nullptr, "an invariant does not hold");
    require(keys_in(map).size() == 17, "a scan does not visit each key");
  });
}
/// An insert sees each group full, and then a slot that has become free.
ESPALIER_SCENE(strings, room_in_a_full_leaf, 5, 0.1) {
  const auto home = keys_by_home();
  auto& map = s.make<two_groups>();
  for (unsigned i = 0; i < 8; ++i) map.insert(home[0][i], i);
  for (unsigned i = 0; i < 6; ++i) map.insert(home[1][i], i);
  s.thread("inserts", [&map, k = home[0][8]] { map.insert(k, 8); });
  s.thread("changes", [&map, home] {
    map.erase(home[0][7]);
    map.insert(home[1][6], 6);
    map.insert(home[1][7], 7);
    map.erase(home[1][0]);
  });
  s.at_end([&map] {
    require(map.check_invariants() == nullptr, "an invariant does not hold");
    require(keys_in(map).size() == 15, "a scan does not visit each key");
  });
}

/// What strings with a prefix are, in an order and in the other one, after a load.
template <class Order>
void prefixes(scene& s) {
  auto& map = s.make<typename ordered_map<std::string, std::uint64_t, Order>::template with_fanout<4>>();
  s.thread("scans", [&map] {
    std::mt19937_64 random(3);
    const auto some = [&random] {
      std::string k;
      for (std::size_t length = random() % 6; length != 0; --length) k += "a\xff"[random() % 2];
      return k;
    };
    std::map<std::string, std::uint64_t, Order> expected;
    for (std::uint64_t i = 0; i < 60; ++i) expected.emplace(some() + "b" + some(), i);
    map.bulk_load(std::vector<std::pair<std::string, std::uint64_t>>(expected.begin(), expected.end()));
    for (unsigned i = 0; i < 60; ++i) {
      const std::string prefix = i < 30 ? some() : some() + "b";
      std::vector<std::string> wanted;
      for (const auto& entry : expected) {
        if (entry.first.starts_with(prefix)) wanted.push_back(entry.first);
      }
      std::vector<std::string> seen;
      const auto note = [&seen](std::string_view k, std::uint64_t) { seen.emplace_back(k); };
      map.scan_prefix(prefix, note);
      require(seen == wanted, "a scan of a prefix errs");
      seen.clear();
      for (const auto& e : map.range_of_prefix(prefix)) note(e.key, e.value);
      require(seen == wanted, "a loop over a prefix errs");
      seen.clear();
      map.reverse_scan_prefix(prefix, note);
      std::reverse(seen.begin(), seen.end());
      require(seen == wanted, "a reverse scan of a prefix errs");
      const std::string text = some() + "b" + some() + "b";
      auto longest = expected.end();
      for (std::size_t length = 0; length <= text.size(); ++length) {
        if (const auto at = expected.find(text.substr(0, length)); at != expected.end()) longest = at;
      }
      const auto match = map.longest_match(text);
      require(match ? longest != expected.end() && match->key == longest->first : longest == expected.end(),
              "the longest match is another one");
    }
  });
}

using map_type = ordered_map<std::string, std::uint64_t>;
ESPALIER_SCENE(strings, small_nodes_grow_and_shrink, alone()) { sequence<map_type::with_fanout<4>>(s); }
ESPALIER_SCENE(strings, large_nodes_grow_and_shrink, alone()) { sequence<map_type::with_fanout<16, 64>>(s); }
ESPALIER_SCENE(strings, prefixes, alone()) { prefixes<std::less<>>(s); }
ESPALIER_SCENE(strings, prefixes_in_decreasing_order, alone()) { prefixes<std::greater<>>(s); }
ESPALIER_SCENE(strings, scan_beside_an_insert, 50) { scan_beside_an_insert<false>(s); }
ESPALIER_SCENE(strings, scan_beside_an_insert_into_a_slot_of_the_order, 50) {
  scan_beside_an_insert<true>(s);
}
ESPALIER_SCENE(strings, find_interrupted_by_a_move_out, 200, 4, once()) { strings_moved_out(s); }
ESPALIER_SCENE(strings, leaf_made_anew, 200, 4, once()) { copied_leaf<false>(s); }
ESPALIER_SCENE(strings, leaf_merged, 200, 4, once()) { copied_leaf<true>(s); }

[[maybe_unused]] const bool battery_is_added =
    battery::add_tests("ordered_map_of_strings", battery::ordered_map_of_strings<3>(), 1);

}  // namespace
}  // namespace espalier::sim
