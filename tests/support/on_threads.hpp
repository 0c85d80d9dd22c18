#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "espalier/hw/thread_slot.hpp"

namespace espalier::test {

/// Calls work(0) to work(n - 1), each on a separate thread, and waits for all.
template <class Work>
void on_threads(int n, Work&& work) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(n));
  for (int t = 0; t < n; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& t : threads) t.join();
}

/// Calls before(t) here and then work(t) on thread t, for one of n threads after the other. All of them have their slots
/// from the beginning to the end.
template <class Before, class Work>
void on_threads_in_turn(int n, Before&& before, Work&& work) {
  std::atomic<int> arrived{0};
  std::atomic<int> turn{-1};
  std::atomic<int> done{0};
  std::atomic<bool> leave{false};
  std::thread conductor([&] {
    on_threads(n, [&](int t) {
      static_cast<void>(hw::thread_slot());
      arrived.fetch_add(1);
      for (int now = turn; now < t; now = turn) turn.wait(now);
      work(t);
      done.fetch_add(1);
      done.notify_all();
      leave.wait(false);
    });
  });
  while (arrived.load() != n) std::this_thread::yield();
  for (int t = 0; t < n; ++t) {
    before(t);
    turn = t;
    turn.notify_all();
    done.wait(t);
  }
  leave = true;
  leave.notify_all();
  conductor.join();
}

}  // namespace espalier::test
