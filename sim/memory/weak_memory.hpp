#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/runtime/access.hpp"

// Which values C++ permits a load of an atomic to return. On x86 a load sees the newest store, except for the thread's
// own buffer. The language, ARM and POWER promise less. Here a load may return any value that coherence and
// happens-before do not exclude, so that an ordering which is weaker than an algorithm needs is detected on any
// machine.
//
// The model is the operational form of release/acquire with fences (Kang, Hur, Lahav, Vafeiadis and Dreyer, "A
// Promising Semantics for Relaxed-Memory Concurrency", POPL 2017, without promises). CDSChecker (OOPSLA 2013) and
// Relacy explore programs in the same way. Each location keeps the history of its stores. A thread's knowledge is a
// vector clock: how many steps of each thread it knows. A store carries the knowledge that its reader acquires. A load
// may return any store that is not older than
//   - a store, or a value read, that the thread knows of at this location (coherence);
//   - for seq_cst loads, what an earlier seq_cst access stored or read there; for loads after a seq_cst fence, what one
//     before the fence did.
// A read-modify-write reads the newest store, as the language requires. A failed compare-exchange does too, which the
// language does not require.
//
// Knowledge has two parts. `hb` is happens-before. `seen` holds the stores that coherence forbids to go behind. Fences
// without a synchronising read, and operations that end before others begin (operation_ends()), add only to `seen`.
//
// Two accesses to the same byte, at least one a write and at least one plain, are a data race unless one happens before
// the other. That is undefined behaviour, and the usual sign of a pointer that was published with too weak an order.
// Plain accesses themselves always go to memory, which holds the newest values: without a race no other value is
// possible.
//
// Not modelled: stores that take effect before an older store to the same place or before a load that precedes them in
// their thread (load buffering); dependencies (consume is acquire). Accesses to a thread's own stack are not checked
// for races. Memory that the program maps without the simulator's knowledge, and thread-local variables, which its
// fibers share, are excluded: there loads see the newest store, and races are not detected.

namespace espalier::sim {

class weak_memory {
 public:
  static constexpr unsigned most_fibers = 32;

  /// Bytes of an atomic object.
  struct place {
    std::uintptr_t address;
    unsigned bytes;
  };

  /// A step of a fiber, and its call stack.
  struct event {
    unsigned fiber;
    std::uint32_t clock;
  };

  /// A load that did not return the newest value.
  struct stale_load {
    unsigned fiber;
    const void* where;
    std::size_t newer;           ///< stores to this place that it did not see
    unsigned overwritten_by;     ///< the fiber of the store that follows the one it saw
    const void* overwritten_at;  ///< where that store is in the program
  };

  /// The earlier of two accesses that race.
  struct race {
    unsigned fiber;
    bool wrote;
    const void* where;
  };

  /// Drops all state. The seed determines what loads return: which of them may be stale depends on the seed, the fiber
  /// and the number of its earlier loads, not on the schedule.
  void reset(unsigned fibers, std::uint64_t seed);

  // Actions of the running fiber on an atomic. `newest` and `old` are what memory holds.

  [[nodiscard]] std::uint64_t load(unsigned fiber, place at, std::uint64_t newest, std::memory_order order,
                                   const void* where);
  void store(unsigned fiber, place at, std::uint64_t old, std::uint64_t value, std::memory_order order,
             const void* where);
  void modify(unsigned fiber, place at, std::uint64_t old, std::uint64_t value, std::memory_order order,
              const void* where);
  /// A compare-exchange that fails.
  void read_newest(unsigned fiber, place at, std::uint64_t newest, std::memory_order order);
  /// Whether a weak compare-exchange fails for no reason.
  [[nodiscard]] bool fails_spuriously(unsigned fiber);

  void fence(unsigned fiber, std::memory_order order);
  /// Every fiber passes a seq_cst fence.
  void fence_all();

  /// Checks any access to memory other than a stack; null if it races with nothing. Plain writes end the histories of
  /// atomics there. O(bytes), up to a KiB; of longer accesses only both ends are checked.
  [[nodiscard]] std::optional<race> check(unsigned fiber, const access& a);
  /// Call when a block begins or ends: drops what is known of these bytes.
  void forget(std::uintptr_t address, std::size_t bytes);

