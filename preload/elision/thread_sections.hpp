#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "preload/elision/learned_sites.hpp"
#include "preload/elision/section_counts.hpp"

namespace espalier::preload {

/// The places for a section's history and counts.
struct section_place {
  learned_sites::place* learned = nullptr;
  section_counts::index counted = section_counts::nowhere;
};

/// A thread's state between its calls. It exists from the thread's first instruction to its last. An abort restores
/// it with all other memory, so it never contains sections that did not happen.
class thread_sections {
 public:
  /// The most mutexes that one thread elides at once, all in one transaction.
  static constexpr std::size_t most_nested = 8;

  /// True in a transaction of this library.
  [[nodiscard]] bool eliding() const noexcept { return nested_ != 0; }
  [[nodiscard]] bool full() const noexcept { return nested_ == most_nested; }
  [[nodiscard]] bool elides(const pthread_mutex_t& mutex) const noexcept {
    return std::find(begin(), end(), &mutex) != end();
  }

  /// Not where full().
  void push(const pthread_mutex_t& mutex) noexcept { elided_[nested_++] = &mutex; }
  /// Sections may end in any order.
  void drop(const pthread_mutex_t& mutex) noexcept {
    *std::find(elided_.begin(), elided_.begin() + nested_, &mutex) = elided_[nested_ - 1];
    --nested_;
  }
  void clear() noexcept { nested_ = 0; }

  /// The outermost section.
  section_place outermost;

  /// The thread's number in the kernel. It is asked once per thread, and not in a transaction, which the question
  /// aborts.
  [[nodiscard]] int id() noexcept { return id_ != 0 ? id_ : ask_id(); }
  /// For striped counts.
  [[nodiscard]] unsigned stripe() noexcept { return stripe_ != 0 ? stripe_ : ask_stripe(); }
  /// In a child of fork(): its thread has another number.
  void forget_id() noexcept { id_ = 0; }

 private:
  [[nodiscard]] const pthread_mutex_t* const* begin() const noexcept { return elided_.data(); }
  [[nodiscard]] const pthread_mutex_t* const* end() const noexcept { return elided_.data() + nested_; }
  int ask_id() noexcept;
  unsigned ask_stripe() noexcept;

  std::size_t nested_ = 0;
  std::array<const pthread_mutex_t*, most_nested> elided_{};
  int id_ = 0;
  unsigned stripe_ = 0;
};

extern thread_local constinit thread_sections sections_of_thread;

}  // namespace espalier::preload
