#include <cstdint>
#include <cstdio>
#include <espalier/map/bst/edge_ext_lf.hpp>
#include <espalier/map/bst/ticket.hpp>

template <class Map>
bool works() {
  Map map;
  map.insert(3, 30);
  map.insert(1, 10);
  map.insert_or_assign(1, 11);
  map.erase(3);
  std::uint64_t sum = 0;
  map.scan(0, [&](std::uint64_t key, std::uint64_t value) { sum += key * 100 + value; });
  return sum == 111 && map.find(1) == 11 && !map.contains(3);
}

int main() {
  const bool right = works<espalier::edge_ext_lf<std::uint64_t, std::uint64_t>>() &&
                     works<espalier::ticket<std::uint64_t, std::uint64_t>>();
  std::puts(right ? "consumer: right" : "consumer: wrong");
  return right ? 0 : 1;
}
