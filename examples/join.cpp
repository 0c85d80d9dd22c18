// A join: for each order the customer's country. One find waits for memory. A batch of finds waits once: while the memory
// of one key is on its way, the search for the next one goes on.
//
// Prints:
//   orders from country 0: 1667
//   orders from country 1: 1667
//   orders from country 2: 1666

#include <array>
#include <cstdint>
#include <cstdio>
#include <espalier/ordered_map.hpp>
#include <optional>
#include <vector>

namespace {

using number = std::uint32_t;
constexpr number customers = 3000;
constexpr number countries = 3;

struct order {
  number id;
  number customer;
};

}  // namespace

int main() {
  espalier::ordered_map<number, number> country_of;
  std::vector<decltype(country_of)::value_type> all;
  for (number c = 0; c < customers; ++c) all.push_back({c * 7919, c % countries});
  country_of.bulk_load(all);

  std::vector<order> orders;
  for (number i = 0; i < 5000; ++i) orders.push_back({i, i % customers * 7919});

  std::array<unsigned, countries> from{};
  std::array<number, 100> keys;
  std::array<std::optional<number>, keys.size()> found;
  for (std::size_t first = 0; first < orders.size(); first += keys.size()) {
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = orders[first + i].customer;
    country_of.find_batch(keys, found);
    for (const auto& country : found) ++from[country.value()];
  }
  for (number c = 0; c < countries; ++c) std::printf("orders from country %u: %u\n", c, from[c]);
}
