#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "espalier/hw/thread_slot.hpp"

namespace espalier::test {

/// Threads that each ask for a slot, and stay during its lifetime. The system may allow fewer than asked for.
class crowd {
 public:
  explicit crowd(std::uint32_t most) {
    pthread_attr_t small{};
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, std::size_t{64} << 10U);
    for (pthread_t one{}; threads_.size() < most; threads_.push_back(one)) {
      if (pthread_create(&one, &small, join, this) != 0) break;
    }
    pthread_attr_destroy(&small);
    while (holders + refused < threads_.size()) std::this_thread::yield();
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;
  ~crowd() {
    leave_ = true;
    leave_.notify_all();
    for (const pthread_t t : threads_) pthread_join(t, nullptr);
  }
  [[nodiscard]] std::size_t size() const noexcept { return threads_.size(); }

  std::atomic<std::uint32_t> holders{0};
  std::atomic<std::uint32_t> refused{0};

 private:
  static void* join(void* argument) {
    auto& all = *static_cast<crowd*>(argument);
    try {
      static_cast<void>(hw::thread_slot());
      ++all.holders;
    } catch (const std::system_error& e) {
      if (e.code() == std::errc::resource_unavailable_try_again) ++all.refused;
    }
    all.leave_.wait(false);
    return nullptr;
  }

  std::atomic<bool> leave_{false};
  std::vector<pthread_t> threads_;
};

}  // namespace espalier::test
