// Every map under the operations of several threads, and what keys and comparators may be.

#include <cstdint>
#include <cstdio>
#include <espalier/map/bst/citrus.hpp>
#include <espalier/map/bst/edge_ext_lf.hpp>
#include <espalier/map/bst/edge_int_lf.hpp>
#include <espalier/map/bst/ext_lf.hpp>
#include <espalier/map/bst/global_lock_bst.hpp>
#include <espalier/map/bst/hand_over_hand_bst.hpp>
#include <espalier/map/bst/int_lf.hpp>
#include <espalier/map/bst/log_int.hpp>
#include <espalier/map/bst/occ_avl.hpp>
#include <espalier/map/bst/ticket.hpp>
#include <espalier/map/locked_map.hpp>
#include <thread>
#include <vector>

namespace {

using number = std::uint64_t;

template <class Map>
bool is_right() {
  Map map;
  map.insert(3, 30);
  map.insert(1, 10);
  map.insert_or_assign(1, 11);
  map.erase(3);
  number sum = 0;
  map.scan(0, [&](number key, number value) { sum += key * 100 + value; });
  return sum == 111 && map.find(1) == 11 && !map.contains(3);
}

/// Nothing but what a sanitizer sees; each value belongs to its key.
template <class Map>
bool stands_threads() {
  constexpr number keys = 256;
  Map map;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (unsigned t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&map, &mine = wrong[t], t] {
      number random = t + 1;
      for (int i = 0; i < 20'000; ++i) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        const number key = (random >> 33U) % keys;
        switch ((random >> 20U) % 8) {
          case 0:
          case 1:
            map.insert(key, key + keys);
            break;
          case 2:
            map.insert_or_assign(key, key + keys);
            break;
          case 3:
          case 4:
            map.erase(key);
            break;
          case 5:
            if (i % 64 == 0)
              map.scan(key, [&](number k, number value) {
                mine += value == k + keys ? 0 : 1;
                return k < key + 20;
              });
            break;
          default:
            mine += map.find(key).value_or(key + keys) == key + keys ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  int all = 0;
  for (const int w : wrong) all += w;
  return all == 0;
}

template <template <class, class, class...> class... Maps>
bool all_are_right() {
  return ((is_right<Maps<number, number>>() && stands_threads<Maps<number, number>>()) && ...);
}

struct version {
  std::uint32_t major;
  std::uint32_t minor;
  bool operator==(const version&) const = default;
};

/// An order that is chosen when the map is made.
struct by_age {
  bool newest_first;
  bool operator()(const version& a, const version& b) const noexcept {
    const version& first = newest_first ? b : a;
    const version& second = newest_first ? a : b;
    return first.major != second.major ? first.major < second.major : first.minor < second.minor;
  }
};

template <template <class, class, class...> class Map>
bool takes_structs() {
  const auto order_of = [](bool newest_first) {
    Map<version, number, espalier::map_traits, by_age> map(by_age{newest_first});
    for (std::uint32_t major = 1; major < 6; ++major) map.insert({major, 1}, major);
    number order = 0;
    map.scan({4, 1}, [&](const version& key, number) { order = order * 10 + key.major; });
    return map.find({2, 1}) == 2U && !map.contains({2, 2}) ? order : 0;
  };
  return order_of(true) == 4321 && order_of(false) == 45;
}

}  // namespace

int main() {
  using namespace espalier;
  const bool right =
      all_are_right<citrus, edge_int_lf, ext_lf, global_lock_bst, hand_over_hand_bst, int_lf, log_int>() &&
      is_right<edge_ext_lf<number, number>>() && stands_threads<edge_ext_lf<number, number>>() &&
      is_right<occ_avl<number, number>>() && stands_threads<occ_avl<number, number>>() &&
      is_right<ticket<number, number>>() && stands_threads<ticket<number, number>>() &&
      is_right<locked_map<number, number>>() && stands_threads<locked_map<number, number>>() &&
      takes_structs<edge_ext_lf>() && takes_structs<int_lf>() && takes_structs<locked_map>();
  std::puts(right ? "consumer: right" : "consumer: wrong");
  return right ? 0 : 1;
}
