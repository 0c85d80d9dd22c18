#include "espalier/measure/team.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <latch>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "espalier/hw/affinity.hpp"
#include "espalier/hw/clock.hpp"

namespace espalier::measure {

double run_team(unsigned threads, std::span<const unsigned> pus,
                const std::function<void(unsigned, const std::function<void()>&)>& body,
                const std::function<void()>& between) {
  std::latch start(static_cast<std::ptrdiff_t>(threads) + 1);
  std::mutex mutex;
  std::exception_ptr failure;
  // The threads read the clock themselves: on a loaded machine the caller may wake only after they have ended.
  std::uint64_t first_begin = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t last_end = 0;

  const auto thread_main = [&](unsigned index) {
    bool arrived = false;
    std::uint64_t begin = 0;
    const std::function<void()> ready = [&] {
      arrived = true;
      start.arrive_and_wait();
      begin = hw::wall_ns();
    };
    try {
      std::optional<hw::scoped_pin> pin;
      if (!pus.empty()) pin.emplace(pus[index % pus.size()]);
      body(index, ready);
    } catch (...) {
      const std::scoped_lock hold(mutex);
      if (!failure) failure = std::current_exception();
    }
    if (!arrived) return start.count_down();
    const std::uint64_t end = hw::wall_ns();
    const std::scoped_lock hold(mutex);
    first_begin = std::min(first_begin, begin);
    last_end = std::max(last_end, end);
  };

  {
    std::vector<std::jthread> team;
    team.reserve(threads);
    try {
      for (unsigned i = 0; i < threads; ++i) team.emplace_back(thread_main, i);
    } catch (...) {  // no more threads: those that exist run to their end
      start.count_down(static_cast<std::ptrdiff_t>(threads - team.size()));
      start.arrive_and_wait();
      if (between) between();
      throw;
    }
    start.arrive_and_wait();
    if (between) between();
  }
  if (failure) std::rethrow_exception(failure);
  return static_cast<double>(last_end - std::min(first_begin, last_end));
}

}  // namespace espalier::measure
