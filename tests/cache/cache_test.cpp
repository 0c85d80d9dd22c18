// The cache of a program's own keys and values.

#include "espalier/cache/cache.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/on_threads.hpp"

namespace espalier {

/// Looks into a cache.
struct cache_test_access {
  template <class Cache>
  static std::size_t waiting(Cache& c, std::string_view key) {
    return c.flights_.waiting(byte_cache::hashed(key).hash, key).value_or(0);
  }
  template <class Cache>
  static bool is_being_made(Cache& c, std::string_view key) {
    return c.flights_.waiting(byte_cache::hashed(key).hash, key).has_value();
  }
};

namespace {

using namespace std::chrono_literals;

struct point {
  std::int32_t x;
  std::int32_t y;
  friend bool operator==(const point&, const point&) = default;
};

/// Waits until it is so. A minute after that it hangs, and says it.
template <class Is>
void eventually(Is&& is) {
  for (const auto begin = std::chrono::steady_clock::now(); !is(); std::this_thread::yield()) {
    if (std::chrono::steady_clock::now() > begin + 1min)
      throw std::runtime_error("what a test waits for never comes");
  }
}

TEST(Cache, HoldsStrings) {
  cache<std::string, std::string> c;
  EXPECT_TRUE(c.set("a", "one"));
  EXPECT_EQ(c.get("a"), "one");
  EXPECT_TRUE(c.get(std::string("a"), [](std::string_view v) { EXPECT_EQ(v, "one"); }));
  EXPECT_FALSE(c.add("a", "two"));
  EXPECT_TRUE(c.add("b", "two"));
  EXPECT_FALSE(c.replace("c", "three"));
  EXPECT_TRUE(c.replace("b", "three"));
  EXPECT_EQ(c.get("b"), "three");
  EXPECT_TRUE(c.erase("b"));
  EXPECT_FALSE(c.erase("b"));
  EXPECT_FALSE(c.contains("b"));
  EXPECT_TRUE(c.contains("a"));
  c.clear();
  EXPECT_FALSE(c.contains("a"));
}

TEST(Cache, HoldsWhatMemcpyCopies) {
  cache<std::uint64_t, point> c({.memory_limit = 2 << 20, .largest_entry = 1000});
  EXPECT_TRUE(c.set(7, {1, 2}));
  EXPECT_EQ(c.get(7), (point{1, 2}));
  EXPECT_TRUE(c.get(7, [](const point& p) { EXPECT_EQ(p.y, 2); }));
  EXPECT_EQ(c.get(8), std::nullopt);
}

TEST(Cache, SwapsWhatHasNotChanged) {
  cache<std::string, int> c;
  c.set("a", 1);
  const auto seen = c.get_versioned("a");
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->value, 1);
  EXPECT_TRUE(c.compare_and_swap("a", seen->version, 2));
  EXPECT_FALSE(c.compare_and_swap("a", seen->version, 3));
  EXPECT_FALSE(c.compare_and_swap("b", seen->version, 3));
  EXPECT_EQ(c.get("a"), 2);
}

TEST(Cache, Counts) {
  cache<std::string, std::uint32_t> c;
  EXPECT_EQ(c.increment("a", 1), std::nullopt);
  c.set("a", 0xFFFF'FFFF);
  EXPECT_EQ(c.increment("a", 3), 2U);
  EXPECT_EQ(c.get("a"), 2U);
  EXPECT_EQ(c.increment("new", 3, 10), 10U);
  EXPECT_EQ(c.increment("new", 3, 10), 13U);
  EXPECT_EQ(c.increment("ended", 3, 10, 0s), 10U);
  EXPECT_FALSE(c.contains("ended"));
}

TEST(Cache, EntriesEnd) {
  cache<std::string, int> c;
  EXPECT_TRUE(c.set("a", 1, 1h));
  EXPECT_TRUE(c.set("gone", 1, 0s));
  EXPECT_TRUE(c.set("gone too", 1, -1s));
  EXPECT_FALSE(c.contains("gone"));
  EXPECT_FALSE(c.contains("gone too"));
  EXPECT_TRUE(c.touch("a", 0s));
  EXPECT_FALSE(c.contains("a"));
  EXPECT_FALSE(c.touch("a", 1h));
}

TEST(Cache, AValueThatDoesNotFitLeavesNoOlderOne) {
  cache<std::string, std::string> c({.memory_limit = 2 << 20, .largest_entry = 1000});
  EXPECT_TRUE(c.set("a", "old"));
  EXPECT_FALSE(c.set("a", std::string(1000, 'n')));
  EXPECT_FALSE(c.contains("a"));
}

TEST(Cache, MakesWhatIsMissing) {
  cache<std::string, std::string> c;
  int made = 0;
  const auto make = [&] {
    ++made;
    return std::string("made");
  };
  EXPECT_EQ(c.get_or_set("a", make), "made");
  EXPECT_EQ(c.get_or_set("a", make), "made");
  EXPECT_EQ(made, 1);
}

TEST(Cache, ALifetimeIsNeverShorterThanAsked) {
  cache<std::string, int> c;
  using clock = std::chrono::steady_clock;
  for (int i = 0; i < 6; ++i) {
    const std::chrono::milliseconds lives(1 + 7 * i);
    const auto before = clock::now();
    ASSERT_TRUE(c.add("lock", i, lives));
    // The last look that finds it gone began after the end.
    while (!c.add("lock", -1, 0ms)) {
    }
    EXPECT_GE(clock::now() - before, lives);
  }
}

TEST(Cache, ALifetimeBySecondsIsNeverShorterEither) {
  std::atomic<std::uint32_t> seconds{100};
  cache<std::string, int> c({.clock = &seconds});
  c.set("1 s", 1, 1s);
  c.set("1.5 s", 1, 1500ms);
  c.set("a moment", 1, 1us);
  c.set("forever", 1, std::chrono::hours::max());
  c.set("forever too", 1, std::chrono::milliseconds::max());
  c.set("touched", 1, 1s);
  EXPECT_TRUE(c.touch("touched", 3s));
  seconds = 101;
  for (const char* const key : {"1 s", "1.5 s", "a moment"})
    EXPECT_TRUE(c.contains(key)) << key << ": it may be a moment later";
  seconds = 102;
  EXPECT_FALSE(c.contains("1 s"));
  EXPECT_FALSE(c.contains("a moment"));
  EXPECT_TRUE(c.contains("1.5 s"));
  seconds = 103;
  EXPECT_FALSE(c.contains("1.5 s"));
  EXPECT_TRUE(c.contains("touched"));
  seconds = 104;
  EXPECT_FALSE(c.contains("touched"));
  EXPECT_EQ(c.statistics().entries, 6U);
  c.reclaim_ended();
  EXPECT_EQ(c.statistics().entries, 2U);
  seconds = 4'000'000'000;
  EXPECT_TRUE(c.contains("forever"));
  EXPECT_TRUE(c.contains("forever too"));
}

TEST(Cache, AValueThatWasMadeBeforeAChangeIsNotStored) {
  using strings = cache<std::string, std::string>;
  strings c;
  const auto made_beside = [&](auto&& change) {
    c.clear();
    EXPECT_EQ(c.get_or_set("a",
                           [&] {
                             change();
                             return std::string("stale");
                           }),
              "stale");
    return c.get("a");
  };
  EXPECT_EQ(made_beside([] {}), "stale");
  EXPECT_EQ(made_beside([&] { c.erase("b"); }), "stale");
  EXPECT_EQ(made_beside([&] { c.erase("a"); }), std::nullopt);
  EXPECT_EQ(made_beside([&] { c.clear(); }), std::nullopt);
  EXPECT_EQ(made_beside([&] { c.set("a", "new"); }), "new");
  EXPECT_EQ(made_beside([&] {
              c.set("a", "new");
              c.set("a", "ended", 0s);
            }),
            std::nullopt);
  EXPECT_EQ(made_beside([&] {
              c.erase("a");
              EXPECT_EQ(c.get_or_set("a", [] { return std::string("newer"); }), "newer");
            }),
            "newer");
}

TEST(Cache, OneThreadMakesWhatOthersWaitFor) {
  cache<std::string, int> c;
  constexpr int threads = 4;
  std::atomic<int> made{0};
  test::on_threads(threads, [&](int) {
    EXPECT_EQ(c.get_or_set("a",
                           [&] {
                             eventually([&] { return cache_test_access::waiting(c, "a") == threads - 1; });
                             return ++made;
                           }),
              1);
  });
  EXPECT_EQ(made, 1);
}

TEST(Cache, TheNextThreadMakesWhereOneFails) {
  cache<std::string, int> c;
  constexpr int threads = 3;
  std::atomic<int> begun{0};
  std::atomic<int> failed{0};
  test::on_threads(threads, [&](int) {
    try {
      EXPECT_EQ(c.get_or_set("a",
                             [&] {
                               const int nth = begun++;
                               // Each fails while the others wait.
                               eventually([&] {
                                 return cache_test_access::waiting(c, "a") ==
                                        static_cast<unsigned>(threads - 1 - nth);
                               });
                               if (nth < threads - 1) throw nth;
                               return 7;
                             }),
                7);
    } catch (int) {
      ++failed;
    }
  });
  EXPECT_EQ(begun, threads);
  EXPECT_EQ(failed, threads - 1);
  EXPECT_EQ(c.get("a"), 7);
}

TEST(Cache, ThoseThatWaitedBeforeAnEraseGetTheValueAndLaterOnesMakeTheirs) {
  cache<std::string, std::string> c;
  std::latch erased(1);
  std::thread maker([&] {
    EXPECT_EQ(c.get_or_set("a",
                           [&] {
                             erased.wait();
                             return std::string("old");
                           }),
              "old");
  });
  eventually([&] { return cache_test_access::is_being_made(c, "a"); });
  std::thread waits([&] { EXPECT_EQ(c.get_or_set("a", [] { return std::string("another"); }), "old"); });
  eventually([&] { return cache_test_access::waiting(c, "a") == 1; });
  c.erase("a");
  EXPECT_EQ(c.get_or_set("a", [] { return std::string("new"); }), "new");
  erased.count_down();
  maker.join();
  waits.join();
  EXPECT_EQ(c.get("a"), "new");
}

TEST(Cache, AMakerThatAsksForItsOwnKeyIsTold) {
  cache<std::string, int> c;
  EXPECT_THROW(c.get_or_set("a", [&] { return c.get_or_set("a", [] { return 1; }); }), std::logic_error);
  EXPECT_EQ(c.get_or_set("a", [&] { return c.get_or_set("b", [] { return 2; }); }), 2);
}

TEST(Cache, NoOlderValueIsSeenAfterAnErase) {
  // Each thread raises what the cache is of, erases, and from then on sees no older value.
  cache<std::uint64_t, std::uint64_t> c({.memory_limit = 1 << 20, .largest_entry = 1000});
  std::array<std::atomic<std::uint64_t>, 4> source{};
  test::on_threads(4, [&](int thread) {
    for (std::uint64_t i = 0; i < 3'000; ++i) {
      const std::uint64_t key = (i + static_cast<std::uint64_t>(thread)) % source.size();
      const std::uint64_t seen = source[key].load();
      if (i % 3 == 0) {
        const std::uint64_t next = source[key].fetch_add(1) + 1;
        c.erase(key);
        ASSERT_GE(c.get(key).value_or(next), next);
      } else {
        ASSERT_GE(c.get_or_set(key, [&] { return source[key].load(); }) + 4, seen)
            << "one change a thread is on its way";
      }
    }
  });
  for (std::uint64_t key = 0; key < source.size(); ++key) {
    ASSERT_EQ(c.get(key).value_or(source[key]), source[key]) << "all changes are done";
  }
}

TEST(Cache, AVisitorMayBlockAndUseTheCache) {
  cache<std::string, std::string> c({.memory_limit = 1 << 20, .largest_entry = 100'000});
  for (const std::size_t bytes : {3U, 512U, 513U, 60'000U}) {
    const std::string value(bytes, 'v');
    c.set("read", value);
    ASSERT_TRUE(c.get("read", [&](std::string_view seen) {
      std::thread([&] {
        // Several times the memory, while the visitor runs.
        for (int i = 0; i < 6'000; ++i) {
          ASSERT_TRUE(c.set(std::to_string(i), std::string(1'000, 'x')));
          ASSERT_TRUE(c.contains(std::to_string(i)));
        }
      }).join();
      EXPECT_TRUE(c.set("read", "by the visitor"));
      EXPECT_EQ(seen, value);
    }));
    EXPECT_EQ(c.get("read"), "by the visitor");
  }
}

TEST(Cache, KeysMayBeLong) {
  cache<std::string, std::uint32_t> c;
  std::vector<std::string> keys;
  for (const std::size_t length : {249U, 250U, 251U, 252U, 1'000U, 5'000U, 70'000U}) {
    keys.emplace_back(length, 'k');
    keys.push_back(keys.back());
    keys.back().back() = 'K';
  }
  std::uint32_t n = 0;
  for (const std::string& key : keys) {
    EXPECT_FALSE(c.contains(key));
    EXPECT_TRUE(c.add(key, n)) << key.size();
    EXPECT_FALSE(c.add(key, n));
    EXPECT_EQ(c.increment(key, 100), n + 100);
    ++n;
  }
  EXPECT_EQ(c.statistics().entries, keys.size());
  n = 100;
  for (const std::string& key : keys) {
    EXPECT_EQ(c.get(key), n) << key.size();
    EXPECT_TRUE(c.touch(key, 1h));
    EXPECT_EQ(c.get_or_set(key, [] { return 0U; }), n++);
    EXPECT_TRUE(c.compare_and_swap(key, c.get_versioned(key)->version, 7));
    EXPECT_TRUE(c.get(key, [](std::uint32_t v) { EXPECT_EQ(v, 7U); }));
    EXPECT_TRUE(c.erase(key));
    EXPECT_FALSE(c.erase(key));
    EXPECT_EQ(c.get_or_set(key, [] { return 9U; }), 9U);
    EXPECT_EQ(c.get(key), 9U);
  }
  cache<std::string, std::string> strings;
  strings.set(keys.back(), "value");
  EXPECT_EQ(strings.get(keys.back()), "value");
  EXPECT_TRUE(strings.get(keys.back(), [](std::string_view v) { EXPECT_EQ(v, "value"); }));
}

TEST(Cache, WithoutEvictionsWhatIsErasedOrHasEndedMakesRoom) {
  std::atomic<std::uint32_t> seconds{100};
  cache<std::uint32_t, std::array<char, 100>> c(
      {.memory_limit = 1 << 20, .largest_entry = 1000, .evicts = false, .clock = &seconds});
  std::uint32_t next = 0;
  const auto fill = [&](std::chrono::seconds lives) {
    const std::uint32_t first = next;
    while (c.set(next, {}, lives)) ++next;
    return next - first;
  };
  const std::uint32_t first = fill(5s);
  for (std::uint32_t i = 0; i < first; i += 2) ASSERT_TRUE(c.erase(i));
  EXPECT_GT(fill(5s), first * 4 / 10);
  seconds = 106;
  EXPECT_GT(fill(5s), first * 9 / 10);
  c.clear();
  EXPECT_GT(fill(5s), first * 9 / 10);
}

// What compiles, and does not: a cache of views would keep addresses.
static_assert(caching::refers_elsewhere<std::string_view> && caching::refers_elsewhere<const char*>);
static_assert(caching::refers_elsewhere<char*> && caching::refers_elsewhere<const wchar_t*>);
static_assert(caching::refers_elsewhere<std::span<const int>>);
static_assert(!caching::refers_elsewhere<std::string> && !caching::refers_elsewhere<std::array<char, 4>>);
static_assert(!caching::refers_elsewhere<point> && !caching::refers_elsewhere<const point*>);

}  // namespace
}  // namespace espalier
