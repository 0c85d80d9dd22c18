#pragma once

#include <new>

#include "espalier/memory/placement_concept.hpp"
#include "support/allocation_failure.hpp"

namespace espalier::test {

/// A placement that has no memory when the thread's failure_plan says so. It simulates placements which map pages
/// themselves when the system refuses.
template <placement Placement>
class failing_placement {
 public:
  static constexpr std::string_view name = "failing";
  static constexpr bool releases_on_destruction = Placement::releases_on_destruction;

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    if (allocation_must_fail()) throw std::bad_alloc();
    return below_.allocate(b, near);
  }
  void deallocate(void* memory, const block& b) noexcept { below_.deallocate(memory, b); }
  [[nodiscard]] memory_usage usage() const noexcept { return below_.usage(); }

 private:
  Placement below_;
};

}  // namespace espalier::test
