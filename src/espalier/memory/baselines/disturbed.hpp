#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include "espalier/hw/thread_slot.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"

// Placements that disturb the layout of another one, for studies.
//
// Orderings
//   (1) keep (release) -> destroy (fork): a child of fork() finds a list of extra blocks with complete links, wherever
//       the fork stopped the thread. The fence binds the compiler only.

namespace espalier {

/// Small random numbers for placements that disturb a layout; the same in every run for each thread slot. One
/// object for each thread (sync/per_thread.hpp).
class slot_random {
 public:
  static constexpr unsigned numbers = 8;

  /// The next number below `numbers`.
  [[nodiscard]] unsigned next() {
    if (state_ == 0) state_ = hw::thread_slot() + 1;
    // Knuth's linear congruential generator; its high bits are the most random.
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<unsigned>(state_ >> 60U) % numbers;
  }

 private:
  std::uint64_t state_ = 0;
};

/// RAND of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan and
/// Lev, section 2): each request grows by a random small amount, so that blocks of one size do not follow each
/// other at a stride that visits only a few cache sets. A remedy by chance: it breaks bad strides as well as good
/// ones, and leaves blocks wherever the placement below aligns them. index_aware does it by design.
///
/// The amount is 1 byte and a multiple of 16 up to 112, the same in every run for each thread slot. The
/// deallocation must know it, because the placements below find a block's size class by it. The byte after the
/// requested bytes stores it: that place follows from the request alone, leaves the block's alignment to the
/// placement below, and takes no table.
///
/// O(1) beside the placement below, with the same progress as that.
template <placement Below>
class random_padding : public placement_over<Below> {
  using base = placement_over<Below>;

 public:
  static constexpr std::string_view name = "random_padding";

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    if (b.bytes > std::numeric_limits<std::size_t>::max() - most) throw std::bad_alloc();
    const unsigned steps = random_.local().next();
    void* const memory = below_.allocate(padded(b, steps), near);
    note_of(memory, b) = static_cast<std::byte>(steps);
    return memory;
  }

  void deallocate(void* memory, const block& b) noexcept {
    below_.deallocate(memory, padded(b, std::to_integer<unsigned>(note_of(memory, b))));
  }

  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    return espalier::bytes_held(below_, memory, padded(b, std::to_integer<unsigned>(note_of(memory, b))));
  }

 private:
  using base::below_;

  static constexpr std::size_t step = 16;
  static constexpr std::size_t most = 1 + (slot_random::numbers - 1) * step;

  static constexpr block padded(const block& b, unsigned steps) noexcept {
    return {b.bytes + 1 + steps * step, b.align, b.role};
  }
  static std::byte& note_of(void* memory, const block& b) noexcept {
    return static_cast<std::byte*>(memory)[b.bytes];
  }
  static std::byte note_of(const void* memory, const block& b) noexcept {
    return static_cast<const std::byte*>(memory)[b.bytes];
  }

  per_thread<slot_random> random_;
};

/// Another placement, disturbed: before each block the thread allocates an extra one of random size from the
/// heap, and never frees it. Where blocks of two kinds alternate in one size class, each kind lies in every second
/// line and uses half of a cache's sets; the extra ones break that pattern (ATC 2018, table 4, "w/ allocs").
/// For the study of such effects, not for use: the extra blocks cost more than they gain.
///
/// Sizes are multiples of 16 up to 128, the same in every run for each thread slot.
template <placement Below>
class extra_allocations : public placement_over<Below> {
  using base = placement_over<Below>;

 public:
  static constexpr std::string_view name = "extra_allocations";

  extra_allocations() = default;
  ~extra_allocations() {
    // order (1): destroy, fork
    kept_.for_each([](std::uint32_t, kept& k) {
      while (k.first != nullptr) ::operator delete(std::exchange(k.first, k.first->next));
    });
  }

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    keep_one(kept_.local());
    return below_.allocate(b, near);
  }

  /// Extra blocks count as reserved, not as in use.
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage all = below_.usage();
    // relaxed: a count, exact at quiescence.
    kept_.for_each(
        [&](std::uint32_t, const kept& k) { all.bytes_reserved += k.bytes.load(std::memory_order_relaxed); });
    return all;
  }

 private:
  using base::below_;

  static constexpr std::uint64_t step = 16;

  struct extra {
    extra* next;
  };
  struct kept {
    extra* first = nullptr;
    slot_random random;
    // relaxed throughout: only the owner writes it, and usage() is exact at quiescence.
    std::atomic<std::uint64_t> bytes{0};
  };

  static void keep_one(kept& k) {
    const std::uint64_t bytes = (k.random.next() + 1) * step;
    auto* const more = ::new (::operator new(bytes)) extra{k.first};
    // order (1): keep, release
    std::atomic_signal_fence(std::memory_order_release);
    k.first = more;
    // relaxed: only the owner writes it.
    k.bytes.store(k.bytes.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }

  per_thread<kept> kept_;
};

/// Another placement, shifted by one block: an extra block of 32 bytes precedes the first block of each thread
/// (slot), and is never freed. Two nodes of 32 bytes that one insert allocates then no longer share a line, as they
/// otherwise do (ATC 2018, figure 3). For the study of that effect.
template <heap_placement Below>
class shifted : public placement_over<Below> {
  using base = placement_over<Below>;

 public:
  static constexpr std::string_view name = "shifted";

  shifted() = default;
  ~shifted() {
    first_.for_each([&](std::uint32_t, void* first) {
      if (first != nullptr) apart_.deallocate(first, extra);
    });
  }

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    void*& first = first_.local();
    if (first == nullptr) [[unlikely]]
      first = apart_.allocate(extra);
    return below_.allocate(b, near);
  }

  /// Extra blocks count as reserved, not as in use.
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage all = below_.usage();
    all.bytes_reserved += apart_.usage().bytes_reserved;
    return all;
  }

 private:
  using base::below_;

  static constexpr block extra{32, 32, memory_role::other};

  Below apart_;  // counts the extra blocks, which come from the same source as those of below_
  per_thread<void*> first_;
};

}  // namespace espalier
