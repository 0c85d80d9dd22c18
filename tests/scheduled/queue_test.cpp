// Priority queues: histories of a few operations, each against what the queue promises.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/delegation/partitioned_queue.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/queue/heap_queue.hpp"
#include "espalier/queue/shavit_lotan_queue.hpp"
#include "scheduled/expect.hpp"
#include "scheduled/scenes.hpp"
#include "scheduled/towers.hpp"
#include "sim/explore.hpp"
#include "sim/memory/eager_reclaimer.hpp"
#include "sim/memory/traced_heap.hpp"

namespace espalier::sim {
namespace {

using number = std::uint64_t;
using traits = map_traits::with_placement<traced_heap>::with_reclaimer<eager_reclaimer>;
template <queue_order Order>
using queue_of = shavit_lotan_queue<number, number, Order, traits, std::less<number>, levels_of<2>>;
using linearizable = queue_of<queue_order::linearizable>;
using quiescent = queue_of<queue_order::quiescently_consistent>;
using heap = heap_queue<number, number, map_traits::with_placement<traced_heap>>;
/// Of two partitions one has the keys 10, 30 and 15, the other one 20 and 5.
struct by_tens {
  [[nodiscard]] static std::uint64_t number(sim::number key) noexcept { return key; }
  [[nodiscard]] static unsigned partition(sim::number key, unsigned count) noexcept {
    return static_cast<unsigned>(key / 10) % count;
  }
};
using partitioned = partitioned_queue<quiescent, by_tens>;

using element = espalier::map_entry<number, number>;

enum class queue_operation : std::uint8_t { push, pop, find_min, empty };

struct call {
  queue_operation what;
  bool has;  // an element: the one pushed, or the result; of empty(): whether it was not
  element which;
  number begin;
  number end;
};

bool is_before(const call& a, const call& b) { return a.end < b.begin; }

/// Whether some order of the calls agrees with their intervals and with a queue. Few calls: it tries them all.
bool is_linearizable(const std::vector<call>& calls, std::vector<element> in_queue,
                     std::vector<bool> placed) {
  if (std::all_of(placed.begin(), placed.end(), std::identity())) return true;
  const auto least = [&] {
    return std::min_element(in_queue.begin(), in_queue.end(),
                            [](const element& a, const element& b) { return a.key < b.key; });
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const call& c = calls[i];
    if (placed[i]) continue;
    bool first = true;
    for (std::size_t j = 0; j < calls.size(); ++j) first &= placed[j] || !is_before(calls[j], c);
    if (!first) continue;
    std::vector<element> after = in_queue;
    if (c.what == queue_operation::push) {
      after.push_back(c.which);
    } else if (c.has == in_queue.empty()) {
      continue;
    } else if (c.has && c.what != queue_operation::empty) {
      if (c.which.key != least()->key) continue;
      const auto it = std::find(after.begin(), after.end(), c.which);
      if (it == after.end()) continue;
      if (c.what == queue_operation::pop) after.erase(it);
    }
    placed[i] = true;
    if (is_linearizable(calls, std::move(after), placed)) return true;
    placed[i] = false;
  }
  return false;
}

/// A queue in a scene that records its operations. What an operation has done happens before one that begins later.
template <class Queue>
class recorded_queue {
 public:
  [[gnu::no_sanitize_thread]] void push(number key, number value) {
    const number begin = moment();
    do_push(key, value);
    note({queue_operation::push, true, {key, value}, begin, moment()});
  }
  [[gnu::no_sanitize_thread]] bool pop() {
    const number begin = moment();
    const std::optional<element> e = do_pop();
    note({queue_operation::pop, e.has_value(), e ? *e : element{}, begin, moment()});
    return e.has_value();
  }
  [[gnu::no_sanitize_thread]] void find_min() {
    const number begin = moment();
    const std::optional<element> e = do_find_min();
    note({queue_operation::find_min, e.has_value(), e ? *e : element{}, begin, moment()});
  }
  [[gnu::no_sanitize_thread]] void empty() {
    const number begin = moment();
    const bool none = do_empty();
    note({queue_operation::empty, !none, {}, begin, moment()});
  }

