#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"

namespace espalier::memcached {

/// What is counted, by the executor and by the transport.
enum class counted : std::uint8_t {
  get_commands,
  get_hits,
  get_misses,
  set_commands,
  touch_commands,
  touch_hits,
  touch_misses,
  meta_commands,
  flush_commands,
  delete_hits,
  delete_misses,
  incr_hits,
  incr_misses,
  decr_hits,
  decr_misses,
  cas_hits,
  cas_misses,
  cas_mismatches,
  log_ins,
  refused_log_ins,
  too_large,
  out_of_memory,
  bytes_read,
  bytes_written,
  yields,
  idle_kicks,
  accepted,
  rejected,
  accept_pauses,
  paused_us,
  lacking_memory,
  lacking_buffers,
  tls_failures,
};
inline constexpr std::size_t counted_kinds = static_cast<std::size_t>(counted::tls_failures) + 1;
using counts = std::array<std::uint64_t, counted_kinds>;

/// What one thread counts. Others may read it.
class alignas(hw::false_sharing_bytes) counters {
 public:
  void add(counted what, std::uint64_t by = 1) noexcept {
    auto& count = counts_[static_cast<std::size_t>(what)];
    // relaxed: a count with one writer
    count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t of(std::size_t kind) const noexcept {
    return counts_[kind].load(std::memory_order_relaxed);  // relaxed: a count
  }

 private:
  std::array<std::atomic<std::uint64_t>, counted_kinds> counts_{};
};

}  // namespace espalier::memcached
