#pragma once

#include <cstdint>
#include <span>

// Work that is measured in a program of its own, so that any malloc and any mutexes can be preloaded under it.

namespace espalier::bench {

/// How many blocks begin at each index of a cache: one element an index.
using index_loads = std::span<std::uint64_t>;

/// Lives in a process that does nothing else. What is part of the work comes from malloc, all else from elsewhere, so
/// that blocks lie as they would without it.
class measured_work {
 public:
  measured_work() = default;
  measured_work(const measured_work&) = delete;
  measured_work& operator=(const measured_work&) = delete;
  virtual ~measured_work() = default;

  [[nodiscard]] virtual unsigned threads() const noexcept = 0;

  /// What a thread does before the first round: in each once, one behind the other, by ascending numbers. Whoever works
  /// on memory has it from a malloc's own place for his thread then, as in a program that has run for long.
  virtual void prepare(unsigned /*thread*/) {}

  /// The part of a round that one thread does, so many operations. Always in the same thread for one number, and in
  /// all at once.
  virtual void work(unsigned thread, std::uint64_t operations) = 0;

  /// What came out wrong so far, or null. Between rounds, as is count_blocks().
  [[nodiscard]] virtual const char* check() const { return nullptr; }

  /// Adds the blocks that the work visits.
  virtual void count_blocks(index_loads) const {}

  /// Bytes that the program asked for and has not given back; 0 where nobody asks.
  [[nodiscard]] virtual std::uint64_t live_bytes() const { return 0; }

 protected:
  static void count_block(index_loads loads, const void* block) noexcept {
    constexpr unsigned line_bits = 6;
    ++loads[(reinterpret_cast<std::uintptr_t>(block) >> line_bits) % loads.size()];
  }
};

}  // namespace espalier::bench
