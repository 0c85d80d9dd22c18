#include "sim/runtime/world.hpp"

#include <utility>

namespace espalier::sim {

constinit presence here;

own_code::own_code() noexcept : saved_(std::exchange(here, {})) {}
own_code::~own_code() { here = saved_; }

program_code::program_code(world& w, bool announced) noexcept
    : saved_(std::exchange(here, {announced ? &w : nullptr, &w})) {}
program_code::~program_code() { here = saved_; }

}  // namespace espalier::sim
