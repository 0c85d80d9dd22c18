#include "support/watchdog.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "support/environment.hpp"

namespace espalier::test {
namespace {

/// Of all threads.
std::chrono::nanoseconds processor_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

watchdog::watchdog(const subject_type& type, subject& map)
    : type_(type),
      map_(map),
      limit_(static_cast<std::int64_t>(1000 * environment_number("ESPALIER_WATCHDOG_SECONDS", 60))),
      thread_([this] { watch(); }) {}

watchdog::~watchdog() {
  {
    const std::lock_guard hold(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

std::uint64_t watchdog::begun_by_all() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& r : reports_) sum += r.value.begun.load(std::memory_order_relaxed);
  return sum;
}

void watchdog::watch() {
  // Threads that hang use the processor, whose time counts, or sleep: then no check finds that they have used any. On a
  // machine that is busy with other programs, neither comes quickly.
  const std::chrono::nanoseconds step = std::max(limit_ / 64, std::chrono::milliseconds(1));
  std::chrono::nanoseconds quiet{0};
  std::uint64_t before = begun_by_all();
  auto used_before = processor_time();
  std::unique_lock hold(mutex_);
  while (!ended_.wait_for(hold, step, [this] { return end_; })) {
    const std::uint64_t now = begun_by_all();
    const auto used = processor_time();
    const bool asleep = used - used_before < step / 64;
    quiet = now != before ? std::chrono::nanoseconds{0} : quiet + (asleep ? step : used - used_before);
    before = now;
    used_before = used;
    if (quiet >= limit_) give_up();
  }
}

void watchdog::give_up() const {
  std::string text = "watchdog: no progress for " + std::to_string(limit_.count()) + " ms in " + type_.name +
                     "\n  reclaimer: " + map_.reclaimer_state() + "\n";
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    const report& r = reports_[i].value;
    const std::uint64_t begun = r.begun.load(std::memory_order_relaxed);
    if (begun == 0) continue;
    text.append("  thread ").append(std::to_string(i)).append(": ");
    const std::optional<map_operation> doing = r.doing.load(std::memory_order_relaxed);
    text.append(doing ? to_string(*doing) : "nothing");
    text.append(" of key ").append(std::to_string(r.at.load(std::memory_order_relaxed)));
    text.append(", its operation number ").append(std::to_string(begun)).append("\n");
  }
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  _exit(stalled_exit_code);
}

}  // namespace espalier::test
