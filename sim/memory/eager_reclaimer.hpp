#pragma once

#include <cstddef>
#include <cstdint>

#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier::sim {

/// The strictest reclaimer that fulfils the contract: an entry is reclaimed at the very moment when the last guard ends
/// that existed at its retirement. Code that relies on longer lifetimes fails within few schedules, where an epoch
/// domain would reclaim long after the race.
///
/// It also checks its callers: a retirement without a reservation, or a second one, fails the run. Only reclaiming is a
/// step of the program, none of its other work is.
class eager_reclaimer {
  struct state;

 public:
  static constexpr bool reclaims = true;

  class [[nodiscard]] guard {
   public:
    guard(guard&& other) noexcept : owner_(other.owner_), number_(other.number_) { other.owner_ = nullptr; }
    guard& operator=(guard&& other) noexcept {
      if (this != &other) {
        release();
        owner_ = other.owner_;
        number_ = other.number_;
        other.owner_ = nullptr;
      }
      return *this;
    }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() { release(); }

    [[nodiscard]] bool protects(const eager_reclaimer& domain) const noexcept { return owner_ == &domain; }
    void renew() noexcept { *this = owner_->pin(); }
    void reserve(std::size_t n);
    void retire(const retired& entry) noexcept;

   private:
    friend class eager_reclaimer;
    guard(eager_reclaimer& owner, std::uint64_t number) noexcept : owner_(&owner), number_(number) {}
    void release() noexcept {
      if (owner_ != nullptr) owner_->unpin(number_);
    }

    eager_reclaimer* owner_;
    std::uint64_t number_;
  };

  eager_reclaimer();
  eager_reclaimer(const eager_reclaimer&) = delete;
  eager_reclaimer& operator=(const eager_reclaimer&) = delete;
  ~eager_reclaimer();

  [[nodiscard]] guard pin();
  void purge(void* owner) noexcept;
  /// Number of entries that wait for guards.
  [[nodiscard]] std::size_t collect() noexcept;

 private:
  void unpin(std::uint64_t number) noexcept;
  void retire(std::uint64_t number, const retired& entry) noexcept;

  state* state_;
};

static_assert(reclaimer<eager_reclaimer>);

}  // namespace espalier::sim
