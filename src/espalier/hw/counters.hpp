#pragma once

// Event counters of one thread, from the kernel's perf_event interface. Machines differ in what they offer
// and systems in what they permit: an event that cannot be counted is nullopt, never 0.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier::hw {

enum class counter : std::uint8_t {
  // Of the processor, in user mode only, so that the numbers do not depend on privileges.
  cycles,
  instructions,
  llc_misses,
  dtlb_misses,
  branch_misses,
  // Of the kernel.
  context_switches,
  page_faults,
  cpu_migrations,
  task_clock  ///< nanoseconds of CPU time
};

inline constexpr std::array all_counters{
    counter::cycles,      counter::instructions,   counter::llc_misses,
    counter::dtlb_misses, counter::branch_misses,  counter::context_switches,
    counter::page_faults, counter::cpu_migrations, counter::task_clock};

/// The enumerator's name.
std::string_view to_text(counter which) noexcept;

/// The number in decimal, or the word "unavailable".
std::string to_text(const std::optional<std::uint64_t>& value);

/// Estimate for an event that shared the processor's counters and was counted for only part of the time in
/// which it was enabled; nullopt where it was never counted.
std::optional<std::uint64_t> scaled_count(std::uint64_t count, std::uint64_t ns_enabled,
                                          std::uint64_t ns_counted) noexcept;

class counter_values {
 public:
  const std::optional<std::uint64_t>& operator[](counter which) const noexcept {
    return values_[static_cast<std::size_t>(which)];
  }
  std::optional<std::uint64_t>& operator[](counter which) noexcept {
    return values_[static_cast<std::size_t>(which)];
  }

 private:
  std::array<std::optional<std::uint64_t>, all_counters.size()> values_;
};

/// Counts events of the thread that constructed it between start() and stop(). Only that thread calls it.
/// Nothing throws: an event that cannot be opened is unavailable. Kernel events for which perf is not
/// permitted come from getrusage and the thread's CPU clock, if these know them.
class counter_set {
 public:
  counter_set() noexcept;
  ~counter_set();
  counter_set(const counter_set&) = delete;
  counter_set& operator=(const counter_set&) = delete;

  /// Begins a new interval and forgets the counts of the one before.
  void start() noexcept;
  /// Ends the interval. Without a running interval it does nothing.
  void stop() noexcept;
  /// Counts of the running interval so far, or of the last one; all unavailable before the first start().
  /// Counts of shared counters are scaled as by scaled_count().
  counter_values read() const noexcept;

 private:
  enum class phase : std::uint8_t { fresh, running, stopped };
  /// The kernel's values of an event since it was opened.
  struct reading {
    std::uint64_t value = 0;
    std::uint64_t ns_enabled = 0;
    std::uint64_t ns_counted = 0;
  };
  struct event {
    int descriptor = -1;
    bool leads_group = false;
    std::optional<reading> at_start;
    std::optional<reading> at_stop;
  };

  static constexpr int no_group = -1;
  int open_event(counter which, int group) noexcept;
  std::optional<reading> sample(counter which) const noexcept;
  void switch_groups(unsigned long request) noexcept;

  std::array<event, all_counters.size()> events_;
  phase phase_ = phase::fresh;
};

/// True if at least the cycles of this thread can really be counted. Tried once per process.
bool hardware_counters_available();

}  // namespace espalier::hw
