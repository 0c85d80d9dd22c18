#include <cstddef>
#include <string>
#include <utility>

#include "espalier/measure/random.hpp"
#include "scheduled/battery/scenario.hpp"

namespace espalier::sim::battery {
namespace {

using measure::random_generator;

using key_list = std::vector<std::uint64_t>;

/// What the programs do beside the operations that all maps have.
enum class also : std::uint8_t { nothing, exchanges, reverse_scans };

step random_step(random_generator& random, const key_list& keys, std::uint64_t& next_value, also does) {
  const std::uint64_t key = keys[random.below(keys.size())];
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

template <class Element>
void shuffle(random_generator& random, std::vector<Element>& all) {
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
}

void add_threads(program& p, random_generator& random, const key_list& keys, also does) {
  std::uint64_t next_value = 1000;
  const std::uint64_t threads = 2 + random.below(2);
  for (std::uint64_t t = 0; t < threads; ++t) {
    thread_program mine;
    const std::uint64_t length = 1 + random.below(3);
    for (std::uint64_t i = 0; i < length; ++i)
      mine.steps.push_back(random_step(random, keys, next_value, does));
    mine.one_guard = random.below(5) == 0;
    p.threads.push_back(std::move(mine));
  }
}

program random_program(random_generator& random, also does) {
  program p;
  key_list keys{10, 20, 30, 40};
  keys.resize(1 + random.below(keys.size()));
  key_list order = keys;
  shuffle(random, order);
  for (const std::uint64_t key : order) {
    if (random.below(4) != 0) p.initial.push_back({key, key + 1});
  }
  add_threads(p, random, keys, does);
  return p;
}

/// On neighbours among the few keys that are left in a tree of several levels: nodes of each level become empty.
program random_program_in_a_thin_tree(random_generator& random, also does) {
  program p;
  key_list left;
  const std::uint64_t count = 9 + random.below(32);
  for (std::uint64_t i = 1; i <= count; ++i) {
    p.initial.push_back({10 * i, 10 * i + 1});
    if (random.below(5) == 0)
      left.push_back(10 * i);
    else
      p.before.push_back({map_operation::erase, 10 * i, 0});
  }
  if (random.below(3) == 0) shuffle(random, p.initial);
  shuffle(random, p.before);
  const std::uint64_t most = 2 + random.below(2);
  if (left.size() > most) {
    left.erase(left.begin(),
               left.begin() + static_cast<std::ptrdiff_t>(random.below(left.size() - most + 1)));
    left.resize(most);
  }
  left.push_back(left.empty() ? 15 : left.back() + 5);  // for inserts
  add_threads(p, random, left, does);
  return p;
}

using program_source = program(random_generator&, also);

scenario random_scenario(std::string name, std::uint64_t seed, std::uint64_t stream,
                         also does = also::nothing, program_source& source = random_program) {
  random_generator random(seed, stream);
  scenario s;
  s.name = std::move(name);
  s.weight = 10;
  for (int i = 0; i < 100; ++i) s.programs.push_back(source(random, does));
  return s;
}

}  // namespace

std::vector<scenario> random_scenarios(std::uint64_t seed) {
  std::vector<scenario> all;
  for (std::uint64_t i = 1; i <= 5; ++i)
    all.push_back(random_scenario("random_programs_" + std::to_string(i), seed, i));
  all.push_back(random_scenario("random_programs_with_wide_values", seed, 6));
  all.back().wide = true;
  all.push_back(random_scenario("random_programs_with_exchanges", seed, 7, also::exchanges));
  all.push_back(random_scenario("random_programs_with_reverse_scans", seed, 8, also::reverse_scans));
  all.push_back(random_scenario("random_programs_in_thin_trees", seed, 9, also::nothing,
                                random_program_in_a_thin_tree));
  all.back().many_entries = true;
  return all;
}

}  // namespace espalier::sim::battery
