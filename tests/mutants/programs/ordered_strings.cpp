// ordered_map for strings: the battery with small nodes; then one thread, nodes of all sizes, and keys that share beginnings,
// end with zeros, or have nothing in common.

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/map/ordered_map.hpp"
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

void explore_all(scenes& all) {
  using map = ordered_map<std::string, std::uint64_t>;
  explore_battery<sim::battery::ordered_map_of_strings<3>>("ordered_map_of_strings", all);
  all.run("keys_with_one_tag", one_tag, {}, 0.01);
  all.run("find_beside_a_move_out", moved_out);
  all.run("find_interrupted_by_a_move_out", moved_out, once(), 4);
  explore_scans(all);
  all.run("leaf_made_anew", copied_leaf<false>, once(), 4);
  all.run("leaf_merged", copied_leaf<true>, once(), 4);
  sim::exploration_options how;
  how.step_budget = 100'000'000;
  all.run("entries_come_and_go", come_and_go, how, 0.00001);
  all.run("small_nodes_grow_and_shrink", sequence<map::with_fanout<4>>, how, 0.00001);
  all.run("large_nodes_grow_and_shrink", sequence<map::with_fanout<16, 64>>, how, 0.00001);
}

}  // namespace espalier::mutants