  [[nodiscard]] bool is_linearizable() const {
    const std::vector<call> calls(calls_, calls_ + count_);
    return sim::is_linearizable(calls, {}, std::vector<bool>(calls.size()));
  }
  /// At the end of the run. Pops what is left first.
  void check() {
    const char* const wrong = queue_.check_invariants();
    require(wrong == nullptr, wrong == nullptr ? "" : wrong);
    while (pop()) {
    }
    check_conservation();
    if constexpr (Queue::properties.order == queue_order::linearizable)
      require(is_linearizable(), "the history is not linearizable");
    else
      check_order();
  }

 private:
  [[gnu::noinline]] number moment() { return moments_.fetch_add(1, std::memory_order_acq_rel); }
  [[gnu::noinline]] void do_push(number key, number value) { queue_.push(key, value); }
  [[gnu::noinline]] std::optional<element> do_pop() { return queue_.try_pop_min(); }
  [[gnu::noinline]] std::optional<element> do_find_min() { return queue_.try_find_min(); }
  [[gnu::noinline]] bool do_empty() { return queue_.empty(); }
  [[gnu::no_sanitize_thread]] void note(const call& c) {
    require(count_ < most_calls, "the scene has too many calls");
    calls_[count_++] = c;
  }

  [[nodiscard]] const call* call_of(queue_operation what, const element& e) const {
    const call* const found = std::find_if(
        calls_, calls_ + count_, [&](const call& c) { return c.what == what && c.has && c.which == e; });
    return found == calls_ + count_ ? nullptr : found;
  }
  /// Each element is popped once.
  void check_conservation() const {
    for (const call& c : std::span(calls_, count_)) {
      if (!c.has || c.what == queue_operation::empty) continue;
      require(call_of(queue_operation::push, c.which) != nullptr,
              "an element was seen that no thread pushed");
      const call* const popped = call_of(queue_operation::pop, c.which);
      require(popped != nullptr, "an element was lost");
      require(c.what != queue_operation::pop || popped == &c, "an element was popped twice");
    }
  }
  /// No call passes an element that was there before it, unless another pop takes that.
  void check_order() const {
    for (const call& c : std::span(calls_, count_)) {
      if (c.what == queue_operation::push || (c.what == queue_operation::empty && c.has)) continue;
      const number key = c.has ? c.which.key : std::numeric_limits<number>::max();
      for (const call& p : std::span(calls_, count_)) {
        if (p.what != queue_operation::push || !is_before(p, c) || p.which.key >= key) continue;
        require(call_of(queue_operation::pop, p.which)->begin < c.end, "a smaller element was passed by");
      }
    }
  }

