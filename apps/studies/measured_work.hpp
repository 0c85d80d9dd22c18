#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "apps/common/interface.hpp"

// Work that is measured in a separate program, so that any malloc and any mutexes can be preloaded under it.

namespace espalier::bench {

/// The number of blocks that begin at each index of a cache, one element per index.
using index_loads = std::span<std::uint64_t>;

/// Lives in a process that does nothing else. Memory of the work comes from malloc, all other memory from elsewhere, so
/// that the latter does not affect where blocks lie.
class measured_work : public app::interface {
 public:
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

/// Arguments of the form name=number, as the command writes them. They use no malloc before the work does, because a
/// used heap lays blocks out differently.
class arguments {
 public:
  arguments(int count, char** words) noexcept : count_(count), words_(words) {}

  /// The number with this name, from `least` to `most`. Ends the program with status 2 and a message if it is missing,
  /// not a number, or out of range.
  [[nodiscard]] std::uint64_t number(std::string_view name, std::uint64_t least, std::uint64_t most) const;
  /// The same, but it may be missing.
  [[nodiscard]] std::uint64_t number_or(std::string_view name, std::uint64_t least, std::uint64_t most,
                                        std::uint64_t without) const;

 private:
  /// Null if there is none.
  [[nodiscard]] const char* find(std::string_view name) const noexcept;

  int count_;
  char** words_;
};

/// Prints the message and ends the program with status 2.
[[noreturn]] void refuse(const char* what, std::string_view which) noexcept;

/// `count` zeroed elements that do not come from malloc and are never freed. Ends the program if there is no memory.
template <class T>
  requires std::is_trivially_destructible_v<T>
[[nodiscard]] std::span<T> outside_malloc(std::size_t count) noexcept {
  void* const pages =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) refuse("no memory outside", "malloc");
  return {static_cast<T*>(pages), count};
}

// The kinds of work. Each documents its arguments, and is constructed once in a process.

[[nodiscard]] measured_work& make_fresh(const arguments& given);
[[nodiscard]] measured_work& make_ring(const arguments& given);
[[nodiscard]] measured_work& make_locked_tree(const arguments& given);
[[nodiscard]] measured_work& make_larson(const arguments& given);
[[nodiscard]] measured_work& make_xmalloc(const arguments& given);
[[nodiscard]] measured_work& make_cache_scratch(const arguments& given);
[[nodiscard]] measured_work& make_large(const arguments& given);

}  // namespace espalier::bench
