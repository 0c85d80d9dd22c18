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
#include "mutants/battery_program.hpp"
#include "scheduled/strings.hpp"

namespace espalier::mutants {
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
  sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  auto at = expected.begin();
  map.scan("", [&](const std::string& k, std::uint64_t v) {
    sim::require(at != expected.end() && at->first == k && at->second == v, "a scan visits another entry");
    ++at;
  });
  sim::require(at == expected.end(), "a scan misses an entry");
  const std::string from = some_key(random);
  auto below = expected.upper_bound(from);
  map.reverse_scan(from, [&](const std::string& k, std::uint64_t v) {
    sim::require(below != expected.begin(), "a reverse scan visits too many entries");
    --below;
    sim::require(below->first == k && below->second == v, "a reverse scan visits another entry");
  });
  sim::require(below == expected.begin(), "a reverse scan misses an entry");
  for (const auto& [k, v] : expected) sim::require(map.find(k) == v, "a find misses an entry");
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
        sim::require(map.insert(k, v) == expected.emplace(k, v).second, "an insert errs");
      } else if (!expected.empty()) {
        auto at = expected.lower_bound(some_key(random));
        if (at == expected.end()) at = expected.begin();
        sim::require(map.erase(at->first), "an erase misses an entry");
        sim::require(!map.erase(at->first), "an erase finds what has gone");
        expected.erase(at);
      }
      if (expected.size() % 128 == 0) require_same(map, expected, random);
    }
  }
  sim::require(map.empty(), "an entry is left");
}

template <class Map>
void sequence(sim::scene& s) {
  auto& map = s.make<Map>();
  s.thread("changes", [&map] { grow_and_shrink(map, 500); });
}

/// More than sixteen levels: strings that begin with one another.
void strings_in_one_another(sim::scene& s) {
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
        sim::require(map.erase(key) == (there.erase(key) != 0), "an erase misses a key");
      else
        sim::require(map.insert(key, 1) == there.insert(key).second,
                     "an insert takes an absent key for present");
    }
    for (const std::string& key : there) sim::require(map.contains(key), "a find misses a key");
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}
/// Keys with equal beginnings, without an order, and with one twice.
void loads(sim::scene& s) {
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
      sim::fail("a load takes keys that are equal");
    } catch (const std::invalid_argument&) {
    }
  });
}

/// Keys that a leaf tells apart by all of their bytes alone.
void one_tag(sim::scene& s) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>>();
  s.thread("finds", [&map] {
    std::map<std::uint64_t, std::string> by_tag;
    for (std::uint64_t i = 100'000;; ++i) {
      const std::string k = std::to_string(i).append("!");
      const auto [at, is_new] = by_tag.emplace(btree::sought_string(k).tag(), k);
      if (is_new) continue;
      map.insert(at->second, 1);
      return sim::require(!map.contains(k), "a key with the tag of another one is found");
    }
  });
}

/// Nodes with longer and longer prefixes on the left, and then keys that lack all of these.
void moved_out(sim::scene& s) {
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
    for (int i = 0; i < 3; ++i) sim::require(map.contains(other), "a key that is moved out is not found");
  });
}

/// All that a thread does comes between two steps of another.
sim::exploration_options once() {
  sim::exploration_options how;
  how.strategies = {"pct:2"};
  return how;
}

/// A scan beside a change of the nodes that it goes through.
struct scan_beside {
  using map_type = ordered_map<std::string, std::uint64_t>::with_fanout<3>;
  std::vector<std::string> inserted, erased;  ///< before
  void (*change)(map_type&);
  std::string from;
  bool reverse = false;

