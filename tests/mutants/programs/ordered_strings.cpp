// ordered_map for strings: the battery with small nodes; then one thread, nodes of all sizes, and keys that share beginnings,
// end with zeros, or have nothing in common.

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>

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

}  // namespace

void explore_all(scenes& all) {
  using map = ordered_map<std::string, std::uint64_t>;
  explore_battery<sim::battery::ordered_map_of_strings<3>>("ordered_map_of_strings", all);
  all.run("keys_with_one_tag", one_tag, {}, 0.01);
  all.run("find_beside_a_move_out", moved_out);
  sim::exploration_options how;
  how.step_budget = 100'000'000;
  all.run("small_nodes_grow_and_shrink", sequence<map::with_fanout<4>>, how, 0.00001);
  all.run("large_nodes_grow_and_shrink", sequence<map::with_fanout<16, 64>>, how, 0.00001);
}

}  // namespace espalier::mutants
