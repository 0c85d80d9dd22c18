// Memory over a long run. More threads than cores do all operations on few keys: the memory in use stays flat, the number
// of retired nodes stays bounded, no block is lost at the end, and no operation errs. A window of keys moves through a map
// whose nodes hold several entries: nodes are freed when the keys have left them. ESPALIER_SOAK_OPERATIONS is the number of
// operations of each map, and ESPALIER_SOAK_KEYS that of the keys of the first check; the evidence for a release is 10^8.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "espalier/hw/process.hpp"
#include "support/environment.hpp"
#include "support/model.hpp"
#include "support/on_threads.hpp"
#include "support/sanitizers.hpp"
#include "support/suite.hpp"

namespace espalier::test {
namespace {

constexpr std::size_t workers = 8;
/// The run is looked at in this many parts. Before the first quarter is over, maps and threads may still grow.
constexpr std::uint64_t parts = 20;
constexpr std::uint64_t warming = parts / 4;

/// What one thread does: 50 % lookups, 25 % inserts, 25 % erases, in all their forms. A value is its key and a number.
class worker {
 public:
  worker(const subject_type& type, std::uint64_t seed, key keys)
      : balance(keys, 0), exchanges_(type.properties.exchanges), random_(5005, seed) {}

  void work(operations& with, std::uint64_t steps, std::atomic<std::uint64_t>& done) {
    constexpr std::uint64_t burst = 1000;
    for (std::uint64_t i = 0; i < steps; i += burst) {
      for (std::uint64_t j = 0; j < std::min(burst, steps - i); ++j) step(with);
      done.fetch_add(burst, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] static value value_of(key k, std::uint64_t number) {
    return k << 32U | (number & 0xffffffffU);
  }
  [[nodiscard]] static bool belongs(key k, value v) { return v >> 32U == k; }

  // Read once this one has ended.
  std::vector<std::int64_t> balance;  // per key: that it came, less that it went
  std::uint64_t wrong = 0;            // operations that returned what they may not

 private:
  void step(operations& with) {
    const key k = random_.below(balance.size());
    const value fresh = value_of(k, ++number_);
    switch (random_.below(exchanges_ ? 16 : 12)) {
      case 0:
      case 1:
        balance[k] += with.insert(k, fresh) ? 1 : 0;
        break;
      case 2:
        balance[k] += with.insert_or_assign(k, fresh) ? 1 : 0;
        break;
      case 3:
      case 4:
      case 5:
        balance[k] -= with.erase(k) ? 1 : 0;
        break;
      case 6:
        with.scan(k, [&, left = 8](key seen, value v) mutable {
          saw(seen, v);
          return --left != 0;
        });
        break;
      case 7:
      case 8:
      case 9:
        (void)with.contains(k);
        break;
      case 12:
        replaced(k, with.exchange(k, fresh), true);
        break;
      case 13:
        replaced(k, with.extract(k), false);
        break;
      case 14: {
        bool stored = false;
        const auto toggle = [&](std::optional<value> now) -> std::optional<value> {
          stored = !now;
          return now ? std::nullopt : std::optional(fresh);
        };
        const std::optional<value> before = with.update(k, toggle);
        replaced(k, before, stored);
        break;
      }
      default:
        if (const std::optional<value> v = with.find(k)) saw(k, *v);
    }
  }
  void saw(key k, value v) { wrong += belongs(k, v) ? 0 : 1; }
  void replaced(key k, std::optional<value> before, bool stored) {
    if (before) saw(k, *before);
    balance[k] += (stored ? 1 : 0) - (before ? 1 : 0);
  }

  bool exchanges_;
  std::uint64_t number_ = 0;
  random_source random_;
};

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

/// The blocks of so many entries, where nodes hold several: a leaf has more than a quarter of the entries for which it has
/// room, or merges. There are fewer inner nodes than leaves.
std::uint64_t most_blocks(const subject_type& type, std::uint64_t entries) {
  return 2 * (4 * entries / type.node_entries + 1);
}

void expect_at_most(std::uint64_t most, subject& map) {
  ASSERT_EQ(map.collect(), 0U);
  std::uint64_t reached = 0;
  map.visit_blocks([&](const void*, std::size_t, memory_role) { ++reached; });
  ASSERT_LE(reached, most);
  ASSERT_EQ(map.usage().blocks, reached);
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
  const auto keys = static_cast<key>(environment_number("ESPALIER_SOAK_KEYS", 64));
  const auto map = make(type);
  std::vector<worker> all;
  for (std::size_t t = 0; t < workers; ++t) all.emplace_back(type, t, keys);
  for (key k = 0; k < keys; k += 2)
    all[0].balance[k] += map->plain().insert(k, worker::value_of(k, 0)) ? 1 : 0;
  std::atomic<std::uint64_t> done{0};
  std::vector<std::thread> threads;
  for (worker& w : all) threads.emplace_back([&] { w.work(map->plain(), total / workers, done); });
  std::vector<sample> samples;
  for (std::uint64_t part = 1; part <= parts; ++part) {
    while (done.load(std::memory_order_relaxed) < total / parts * part - total / parts / 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    samples.push_back(take(*map));
  }
  for (std::thread& t : threads) t.join();

  for (const worker& w : all) EXPECT_EQ(w.wrong, 0U);
  std::size_t present = 0;
  for (key k = 0; k < keys; ++k) {
    std::int64_t left = 0;
    for (const worker& w : all) left += w.balance[k];
    const std::optional<value> there = map->plain().find(k);
    ASSERT_EQ(left, there ? 1 : 0) << "conservation of key " << k;
    if (!there) continue;
    ++present;
    ASSERT_TRUE(worker::belongs(k, *there)) << "the value of key " << k << " is that of another one";
  }
  EXPECT_EQ(map->plain().size(), present);

  const auto most = [](auto first, auto last, auto member) {
    std::uint64_t largest = 0;
    for (; first != last; ++first) largest = std::max(largest, (*first).*member);
    return largest;
  };
  const auto warm = samples.begin() + warming;
  const std::uint64_t waiting = most(samples.begin(), samples.end(), &sample::waiting);
  const std::uint64_t held_first = most(samples.begin(), warm, &sample::held);
  const std::uint64_t held_then = most(warm, samples.end(), &sample::held);
  const std::uint64_t resident_first = most(samples.begin(), warm, &sample::resident);
  const std::uint64_t resident_then = most(warm, samples.end(), &sample::resident);
  std::printf(
      "%s: %llu operations; waiting at most %llu entries; held %llu then %llu KiB; resident %llu then %llu "
      "KiB\n",
      type.name.c_str(), static_cast<unsigned long long>(total), static_cast<unsigned long long>(waiting),
      static_cast<unsigned long long>(held_first >> 10U), static_cast<unsigned long long>(held_then >> 10U),
      static_cast<unsigned long long>(resident_first >> 10U),
      static_cast<unsigned long long>(resident_then >> 10U));
  // What waits depends on how long the system leaves a pinned thread without a core, not on the length of the run; later
  // parts may hold a tenth more than the first ones did, besides a few such moments, and what waits.
  const std::uint64_t moments = (std::uint64_t{32} << 20U) + waiting * type.node_bytes.value_or(0);
  EXPECT_LE(held_then, held_first + held_first / 10 + moments);
  EXPECT_LE(resident_then, resident_first + resident_first / 10 + moments);
  EXPECT_LE(waiting, std::uint64_t{1} << 20U);
  expect_sound_at_rest(*map, type);
  if (type.node_entries > 1) expect_at_most(most_blocks(type, keys), *map);
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

}  // namespace

ESPALIER_CHECK(soak, memory_follows_a_moving_window) {
  if (type.node_entries <= 1) return;  // a node goes with its entry
  const double total =
      environment_number("ESPALIER_SOAK_OPERATIONS", address_sanitizer ? 250'000 : 1'000'000);
  constexpr std::uint64_t ways = 4;
  const auto turns = static_cast<std::uint64_t>(total / ways / (2 * moving_window::size));
  const std::uint64_t most = most_blocks(type, moving_window::size);
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
    // The last leaf stays, and the block of its entries where it counts as contended: an interrupt aborts a transaction as a
    // conflict does, in one thread too. Two leaves would have a root.
    expect_at_most(2, *map);
    EXPECT_EQ(map->check_invariants(), nullptr);
  }
}

}  // namespace espalier::test
