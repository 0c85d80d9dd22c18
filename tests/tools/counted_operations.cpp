// Operations whose instructions instruction_counts_test.py counts: those below the function that it names.
//
// usage: counted_operations find|set

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "espalier/ordered_map.hpp"

namespace {

using map_type = espalier::ordered_map<std::uint64_t, std::uint64_t>;

constexpr std::uint64_t keys = 20'000;
constexpr std::uint64_t operations = 20'000;

/// In an order that no prefetcher and no leaf follows.
std::uint64_t key_at(std::uint64_t i) { return i * 7919 % keys; }

}  // namespace

extern "C" {
[[gnu::noinline]] std::uint64_t counted_find(map_type& map) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < operations; ++i) sum += map.find(key_at(i)).value_or(0);
  return sum;
}
[[gnu::noinline]] std::uint64_t counted_set(map_type& map) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < operations; ++i) sum += std::uint64_t{map.insert_or_assign(key_at(i), i)};
  return sum;
}
}

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what != "find" && what != "set") {
    std::fputs("usage: counted_operations find|set\n", stderr);
    return 2;
  }
  map_type map;
  for (std::uint64_t k = 0; k < keys; ++k) map.insert(k, k);
  const std::uint64_t sum = what == "find" ? counted_find(map) : counted_set(map);
  std::printf("%llu operations %llu\n", static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(sum));
  return 0;
}
