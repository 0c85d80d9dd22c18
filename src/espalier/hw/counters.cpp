#include "espalier/hw/counters.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "espalier/hw/clock.hpp"

namespace espalier::hw {
namespace {

struct event_code {
  std::uint32_t type;
  std::uint64_t config;
};

constexpr std::uint64_t read_misses_of(std::uint64_t cache) noexcept {
  return cache | std::uint64_t{PERF_COUNT_HW_CACHE_OP_READ} << 8U |
         std::uint64_t{PERF_COUNT_HW_CACHE_RESULT_MISS} << 16U;
}

struct event_row {
  counter which;
  std::string_view name;
  event_code code;
};

/// In the order of the enumerators.
constexpr std::array<event_row, all_counters.size()> rows{{
    {counter::cycles, "cycles", {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES}},
    {counter::instructions, "instructions", {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS}},
    {counter::llc_misses, "llc_misses", {PERF_TYPE_HW_CACHE, read_misses_of(PERF_COUNT_HW_CACHE_LL)}},
    {counter::dtlb_misses, "dtlb_misses", {PERF_TYPE_HW_CACHE, read_misses_of(PERF_COUNT_HW_CACHE_DTLB)}},
    {counter::branch_misses, "branch_misses", {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES}},
    {counter::context_switches, "context_switches", {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES}},
    {counter::page_faults, "page_faults", {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS}},
    {counter::cpu_migrations, "cpu_migrations", {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS}},
    {counter::task_clock, "task_clock", {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK}},
}};

constexpr const event_row& row_of(counter which) noexcept { return rows[static_cast<std::size_t>(which)]; }
static_assert(std::all_of(all_counters.begin(), all_counters.end(),
                          [](counter c) { return row_of(c).which == c; }));

/// The kernel's generic "cache misses" are last-level misses on Intel only; AMD's are those of L2 and ARM's
/// those of L1. Elsewhere only the event that names the last level is right.
event_code code_of(counter which) noexcept {
#if defined(__x86_64__)
  if (which == counter::llc_misses && __builtin_cpu_is("intel") != 0)
    return {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES};
#endif
  return row_of(which).code;
}

bool is_hardware(counter which) noexcept { return which < counter::context_switches; }

/// What the kernel reports about a thread without perf.
std::optional<std::uint64_t> without_perf(counter which) noexcept {
  if (which == counter::task_clock) return thread_cpu_ns();
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return std::nullopt;
  if (which == counter::context_switches) return static_cast<std::uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw);
  if (which == counter::page_faults) return static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
  return std::nullopt;
}

}  // namespace

std::string_view to_text(counter which) noexcept { return row_of(which).name; }

std::string to_text(const std::optional<std::uint64_t>& value) {
  return value ? std::to_string(*value) : "unavailable";
}

std::optional<std::uint64_t> scaled_count(std::uint64_t count, std::uint64_t ns_enabled,
                                          std::uint64_t ns_counted) noexcept {
  if (ns_counted == 0) return std::nullopt;
  if (ns_counted >= ns_enabled) return count;
  const auto share = static_cast<long double>(ns_counted) / static_cast<long double>(ns_enabled);
  return static_cast<std::uint64_t>(std::llround(static_cast<long double>(count) / share));
}

counter_set::counter_set() noexcept {
  // One group for each kind, so that its events are counted over the same time. An event that the
  // processor cannot count together with its group is opened alone.
  int hardware_group = no_group;
  int software_group = no_group;
  for (const counter which : all_counters) {
    auto& opened = events_[static_cast<std::size_t>(which)];
    int& group = is_hardware(which) ? hardware_group : software_group;
    opened.descriptor = open_event(which, group);
    if (opened.descriptor >= 0 && group != no_group) continue;
    if (opened.descriptor < 0 && group != no_group) opened.descriptor = open_event(which, no_group);
    if (opened.descriptor < 0) continue;
    opened.leads_group = true;
    if (group == no_group) group = opened.descriptor;
  }
}

counter_set::~counter_set() {
  for (const auto& opened : events_) {
    if (opened.descriptor >= 0) close(opened.descriptor);
  }
}

int counter_set::open_event(counter which, int group) noexcept {
  const auto code = code_of(which);
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = code.type;
  attributes.config = code.config;
  attributes.disabled = group == no_group ? 1 : 0;
  // Kernel events happen in kernel mode; excluding that would count none of them.
  attributes.exclude_kernel = is_hardware(which) ? 1 : 0;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  constexpr pid_t calling_thread = 0;
  constexpr int any_cpu = -1;
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, calling_thread, any_cpu, group, PERF_FLAG_FD_CLOEXEC));
}

std::optional<counter_set::reading> counter_set::sample(counter which) const noexcept {
  const int descriptor = events_[static_cast<std::size_t>(which)].descriptor;
  if (descriptor >= 0) {
    reading now;
    static_assert(sizeof now == 3 * sizeof(std::uint64_t), "the kernel writes three words");
    if (::read(descriptor, &now, sizeof now) != sizeof now) return std::nullopt;
    return now;
  }
  if (is_hardware(which)) return std::nullopt;
  const auto value = without_perf(which);
  if (!value) return std::nullopt;
  return reading{*value, 0, 0};
}

void counter_set::switch_groups(unsigned long request) noexcept {
  for (const auto& opened : events_) {
    if (opened.leads_group) ioctl(opened.descriptor, request, PERF_IOC_FLAG_GROUP);
  }
}

void counter_set::start() noexcept {
  if (phase_ == phase::running) stop();
  // A reset of an event would keep its times, which scaling needs; hence differences.
  for (const counter which : all_counters) {
    events_[static_cast<std::size_t>(which)].at_start = sample(which);
  }
  phase_ = phase::running;
  switch_groups(PERF_EVENT_IOC_ENABLE);
}

void counter_set::stop() noexcept {
  if (phase_ != phase::running) return;
  switch_groups(PERF_EVENT_IOC_DISABLE);
  phase_ = phase::stopped;
  for (const counter which : all_counters) {
    events_[static_cast<std::size_t>(which)].at_stop = sample(which);
  }
}

counter_values counter_set::read() const noexcept {
  counter_values result;
  if (phase_ == phase::fresh) return result;
  for (const counter which : all_counters) {
    const auto& opened = events_[static_cast<std::size_t>(which)];
    const auto end = phase_ == phase::running ? sample(which) : opened.at_stop;
    if (!opened.at_start || !end) continue;
    const auto count = end->value - opened.at_start->value;
    if (opened.descriptor < 0) {
      result[which] = count;
      continue;
    }
    const auto enabled = end->ns_enabled - opened.at_start->ns_enabled;
    const auto counted = end->ns_counted - opened.at_start->ns_counted;
    result[which] = scaled_count(count, enabled, counted);
  }
  return result;
}

bool hardware_counters_available() {
  static const bool available = [] {
    counter_set trial;
    trial.start();
    for (unsigned i = 0; i < 1000; ++i) asm volatile("");
    trial.stop();
    // Some emulated counters open, claim to run and stay at 0.
    return trial.read()[counter::cycles].value_or(0) > 0;
  }();
  return available;
}

}  // namespace espalier::hw
