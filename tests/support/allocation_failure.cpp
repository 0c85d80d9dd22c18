#include "support/allocation_failure.hpp"

#include <atomic>

namespace espalier::test {
namespace {

thread_local constinit failure_plan* plan_of_this_thread = nullptr;
constinit std::atomic<std::int64_t> live{0};

}  // namespace

armed::armed(failure_plan& plan) noexcept { plan_of_this_thread = &plan; }
armed::~armed() { plan_of_this_thread = nullptr; }

bool allocation_must_fail() noexcept {
  failure_plan* const plan = plan_of_this_thread;
  if (plan == nullptr) return false;
  ++plan->seen;
  return plan->and_later ? plan->has_failed() : plan->seen == plan->nth;
}

std::int64_t live_allocations() noexcept { return live.load(std::memory_order_relaxed); }
void count_live_allocations(std::int64_t change) noexcept {
  live.fetch_add(change, std::memory_order_relaxed);
}

}  // namespace espalier::test
