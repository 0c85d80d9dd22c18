#pragma once

#include <new>
#include <string_view>

#include "espalier/memory/any_placement.hpp"
#include "support/allocation_failure.hpp"

namespace espalier::test {

/// The placement that the subject of the running check names: subjects that differ only in their placement are compiled
/// once. Besides those of any_placement there is one that has no memory when the thread's failure_plan says so. It
/// simulates placements which map pages themselves when the system refuses.
class chosen_placement : public any_placement {
 public:
  static constexpr std::string_view name = "chosen";
  static constexpr std::string_view failing = "failing";
  static inline std::string_view now = "segregated";
  static inline recording keeps = recording::off;

  chosen_placement() : any_placement(now == failing ? "segregated" : now, keeps), fails_(now == failing) {}

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    if (fails_ && allocation_must_fail()) throw std::bad_alloc();
    return any_placement::allocate(b, near);
  }

 private:
  bool fails_;
};

}  // namespace espalier::test
