#include "espalier/hw/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <tuple>

#include "espalier/hw/topology.hpp"

namespace espalier::hw {
namespace {

/// The kernel's mask layout: bit i of the sequence of words stands for PU i. A cpu_set_t has a fixed size of 1024
/// PUs, which larger machines exceed.
using pu_mask = std::vector<unsigned long>;
constexpr unsigned word_bits = std::numeric_limits<unsigned long>::digits;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

pu_mask current_mask() {
  constexpr std::size_t most_words = (1U << 20) / word_bits;
  for (std::size_t words = sizeof(cpu_set_t) / sizeof(unsigned long);; words *= 2) {
    pu_mask mask(words);
    if (sched_getaffinity(0, words * sizeof(unsigned long), reinterpret_cast<cpu_set_t*>(mask.data())) == 0) {
      return mask;
    }
    const bool mask_too_short = errno == EINVAL && words < most_words;
    if (!mask_too_short) fail(errno, "cannot read the calling thread's affinity mask");
  }
}

bool apply(const pu_mask& mask) noexcept {
  return sched_setaffinity(0, mask.size() * sizeof(unsigned long),
                           reinterpret_cast<const cpu_set_t*>(mask.data())) == 0;
}

struct place {
  unsigned os_index;
  unsigned package;
  unsigned core;
  unsigned rank_in_core;
  unsigned turn_in_package;
};

}  // namespace

std::vector<unsigned> allowed_pus() {
  const auto mask = current_mask();
  std::vector<unsigned> pus;
  for (unsigned i = 0; i < mask.size() * word_bits; ++i) {
    if ((mask[i / word_bits] >> (i % word_bits) & 1U) != 0) pus.push_back(i);
  }
  return pus;
}

std::vector<unsigned> pin_order(const topology& machine, pin_policy policy) {
  if (policy == pin_policy::none) return {};
  if (machine.is_this_machine()) return pin_order(machine, policy, allowed_pus());
  std::vector<unsigned> all;
  for (const auto& pu : machine.pus()) all.push_back(pu.os_index);
  return pin_order(machine, policy, all);
}

std::vector<unsigned> pin_order(const topology& machine, pin_policy policy,
                                std::span<const unsigned> allowed) {
  if (policy == pin_policy::none) return {};
  std::vector<unsigned> sorted_allowed(allowed.begin(), allowed.end());
  std::ranges::sort(sorted_allowed);

  std::vector<place> places;
  std::vector<unsigned> seen_in_core(machine.cores().size());
  for (const auto& pu : machine.pus()) {
    if (!std::ranges::binary_search(sorted_allowed, pu.os_index)) continue;
    places.push_back({pu.os_index, pu.package, pu.core, seen_in_core[pu.core]++, 0});
  }
  std::ranges::sort(places, {}, [](const place& p) { return std::tuple(p.rank_in_core, p.package, p.core); });

  if (policy == pin_policy::scatter) {
    // Each rank counts its turns from 0, so that a small package's siblings wait for all cores.
    for (std::size_t i = 1; i < places.size(); ++i) {
      const bool same_run =
          places[i].rank_in_core == places[i - 1].rank_in_core && places[i].package == places[i - 1].package;
      places[i].turn_in_package = same_run ? places[i - 1].turn_in_package + 1 : 0;
    }
    std::ranges::sort(
        places, {}, [](const place& p) { return std::tuple(p.rank_in_core, p.turn_in_package, p.package); });
  }

  std::vector<unsigned> order;
  order.reserve(places.size());
  for (const auto& p : places) order.push_back(p.os_index);
  return order;
}

scoped_pin::scoped_pin(unsigned pu) : former_mask_(current_mask()) {
  pu_mask mask(former_mask_.size());
  const std::string what = "cannot pin the calling thread to PU " + std::to_string(pu);
  if (pu / word_bits >= mask.size()) fail(EINVAL, what);
  mask[pu / word_bits] = 1UL << (pu % word_bits);
  if (!apply(mask)) fail(errno, what);
}

scoped_pin::~scoped_pin() { apply(former_mask_); }

std::optional<unsigned> current_cpu() noexcept {
  const int cpu = sched_getcpu();
  return cpu >= 0 ? std::optional(static_cast<unsigned>(cpu)) : std::nullopt;
}

}  // namespace espalier::hw
