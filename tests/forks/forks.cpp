// Children of a process that forks while its threads are at work in a lock-free map: in the child these have stopped
// for ever, wherever they were, and all that it does itself works.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/chosen_placement.hpp"
#include "support/forking.hpp"
#include "support/model.hpp"
#include "support/on_threads.hpp"
#include "support/sanitizers.hpp"
#include "support/suite.hpp"

namespace espalier::test {
namespace {

constexpr key shared_keys = 48;
constexpr key own_keys = 150;

/// A range of keys that one thread of one process touches.
key own_range(std::size_t thread) { return 1000 * (thread + 1); }

enum outcome : int {
  good,
  misses_a_key,
  finds_wrong_value,
  finds_too_much,
  reclaims_nothing,
  keeps_waiting,
  lags
};

constexpr const char* to_text[] = {"",
                                   "a key of its own is missing",
                                   "a key of its own has another value",
                                   "a key is there that it has erased",
                                   "nothing is reclaimed",
                                   "something waits for ever",
                                   "a thread that is not there is pinned"};

void disturb(operations& map, random_source& random, int steps) {
  for (int i = 0; i < steps; ++i) {
    const key k = random.below(shared_keys);
    switch (random.below(4)) {
      case 0:
        map.insert(k, k);
        break;
      case 1:
        map.insert_or_assign(k, k);
        break;
      case 2:
        map.erase(k);
        break;
      default:
        map.find(k);
    }
  }
}

int work_on_own_keys(operations& map, std::size_t thread) {
  const key first = own_range(thread);
  for (int round = 0; round < 3; ++round) {
    for (key k = first; k < first + own_keys; ++k) {
      if (!map.insert(k, k + 7)) return finds_too_much;
    }
    for (key k = first; k < first + own_keys; ++k) {
      const auto found = map.find(k);
      if (!found) return misses_a_key;
      if (*found != k + 7) return finds_wrong_value;
    }
    std::size_t visited = 0;
    map.scan(first, [&](key k, value) { return k < first + own_keys && ++visited != 0; });
    if (visited != own_keys) return misses_a_key;
    for (key k = first; k < first + own_keys; ++k) {
      if (!map.erase(k)) return misses_a_key;
      if (map.contains(k)) return finds_too_much;
    }
  }
  return good;
}

int work_in_child(std::unique_ptr<subject> map, const subject_type& type) {
  random_source random(17);
  const auto before = map->reclaimed();
  disturb(map->plain(), random, 500);
  if (const int wrong = work_on_own_keys(map->plain(), 0); wrong != good) return wrong;
  if (type.reclaims && before) {
    if (map->collect() != 0) return keeps_waiting;
    const auto after = map->reclaimed();
    if (after->reclaimed < before->reclaimed + own_keys) return reclaims_nothing;
    if (after->oldest_slot) return lags;
  }
  std::atomic<int> of_threads{good};
  on_threads(3, [&](int t) {
    random_source own(17, static_cast<std::uint64_t>(t) + 1);
    disturb(map->plain(), own, 200);
    if (const int wrong = work_on_own_keys(map->plain(), static_cast<std::size_t>(t) + 1); wrong != good)
      of_threads = wrong;
    disturb(map->plain(), own, 200);
  });
  if (of_threads != good) return of_threads;
  if (type.reclaims && before && map->collect() != 0) return keeps_waiting;
  map.reset();
  return good;
}

void fork_beside_threads(const subject_type& type, int children) {
  auto map = make(type);
  for (key k = 0; k < shared_keys; k += 2) map->plain().insert(k, k);
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      random_source random(3003, t);
      while (!end.load(std::memory_order_relaxed)) disturb(map->plain(), random, 50);
    });
  }
  int status = good;
  for (int c = 0; c < children && status == good; ++c) {
    // The child has the map to itself: a copy of it.
    const auto in_child = [&] { return work_in_child(std::move(map), type); };
    if (c % 4 != 3) {
      status = in_forked_copy(in_child);
      continue;
    }
    // The thread that forks is inside a guard, in the child as well.
    status = in_forked_copy([] { return 0; });
    if (status != good) break;
    map->with_guard([&](operations& guarded) {
      const auto found = guarded.find(0);
      status = in_forked_copy([&]() -> int {
        random_source random(18);
        disturb(guarded, random, 300);
        return work_on_own_keys(guarded, 0);
      });
      static_cast<void>(found);
    });
  }
  end = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(status, good) << (status > 0 ? to_text[status] : status == -14 ? "it hangs" : "it crashed");
  if (type.only_in.empty()) return expect_sound_at_rest(*map, type);
  EXPECT_EQ(map->collect(), 0U);
  const char* const broken = map->check_invariants();
  EXPECT_EQ(broken, nullptr) << broken;
}

}  // namespace

ESPALIER_SUITE_TAKES(forks) {
  return type.codec.empty() && type.properties.update_progress != progress::blocking;
}

ESPALIER_CHECK(forks, children_work_beside_threads_that_are_lost) {
  if (thread_sanitizer || address_sanitizer) GTEST_SKIP() << "the sanitizer does not fork among threads";
  constexpr int children = 60;
  if (type.only_in.empty()) return fork_beside_threads(type, type.variant.empty() ? children : children / 4);
  for (const std::string_view name : placement_names()) {
    for (const bool recorded : {false, true}) {
      SCOPED_TRACE(std::string(name) + (recorded ? ", recorded" : ""));
      chosen_placement::now = name;
      chosen_placement::keeps = recorded ? any_placement::recording::on : any_placement::recording::off;
      fork_beside_threads(type, children / 15);
    }
  }
}

}  // namespace espalier::test