  // For actions of the simulator that replace synchronising code.

  /// The event of the fiber's last step.
  [[nodiscard]] event now(unsigned fiber) const noexcept;
  [[nodiscard]] bool happens_before(const event& earlier, unsigned fiber) const noexcept;
  /// What the fiber knows, for others to acquire.
  struct clocks {
    std::array<std::uint32_t, most_fibers> of{};
    void join(const clocks& other, unsigned fibers) noexcept;
  };
  struct knowledge {
    clocks hb;
    clocks seen;
    void join(const knowledge& other, unsigned fibers = most_fibers) noexcept {
      hb.join(other.hb, fibers);
      seen.join(other.seen, fibers);
    }
  };
  [[nodiscard]] const knowledge& known(unsigned fiber) const noexcept { return threads_[fiber].now; }
  void acquire(unsigned fiber, const knowledge& what) noexcept;
  void see(unsigned fiber, const clocks& what) noexcept { threads_[fiber].now.seen.join(what, fibers_); }
  /// Returns to less knowledge, after acquire(); the fiber's own steps stay.
  void set_known(unsigned fiber, const knowledge& what) noexcept;

  /// Every operation that begins later sees what this fiber has seen so far. It does not happen after it: clients need
  /// not synchronise.
  void operation_ends(unsigned fiber);
  void operation_begins(unsigned fiber);

  [[nodiscard]] const std::vector<stale_load>& stale_loads() const noexcept { return stale_; }

 private:
  static constexpr unsigned no_fiber = ~0U;

  struct message {
    std::uint64_t value;
    knowledge released;
    unsigned fiber;
    const void* where;
  };
  /// From this step of the fiber on, it reads nothing older than that message.
  struct mark {
    std::uint32_t clock;
    std::size_t message;
  };
  /// From this seq_cst access on, in the order of seq_cst accesses, no load reads anything older than that message.
  struct sc_mark {
    std::uint64_t number;
    std::size_t message;
  };
  struct location {
    place at;
    std::vector<message> messages;
    std::vector<std::vector<mark>> marks;  // by fiber
    std::vector<sc_mark> sc_marks;
  };
  /// An access that later ones may race with.
  struct footprint {
    unsigned fiber;
    std::uint32_t clock;
    std::uint8_t mask;  // bytes of the granule
    bool write;
    bool atomic;
    const void* where;
  };
  struct granule {
    std::vector<location> locations;
    std::vector<footprint> footprints;
  };
  struct thread {
    knowledge now;
    knowledge acquirable;  // by relaxed loads, for an acquire fence
    knowledge fenced;      // at the last release fence
    std::uint64_t sc_seen = 0;
    std::uint64_t loads = 0;
  };

  std::optional<race> check_part(unsigned fiber, const access& a, std::uintptr_t begin, std::size_t bytes);
  void step(unsigned fiber) noexcept;
  location* find(place at, std::uint64_t newest);
  location& find_or_begin(place at, std::uint64_t newest);
  [[nodiscard]] std::size_t oldest_allowed(const location& l, unsigned fiber, bool sc) const;
  void note(location& l, unsigned fiber, std::size_t number, std::memory_order order);
  void receive(unsigned fiber, const message& m, std::memory_order order) noexcept;
  void append(location& l, unsigned fiber, std::uint64_t value, std::memory_order order, const void* where,
              const knowledge* also);
  [[nodiscard]] std::uint64_t random(unsigned fiber) noexcept;

  std::uint64_t seed_ = 0;
  std::uint64_t stale_in_256_ = 0;
  unsigned fibers_ = 0;
  std::vector<thread> threads_;
  clocks sc_;  // what the seq_cst fences so far have seen
  std::uint64_t sc_number_ = 0;
  clocks ended_;                                          // what ended operations have seen
  std::unordered_map<std::uintptr_t, granule> granules_;  // by address / 8; accessed by key, never iterated
  std::vector<stale_load> stale_;
};

}  // namespace espalier::sim
