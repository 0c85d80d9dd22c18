#pragma once

#include "espalier/hw/htm.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace espalier::simulate {

/// Lock elision as papers measure it: every section is attempted anew, with the library's budgets, regardless of
/// earlier outcomes, and a held lock is waited for without a bound. The library learns and skips attempts, but a study
/// of aborts needs all of them. Returns whether the section ran under the lock. Instrumented.
template <elidable Lock, class Section>
bool elide_plainly(Lock& lock, Section&& section) {
  struct {
    [[nodiscard]] elision_history history() const noexcept { return {}; }
    void learn(elision_history) noexcept {}
    void count(elision_event) noexcept {}
  } forgetful;
  const auto look = [&]() noexcept {
    while (lock.is_locked()) hw::cpu_relax();
    return lock_look::free;
  };
  const auto attempt = [&]() noexcept {
    return attempt_section<sim::simulated_htm, hw::abort_code::lock_held>(lock, section);
  };
  if (attempt_elision(forgetful, {}, most_elision_looks, look, attempt)) return false;
  const lock_guard hold(lock);
  section();
  return true;
}

}  // namespace espalier::simulate
