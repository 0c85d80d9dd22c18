// What RAND adds to a request: a multiple of the alignment, no more than is allowed, and nothing to an invalid request.

#include "preload/random_malloc/padding.hpp"

#include <cstddef>
#include <set>

#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

using preload::padded;

std::set<std::size_t> drawn(std::size_t bytes, std::size_t align, std::size_t largest) {
  measure::random_generator random(7);
  std::set<std::size_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(padded(bytes, align, largest, random) - bytes);
  return seen;
}

ESPALIER_SCENE(padding, adds, 1, 0.02, steps_up_to(1'000'000)) {
  s.thread("alone", [] {
    using amounts = std::set<std::size_t>;
    require(drawn(100, 1, 64) == amounts({0, 16, 32, 48, 64}), "not every multiple of 16 is added");
    require(drawn(256, 64, 240) == amounts({0, 64, 128, 192}),
            "what is added is no multiple of the alignment");
    require(drawn(47, 1, 1008) == amounts({0, 16, 32}), "a block is more than doubled");
    require(drawn(8, 1, 1008) == amounts({0}) && drawn(100, 16, 0) == amounts({0}),
            "something is added to nothing");
    require(drawn(PTRDIFF_MAX, 1, 112) == amounts({0}), "a hopeless request becomes another");
  });
}

}  // namespace
}  // namespace espalier::sim
