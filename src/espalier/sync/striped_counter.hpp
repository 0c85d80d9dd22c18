#pragma once

#include <atomic>
#include <cstdint>

#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// A signed sum that many threads add to and few read. Each thread adds to a word of its own, so that
/// counting does not become the contended line. Threads without memory for a word of their own share one.
class striped_counter {
 public:
  /// The word of one thread, which alone may add to it.
  class stripe {
   public:
    void add(std::int64_t amount) const noexcept {
      // relaxed, and no read-modify-write: only this thread writes the word, and a sum needs no order.
      word_->store(word_->load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }

   private:
    friend striped_counter;
    explicit stripe(std::atomic<std::int64_t>& word) noexcept : word_(&word) {}
    std::atomic<std::int64_t>* word_;
  };

  /// The calling thread's word. Throws std::bad_alloc at its first call. An operation that reports lack of memory calls
  /// it before it counts.
  [[nodiscard]] stripe local() { return stripe(stripes_.local()); }
  void reserve() { static_cast<void>(local()); }

  void add(std::int64_t amount) noexcept {
    std::atomic<std::int64_t>* const mine = stripes_.if_made();
    if (mine == nullptr) [[unlikely]]
      return add_first(amount);
    stripe(*mine).add(amount);
  }

  /// The sum; exact when no thread is adding.
  [[nodiscard]] std::int64_t read() const noexcept {
    // relaxed: exact only when no thread adds.
    std::int64_t sum = shared_.load(std::memory_order_relaxed);
    stripes_.for_each([&](std::uint32_t, const std::atomic<std::int64_t>& word) {
      sum += word.load(std::memory_order_relaxed);
    });
    return sum;
  }

 private:
  /// A thread's first addition, or any addition of a thread without memory for its word.
  [[gnu::noinline]] void add_first(std::int64_t amount) noexcept {
    std::atomic<std::int64_t>* const mine = stripes_.try_local();
    // relaxed: a sum needs no order.
    (mine != nullptr ? *mine : shared_).fetch_add(amount, std::memory_order_relaxed);
  }

  per_thread<std::atomic<std::int64_t>> stripes_;
  std::atomic<std::int64_t> shared_{0};
};

}  // namespace espalier
