#pragma once

#include <cstddef>
#include <thread>
#include <vector>

namespace espalier::test {

/// Calls work(0) to work(n - 1), each on a separate thread, and waits for all.
template <class Work>
void on_threads(int n, Work&& work) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(n));
  for (int t = 0; t < n; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& t : threads) t.join();
}

}  // namespace espalier::test
