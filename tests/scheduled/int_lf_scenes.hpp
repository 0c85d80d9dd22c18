#pragma once

#include <atomic>
#include <cstdint>

#include "espalier/map/bst/int_lf.hpp"
#include "scheduled/battery.hpp"
#include "sim/explore.hpp"
#include "sim/recorded_map.hpp"

// Relocations of int_lf that other threads find half done, as scenes for explore().

namespace espalier::sim {

using recorded_int_lf = recorded<battery::simulated_map<int_lf<std::uint64_t, std::uint64_t>>>;

/// The target loses its left child, so that it can be marked, while its successor waits for the decision. The helper
/// there pins only after the target has been retired.
inline void target_goes_otherwise(scene& s) {
  auto& map = s.make<recorded_int_lf>();
  auto& gone = s.make<std::atomic<bool>>(false);
  for (const std::uint64_t k : {50, 20, 80}) map.start_with(k, k);
  s.thread("relocates", [&] { map.erase(50); });
  s.thread("erases", [&] {
    map.erase(20);
    map.erase(50);
    gone.store(true);
  });
  s.thread("helps", [&] {
    while (!gone.load()) wait_for_others();
    map.insert(70, 1);
  });
  s.at_end([&] { map.check(); });
}

/// The node through which a helper came is erased, and a node below it becomes a successor.
inline void path_goes(scene& s) {
  auto& map = s.make<recorded_int_lf>();
  for (const std::uint64_t k : {50, 20, 60, 80}) map.start_with(k, k);
  s.thread("relocates", [&] {
    map.erase(60);
    map.erase(50);
  });
  s.thread("helps", [&] { map.insert(70, 1); });
  s.thread("reads", [&] {
    map.find(80);
    map.scan(0);
  });
  s.at_end([&] { map.check(); });
}

/// A node is unlinked and freed, and its address recurs at the same edge, while a helper that pinned in between is late.
inline void edge_recurs(scene& s) {
  auto& map = s.make<recorded_int_lf>();
  for (const std::uint64_t k : {20, 10}) map.start_with(k, k);
  s.thread("erases", [&] {
    map.erase(10);
    map.insert(5, 1);
    map.find(5);
  });
  s.thread("helps", [&] { map.erase(10); });
  s.at_end([&] { map.check(); });
}

/// The entry that moves up is erased too: at its old place, or at the new one by a second relocation there.
inline void target_twice(scene& s) {
  auto& map = s.make<recorded_int_lf>();
  for (const std::uint64_t k : {50, 20, 80, 60, 90}) map.start_with(k, k);
  s.thread("first", [&] { map.erase(50); });
  s.thread("second", [&] { map.erase(60); });
  s.thread("third", [&] {
    map.find(80);
    map.insert_or_assign(80, 1);
    map.find(80);
  });
  s.at_end([&] { map.check(); });
}

/// A value that recurs while its key moves and a helper may arrive late.
inline void value_recurs(scene& s) {
  auto& map = s.make<recorded_int_lf>();
  for (const std::uint64_t k : {50, 20, 80}) map.start_with(k, 1);
  s.thread("relocates", [&] { map.erase(50); });
  s.thread("assigns", [&] {
    for (const std::uint64_t v : {2, 1, 2}) map.insert_or_assign(80, v);
  });
  s.thread("helps", [&] {
    map.insert(70, 1);
    map.find(80);
  });
  s.at_end([&] { map.check(); });
}

}  // namespace espalier::sim
