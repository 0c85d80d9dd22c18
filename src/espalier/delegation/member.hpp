#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "espalier/delegation/localities.hpp"
#include "espalier/delegation/ring.hpp"
#include "espalier/hw/cache_line.hpp"

// A thread in the runtime, and the locality to which it belongs.

namespace espalier::delegation {
struct partition_header;
}

namespace espalier::delegation::detail {

struct locality;

/// A word that one thread writes and others read at any time.
class tally {
 public:
  void add(std::uint64_t n = 1) noexcept { set(get() + n); }
  /// Writes in any case: what a simulated run does depends on no clock.
  void raise(std::uint64_t n) noexcept { set(std::max(get(), n)); }
  // relaxed, as below: counts, which order nothing.
  [[nodiscard]] std::uint64_t get() const noexcept { return word_.load(std::memory_order_relaxed); }

 private:
  void set(std::uint64_t n) noexcept { word_.store(n, std::memory_order_relaxed); }
  std::atomic<std::uint64_t> word_{0};
};

/// Of one thread; what they count: runtime.hpp's statistics.
struct tallies {
  tally local, sent, served, served_by_sender, run_nested, batches, waits_for_room, sleeps, deepest,
      most_in_ring, sampled, sampled_ticks, slowest_ticks;
};

/// A thread in the runtime.
struct member {
  locality* home = nullptr;  ///< null: not attached
  unsigned home_index = 0;
  /// Among the threads of the locality, whose lock guards writes.
  std::atomic<std::uint32_t> rank{0};
  unsigned depth = 0;    ///< of the operation that it runs; 0: none
  unsigned frames = 0;   ///< operations from rings on its stack
  unsigned stacked = 0;  ///< operations of execute() that it runs itself, and continuations, on its stack
  postponed* first_postponed = nullptr;
  postponed* last_postponed = nullptr;
  std::uint64_t operation = 0;  ///< the number of the one that it runs; 0: none
  std::uint64_t operations = 0;
  const partition_header* partition = nullptr;  ///< on which it runs
  unsigned partition_locks = 0;                 ///< that it holds
  unsigned fruitless = 0;                       ///< searches for messages since the last that found one
  unsigned looks_before_serving = 1;
  unsigned looks = 0;
  unsigned helped = 0;  ///< the share that it looked at last
  /// locality::run_by_senders when it last began to poll.
  std::uint32_t run_by_senders = 0;
  bool is_listed = false;         ///< among the sleepers of its locality, whose lock guards it
  std::vector<sending> sendings;  ///< to each locality; none before the thread has attached

  /// What it sleeps for: an answer, or also a message, in serve_until() or in an event loop.
  enum sleep_state : std::uint32_t { awake = 0, for_answer = 1, for_work = 2, in_event_loop = 4 };
  /// Servers read it after each batch, so it lies apart from what the thread writes often.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint32_t> sleep{awake};
  std::atomic<int> event_fd{-1};
  alignas(hw::false_sharing_bytes) tallies did;

  [[nodiscard]] bool is_home(unsigned index) const noexcept { return home_index == index; }
};

struct locality {
  locality_shape shape;
  ring_table rings;
  std::atomic<std::uint32_t> members{0};
  /// The length of `asleep`.
  std::atomic<std::uint32_t> sleepers{0};
  /// Operations that senders have run themselves.
  std::atomic<std::uint32_t> run_by_senders{0};
  std::mutex lock;
  std::vector<member*> by_rank;
  /// The threads that sleep until a message comes, and some that something else has woken since.
  std::vector<member*> asleep;
};

}  // namespace espalier::delegation::detail
