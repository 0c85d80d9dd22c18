// ordered_map with nodes of their full size: groups overflow, and keys are far apart.

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>

#include "espalier/map/ordered_map.hpp"
#include "mutants/driver.hpp"

namespace espalier::mutants {
namespace {

using key = std::uint64_t;
using model = std::map<key, key>;

void require_same(const ordered_map<key, key>& map, const model& expected) {
  sim::require(map.check_invariants() == nullptr, "an invariant does not hold");
  auto at = expected.begin();
  map.scan(0, [&](key k, key v) {
    sim::require(at != expected.end() && at->first == k && at->second == v, "a scan visits another entry");
    ++at;
  });
  sim::require(at == expected.end(), "a scan misses an entry");
  for (const auto& [k, v] : expected) {
    sim::require(map.find(k) == v, "a find misses an entry");
    if (!expected.contains(k + 1)) sim::require(!map.contains(k + 1), "a key that is absent is found");
  }
}

/// `next` gives the keys, some of them again.
template <class Next>
void grow_and_shrink(ordered_map<key, key>& map, std::size_t count, Next next) {
  model expected;
  std::mt19937_64 random(1);
  const auto insert = [&] {
    const key k = next();
    sim::require(map.insert(k, ~k) == expected.emplace(k, ~k).second, "an insert errs");
  };
  for (std::size_t i = 0; i < count; ++i) insert();
  require_same(map, expected);
  // Down to none, by ranges and here and there, with inserts between.
  while (expected.size() > 50) {
    const key first = expected.begin()->first;
    auto at = expected.lower_bound(first + random() % (expected.rbegin()->first - first));
    for (std::size_t i = random() % 600; i > 0 && at != expected.end(); --i) {
      sim::require(map.erase(at->first), "an erase misses an entry");
      sim::require(!map.erase(at->first), "an erase finds what has gone");
      at = expected.erase(at);
    }
    if (random() % 4 == 0) insert();
  }
  require_same(map, expected);
  for (const auto& [k, v] : expected) sim::require(map.erase(k), "an erase misses an entry");
  require_same(map, {});
}

void sequence(sim::scene& s) {
  auto& map = s.make<ordered_map<key, key>>();
  s.thread("changes", [&map] {
    std::mt19937_64 random(2);
    grow_and_shrink(map, 800, [&]() -> key { return random() % 16 == 0 ? ~(random() % 4) : random(); });
    grow_and_shrink(map, 800, [&, k = key{1} << 40]() mutable { return k += random() % 3; });
  });
}

}  // namespace

void explore_all(scenes& all) {
  sim::exploration_options how;
  how.step_budget = 100'000'000;
  all.run("grows_and_shrinks", sequence, how, 0.00001);
}

}  // namespace espalier::mutants
