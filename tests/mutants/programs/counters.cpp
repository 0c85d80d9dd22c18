// Per-thread storage keeps its contents, and no addition to a striped counter is lost.

#include <cstddef>
#include <new>
#include <utility>

#include "mutants/driver.hpp"
#include "scheduled/per_thread_scenes.hpp"

namespace espalier::mutants {
namespace {

bool no_memory = false;

/// Sums to which threads without memory have added are exchanged.
void swapped(sim::scene& s) {
  auto& counters = s.make<std::pair<striped_counter, striped_counter>>();
  s.thread("a", [&counters] {
    auto& [one, other] = counters;
    for (unsigned i = 0; i < striped_counter::first_additions; ++i) {
      one.add(0);
      other.add(0);
    }
    no_memory = true;
    one.add(1);
    other.add(2);
    no_memory = false;
    other.add(4);
    one.swap(other);
    sim::require(one.read() == 6 && other.read() == 1, "a swap leaves a part of a sum");
  });
}

}  // namespace

void explore_all(scenes& all) {
  all.run("striped_counter adds", sim::additions_are_counted);
  all.run_alone("striped_counter swaps", swapped);
  all.run("per_thread keeps", sim::elements_are_kept_apart);
}

}  // namespace espalier::mutants

/// Replaces the simulator's.
void* operator new(std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return espalier::mutants::no_memory ? nullptr : operator new(bytes, align);
}
