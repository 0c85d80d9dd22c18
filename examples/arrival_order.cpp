// A queue and a stack in partitions. Each element has the time of its push, and a push goes to the pusher's own locality. A pop asks
// all partitions for the time of their first element, or of their last, at the same time, and then pops in the best one.
//
// Meanwhile another thread may have taken that element, and an element of another partition may be the next one. So the pop says
// which time it wants at least, and asks again where the partition has no such element any more.
//
// The times of a partition are drawn with its lock held, so its elements lie in their order. Pops see the partitions at different
// moments: an element that is pushed meanwhile may be missed, one that was pushed before is not.
//
// Prints:
//   queue: 1 2 3 4 5 6
//   stack: 6 5 4 3 2 1
//   queue: 4000 elements of 4 threads were popped once, those of a thread in the order of its pushes
//   stack: 4000 elements of 4 threads were popped once, those of a thread in reverse

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <espalier/delegation/partitions.hpp>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace espalier::delegation;

enum class next_is { oldest, newest };

template <class T, next_is Next>
class arrival_order {
  using time = std::uint64_t;
  /// The greater one goes first: the negated time of a queue's element is greater if the element is older.
  using rank = std::int64_t;

  class part {
   public:
    explicit part(runtime* threads) : lock_(*threads) {}

    void push(const T& value, std::atomic<time>& clock) {
      const std::lock_guard hold(lock_);
      elements_.emplace_back(clock.fetch_add(1, std::memory_order_relaxed),
                             value);  // relaxed: of the lock's order
    }
    std::optional<rank> first_rank() {
      const std::lock_guard hold(lock_);
      return elements_.empty() ? std::nullopt : std::optional(rank_of_first());
    }
    /// Nothing if the first element comes after this rank.
    std::optional<T> pop(rank least) {
      const std::lock_guard hold(lock_);
      if (elements_.empty() || rank_of_first() < least) return std::nullopt;
      std::optional<T> value(std::move(first().second));
      if constexpr (Next == next_is::oldest)
        elements_.pop_front();
      else
        elements_.pop_back();
      return value;
    }

   private:
    std::pair<time, T>& first() { return Next == next_is::oldest ? elements_.front() : elements_.back(); }
    rank rank_of_first() {
      const auto at = static_cast<rank>(first().first);
      return Next == next_is::oldest ? -at : at;
    }

    partition_lock<> lock_;
    std::deque<std::pair<time, T>> elements_;
  };

 public:
  explicit arrival_order(runtime& threads)
      : threads_(threads), parts_(threads, threads.locality_count(), by_hash(), &threads) {}

  void push(const T& value) {
    parts_.call_at(threads_.here(), [this, &value](part& p) { p.push(value, clock_); });
  }

  std::optional<T> pop() {
    struct best_two {
      unsigned asked = 0;
      unsigned best = 0;
      std::optional<rank> first{}, second{};
    };
    while (true) {
      const best_two now = parts_.broadcast(
          best_two(), [](part& p) { return p.first_rank(); },
          [](best_two so_far, std::optional<rank> one) {
            if (one > so_far.first) {  // nothing is less than any rank
              so_far.best = so_far.asked;
              std::swap(so_far.first, one);
            }
            if (one > so_far.second) so_far.second = one;
            ++so_far.asked;
            return so_far;
          });
      if (!now.first) return std::nullopt;
      const rank least = now.second.value_or(std::numeric_limits<rank>::min());
      if (std::optional<T> popped = parts_.call_at(now.best, [least](part& p) { return p.pop(least); }))
        return popped;
    }
  }

 private:
  runtime& threads_;
  std::atomic<time> clock_{0};
  partitions<part> parts_;
};

/// Six pushes from two localities in turn.
template <next_is Next>
void show(runtime& threads, const char* name) {
  arrival_order<int, Next> all(threads);
  for (int i = 1; i <= 6; ++i) {
    threads.attach(static_cast<unsigned>(i) % 2);
    all.push(i);
  }
  std::printf("%s:", name);
  while (const auto next = all.pop()) std::printf(" %d", *next);
  std::printf("\n");
}

/// Two threads in each locality push, and pop half of that; the rest is popped at the end.
template <next_is Next>
void check(runtime& threads, const char* name) {
  constexpr int pushes = 1000;
  constexpr unsigned pushers = 4;
  arrival_order<int, Next> all(threads);
  std::array<std::vector<int>, pushers + 1> popped;
  std::vector<std::thread> team;
  for (unsigned t = 0; t < pushers; ++t) {
    team.emplace_back([&, t] {
      threads.attach(t % 2);
      for (int i = 0; i < pushes; ++i) {
        all.push(static_cast<int>(t) * pushes + i);
        if (i % 2 == 1)
          if (const auto one = all.pop()) popped[t].push_back(*one);
      }
    });
  }
  for (std::thread& one : team) one.join();
  while (const auto one = all.pop()) popped[pushers].push_back(*one);

  std::vector<int> times(pushes * pushers);
  for (const auto& some : popped) {
    for (const int one : some) ++times[static_cast<std::size_t>(one)];
  }
  bool once = true;
  for (const int n : times) once &= n == 1;
  // At the end no thread pushes any more; a queue has the order at all times.
  bool in_order = true;
  for (unsigned by = Next == next_is::oldest ? 0 : pushers; by <= pushers; ++by) {
    std::array<int, pushers> last;
    last.fill(Next == next_is::oldest ? -1 : pushes * static_cast<int>(pushers));
    for (const int one : popped[by]) {
      int& before = last[static_cast<std::size_t>(one / pushes)];
      in_order &= Next == next_is::oldest ? one > before : one < before;
      before = one;
    }
  }
  std::printf("%s: %zu elements of %u threads were %s, those of a thread %s\n", name, times.size(), pushers,
              once ? "popped once" : "lost or popped twice",
              !in_order                 ? "in no order"
              : Next == next_is::oldest ? "in the order of its pushes"
                                        : "in reverse");
}

}  // namespace

int main() {
  runtime threads(localities::in_turn(2));
  show<next_is::oldest>(threads, "queue");
  show<next_is::newest>(threads, "stack");
  check<next_is::oldest>(threads, "queue");
  check<next_is::newest>(threads, "stack");
}
