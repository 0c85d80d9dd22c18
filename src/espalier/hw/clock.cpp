#include "espalier/hw/clock.hpp"

#include <ctime>

#if defined(__x86_64__)
#include <cpuid.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#endif

namespace espalier::hw {
namespace {

std::uint64_t read_clock(clockid_t id) noexcept {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

struct calibration {
  double hertz;
  std::string_view source;
};

#if defined(__x86_64__)

/// One instant on both clocks.
struct instant {
  std::uint64_t ticks;
  std::uint64_t ns;
};

/// An interrupt between the two reads shows as a wide bracket of ticks; the narrowest of a few attempts counts.
instant read_both() noexcept {
  instant best{};
  auto best_width = std::numeric_limits<std::uint64_t>::max();
  for (int attempt = 0; attempt < 8; ++attempt) {
    const auto before = tsc_end();
    const auto ns = read_clock(CLOCK_MONOTONIC_RAW);
    const auto width = tsc_end() - before;
    if (width < best_width) {
      best_width = width;
      best = {before + width / 2, ns};
    }
  }
  return best;
}

/// A bracket of some tens of nanoseconds over two milliseconds leaves an error of about 20 ppm a round.
double measured_hertz() {
  constexpr std::uint64_t round_ns = 2'000'000;
  std::array<double, 5> rounds{};
  for (auto& hertz : rounds) {
    const auto first = read_both();
    while (read_clock(CLOCK_MONOTONIC_RAW) - first.ns < round_ns) {
    }
    const auto last = read_both();
    hertz = static_cast<double>(last.ticks - first.ticks) * 1e9 / static_cast<double>(last.ns - first.ns);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

/// Hertz 0 if nothing is announced. Under a hypervisor its own leaf comes first: the processor's leaves
/// may describe the host, and its counter may tick at another rate than the guest's.
std::array<calibration, 3> announced_rates() {
  calibration hypervisor{0, "hypervisor leaf 0x40000010"};
  calibration crystal{0, "cpuid leaf 0x15"};
  calibration base{0, "cpuid leaf 0x16"};
  unsigned eax{};
  unsigned ebx{};
  unsigned ecx{};
  unsigned edx{};
  constexpr unsigned runs_under_hypervisor = 1U << 31;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & runs_under_hypervisor) != 0) {
    __cpuid(0x40000000, eax, ebx, ecx, edx);
    if (eax >= 0x40000010 && eax < 0x40010000) {
      __cpuid(0x40000010, eax, ebx, ecx, edx);
      hypervisor.hertz = static_cast<double>(eax) * 1e3;
    }
  }
  if (__get_cpuid(0x15, &eax, &ebx, &ecx, &edx) != 0 && eax != 0) {
    crystal.hertz = static_cast<double>(ecx) * static_cast<double>(ebx) / static_cast<double>(eax);
  }
  if (__get_cpuid(0x16, &eax, &ebx, &ecx, &edx) != 0) {
    base.hertz = static_cast<double>(eax & 0xffffU) * 1e6;
  }
  return {hypervisor, crystal, base};
}

calibration calibrate() {
  const double measured = measured_hertz();
  // Base frequencies are announced in whole MHz. Some processors' counters differ from them by a quarter of a
  // per cent, which the measurement resolves easily.
  constexpr double tolerance = 5e-4;
  for (const auto& announced : announced_rates()) {
    if (std::abs(announced.hertz / measured - 1) < tolerance) return announced;
  }
  return {measured, "measured against CLOCK_MONOTONIC_RAW"};
}

#elif defined(__aarch64__)

calibration calibrate() {
  std::uint64_t hertz;
  asm("mrs %0, cntfrq_el0" : "=r"(hertz));
  return {static_cast<double>(hertz), "cntfrq_el0"};
}

#else

calibration calibrate() { return {1e9, "steady_clock"}; }

#endif

const calibration& calibrated() {
  static const calibration once = calibrate();
  return once;
}

}  // namespace

double tsc_hertz() { return calibrated().hertz; }

std::string_view tsc_source() { return calibrated().source; }

double tsc_to_ns(std::uint64_t ticks) { return static_cast<double>(ticks) * 1e9 / tsc_hertz(); }

std::uint64_t thread_cpu_ns() noexcept { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

std::uint64_t wall_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }

}  // namespace espalier::hw
