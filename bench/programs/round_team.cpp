#include "round_team.hpp"

#include <pthread.h>
#include <sched.h>
#include <time.h>

namespace espalier::bench {
namespace {

std::uint64_t nanoseconds(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

round_team::round_team(measured_work& work, std::span<const unsigned> processors) : work_(work) {
  threads_.reserve(work.threads());
  for (unsigned t = 0; t < work.threads(); ++t) {
    const int processor = processors.empty() ? -1 : static_cast<int>(processors[t % processors.size()]);
    threads_.emplace_back([this, t, processor] { live(t, processor); });
    prepared_.wait(t);
  }
}

round_team::~round_team() {
  ending_ = true;
  ++round_;
  round_.notify_all();
}

round_cost round_team::round(std::uint64_t operations) {
  operations_ = operations;
  working_ = static_cast<std::uint32_t>(threads_.size());
  const std::uint64_t wall = nanoseconds(CLOCK_MONOTONIC);
  const std::uint64_t cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  ++round_;
  round_.notify_all();
  for (std::uint32_t left = working_; left != 0; left = working_) working_.wait(left);
  return {nanoseconds(CLOCK_MONOTONIC) - wall, nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

void round_team::live(unsigned thread, int processor) {
  if (processor >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    // If the processor is not available the thread stays unpinned.
    static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
  }
  work_.prepare(thread);
  ++prepared_;
  prepared_.notify_one();
  for (std::uint32_t seen = 0;; ++seen) {
    round_.wait(seen);
    if (ending_) return;
    work_.work(thread, operations_);
    if (--working_ == 0) working_.notify_one();
  }
}

}  // namespace espalier::bench
