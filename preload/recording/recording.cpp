#include "preload/recording/recording.hpp"

#include <time.h>

namespace espalier::preload {

std::uint64_t recording::now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

void recording::hold_blocks() noexcept {
  threads_.freeze();
  threads_.for_each([](thread_record& each) { each.young.lock().lock(); });
  blocks_.lock_all();
}

void recording::let_blocks_go() noexcept {
  blocks_.unlock_all();
  threads_.for_each([](thread_record& each) { each.young.lock().unlock(); });
  threads_.thaw();
}

std::size_t recording::most_blocks() noexcept {
  std::size_t most = blocks_.size();
  threads_.for_each([&](thread_record&) { most += young_blocks::places; });
  return most;
}

std::uint64_t recording::entered() noexcept {
  std::uint64_t sum = blocks_.inserted();
  threads_.for_each([&](thread_record& each) { sum += each.young.not_moved(); });
  return sum;
}

std::uint64_t recording::passed_over() noexcept {
  std::uint64_t sum = passed_over_.load(std::memory_order_relaxed);
  threads_.for_each([&](thread_record& each) { sum += each.passed_over.load(std::memory_order_relaxed); });
  return sum;
}

}  // namespace espalier::preload