  void operator()(sim::scene& s) const {
    auto& map = s.make<map_type>();
    for (const auto& k : inserted) map.insert(k, 1);
    for (const auto& k : erased) map.erase(k);
    s.thread("changes", [this, &map] { change(map); });
    s.thread("scans", [this, &map] {
      std::string last;
      const auto visit = [&](const std::string& k, std::uint64_t) {
        sim::require(last.empty() || (reverse ? k < last : last < k), "a scan steps back");
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
void explore_scans(scenes& all) {
  using map_type = scan_beside::map_type;
  // (a)(b c d) -> (a b d): an empty leaf goes, its neighbour is too full for a merge and gets the range, and then the key.
  const auto moves_a = [](map_type& m) {
    for (const char* k : {"a", "c"}) m.erase(k);
    m.insert("a", 2);
  };
  all.run("scan_to_a_range_that_grows", scan_beside{{"a", "b", "c", "d"}, {}, moves_a, ""}, once());
  const auto moves_a_in_order = [](map_type& m) {
    for (const char* k : {"a", "c"}) m.erase(k);
    m.insert("a", 2);
    m.scan("", [](const std::string&, std::uint64_t) {});  // the leaf then keeps the order of its records
  };
  all.run("scan_in_order_to_a_range_that_grows", scan_beside{{"a", "b", "c", "d"}, {}, moves_a_in_order, ""},
          once(), 32);
  // (a a1 b)(c) -> (a b c)
  const auto moves_c = [](map_type& m) {
    for (const char* k : {"c", "a1"}) m.erase(k);
    m.insert("c", 2);
  };
  all.run("reverse_scan_to_a_range_that_grows",
          scan_beside{{"b", "c", "d", "a", "a1"}, {"d"}, moves_c, "z", true}, once());
  // ((a)(b c))(d)((h i)(j k)(l m)) -> ((a)(b c d))((h i)(j k)(l m)): the end of (b c) is a separator two nodes above.
  const auto moves_d = [](map_type& m) {
    m.erase("d");
    m.insert("d", 2);
  };
  const std::vector<std::string> inserted = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"};
  all.run("scan_of_a_range_that_grows", scan_beside{inserted, {"e", "f", "g"}, moves_d, "b"}, once(), 4);
}

/// A record comes to a leaf while another thread drops it, since it is empty. The root, or a child whose neighbour is too
/// full for a merge: (a)(b c d)
void insert_into_an_empty_leaf(sim::scene& s) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>::with_fanout<3>>();
  for (const char* k : {"a", "b", "c", "d"}) map.insert(k, 1);
  s.thread("erases", [&map] { map.erase("a"); });
  s.thread("inserts", [&map] { map.insert("aa", 1); });
  s.at_end([&map] { sim::require(map.contains("aa"), "an insert is lost"); });
}

/// A leaf is made anew, since a long record is erased, while other threads use it. Or it is merged with its neighbour: the
/// leaves have one key each in the end.
template <bool Merges>
void copied_leaf(sim::scene& s) {
  using map_type = ordered_map<std::string, std::uint64_t>::with_fanout<8>;
  auto& map = s.make<map_type>();
  const std::string longest(4000, 'x');
  for (const char* k : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) map.insert(k, 1);
  if (Merges)
    for (const char* k : {"b", "c", "d", "f", "g", "h"}) map.erase(k);
  else
    map.insert(longest, 1);
  s.thread("erases", [&map, longest] { sim::require(map.erase(Merges ? "i" : longest), "an erase errs"); });
  s.thread("changes", [&map] {
    sim::require(!map.insert_or_assign("e", 2), "an assignment inserts");
    sim::require(map.insert("ea", 2), "an insert errs");
  });
  s.thread("reads", [&map] {
    for (const char* k : {"a", "e"}) sim::require(map.contains(k), "a find misses an entry");
    unsigned visits = 0;
    map.scan("",
             [&visits](const std::string& k, std::uint64_t) { visits += unsigned{k == "a" || k == "e"}; });
    sim::require(visits == 2, "a scan misses an entry");
  });
  s.at_end([&map] {
    sim::require(map.find("e") == 2, "an assignment is lost");
    sim::require(map.find("ea") == 2, "an insert is lost");
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}

/// Entries come and go, and the map keeps its size.
void come_and_go(sim::scene& s) {
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
    sim::require(bytes < 10'000, "erased entries keep their memory");
  });
}

}  // namespace

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
    sim::require(all.empty() || all.back() < k, "a scan steps back");
    all.emplace_back(k);
  });
  return all;
}
/// The leaf is ordered. An insert takes the slot of a key that was erased, or one that is not in the order.
template <bool UsesSlot>
void scan_beside_an_insert(sim::scene& s) {
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
    sim::require(!found || (!all.empty() && all.front() == home[0][0]),
                 "a scan misses what a find has found");
    for (unsigned i = 1; i < before; ++i)
      sim::require(std::ranges::count(all, home[0][i]) == 1, "a scan misses an entry");
  });
}
/// Scans of an ordered leaf begin at keys that are there, were erased, or lie between.
void scans_among_erased_keys(sim::scene& s) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>>();
  s.thread("scans", [&map] {
    model there;
    for (unsigned i = 10; i < 100; ++i) there.emplace(std::to_string(i), i);
    for (const auto& [k, v] : there) map.insert(k, v);
    for (unsigned i = 0; i < 2; ++i) map.scan("", [](std::string_view, std::uint64_t) {});
    for (unsigned i = 10; i < 100; ++i) {
      if (i % 3 == 0 || i / 10 == 5)
        sim::require(map.erase(std::to_string(i)) == (there.erase(std::to_string(i)) != 0), "");
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
        sim::require(first == (above == there.end() ? "none" : above->first), "a scan begins elsewhere");
        sim::require(last == (behind == there.begin() ? "none" : std::prev(behind)->first),
                     "a reverse scan begins elsewhere");
      }
    }
  });
}
/// A scan of a leaf merges what came since the order was made, and keeps that order.
void many_records_since_the_order(sim::scene& s) {
  auto& map = s.make<ordered_map<std::string, std::uint64_t>>();
  s.thread("scans", [&map] {
    model there;
    const auto insert = [&](const std::string& k) {
      map.insert(k, there.emplace(k, there.size()).first->second);
    };
    const auto is_as_model = [&] {
      auto next = there.begin();
      map.scan("", [&](std::string_view k, std::uint64_t v) {
        sim::require(next != there.end() && next->first == k && next->second == v,
                     "a scan visits another entry");
        ++next;
      });
      sim::require(next == there.end(), "a scan misses an entry");
    };
    for (unsigned i = 0; i < 60; ++i) insert("a" + std::to_string(1000 + 7 * i));
    is_as_model();
    for (unsigned i = 0; i < 40; ++i)
      insert("a1000/" + std::to_string(7 * i % 41));  // behind the smallest one
    is_as_model();
    for (unsigned i = 0; i < 40; ++i) insert("a1" + std::to_string(7 * i % 41));
    for (unsigned i = 0; i < 2; ++i) is_as_model();
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  });
}
/// The insert is the first one that passes a full group.
void find_of_what_a_scan_has_visited(sim::scene& s) {
  const auto home = keys_by_home()[0];
  auto& map = s.make<two_groups>();
  for (unsigned i = 0; i < 8; ++i) map.insert(home[i], i);
  s.thread("inserts", [&map, k = home[8]] { map.insert(k, 8); });
  s.thread("finds", [&map, k = home[8]] {
    const bool visited = std::ranges::count(keys_in(map), k) != 0;
    sim::require(!visited || map.contains(k), "a find misses an entry that a scan has visited");
  });
}
/// Two leaves have room for a merge, and then one of them gets more.
void inserts_beside_a_merge(sim::scene& s) {
  auto& map = s.make<two_groups>();
  const auto key = [](unsigned i) { return "k" + std::to_string(10 + i); };
  for (unsigned i = 0; i < 18; ++i) map.insert(key(i), i);                // 7 and 11
  for (const unsigned i : {0U, 1U, 2U, 8U, 10U, 12U}) map.erase(key(i));  // 4 and 8
  s.thread("erases", [&map, key] { map.erase(key(3)); });
  s.thread("inserts", [&map, key] {
    for (const unsigned i : {8U, 10U, 12U, 18U, 19U, 20U}) map.insert(key(i), i);
  });
  s.at_end([&map] {
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
    sim::require(keys_in(map).size() == 17, "a scan does not visit each key");
  });
}
/// An insert sees each group full, and then a slot that has become free.
void room_in_a_full_leaf(sim::scene& s) {
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
    sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
    sim::require(keys_in(map).size() == 15, "a scan does not visit each key");
  });
}

