#include <cstdint>
#include <espalier/map/bst/edge_ext_lf.hpp>
#include <thread>

/// How many of the keys below n are in a map to which two threads added them.
extern "C" __attribute__((visibility("default"))) std::uint64_t count_of(std::uint64_t n) {
  espalier::edge_ext_lf<std::uint64_t, std::uint64_t> map;
  const auto add = [&](std::uint64_t first) {
    for (std::uint64_t key = first; key < n; key += 2) map.insert(key, key);
  };
  std::thread other(add, 1);
  add(0);
  other.join();
  std::uint64_t count = 0;
  map.scan(0, [&](std::uint64_t, std::uint64_t) { ++count; });
  return count;
}
