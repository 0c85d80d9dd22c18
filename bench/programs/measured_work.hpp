#pragma once

#include <cstdint>
#include <span>

// Work that is measured in a separate program, so that any malloc and any mutexes can be preloaded under it.

namespace espalier::bench {

/// The number of blocks that begin at each index of a cache, one element per index.
using index_loads = std::span<std::uint64_t>;

/// Lives in a process that does nothing else. Memory of the work comes from malloc, all other memory from elsewhere, so
/// that the latter does not affect where blocks lie.
class measured_work {
 public:
  measured_work() = default;
  measured_work(const measured_work&) = delete;
  measured_work& operator=(const measured_work&) = delete;
  virtual ~measured_work() = default;

  [[nodiscard]] virtual unsigned threads() const noexcept = 0;

  /// A thread's preparation before the first round: called once in each thread, one after the other, by ascending
  /// numbers. Memory that a thread will work on then comes from malloc's per-thread state for it, as in a program that
  /// has run for long.
  virtual void prepare(unsigned /*thread*/) {}

  /// One thread's part of a round, with this many operations. A number always has the same thread, and all threads run
  /// at once.
  virtual void work(unsigned thread, std::uint64_t operations) = 0;

  /// The first error so far, or null. Called between rounds, as is count_blocks().
  [[nodiscard]] virtual const char* check() const { return nullptr; }

  /// Adds the blocks that the work visits.
  virtual void count_blocks(index_loads) const {}

  /// Bytes that the program requested and has not freed; 0 if they are not counted.
  [[nodiscard]] virtual std::uint64_t live_bytes() const { return 0; }

 protected:
  static void count_block(index_loads loads, const void* block) noexcept {
    constexpr unsigned line_bits = 6;
    ++loads[(reinterpret_cast<std::uintptr_t>(block) >> line_bits) % loads.size()];
  }
};

}  // namespace espalier::bench
