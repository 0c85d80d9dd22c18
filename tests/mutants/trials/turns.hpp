#pragma once

#include <atomic>

#include "sim/explore.hpp"

// The subject on which the mutants' runner is tested: the smallest that can fail in each way that it
// distinguishes.

namespace espalier::mutants {

class turns {
 public:
  void take() { taken_.fetch_add(1); }
  void wait_for(int others) {
    while (taken_.load() < others) sim::wait_for_others();
  }
  /// Releases all turns and returns their number.
  int release_all() {
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
