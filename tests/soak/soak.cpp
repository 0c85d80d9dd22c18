// Memory over a long run. More threads than cores update few keys: the memory in use stays flat, the number of retired nodes
// stays bounded, and no block is lost at the end. A window of keys moves through a map whose nodes hold several entries:
// nodes are freed when the keys have left them. ESPALIER_SOAK_OPERATIONS is the number of operations of each map; the
// evidence for a release is 10^8.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "espalier/hw/process.hpp"
#include "support/environment.hpp"
#include "support/model.hpp"
#include "support/on_threads.hpp"
#include "support/suite.hpp"

namespace espalier::test {
namespace {

constexpr std::size_t workers = 8;
constexpr key keys = 64;
/// The run is looked at in this many parts.
constexpr std::uint64_t parts = 20;

/// 50 % lookups, 25 % inserts, 25 % erases.
void work(operations& with, std::uint64_t seed, std::uint64_t steps, std::atomic<std::uint64_t>& done) {
  random_source random(5005, seed);
  constexpr std::uint64_t burst = 1000;
  for (std::uint64_t i = 0; i < steps; i += burst) {
    for (std::uint64_t j = 0; j < std::min(burst, steps - i); ++j) {
      const key k = random.below(keys);
      switch (random.below(4)) {
        case 0:
          with.insert(k, k);
          break;
        case 1:
          with.erase(k);
          break;
        default:
          (void)with.contains(k);
      }
    }
    done.fetch_add(burst, std::memory_order_relaxed);
  }
}

struct sample {
  std::uint64_t held;      // bytes that the map's placement has from the system
  std::uint64_t resident;  // of the process
  std::uint64_t waiting;   // retired and not yet given back
};

sample take(subject& map) {
  const auto figures = map.reclaimed();
  return {map.usage().bytes_reserved, hw::resident_bytes().value_or(0),
          figures ? figures->retired - std::min(figures->retired, figures->reclaimed) : 0};
}

}  // namespace

ESPALIER_SUITE_TAKES(soak) {
  return type.codec.empty() &&
         (type.variant.empty() || type.variant == "narrow" || type.variant == "part_leaf") &&
         type.properties.region_protection;
}

ESPALIER_CHECK(soak, memory_stays_flat) {
  const auto total = static_cast<std::uint64_t>(
      environment_number("ESPALIER_SOAK_OPERATIONS", instrumented ? 50'000 : 400'000));
  const auto map = make(type);
  std::atomic<std::uint64_t> done{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < workers; ++t)
    threads.emplace_back([&, t] { work(map->plain(), t, total / workers, done); });
  std::vector<sample> samples;
  for (std::uint64_t part = 1; part <= parts; ++part) {
    while (done.load(std::memory_order_relaxed) < total / parts * part - total / parts / 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    samples.push_back(take(*map));
  }
  for (std::thread& t : threads) t.join();

  const auto most = [](auto first, auto last, auto member) {
    std::uint64_t largest = 0;
    for (; first != last; ++first) largest = std::max(largest, (*first).*member);
    return largest;
  };
  const auto middle = samples.begin() + parts / 2;
  const std::uint64_t waiting = most(samples.begin(), samples.end(), &sample::waiting);
  const std::uint64_t held_first = most(samples.begin(), middle, &sample::held);
  const std::uint64_t held_second = most(middle, samples.end(), &sample::held);
  const std::uint64_t resident_first = most(samples.begin(), middle, &sample::resident);
  const std::uint64_t resident_second = most(middle, samples.end(), &sample::resident);
  std::printf(
      "%s: %llu operations; waiting at most %llu entries; held %llu then %llu KiB; resident %llu then %llu "
      "KiB\n",
      type.name.c_str(), static_cast<unsigned long long>(total), static_cast<unsigned long long>(waiting),
      static_cast<unsigned long long>(held_first >> 10U), static_cast<unsigned long long>(held_second >> 10U),
      static_cast<unsigned long long>(resident_first >> 10U),
      static_cast<unsigned long long>(resident_second >> 10U));
  // What waits depends on how long the system leaves a pinned thread without a core, not on the length of the
  // run; the second half may not hold more than the first did, but for a few such moments, and for what waits.
  const std::uint64_t moments = (std::uint64_t{32} << 20U) + waiting * type.node_bytes.value_or(0);
  EXPECT_LE(held_second, held_first + moments);
  EXPECT_LE(resident_second, resident_first + moments);
  EXPECT_LE(waiting, std::uint64_t{1} << 20U);
  expect_sound_at_rest(*map, type);
}

namespace {

/// Keys of a window that moves up or down.
struct moving_window {
  static constexpr std::uint64_t size = 1024;

  bool downwards;
  key largest;

  [[nodiscard]] key at(std::uint64_t step) const { return downwards ? largest - step : step; }
  /// As far as a window: inserts ahead of it, and erases behind it. Each thread has the steps of one remainder. Returns
  /// how many operations found the map wrong.
  [[nodiscard]] std::uint64_t move(operations& map, std::uint64_t from, std::uint64_t thread,
                                   std::uint64_t threads) const {
    std::uint64_t wrong = 0;
    for (std::uint64_t i = from + thread; i < from + size; i += threads) {
      wrong += map.insert(at(i + size), i) ? 0 : 1;
      wrong += map.erase(at(i)) ? 0 : 1;
    }
    return wrong;
  }
};

void expect_at_most(std::uint64_t most, subject& map) {
  ASSERT_EQ(map.collect(), 0U);
  std::uint64_t reached = 0;
  map.visit_blocks([&](const void*, std::size_t, memory_role) { ++reached; });
  ASSERT_LE(reached, most);
  ASSERT_EQ(map.usage().blocks, reached);
}

}  // namespace

ESPALIER_CHECK(soak, memory_follows_a_moving_window) {
  if (type.node_entries == 1) return;  // a node goes with its entry
  const double total = environment_number("ESPALIER_SOAK_OPERATIONS", 1'000'000);
  constexpr std::uint64_t ways = 4;
  const auto turns = static_cast<std::uint64_t>(total / ways / (2 * moving_window::size));
  // A leaf has more than a quarter of the entries for which it has room, or merges. There are fewer inner nodes than
  // leaves.
  const std::uint64_t most = 2 * (4 * moving_window::size / type.node_entries + 1);
  for (std::uint64_t way = 0; way < ways && !::testing::Test::HasFailure(); ++way) {
    const std::uint64_t threads = 1 + way / 2;
    const moving_window window{way % 2 == 1, type.largest_key};
    SCOPED_TRACE(std::string(window.downwards ? "descending" : "ascending") +
                 ", threads: " + std::to_string(threads));
    const auto map = make(type);
    for (std::uint64_t i = 0; i < moving_window::size; ++i) map->plain().insert(window.at(i), i);
    std::uint64_t from = 0;
    for (; from < turns * moving_window::size && !::testing::Test::HasFailure();
         from += moving_window::size) {
      std::atomic<std::uint64_t> wrong{0};
      on_threads(static_cast<int>(threads), [&](int t) {
        wrong += window.move(map->plain(), from, static_cast<std::uint64_t>(t), threads);
      });
      EXPECT_EQ(wrong, 0U);
      expect_at_most(most, *map);
    }
    for (std::uint64_t i = 0; i < moving_window::size; ++i) map->plain().erase(window.at(from + i));
    expect_at_most(0, *map);
    EXPECT_EQ(map->check_invariants(), nullptr);
  }
}

}  // namespace espalier::test
