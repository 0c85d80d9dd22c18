// A thread that stays pinned: the others go on, the reclaimer names it and gives nothing back that it could
// still reach, and everything once it has gone.

#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "espalier/hw/thread_slot.hpp"
#include "support/environment.hpp"
#include "support/model.hpp"
#include "support/suite.hpp"
#include "support/watchdog.hpp"

namespace espalier::test {

ESPALIER_CHECK(stress, stalled_reader) {
  const auto map = make(type);
  if (!type.reclaims || !map->reclaimed()) return;  // nothing for a stalled thread to hold up
  constexpr key keys = 64;
  constexpr std::size_t workers = 3;
  constexpr std::uint64_t steps = instrumented ? 4000 : 20000;
  constexpr std::uint64_t turn = 500;
  static_assert(steps % turn == 0);
  std::barrier in_turn(workers);
  for (key k = 0; k < keys; ++k) map->plain().insert(k, k);
  // That much waits whoever is pinned: a bag for each thread that is not full yet.
  const std::uint64_t retired_before = map->reclaimed()->retired;

  std::uint32_t stalled_slot = 0;
  std::latch pinned(1);
  std::latch released(1);
  std::thread stalled([&] {
    map->with_guard([&](operations& with) {
      EXPECT_TRUE(with.contains(keys / 2));
      stalled_slot = hw::thread_slot();
      pinned.count_down();
      released.wait();
    });
  });
  pinned.wait();

  watchdog dog(type, *map);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < workers; ++t) {
    threads.emplace_back([&, t] {
      random_source random(3003, t);
      for (std::uint64_t i = 0; i < steps; ++i) {
        key k = random.below(keys);
        bool inserts = random.below(2) == 0;
        // Where a node has several entries, it goes when most of them do. The last one stays: it takes keys for several.
        if (type.node_entries > 1) {
          if (i % turn == 0) in_turn.arrive_and_wait();
          k = i % turn * workers + t;
          inserts = i / turn % 2 == 0;
        }
        if (inserts) {
          dog.begin(t, map_operation::insert, k);
          map->plain().insert(k, i);
        } else {
          dog.begin(t, map_operation::erase, k);
          map->plain().erase(k);
        }
      }
      dog.done(t);
    });
  }
  for (std::thread& t : threads) t.join();  // they went on: the watchdog ends the test otherwise

  const std::size_t waiting = map->collect();
  const reclaimer_figures beside = *map->reclaimed();
  EXPECT_GT(beside.retired, retired_before + steps / (type.node_entries == 1 ? 2 : 16 * type.node_entries));
  // The epoch can move once after the pin, and three epochs must lie between a retirement and its end.
  EXPECT_EQ(waiting, beside.retired - beside.reclaimed);
  EXPECT_GE(waiting, beside.retired - retired_before) << "given back beside a thread pinned before";
  ASSERT_TRUE(beside.oldest_slot.has_value()) << map->reclaimer_state();
  EXPECT_EQ(*beside.oldest_slot, stalled_slot) << map->reclaimer_state();
  EXPECT_GT(beside.refusals, 0U) << map->reclaimer_state();

  released.count_down();
  stalled.join();
  expect_sound_at_rest(*map, type);  // collects, and finds nothing that still waits
  EXPECT_EQ(map->reclaimed()->retired, map->reclaimed()->reclaimed);
}

}  // namespace espalier::test
