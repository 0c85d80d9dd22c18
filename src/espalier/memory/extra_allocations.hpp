#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/placement_over.hpp"
#include "espalier/memory/slot_random.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

// Orderings
//   (1) keep (release) -> destroy (fork): a child of fork() finds a list of extra blocks with complete links, wherever
//       the fork stopped the thread. The fence binds the compiler only.

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

}  // namespace espalier
