// An index of a table's rows by the value in one column, as in a database. The keys are row numbers. The comparator
// has a state, a pointer to the column, and is the first argument of the map's constructor. key_comp() returns it.
//
// Prints:
//   rows from the price of row 2 up to that of row 4
//     row 2: 15
//     row 5: 15
//     row 0: 20
//     row 3: 35

#include <cstdint>
#include <cstdio>
#include <espalier/ordered_map.hpp>
#include <vector>

namespace {

using row = std::uint32_t;
using column = std::vector<std::uint32_t>;

/// Orders rows by value, rows of equal value by number. The order of a key must not change while it is in the map.
struct by_value {
  const column* values;
  bool operator()(row a, row b) const noexcept {
    const auto first = (*values)[a];
    const auto second = (*values)[b];
    return first != second ? first < second : a < b;
  }
};

}  // namespace

int main() {
  const column prices{20, 90, 15, 35, 60, 15};
  espalier::ordered_map<row, char, espalier::map_traits, by_value> index(by_value{&prices});
  for (row r = 0; r < prices.size(); ++r) index.insert(r, 0);

  std::puts("rows from the price of row 2 up to that of row 4");
  constexpr row first = 2;
  constexpr row end = 4;
  index.scan(first, [&](row r, char) {
    if (!index.key_comp()(r, end)) return false;
    std::printf("  row %u: %u\n", r, prices[r]);
    return true;
  });
}
