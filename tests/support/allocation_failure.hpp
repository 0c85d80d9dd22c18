#pragma once

#include <cstdint>

namespace espalier::test {

/// Which of a thread's allocations must fail, and the number of allocations so far. They are counted in an executable
/// that replaces operator new (tests/fault/operator_new.cpp) and in a chosen_placement.
struct failure_plan {
  /// Counted from 1; 0 for none.
  std::uint64_t nth = 0;
  std::uint64_t seen = 0;
  /// Whether the later ones fail too.
  bool and_later = false;

  [[nodiscard]] bool has_failed() const noexcept { return nth != 0 && seen >= nth; }
};

/// During its lifetime, the allocations of this thread follow the plan.
class [[nodiscard]] armed {
 public:
  explicit armed(failure_plan& plan) noexcept;
  armed(const armed&) = delete;
  armed& operator=(const armed&) = delete;
  ~armed();
};

/// During its lifetime, every allocation of this thread fails.
class [[nodiscard]] refuse_memory {
  failure_plan plan_{.nth = 1, .and_later = true};
  armed now_{plan_};
};

/// Called once by each allocation; true if it must fail.
[[nodiscard]] bool allocation_must_fail() noexcept;

/// Allocations by operator new minus deallocations, of all threads. 0 if operator new is not replaced.
[[nodiscard]] std::int64_t live_allocations() noexcept;
void count_live_allocations(std::int64_t change) noexcept;

}  // namespace espalier::test
