#include <algorithm>
#include <string>
#include <utility>

#include "espalier/workload/random.hpp"
#include "scheduled/battery/scenario.hpp"

namespace espalier::sim::battery {
namespace {

using workload::random_generator;

constexpr std::uint64_t keys[] = {10, 20, 30, 40};

/// What the programs do beside the operations that all maps have.
enum class also : std::uint8_t { nothing, exchanges, reverse_scans };

step random_step(random_generator& random, std::uint64_t key_count, std::uint64_t& next_value, also does) {
  const std::uint64_t key = keys[random.below(key_count)];
  if (does == also::reverse_scans && random.below(4) == 0)
    return {map_operation::reverse_scan, random.below(2) == 0 ? 100 : key, 1 + random.below(5)};
  if (does == also::exchanges && random.below(2) == 0) {
    switch (random.below(5)) {
      case 0:
        return {map_operation::exchange, key, ++next_value};
      case 1:
      case 2:
        return {map_operation::extract, key, 0};
      default:
        return {map_operation::update, key, std::uint64_t{1} << (16 + 4 * random.below(10))};
    }
  }
  // Mostly updates: reads alone cannot fail.
  switch (random.below(16)) {
    case 0:
    case 1:
      return {map_operation::find, key, 0};
    case 2:
      return {map_operation::contains, key, 0};
    case 3:
      return {map_operation::scan, random.below(2) == 0 ? 0 : key, 1 + random.below(5)};
    case 4:
    case 5:
    case 6:
      return {map_operation::insert_or_assign, key, ++next_value};
    case 7:
    case 8:
    case 9:
    case 10:
      return {map_operation::insert, key, ++next_value};
    default:
      return {map_operation::erase, key, 0};
  }
}

program random_program(random_generator& random, also does) {
  program p;
  const std::uint64_t key_count = 1 + random.below(std::size(keys));
  std::vector<std::uint64_t> order(std::begin(keys), std::begin(keys) + key_count);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (const std::uint64_t key : order) {
    if (random.below(4) != 0) p.initial.push_back({key, key + 1});
  }
  std::uint64_t next_value = 1000;
  const std::uint64_t threads = 2 + random.below(2);
  for (std::uint64_t t = 0; t < threads; ++t) {
    thread_program mine;
    const std::uint64_t length = 1 + random.below(3);
    for (std::uint64_t i = 0; i < length; ++i)
      mine.steps.push_back(random_step(random, key_count, next_value, does));
    mine.one_guard = random.below(5) == 0;
    p.threads.push_back(std::move(mine));
  }
  return p;
}

scenario random_scenario(std::string name, std::size_t programs, std::uint64_t seed, std::uint64_t stream,
                         also does = also::nothing) {
  random_generator random(seed, stream);
  scenario s;
  s.name = std::move(name);
  s.weight = 10;
  for (std::size_t i = 0; i < programs; ++i) s.programs.push_back(random_program(random, does));
  return s;
}

}  // namespace

std::vector<scenario> random_scenarios(std::uint64_t seed) {
  std::vector<scenario> all;
  for (std::uint64_t i = 1; i <= 5; ++i)
    all.push_back(random_scenario("random_programs_" + std::to_string(i), 100, seed, i));
  all.push_back(random_scenario("random_programs_with_wide_values", 100, seed, 6));
  all.back().wide = true;
  all.push_back(random_scenario("random_programs_with_exchanges", 100, seed, 7, also::exchanges));
  all.push_back(random_scenario("random_programs_with_reverse_scans", 100, seed, 8, also::reverse_scans));
  return all;
}

}  // namespace espalier::sim::battery
