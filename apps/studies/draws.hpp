#pragma once

#include <cstdint>

#include "espalier/workload/random.hpp"
#include "sim/runtime/world.hpp"

namespace espalier::simulate {

/// A thread's random numbers, drawn outside the program: one for each operation. All threads share one budget of
/// operations.
class draws {
 public:
  draws(std::uint64_t seed, unsigned thread, std::uint64_t& left) : random_(seed, thread), left_(left) {}

  /// False if the budget is exhausted.
  bool next(std::uint64_t& number) {
    const sim::own_code scope;
    if (left_ == 0) return false;
    --left_;
    number = random_.next();
    return true;
  }

 private:
  workload::random_generator random_;
  std::uint64_t& left_;
};

}  // namespace espalier::simulate
