#pragma once

#include <atomic>

#include "sim/explore.hpp"

// What the mutants' runner is tried on: as little as can go wrong in each of the ways that it tells apart.

namespace espalier::mutants {

class turns {
 public:
  void take() { taken_.fetch_add(1); }
  void wait_for(int others) {
    while (taken_.load() < others) sim::wait_for_others();
  }
  /// Gives back what was taken: how many those were.
  int give_back() {
    int given = 0;
    while (taken_.load() != 0) {
      taken_.fetch_sub(1);
      ++given;
    }
    return given;
  }

 private:
  std::atomic<int> taken_{0};
};

}  // namespace espalier::mutants
