#pragma once

#include "espalier/hw/htm.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/elision_policy.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace espalier::simulate {

/// Lock elision as papers measure it: every section is attempted anew, with the library's budgets, regardless of
/// earlier outcomes. sync/elided_lock learns and skips attempts, but a study of aborts needs all of them. Returns
/// whether the section ran under the lock. Instrumented.
template <elidable Lock, class Section>
bool elide_plainly(Lock& lock, Section&& section) {
  elision_attempts attempts{elision_budgets{}};
  backoff pause;
  for (auto next = elision_attempts::next::again; next != elision_attempts::next::give_up;) {
    if (next == elision_attempts::next::after_pause) pause.wait();
    while (lock.is_locked()) hw::cpu_relax();
    const hw::transaction_outcome outcome = sim::simulated_htm::run([&]() noexcept {
      if (lock.is_locked()) return hw::transaction_verdict::abort(hw::abort_code::lock_held);
      section();
      return hw::transaction_verdict::commit();
    });
    if (outcome.committed) return false;
    next = attempts.after(outcome.status);
  }
  const lock_guard hold(lock);
  section();
  return true;
}

}  // namespace espalier::simulate
