// What a C++ program makes of pthread's mutexes.

// WITH settings: ESPALIER_ELIDE_POLICY=tts | "" | ESPALIER_ELIDE_RTM=off
// RUN same: LD_PRELOAD=%elide %settings %p
// RUN same: LD_PRELOAD=%aborting ESPALIER_ELIDE_POLICY=tle %p
// WITH how conflicts capacity: "" 0 0 | abort_every=2 [1-9] 0 | abort_every=3,sets=1,ways=9 [1-9] [1-9]
// IF: test -n "%emulated"
// RUN same: LD_PRELOAD=%emulated:%elide ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tle ESPALIER_EMULATED_RTM=%how %fewer %p
// THEN: %sums%p counts
// EXPECT: ^commits [1-9]\d* conflicts %conflicts\d* capacity %capacity

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "rounds.h"

namespace {

const int rounds = rounds_of(5000);

void expect(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "not so: " << what << '\n';
  std::exit(99);
}

template <class Mutex>
void counts() {
  Mutex mutex;
  long value = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        try {
          const std::lock_guard hold(mutex);
          ++value;
          if (i % 100 == 0) throw std::runtime_error("out of the section");
        } catch (const std::runtime_error&) {
          continue;
        }
      }
    });
  for (std::thread& t : threads) t.join();
  expect(value == 4L * rounds, "an increment is lost");
  expect(mutex.try_lock(), "a mutex is left held");
  mutex.unlock();
}

void passes_on() {
  std::mutex mutex;
  std::condition_variable_any any;
  std::condition_variable changed;
  std::deque<int> queue;
  long sum = 0;
  std::thread consumer([&] {
    for (int taken = 0; taken < rounds; ++taken) {
      std::unique_lock hold(mutex);
      changed.wait(hold, [&] { return !queue.empty(); });
      sum += queue.front();
      queue.pop_front();
      any.notify_one();
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    std::unique_lock hold(mutex);
    any.wait(hold, [&] { return queue.size() < 8; });
    queue.push_back(i);
    changed.notify_one();
  }
  consumer.join();
  expect(sum == rounds * (rounds + 1L) / 2, "the queue loses something");
  std::unique_lock hold(mutex);
  expect(changed.wait_for(hold, std::chrono::milliseconds(5)) == std::cv_status::timeout, "nobody notifies");
  expect(hold.owns_lock(), "the mutex is had again");
}

}  // namespace

int main() {
  counts<std::mutex>();
  counts<std::recursive_mutex>();
  counts<std::timed_mutex>();
  passes_on();
  std::cout << "all is as it should be\n";
}
