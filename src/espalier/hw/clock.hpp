#pragma once

// Clocks for measuring: the processor's own tick counter for short intervals, and the kernel's clocks for
// a thread's CPU time and for wall time. None of them is a calendar.

#include <chrono>
#include <cstdint>
#include <string_view>

namespace espalier::hw {

/// The tick counter: rdtsc on x86-64, cntvct_el0 on ARM64, steady_clock nanoseconds elsewhere. The read is
/// not ordered against its neighbours, so that starting an interval costs little; end one with tsc_end().
inline std::uint64_t tsc_now() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
#endif
}

/// The same counter, read only after every earlier instruction has executed and before any later one starts.
inline std::uint64_t tsc_end() noexcept {
#if defined(__x86_64__)
  // Not rdtscp, which not every x86-64 processor has.
  __builtin_ia32_lfence();
  const std::uint64_t ticks = __builtin_ia32_rdtsc();
  __builtin_ia32_lfence();
  return ticks;
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
  return ticks;
#else
  return tsc_now();
#endif
}

/// Ticks per second of tsc_now(). The first call calibrates, which takes about ten milliseconds; later calls
/// return the same value. It uses a rate that the processor or the hypervisor announces only if a measurement
/// confirms it; otherwise it uses the measurement.
double tsc_hertz();

/// The source of the value of tsc_hertz(), for result files: for example "hypervisor leaf 0x40000010" or
/// "measured against CLOCK_MONOTONIC_RAW". Calibrates as tsc_hertz() does.
std::string_view tsc_source();

/// Length in nanoseconds of an interval of `ticks` ticks.
double tsc_to_ns(std::uint64_t ticks);

/// CPU time that the calling thread has consumed, in nanoseconds.
std::uint64_t thread_cpu_ns() noexcept;

/// Monotonic wall time in nanoseconds from an arbitrary origin.
std::uint64_t wall_ns() noexcept;

}  // namespace espalier::hw
