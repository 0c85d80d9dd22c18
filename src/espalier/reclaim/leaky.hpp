#pragma once

#include <cstddef>
#include <cstdint>

#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// Never reclaims anything, as much published code does: a baseline for measurements. Pinning is free.
class leaky {
 public:
  static constexpr bool reclaims = false;

  class [[nodiscard]] guard {
   public:
    explicit guard(leaky& owner) noexcept : owner_(&owner) {}
    guard(guard&&) noexcept = default;
    guard& operator=(guard&&) noexcept = default;
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() = default;

    [[nodiscard]] bool protects(const leaky& domain) const noexcept { return owner_ == &domain; }
    static void renew() noexcept {}
    static void reserve(std::size_t) noexcept {}
    void retire(const retired&) noexcept { owner_->retired_.add(1); }

   private:
    leaky* owner_;
  };

  [[nodiscard]] guard pin() noexcept { return guard(*this); }
  void purge(void*) noexcept {}

  /// Entries dropped so far; exact at quiescence.
  [[nodiscard]] std::uint64_t retired_count() const noexcept {
    return static_cast<std::uint64_t>(retired_.read());
  }

 private:
  striped_counter retired_;
};

static_assert(reclaimer<leaky>);

}  // namespace espalier
