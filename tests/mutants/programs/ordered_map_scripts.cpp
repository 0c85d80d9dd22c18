// Scripts of operations on ordered_map, of one thread, and what erase_if promises beside a writer.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fuzz/scripts.hpp"
#include "mutants/driver.hpp"

namespace espalier::mutants {
namespace {

/// A script at random that begins with inserts: a few for small nodes, enough for some leaves of full size.
std::vector<std::uint8_t> script_of(std::uint64_t seed, unsigned batches, std::size_t bytes) {
  workload::random_generator random(8008, seed);
  unsigned insert_batch = 0;
  while (fuzz::operation_of(insert_batch).what != fuzz::operation::insert_batch) ++insert_batch;
  std::vector<std::uint8_t> script;
  const auto add = [&](std::uint64_t byte) { script.push_back(static_cast<std::uint8_t>(byte)); };
  for (unsigned i = 0; i < batches; ++i) {
    add(insert_batch);
    add(255);  // as many keys as there can be
    for (unsigned n = 0; n < 3; ++n) add(random.next());
  }
  while (script.size() < bytes) add(random.next());
  return script;
}

template <class Kind>
void play(scenes& all, std::string_view name, unsigned batches, std::size_t bytes) {
  sim::exploration_options how;
  how.step_budget = 100'000'000;
  all.run(
      name,
      [&](sim::scene& s) {
        s.thread("plays", [script = script_of(all.options.seed, batches, bytes)] {
          const fuzz::outcome done = fuzz::player<Kind>(fuzz::script(script)).play();
          sim::require(done.wrong.empty(), done.wrong);
        });
      },
      how, 0.00001);
}

/// A value for which the predicate is false stays.
void erase_if_beside_a_writer(sim::scene& s) {
  auto& map = s.make<ordered_map<std::uint64_t, std::uint64_t>>();
  map.insert(1, 1);
  s.thread("erases", [&map] { map.erase_if([](std::uint64_t, std::uint64_t v) { return v % 2 == 1; }); });
  s.thread("stores", [&map] { map.insert_or_assign(1, 2); });
  s.at_end([&map] { sim::require(map.find(1) == 2, "erase_if has erased an entry of which it is false"); });
}

}  // namespace

void explore_all(scenes& all) {
  play<fuzz::narrow>(all, "narrow", 0, 600);
  play<fuzz::decreasing>(all, "decreasing", 1, 600);
  play<fuzz::doubles>(all, "doubles", 1, 600);
  play<fuzz::middling>(all, "middling", 2, 600);
  play<fuzz::full_size>(all, "full_size", 6, 400);
  all.run("erase_if_beside_a_writer", erase_if_beside_a_writer);
}

}  // namespace espalier::mutants
