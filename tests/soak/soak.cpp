// Memory over a long run: many updates of few keys by more threads than cores. What is held stays flat, what
// waits to be given back stays bounded, and nothing is lost at the end. ESPALIER_SOAK_OPERATIONS is the number
// of operations of each map; the evidence for a release is 10^8.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "espalier/hw/process.hpp"
#include "support/environment.hpp"
#include "support/model.hpp"
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
  return type.codec.empty() && type.variant.empty() && type.properties.region_protection;
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

}  // namespace espalier::test
