// any_map_counts NAME: finds in the map of this name, as a type and as any_map, each kind in a function of its own, whose
// instructions any_map_counts_test.py counts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/catalog/any_map.hpp"
#include "espalier/map/bst/ticket.hpp"
#include "espalier/map/ordered/ordered_map.hpp"

namespace {

using number = std::uint64_t;

template <class Map>
[[gnu::noinline]] number find(const Map& map, const std::vector<number>& keys) {
  number sum = 0;
  for (const number k : keys) sum += map.find(k).value_or(0);
  return sum;
}

template <class Map>
[[gnu::noinline]] number find_batch(const Map& map, const std::vector<number>& keys) {
  constexpr std::size_t together = 16;
  std::array<std::optional<number>, together> found;
  number present = 0;
  for (std::size_t at = 0; at < keys.size(); at += together)
    present += map.find_batch(std::span(keys).subspan(at, together), found);
  return present;
}

template <class Map>
bool measure(Map&& map) {
  std::vector<number> keys;
  number sum = 0;
  for (number k = 0; k < 8'000; ++k) {
    keys.push_back(k * 0x9e3779b97f4a7c15U);
    sum += k;
    map.insert(keys.back(), k);
  }
  return find(map, keys) == sum && find_batch(map, keys) == keys.size();
}

template <class Map>
bool measure_both(const char* name) {
  return measure(Map()) && measure(espalier::any_map(name));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const bool right = std::string_view(arguments[1]) == "ticket"
                         ? measure_both<espalier::ticket<number, number>>("ticket")
                         : measure_both<espalier::ordered_map<number, number>>("ordered_map");
  return right ? 0 : 1;
}