  static constexpr std::size_t most_calls = 16;
  Queue queue_;
  std::atomic<number> moments_{0};
  call calls_[most_calls];
  std::size_t count_ = 0;
};

template <class Queue>
recorded_queue<Queue>& queue_with(scene& s, std::initializer_list<number> keys) {
  auto& queue = s.make<recorded_queue<Queue>>();
  for (const number key : keys) queue.push(key, key);
  s.at_end([&queue] { queue.check(); });
  return queue;
}

/// Two pops stand at 10 when it is popped, 5 is pushed, and then 30. One of them takes 20. If the other one goes on to 30, it has
/// passed the smaller element, which was there first.
template <class Queue>
void small_beside_paused_pops(recorded_queue<Queue>& queue, scene& s) {
  s.thread("pops", [&queue] { queue.pop(); });
  s.thread("pops too", [&queue] { queue.pop(); });
  s.thread("pops and pushes", [&queue] {
    queue.pop();
    queue.push(5, 1);
    queue.push(30, 2);
  });
}
ESPALIER_SCENE(queue_linearizable, small_beside_paused_pops, 4000) {
  small_beside_paused_pops(queue_with<linearizable>(s, {10, 20}), s);
}
ESPALIER_SCENE(queue_quiescent, small_beside_paused_pops, 1000) {
  small_beside_paused_pops(queue_with<quiescent>(s, {10, 20}), s);
}

ESPALIER_SCENE(queue_heap, small_beside_paused_pops, 300) {
  small_beside_paused_pops(queue_with<heap>(s, {10, 20}), s);
}
ESPALIER_SCENE(queue_partitioned, small_beside_paused_pops, 300) {
  small_beside_paused_pops(queue_with<partitioned>(s, {10, 20}), s);
}

template <class Queue>
void equal_keys(scene& s) {
  auto& queue = queue_with<Queue>(s, {10});
  s.thread("a", [&queue] {
    queue.push(10, 1);
    queue.pop();
  });
  s.thread("b", [&queue] {
    queue.push(10, 2);
    queue.pop();
  });
}
ESPALIER_SCENE(queue_linearizable, equal_keys, 1000) { equal_keys<linearizable>(s); }
ESPALIER_SCENE(queue_quiescent, equal_keys, 1000) { equal_keys<quiescent>(s); }
ESPALIER_SCENE(queue_heap, equal_keys, 300) { equal_keys<heap>(s); }
ESPALIER_SCENE(queue_partitioned, equal_keys, 200) { equal_keys<partitioned>(s); }

template <class Queue>
void more_pops_than_elements(scene& s) {
  auto& queue = queue_with<Queue>(s, {10, 20});
  for (const char* const name : {"a", "b", "c"}) s.thread(name, [&queue] { queue.pop(); });
}
ESPALIER_SCENE(queue_linearizable, more_pops_than_elements, 1000) {
  more_pops_than_elements<linearizable>(s);
}
ESPALIER_SCENE(queue_quiescent, more_pops_than_elements, 1000) { more_pops_than_elements<quiescent>(s); }
ESPALIER_SCENE(queue_heap, more_pops_than_elements, 300) { more_pops_than_elements<heap>(s); }
ESPALIER_SCENE(queue_partitioned, more_pops_than_elements, 200) { more_pops_than_elements<partitioned>(s); }

/// Both pops find 20. The one that comes too late has to take 30, in the other partition, though 40 is where 20 was.
ESPALIER_SCENE(queue_partitioned, the_next_one_is_elsewhere, 300) {
  auto& queue = queue_with<partitioned>(s, {20, 30, 40});
  for (const char* const name : {"a", "b"}) {
    s.thread(name, [&queue] { require(queue.pop(), "a pop finds nothing, and there is an element"); });
  }
}

template <class Queue>
void looks_beside_pops(scene& s) {
  auto& queue = queue_with<Queue>(s, {10, 20});
  s.thread("pops", [&queue] {
    queue.pop();
    queue.push(15, 1);
    queue.pop();
  });
  s.thread("looks", [&queue] {
    queue.find_min();
    queue.empty();
    queue.find_min();
  });
}
ESPALIER_SCENE(queue_linearizable, looks_beside_pops, 1000) { looks_beside_pops<linearizable>(s); }
ESPALIER_SCENE(queue_quiescent, looks_beside_pops, 1000) { looks_beside_pops<quiescent>(s); }
ESPALIER_SCENE(queue_heap, looks_beside_pops, 1000) { looks_beside_pops<heap>(s); }
/// Waiting threads run in turn, so every call would be beside a pop.
ESPALIER_SCENE(queue_partitioned, looks_beside_pushes, 300) {
  auto& queue = queue_with<partitioned>(s, {10, 20});
  s.thread("pushes", [&queue] { queue.push(5, 1); });
  s.thread("looks", [&queue] {
    queue.find_min();
    queue.empty();
    queue.find_min();
  });
}

/// A pop stands at 10 when 15 is pushed, and then 10 is popped. It may return 10 or 15, never 20: at each moment one of those
/// is there. A find likewise.
template <class Queue>
void pushed_before_the_claim(scene& s) {
  auto& queue = queue_with<Queue>(s, {10, 20});
  s.thread("pops", [&queue] {
    queue.find_min();
    queue.pop();
  });
  s.thread("pushes and pops", [&queue] {
    queue.push(15, 1);
    queue.pop();
  });
}
ESPALIER_SCENE(queue_linearizable, pushed_before_the_claim, 2000) {
  pushed_before_the_claim<linearizable>(s);
}
ESPALIER_SCENE(queue_quiescent, pushed_before_the_claim, 1000) { pushed_before_the_claim<quiescent>(s); }

/// Two pops stand at 20 when 5 is pushed, and then 30 is linked. One takes 20; the other one may not go on to 30, which has no
/// stamp yet.
ESPALIER_SCENE(queue_linearizable, linked_without_a_stamp, 6000) {
  auto& queue = queue_with<linearizable>(s, {20});
  for (const char* const name : {"pops", "pops too"}) s.thread(name, [&queue] { queue.pop(); });
  s.thread("pushes", [&queue] {
    queue.push(5, 1);
    queue.push(30, 2);
  });
}

/// Two threads that only look see the smallest element change in one order.
ESPALIER_SCENE(queue_heap, looks_of_two_threads, 500) {
  auto& queue = queue_with<heap>(s, {20});
  s.thread("pushes and pops", [&queue] {
    queue.push(10, 1);
    queue.pop();
  });
  for (const char* const name : {"looks", "looks too"}) {
    s.thread(name, [&queue] {
      queue.find_min();
      queue.find_min();
    });
  }
}

/// One thread, and as many pushes as there are numbers: equal keys come in the order of their pushes.
ESPALIER_SCENE(queue_heap, numbers_begin_again, 1) {
  using queue_of_few =
      heap_queue<number, number, map_traits::with_placement<traced_heap>, std::less<number>, std::uint8_t>;
  constexpr number kept = 20;
  constexpr number most = 250;
  auto& queue = s.make<queue_of_few>();
  for (number pushed = 0; pushed < most; ++pushed) {
    queue.push(1, pushed);
    if (pushed >= kept) queue.try_pop_min();
  }
  s.thread("pops and pushes", [&queue] {
    for (number popped = most - kept; popped < most + kept; ++popped) {
      const auto e = queue.try_pop_min();
      require(e && e->value == popped, "equal keys come in another order");
      queue.push(1, popped + kept);
    }
  });
  s.at_end([&queue] {
    const char* const wrong = queue.check_invariants();
    require(wrong == nullptr, wrong == nullptr ? "" : wrong);
  });
}

/// Always elements, so that no call may find the queue empty.
ESPALIER_SCENE(queue_linearizable, never_empty, 2000) {
  auto& queue = queue_with<linearizable>(s, {10});
  s.thread("pushes first", [&queue] {
    queue.push(20, 1);
    queue.pop();
  });
  s.thread("looks", [&queue] {
    queue.find_min();
    queue.empty();
  });
}

/// The control of the histories' check: without stamps the queue is not linearizable.
TEST(queue_controls, without_stamps_a_small_element_is_passed_by) {
  expect_broken(failure_kind::requirement, 30'000,
                [](scene& s) {
                  auto& queue = s.make<recorded_queue<quiescent>>();
                  queue.push(10, 10);
                  queue.push(20, 20);
                  small_beside_paused_pops(queue, s);
                  s.at_end([&queue] { require(queue.is_linearizable(), "not linearizable"); });
                },
                "not linearizable", {.strategies = {"pct:4"}, .model = memory_model::sequential});
}

}  // namespace
}  // namespace espalier::sim
