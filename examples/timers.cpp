// Timers in a priority queue: threads set them, and one loop takes those that are due, the earliest first. Timers that are due
// at one time come in the order in which a thread has set them.
//
// Prints:
//   at 10: flush the log
//   at 20: send a heartbeat
//   at 20: check for a leader
//   at 35: send a heartbeat
//   4000 timers of 4 threads came in order, and none is left

#include <cstdint>
#include <cstdio>
#include <espalier/queue/heap_queue.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using time_point = std::uint64_t;
/// Linearizable: a timer that was set before another is not passed by.
template <class Task>
using timer_queue = espalier::heap_queue<time_point, Task>;

/// Calls run(time, task) for the timers that are due. Only one thread calls it: so the timer that it pops is due if the one
/// that it has looked at is.
template <class Task, class Run>
void run_due(timer_queue<Task>& timers, time_point now, Run run) {
  while (const auto next = timers.try_find_min()) {
    if (next->key > now) return;
    if (const auto due = timers.try_pop_min()) run(due->key, due->value);
  }
}

}  // namespace

int main() {
  timer_queue<std::string> tasks;
  tasks.push(20, "send a heartbeat");
  tasks.push(10, "flush the log");
  tasks.push(20, "check for a leader");
  for (time_point now = 0; now <= 40; now += 5) {
    run_due(tasks, now, [&](time_point at, const std::string& task) {
      std::printf("at %d: %s\n", static_cast<int>(at), task.c_str());
      if (at == 20 && task == "send a heartbeat") tasks.push(at + 15, task);
    });
  }

  constexpr time_point timers_each = 1000;
  timer_queue<int> many;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (time_point i = 0; i < timers_each; ++i) many.push(i * 389 % timers_each, t);
    });
  }
  for (std::thread& one : threads) one.join();
  int in_order = 0;
  time_point last = 0;
  run_due(many, timers_each, [&](time_point at, int) {
    if (at >= last) ++in_order;
    last = at;
  });
  std::printf("%d timers of 4 threads came in order, and %s is left\n", in_order,
              many.empty() ? "none" : "one");
}
