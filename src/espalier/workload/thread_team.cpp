#include "espalier/workload/thread_team.hpp"

#include <algorithm>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>

#include "espalier/hw/affinity.hpp"
#include "espalier/hw/clock.hpp"

namespace espalier::workload {

double run_team(unsigned threads, std::span<const unsigned> pus,
                const std::function<void(unsigned, const std::function<void()>&)>& body,
                const std::function<void()>& between) {
  std::latch start(static_cast<std::ptrdiff_t>(threads) + 1);
  std::mutex mutex;
  std::exception_ptr failure;
  std::uint64_t last_end = 0;

  const auto thread_main = [&](unsigned index) {
    bool arrived = false;
    const std::function<void()> ready = [&] {
      arrived = true;
      start.arrive_and_wait();
    };
    try {
      std::optional<hw::scoped_pin> pin;
      if (!pus.empty()) pin.emplace(pus[index % pus.size()]);
      body(index, ready);
    } catch (...) {
      const std::scoped_lock hold(mutex);
      if (!failure) failure = std::current_exception();
    }
    if (!arrived) start.count_down();
    const std::uint64_t end = hw::wall_ns();
    const std::scoped_lock hold(mutex);
    last_end = std::max(last_end, end);
  };

  std::uint64_t began = 0;
  {
    std::vector<std::jthread> team;
    team.reserve(threads);
    try {
      for (unsigned i = 0; i < threads; ++i) team.emplace_back(thread_main, i);
    } catch (...) {  // no more threads: let those that exist go on to their end
      start.count_down(static_cast<std::ptrdiff_t>(threads - team.size()));
      start.arrive_and_wait();
      if (between) between();
      throw;
    }
    start.arrive_and_wait();
    began = hw::wall_ns();
    if (between) between();
  }
  if (failure) std::rethrow_exception(failure);
  return static_cast<double>(last_end - std::min(began, last_end));
}

}  // namespace espalier::workload
