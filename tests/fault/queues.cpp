// Priority queues in which the nth allocation, copy of a value or comparison fails: an operation that throws must have changed
// nothing, the queue must go on working, and nothing may be lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/delegation/partitioned_queue.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/queue/heap_queue.hpp"
#include "espalier/queue/shavit_lotan_queue.hpp"
#include "support/allocation_failure.hpp"
#include "support/model.hpp"

namespace espalier::test {
namespace {

struct refused {};
/// What fails, apart from allocations.
failure_plan* plan_of_values = nullptr;
failure_plan* plan_of_comparisons = nullptr;
void may_fail(failure_plan* plan) {
  if (plan != nullptr && ++plan->seen == plan->nth) throw refused();
}

struct text {
  std::string held;
  explicit text(std::string s) : held(std::move(s)) {}
  text(const text& other) : held((may_fail(plan_of_values), other.held)) {}
  text(text&&) noexcept = default;
  text& operator=(const text&) = delete;
  text& operator=(text&&) noexcept = default;
  ~text() = default;
  friend bool operator==(const text&, const text&) = default;
};
struct order {
  bool operator()(int a, int b) const {
    may_fail(plan_of_comparisons);
    return a < b;
  }
};
/// Towers of one to four levels in turn: the same in each run.
struct levels_in_turn {
  unsigned drawn = 0;
  [[nodiscard]] unsigned draw() noexcept { return 1 + drawn++ % 4; }
};

template <queue_order Order>
using queue_of =
    shavit_lotan_queue<int, text, Order, map_traits::with_placement<shared_heap>, order, levels_in_turn>;
/// All keys in both partitions' turn.
struct by_parity : delegation::by_hash {
  [[nodiscard]] static unsigned partition(int key, unsigned count) noexcept {
    return static_cast<unsigned>(key) % count;
  }
};

enum class action : std::uint8_t { push, pop, pop_up_to, find_min, empty };
struct queue_step {
  action what;
  int key;
  std::string value;
};

std::vector<queue_step> make_queue_script() {
  using enum action;
  constexpr action frequent[] = {push, push, push, push, pop, pop, pop_up_to, find_min, empty};
  random_source random(7);
  std::vector<queue_step> script;
  for (int i = 0; i < 150; ++i) {
    script.push_back({frequent[random.below(std::size(frequent))], static_cast<int>(random.below(10)),
                      "a value that has memory of its own, number " + std::to_string(i)});
  }
  return script;
}

using element = std::optional<map_entry<int, text>>;

/// The contents that a queue must have.
class queue_model {
 public:
  void push(int key, const text& value) { elements_.emplace(key, value); }
  element try_pop_min() { return taken(true); }
  element try_pop_min_up_to(int limit) {
    return empty() || limit < elements_.begin()->first ? element() : taken(true);
  }
  element try_find_min() { return taken(false); }
  [[nodiscard]] bool empty() const { return elements_.empty(); }

 private:
  element taken(bool erases) {
    if (empty()) return {};
    const auto first = elements_.begin();
    element e({first->first, first->second});
    if (erases) elements_.erase(first);
    return e;
  }
  std::multimap<int, text> elements_;
};

struct queue_outcome {
  element seen;
  bool was_empty = false;
  friend bool operator==(const queue_outcome&, const queue_outcome&) = default;
};
template <class Queue>
queue_outcome act(Queue& queue, const queue_step& step, const text& value) {
  switch (step.what) {
    case action::push:
      queue.push(step.key, value);
      return {};
    case action::pop:
      return {queue.try_pop_min()};
    case action::pop_up_to:
      return {queue.try_pop_min_up_to(step.key)};
    case action::find_min:
      return {queue.try_find_min()};
    case action::empty:
      return {{}, queue.empty()};
  }
  return {};
}

enum class failing : std::uint8_t { allocations, values, comparisons };

/// During its lifetime, what fails follows the plan.
class armed_for {
 public:
  armed_for(failing what, failure_plan& plan) {
    if (what == failing::allocations) allocations_.emplace(plan);
    if (what == failing::values) plan_of_values = &plan;
    if (what == failing::comparisons) plan_of_comparisons = &plan;
  }
  armed_for(const armed_for&) = delete;
  armed_for& operator=(const armed_for&) = delete;
  ~armed_for() { plan_of_values = plan_of_comparisons = nullptr; }

 private:
  std::optional<armed> allocations_;
};

/// One run of the script in which the nth one fails. Returns their number.
template <class Queue>
std::uint64_t run_queue_script(const std::vector<queue_step>& script, failing what, std::uint64_t nth) {
  const std::int64_t before = live_allocations();
  failure_plan plan{nth};
  {
    Queue queue;
    queue_model expected;
    int thrown = 0;
    for (const queue_step& step : script) {
      const text value(step.value);
      queue_outcome got;
      try {
        const armed_for now(what, plan);
        got = act(queue, step, value);
      } catch (const std::bad_alloc&) {
        ++thrown;
      } catch (const refused&) {
        ++thrown;
      }
      // Nothing fails now.
      if (thrown == 1) {
        ++thrown;
        got = act(queue, step, value);
      }
      EXPECT_EQ(got, act(expected, step, value)) << "step " << &step - script.data();
      if (::testing::Test::HasFailure()) return plan.seen;
    }
    // A comparison may fail in what a pop does when it has its element: another operation does it.
    EXPECT_TRUE(thrown != 0 || !plan.has_failed() || what == failing::comparisons);
    while (const element e = expected.try_pop_min()) EXPECT_EQ(queue.try_pop_min(), e);
    EXPECT_TRUE(queue.empty());
    const char* const wrong = queue.check_invariants();
    EXPECT_EQ(wrong, nullptr) << wrong;
  }
  EXPECT_EQ(live_allocations(), before) << "left behind by a dead queue";
  return plan.seen;
}

template <class Queue>
class queues : public ::testing::Test {};
using kinds =
    ::testing::Types<queue_of<queue_order::quiescently_consistent>, queue_of<queue_order::linearizable>,
                     heap_queue<int, text, map_traits::with_placement<shared_heap>, order>,
                     partitioned_queue<queue_of<queue_order::linearizable>, by_parity>>;
TYPED_TEST_SUITE_P(queues);

TYPED_TEST_P(queues, nth_failure_of_a_script) {
  const auto script = make_queue_script();
  for (const failing what : {failing::allocations, failing::values, failing::comparisons}) {
    run_queue_script<TypeParam>(script, what, 0);
    const std::uint64_t there = run_queue_script<TypeParam>(script, what, 0);
    EXPECT_GT(there, 80U) << "the script fails too little";
    for (std::uint64_t nth = 1; nth <= std::min<std::uint64_t>(there, 200); ++nth) {
      run_queue_script<TypeParam>(script, what, nth);
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "where the one of number " << nth << " failed, of kind " << static_cast<int>(what);
        return;
      }
    }
  }
}

REGISTER_TYPED_TEST_SUITE_P(queues, nth_failure_of_a_script);
INSTANTIATE_TYPED_TEST_SUITE_P(fault, queues, kinds);

}  // namespace
}  // namespace espalier::test