/// What strings with a prefix are, in an order and in the other one, after a load.
template <class Order>
void prefixes(sim::scene& s) {
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
      sim::require(seen == wanted, "a scan of a prefix errs");
      seen.clear();
      for (const auto& e : map.range_of_prefix(prefix)) note(e.key, e.value);
      sim::require(seen == wanted, "a loop over a prefix errs");
      seen.clear();
      map.reverse_scan_prefix(prefix, note);
      std::reverse(seen.begin(), seen.end());
      sim::require(seen == wanted, "a reverse scan of a prefix errs");
      const std::string text = some() + "b" + some() + "b";
      auto longest = expected.end();
      for (std::size_t length = 0; length <= text.size(); ++length) {
        if (const auto at = expected.find(text.substr(0, length)); at != expected.end()) longest = at;
      }
      const auto match = map.longest_match(text);
      sim::require(
          match ? longest != expected.end() && match->key == longest->first : longest == expected.end(),
          "the longest match is another one");
    }
  });
}

void explore_all(scenes& all) {
  using map = ordered_map<std::string, std::uint64_t>;
  // First those of one thread, which do not depend on how much time there is.
  all.run_alone("entries_come_and_go", come_and_go);
  all.run_alone("small_nodes_grow_and_shrink", sequence<map::with_fanout<4>>);
  all.run_alone("large_nodes_grow_and_shrink", sequence<map::with_fanout<16, 64>>);
  all.run_alone("strings_in_one_another", strings_in_one_another);
  all.run_alone("loads", loads);
  all.run_alone("prefixes", prefixes<std::less<>>);
  all.run_alone("prefixes_in_decreasing_order", prefixes<std::greater<>>);
  all.run_alone("scans_among_erased_keys", scans_among_erased_keys);
  all.run_alone("many_records_since_the_order", many_records_since_the_order);
  all.run("scan_beside_an_insert", scan_beside_an_insert<false>);
  all.run("scan_beside_an_insert_into_a_slot_of_the_order", scan_beside_an_insert<true>);
  all.run_alone("keys_with_one_tag", one_tag);
  all.run("room_in_a_full_leaf", room_in_a_full_leaf, {}, 0.1);
  all.run("find_beside_a_move_out", moved_out);
  all.run("find_interrupted_by_a_move_out", moved_out, once(), 4);
  explore_scans(all);
  all.run("find_of_what_a_scan_has_visited", find_of_what_a_scan_has_visited, once(), 4);
  sim::exploration_options beside_a_merge = once();
  beside_a_merge.step_budget = 500'000;  // an insert waits for the merge
  all.run("inserts_beside_a_merge", inserts_beside_a_merge, beside_a_merge, 4);
  all.run("insert_into_an_empty_leaf", insert_into_an_empty_leaf, once(), 2);
  all.run("leaf_made_anew", copied_leaf<false>, once(), 4);
  all.run("leaf_merged", copied_leaf<true>, once(), 4);
  explore_battery<sim::battery::ordered_map_of_strings<3>>("ordered_map_of_strings", all);
}

}  // namespace espalier::mutants
