#pragma once

#include <atomic>
#include <cstdint>

#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"
#include "sim/explore.hpp"
#include "sim/recorded_map.hpp"

// Scenes of skip lists: what the marks and towers of published ones get wrong.

namespace espalier::sim {

/// Each tower has this many levels; the first ones have two, if this is more.
template <unsigned Levels>
struct levels_of {
  [[nodiscard]] static unsigned draw() noexcept { return Levels; }
};

/// Two erases of one key: one wins, and nothing leaks.
template <class Map>
void two_erases_of_one_key(scene& s) {
  auto& map = map_with<Map>(s, {10, 20, 30});
  auto& won = s.make<std::atomic<int>>(0);
  for (const char* const name : {"a", "b"}) {
    s.thread(name, [&] {
      if (map.erase(20)) won.fetch_add(1);
      map.find(20);
    });
  }
  s.at_end([&] { require(won == 1, "one of two erases of a key returns true"); });
}

/// An insert has linked its node at level 0, and is about to link it above, when another thread erases the node. What reads
/// and updates reach must be neither marked nor freed.
template <class Map>
void erased_while_it_is_linked(scene& s) {
  auto& map = map_with<Map>(s, {10, 30});
  s.thread("inserts", [&] { map.insert(20, 1); });
  s.thread("erases", [&] {
    map.erase(20);
    map.insert(25, 2);
    map.find(25);
  });
}

/// The same with a third life of the key: the search of the second insert has seen the first node above level 0.
template <class Map>
void inserted_erased_and_inserted_again(scene& s) {
  auto& map = map_with<Map>(s, {10, 30});
  s.thread("inserts", [&] { map.insert(20, 1); });
  s.thread("erases", [&] { map.erase(20); });
  s.thread("inserts again", [&] {
    map.insert(20, 2);
    map.find(20);
    map.erase(20);
  });
}

/// One thread erases a key and inserts it again, while another thread erases the key before it. The key after it stays.
template <class Map>
void finds_beside_a_key_that_returns(scene& s) {
  auto& map = map_with<Map>(s, {10, 20, 30});
  s.thread("replaces", [&] {
    map.erase(20);
    map.insert(20, 2);
  });
  s.thread("erases", [&] { map.erase(10); });
  s.thread("finds", [&] {
    map.find(20);
    map.find(30);
  });
}

/// Two neighbours are erased at the same time: each is, or is next to, a tower that the other erase or the insert needs.
template <class Map>
void neighbours_go(scene& s) {
  auto& map = map_with<Map>(s, {10, 20, 30});
  s.thread("first", [&] { map.erase(10); });
  s.thread("second", [&] { map.erase(20); });
  s.thread("inserts", [&] {
    map.insert(25, 1);
    map.reverse_scan(100);
  });
}

}  // namespace espalier::sim
