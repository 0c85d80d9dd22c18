#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"
#include "espalier/sync/elision_policy.hpp"
#include "espalier/workload/random.hpp"

namespace espalier::preload {

/// A number for the pair of a mutex and a place that locks it. Never 0.
[[nodiscard]] constexpr std::uint64_t section_key(std::uintptr_t mutex, std::uintptr_t site) noexcept {
  return workload::mix64(workload::mix64(mutex) + site) | 1U;
}

/// The history of the sections of each mutex and call site, in a table of fixed size, indexed by their keys. Two
/// sections with the same place share a history, which costs only attempts or missed chances; concurrent updates may
/// be lost. Each place has a cache line of its own, which is read before each transaction of its sections. Commits
/// write it only until it is back in its initial state. Constant-initialised, never destroyed.
class learned_sites {
 public:
  static constexpr std::size_t places = 1024;

  class place {
   public:
    // relaxed: figures that guard no data.
    [[nodiscard]] elision_history read() const noexcept {
      return elision_history{word_.load(std::memory_order_relaxed)};
    }
    void write(elision_history history) noexcept {
      if (history != read()) word_.store(history.word(), std::memory_order_relaxed);
    }

   private:
    alignas(hw::cache_line_bytes) std::atomic<std::uint32_t> word_{0};
  };

  [[nodiscard]] place& of(std::uint64_t key) noexcept {
    // The upper bits depend on every bit of the addresses; the lowest bit is constant.
    return places_[key >> (64 - std::bit_width(places - 1))];
  }

 private:
  std::array<place, places> places_{};
};

}  // namespace espalier::preload
