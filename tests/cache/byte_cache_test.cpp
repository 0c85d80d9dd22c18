// The cache of byte strings: one operation after the other, against a model, under its limit of memory, and in threads.

#include "espalier/cache/byte_cache.hpp"

#include <sys/mman.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "espalier/cache/entry_log.hpp"
#include "espalier/cache/writer_groups.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/measure/random.hpp"
#include "support/allocation_failure.hpp"
#include "support/environment.hpp"
#include "support/on_threads.hpp"

namespace {
// Address space that was asked for, and what of it the kernel counts as memory.
std::size_t mapped = 0;
std::size_t mapped_as_memory = 0;
}  // namespace

// Pages from the kernel fail as operator new does.
extern "C" {
void* __real_mmap(void*, std::size_t, int, int, int, off_t) noexcept;
void* __wrap_mmap(void* at, std::size_t bytes, int access, int flags, int file, off_t offset) noexcept {
  if (!espalier::test::allocation_must_fail()) {
    mapped += bytes;
    if ((flags & MAP_NORESERVE) == 0) mapped_as_memory += bytes;
    return __real_mmap(at, bytes, access, flags, file, offset);
  }
  errno = ENOMEM;
  return MAP_FAILED;
}
}

namespace espalier {
namespace {

using kind = cache_change::kind;
using test::on_threads;

constexpr std::size_t mib = std::size_t{1} << 20U;
// Sanitizers see with a tenth what there is to see.
constexpr int less = test::instrumented ? 10 : 1;

/// A cache whose clock stands until the test moves it.
struct timed {
  explicit timed(std::size_t limit = 8 * mib, bool evicts = true, std::size_t largest_limit = 0)
      : cache({.memory_limit = limit,
               .largest_limit = largest_limit,
               .largest_entry = mib / 2,
               .evicts = evicts,
               .clock = &seconds}) {}

  std::atomic<std::uint32_t> seconds{100};
  byte_cache cache;

  cache_changed store(std::string_view key, std::string_view value, cache_change c = {}) {
    c.what = kind::store;
    c.value_bytes = value.size();
    return cache.change(
        byte_cache::hashed(key), [&](const cache_entry*) { return c; },
        [&](char* to, const cache_entry*) { value.copy(to, value.size()); });
  }
  cache_changed amend(std::string_view key, const cache_change& how) {
    return cache.change(
        byte_cache::hashed(key),
        [&](const cache_entry* now) {
          cache_change c = how;
          c.what = now != nullptr ? kind::amend : kind::keep;
          return c;
        },
        [](char*, const cache_entry*) {});
  }
  bool erase(std::string_view key) {
    return cache
               .change(
                   byte_cache::hashed(key),
                   [](const cache_entry* now) {
                     cache_change c;
                     c.what = now != nullptr ? kind::erase : kind::keep;
                     return c;
                   },
                   [](char*, const cache_entry*) {})
               .what == kind::erase;
  }
  std::optional<std::string> value(std::string_view key,
                                   byte_cache::access how = byte_cache::access::counted) {
    std::optional<std::string> found;
    cache.get(key, [&](const cache_entry& e) { found.emplace(e.value); }, how);
    return found;
  }
  cache_entry entry(std::string_view key, byte_cache::access how = byte_cache::access::peek) {
    cache_entry found;
    EXPECT_TRUE(cache.get(key, [&](const cache_entry& e) { found = e; }, how)) << key;
    found.value = {};
    return found;
  }
};

std::string key_of(std::size_t i) { return "key " + std::to_string(i); }

TEST(ByteCache, KeepsWhatItIsGiven) {
  timed t;
  EXPECT_EQ(t.value("a"), std::nullopt);
  EXPECT_EQ(t.store("a", "one").outcome, cache_outcome::done);
  EXPECT_EQ(t.store("", "no key").outcome, cache_outcome::done);
  EXPECT_EQ(t.store("b", "", {.flags = 7}).outcome, cache_outcome::done);
  EXPECT_EQ(t.value("a"), "one");
  EXPECT_EQ(t.value(""), "no key");
  EXPECT_EQ(t.value("b"), "");
  EXPECT_EQ(t.entry("b").flags, 7U);
  t.store("a", "another value");
  EXPECT_EQ(t.value("a"), "another value");
  EXPECT_EQ(t.cache.statistics().entries, 3U);
  EXPECT_TRUE(t.erase("a"));
  EXPECT_FALSE(t.erase("a"));
  EXPECT_EQ(t.value("a"), std::nullopt);
  EXPECT_EQ(t.cache.statistics().entries, 2U);
}

TEST(ByteCache, KeepsAllPartsOfAnEntryWhateverItHas) {
  timed t;
  const std::string long_value(300'000, 'l');
  for (unsigned parts = 0; parts < 32; ++parts) {
    cache_change c;
    if ((parts & 1U) != 0) c.flags = 0x89AB'CDEF;
    if ((parts & 2U) != 0) c.expires = 200;
    if ((parts & 4U) != 0) c.version = 0xFEDC'BA98'7654'3210;
    c.stale = (parts & 8U) != 0;
    c.claimed = !c.stale;
    const std::string value = (parts & 16U) != 0 ? long_value : "short";
    const auto done = t.store("k", value, c);
    SCOPED_TRACE(parts);
    ASSERT_EQ(done.outcome, cache_outcome::done);
    EXPECT_EQ(t.value("k", byte_cache::access::peek), value);
    const cache_entry e = t.entry("k");
    EXPECT_EQ(e.flags, c.flags);
    EXPECT_EQ(e.expires, c.expires);
    EXPECT_EQ(e.version, done.version);
    EXPECT_EQ(e.version == c.version, (parts & 4U) != 0);
    EXPECT_EQ(e.stale, c.stale);
    EXPECT_EQ(e.claimed, c.claimed);
    EXPECT_FALSE(e.fetched);
    EXPECT_EQ(e.accessed, 100U);
  }
}

TEST(ByteCache, VersionsChangeWithTheValue) {
  timed t;
  const auto first = t.store("a", "1").version;
  const auto second = t.store("a", "1").version;
  EXPECT_NE(first, 0U);
  EXPECT_NE(first, second);
  EXPECT_EQ(t.entry("a").version, second);
  EXPECT_EQ(t.amend("a", {.expires = 500}).version, second);
  EXPECT_EQ(t.entry("a").version, second);
  EXPECT_EQ(t.amend("a", {.expires = 500, .version = 44}).version, 44U);
  EXPECT_EQ(t.entry("a").version, 44U);
  EXPECT_EQ(t.amend("a", {.expires = 600, .stale = true}).version, 44U);
  EXPECT_EQ(t.entry("a").version, 44U);
  EXPECT_EQ(t.value("a"), "1");
}

TEST(ByteCache, EntriesEnd) {
  timed t;
  t.store("a", "1", {.expires = 102});
  t.store("never", "1");
  t.store("gone", "1", {.expires = 100});
  EXPECT_EQ(t.value("gone"), std::nullopt);
  t.seconds = 101;
  EXPECT_EQ(t.value("a"), "1");
  t.seconds = 102;
  EXPECT_EQ(t.value("a"), std::nullopt);
  EXPECT_FALSE(t.erase("a"));
  t.seconds = 4'000'000'000;
  EXPECT_EQ(t.value("never"), "1");
  // What had ended is no entry for a change either.
  t.store("b", "1", {.expires = 4'000'000'001});
  t.seconds = 4'000'000'001;
  bool seen = true;
  t.cache.change(
      byte_cache::hashed("b"),
      [&](const cache_entry* now) {
        seen = now != nullptr;
        return cache_change{};
      },
      [](char*, const cache_entry*) {});
  EXPECT_FALSE(seen);
}

TEST(ByteCache, AnAmendmentChangesTheEndAndTheMarks) {
  timed t;
  EXPECT_EQ(t.amend("a", {.expires = 500}).what, kind::keep);
  t.store("a", "value", {.flags = 5});
  t.amend("a", {.expires = 500});  // the entry gets a place for its end
  t.amend("a", {.expires = 300, .stale = true, .claimed = true});
  auto e = t.entry("a");
  EXPECT_EQ(e.expires, 300U);
  EXPECT_EQ(e.flags, 5U);
  EXPECT_TRUE(e.stale && e.claimed);
  t.amend("a", {});
  e = t.entry("a");
  EXPECT_EQ(e.expires, cache_entry::never);
  EXPECT_FALSE(e.stale || e.claimed);
  t.seconds = 1000;
  EXPECT_EQ(t.value("a"), "value");
}

TEST(ByteCache, NotesAccesses) {
  timed t;
  t.store("a", "1");
  t.seconds = 110;
  EXPECT_EQ(t.entry("a").accessed, 100U);
  EXPECT_FALSE(t.entry("a", byte_cache::access::peek).fetched);
  EXPECT_FALSE(t.entry("a", byte_cache::access::counted).fetched) << "it is what was before";
  EXPECT_TRUE(t.entry("a").fetched);
  EXPECT_EQ(t.entry("a").accessed, 110U);
  t.seconds = 200;
  t.value("a");
  EXPECT_EQ(t.entry("a").accessed, 200U);
}

TEST(ByteCache, AFlushForgetsWhatWasBefore) {
  timed t;
  for (std::size_t i = 0; i < 100; ++i) t.store(key_of(i), "old");
  t.cache.flush();
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(t.value(key_of(i)), std::nullopt);
  t.store("new", "1");
  EXPECT_EQ(t.value("new"), "1");
  EXPECT_FALSE(t.erase(key_of(1)));
  std::size_t visited = 0;
  t.cache.for_each([&](std::string_view key, const cache_entry&) {
    EXPECT_EQ(key, "new");
    ++visited;
  });
  EXPECT_EQ(visited, 1U);
}

TEST(ByteCache, RefusesWhatIsTooLarge) {
  timed t;
  EXPECT_EQ(t.store(std::string(251, 'k'), "v").outcome, cache_outcome::too_large);
  EXPECT_EQ(t.store("a", "kept").outcome, cache_outcome::done);
  EXPECT_EQ(t.store("a", std::string(mib / 2, 'v')).outcome, cache_outcome::too_large);
  EXPECT_EQ(t.value("a"), "kept");
  EXPECT_EQ(t.store("b", std::string(mib / 2 - 1, 'v')).outcome, cache_outcome::done);
  EXPECT_EQ(t.value("b"), std::string(mib / 2 - 1, 'v'));
  EXPECT_THROW(byte_cache({.memory_limit = 1000}), std::invalid_argument);
  EXPECT_THROW(byte_cache({.memory_limit = 2 * mib, .largest_entry = 2 * mib}), std::invalid_argument);
}

TEST(ByteCache, AnExceptionOfTheCallerChangesNothing) {
  timed t;
  t.store("a", "kept");
  EXPECT_THROW(t.cache.change(
                   byte_cache::hashed("a"), [](const cache_entry*) -> cache_change { throw 1; },
                   [](char*, const cache_entry*) {}),
               int);
  EXPECT_THROW(t.cache.change(
                   byte_cache::hashed("a"),
                   [](const cache_entry*) { return cache_change{.what = kind::store, .value_bytes = 10}; },
                   [](char*, const cache_entry*) { throw 1; }),
               int);
  EXPECT_EQ(t.value("a"), "kept");
  EXPECT_EQ(t.store("a", "after it").outcome, cache_outcome::done);
  EXPECT_EQ(t.value("a"), "after it");
}

TEST(ByteCache, ACacheThatLacksMemoryIsNotMade) {
  const std::int64_t before = test::live_allocations();
  for (std::uint64_t nth = 1;; ++nth) {
    test::failure_plan plan{nth};
    try {
      const test::armed now(plan);
      const byte_cache cache({.memory_limit = mib, .largest_entry = 1000});
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(plan.has_failed());
    }
    EXPECT_EQ(test::live_allocations(), before);
    if (!plan.has_failed()) break;
    ASSERT_LT(nth, 50U);
  }
}

// Segments and extents have address space for the whole limit each, so that either may take all of it. The kernel would
// refuse a cache for half of the machine's memory if it counted that.
TEST(ByteCache, ReservesAddressesAndNoMemory) {
  const std::size_t limit = 256 * mib;
  const std::size_t before = mapped;
  const std::size_t memory_before = mapped_as_memory;
  const byte_cache cache({.memory_limit = limit});
  EXPECT_LT(mapped - before, limit * 31 / 10);
  EXPECT_LT(mapped_as_memory - memory_before, limit / 64);
}

TEST(ByteCache, AChangeThatLacksMemoryChangesNothing) {
  // In the smaller one entries are evicted meanwhile.
  for (const std::size_t limit : {16 * mib, mib}) {
    SCOPED_TRACE(limit);
    unsigned refused = 0;
    for (std::uint64_t nth = 1;; ++nth) {
      const std::int64_t before = test::live_allocations();
      test::failure_plan plan{nth};
      {
        timed t(limit);
        std::map<std::string, std::string> model;
        for (std::size_t i = 0; i < 60; ++i) {
          const std::string key = key_of(i * 7 % 31);
          const std::string value(i % 2 == 0 ? 90'000 : 3'000, static_cast<char>('a' + i % 26));
          const bool erases = i % 5 == 4;
          const std::optional<std::string> old = t.value(key);
          const auto change = [&] {
            if (!erases) return t.store(key, value).outcome == cache_outcome::done;
            t.erase(key);
            return true;
          };
          bool done = false;
          try {
            const test::armed now(plan);
            done = change();
          } catch (const std::bad_alloc&) {
          }
          if (!done) {
            ++refused;
            ASSERT_TRUE(plan.has_failed());
            const auto left = t.value(key);
            ASSERT_TRUE(left == old || (limit == mib && !left));
            ASSERT_TRUE(change()) << "nothing fails now";
          }
          if (erases)
            model.erase(key);
          else
            model[key] = value;
          ASSERT_EQ(t.value(key), erases ? std::nullopt : std::optional(value));
        }
        std::uint64_t there = 0;
        for (const auto& [key, value] : model) {
          const auto seen = t.value(key);
          ASSERT_TRUE(seen == value || (limit == mib && !seen));
          there += seen.has_value() ? 1 : 0;
        }
        EXPECT_EQ(t.cache.statistics().entries, there);
        EXPECT_EQ(t.cache.statistics().evictions == 0, limit != mib);
      }
      ASSERT_EQ(test::live_allocations(), before);
      if (!plan.has_failed()) break;
    }
    EXPECT_GT(refused, 0U);  // a large value has its memory from the cache
  }
}

TEST(ByteCache, AgreesWithAModel) {
  timed t(16 * mib);
  std::unordered_map<std::string, std::string> model;
  std::uint64_t random = 1;
  const auto next = [&](std::uint64_t below) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return (random >> 33U) % below;
  };
  for (int i = 0; i < 200'000 / less; ++i) {
    const std::string key = key_of(next(5'000));
    switch (next(4)) {
      case 0:
      case 1: {
        const std::string value(next(500) == 0 ? 20'000 + next(100'000) : next(200),
                                static_cast<char>('a' + next(26)));
        ASSERT_EQ(t.store(key, value).outcome, cache_outcome::done);
        model[key] = value;
        break;
      }
      case 2: {
        const auto known = model.find(key);
        const auto seen = t.value(key);
        ASSERT_EQ(seen.has_value(), known != model.end());
        if (seen) {
          ASSERT_EQ(*seen, known->second);
        }
        break;
      }
      default:
        ASSERT_EQ(t.erase(key), model.erase(key) == 1);
    }
  }
  const auto s = t.cache.statistics();
  EXPECT_EQ(s.entries, model.size());
  EXPECT_EQ(s.evictions, 0U);
  std::size_t visited = 0;
  t.cache.for_each([&](std::string_view key, const cache_entry& e) {
    EXPECT_EQ(model.at(std::string(key)), e.value);
    ++visited;
  });
  EXPECT_EQ(visited, model.size());
}

TEST(ByteCache, HoldsItsLimitUnderChurn) {
  for (const std::size_t value_bytes :
       {std::size_t{10}, std::size_t{100}, std::size_t{5'000}, std::size_t{60'000}}) {
    timed t(2 * mib);
    const std::string value(value_bytes, 'v');
    const std::size_t many = 4 * 2 * mib / (value_bytes + 30);
    for (std::size_t i = 0; i < many; ++i) {
      ASSERT_EQ(t.store(key_of(i), value).outcome, cache_outcome::done);
      ASSERT_EQ(t.value(key_of(i)), value);
    }
    const auto s = t.cache.statistics();
    SCOPED_TRACE(value_bytes);
    EXPECT_LE(s.used_bytes, 2 * mib + 64 * 1024);
    EXPECT_GT(s.evictions, many / 2);
    EXPECT_GT(s.entries * (value_bytes + 9), 2 * mib / 10 * (value_bytes == 10 ? 3 : 7))
        << "most of it is keys and values";
  }
}

// Of entries that are small. Under a sanitizer fewer of them.
constexpr std::size_t few_bytes = test::instrumented ? 1000 : 100;

/// Stores entries of this size, so many bytes in all. Returns how many of them are there, each with its value.
std::uint64_t fill(timed& t, std::size_t bytes_in_all, std::size_t value_bytes) {
  const std::size_t many = bytes_in_all / value_bytes;
  for (std::size_t i = 0; i < many; ++i)
    EXPECT_EQ(t.store(key_of(i), std::string(value_bytes, static_cast<char>('a' + i % 26))).outcome,
              cache_outcome::done);
  std::uint64_t there = 0;
  for (std::size_t i = 0; i < many; ++i) {
    const auto found = t.value(key_of(i), byte_cache::access::peek);
    if (!found) continue;
    EXPECT_EQ(*found, std::string(value_bytes, static_cast<char>('a' + i % 26)));
    ++there;
  }
  EXPECT_EQ(there, t.cache.statistics().entries);
  return there;
}

TEST(ByteCache, ALimitThatGrowsMakesRoom) {
  for (const std::size_t value_bytes : {few_bytes, std::size_t{60'000}}) {
    SCOPED_TRACE(value_bytes);
    timed t(4 * mib, true, 32 * mib);
    const std::uint64_t before = fill(t, 8 * mib, value_bytes);
    const std::uint64_t evicted = t.cache.statistics().evictions;
    ASSERT_TRUE(t.cache.limit_memory(16 * mib));
    EXPECT_EQ(t.cache.memory_limit(), 16 * mib);
    static_cast<void>(fill(t, 8 * mib, value_bytes));
    EXPECT_EQ(t.cache.statistics().evictions, evicted) << "there is room";
    EXPECT_GT(fill(t, 32 * mib, value_bytes), before * 7 / 2);
    EXPECT_LE(t.cache.statistics().used_bytes, 16 * mib + 128 * 1024);
    ASSERT_TRUE(t.cache.limit_memory(32 * mib));
    EXPECT_GT(fill(t, 64 * mib, value_bytes), before * 7);
  }
}

TEST(ByteCache, ALimitThatShrinksEvictsWhatIsAboveIt) {
  for (const std::size_t value_bytes : {few_bytes, std::size_t{5'000}, std::size_t{60'000}}) {
    SCOPED_TRACE(value_bytes);
    timed t(32 * mib);
    timed small(5 * mib);
    const std::uint64_t fits = fill(small, 8 * mib, value_bytes);
    const std::uint64_t all = fill(t, 20 * mib, value_bytes);
    ASSERT_EQ(t.cache.statistics().evictions, 0U);
    // What is asked for stays.
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < fits / 2; ++i) EXPECT_TRUE(t.value(key_of(i)));
    }
    ASSERT_TRUE(t.cache.limit_memory(5 * mib));
    EXPECT_FALSE(t.cache.keep_limit(mib));
    EXPECT_GT(t.cache.statistics().used_bytes, all * value_bytes - 2 * mib) << "about a part of it";
    EXPECT_TRUE(t.cache.keep_limit());
    const auto s = t.cache.statistics();
    EXPECT_LE(s.used_bytes, 5 * mib);
    EXPECT_LE(s.segments * s.segment_bytes, 5 * mib);
    EXPECT_EQ(s.entries + s.evictions, all);
    EXPECT_GT(s.entries, fits / 2) << "no more goes than has to";
    std::uint64_t stayed = 0;
    for (std::size_t i = 0; i < fits / 2; ++i) stayed += t.value(key_of(i)) ? 1 : 0;
    EXPECT_GT(stayed, fits * 2 / 5);
    EXPECT_GT(fill(t, 20 * mib, value_bytes), fits / 2);
    EXPECT_LE(t.cache.statistics().used_bytes, 5 * mib + 64 * 1024);
    ASSERT_TRUE(t.cache.limit_memory(32 * mib));
    EXPECT_EQ(fill(t, 20 * mib, value_bytes), all) << "the memory is there again";
  }
}

TEST(ByteCache, ALimitIsOneThatTheCacheCanKeep) {
  timed t(32 * mib, true, 64 * mib);
  EXPECT_EQ(t.cache.possible_limits().least, mib) << "twice the largest entry";
  EXPECT_EQ(t.cache.possible_limits().most, 64 * mib);
  for (const std::size_t wrong : {std::size_t{0}, mib - 1, 64 * mib + 1, ~std::size_t{0}}) {
    EXPECT_FALSE(t.cache.limit_memory(wrong));
    EXPECT_EQ(t.cache.memory_limit(), 32 * mib);
  }
  // A table does not shrink.
  std::size_t i = 0;
  while (t.cache.statistics().evictions == 0) {
    for (std::size_t end = i + 10'000; i < end; ++i) t.store(key_of(i), "");
  }
  const std::size_t table = t.cache.statistics().table_bytes;
  ASSERT_GT(table, 4 * mib);
  EXPECT_FALSE(t.cache.limit_memory(2 * table - 1));
  ASSERT_TRUE(t.cache.limit_memory(2 * table));
  EXPECT_TRUE(t.cache.keep_limit());
  EXPECT_LE(t.cache.statistics().used_bytes, 2 * table);
  EXPECT_GT(t.cache.statistics().entries, i / 8);
  EXPECT_EQ(t.store("one more", "").outcome, cache_outcome::done);
  const byte_cache of_large({.memory_limit = 1024 * mib});
  EXPECT_EQ(of_large.possible_limits().least, 8 * mib) << "32 of its segments";
  EXPECT_THROW(byte_cache({.memory_limit = mib, .largest_limit = byte_cache::highest_limit + 1}),
               std::invalid_argument);
}

TEST(ByteCache, WithoutEvictionALimitThatShrinksRefusesMore) {
  timed t(16 * mib, false);
  const std::uint64_t all = fill(t, 8 * mib, 1000);
  ASSERT_TRUE(t.cache.limit_memory(4 * mib));
  EXPECT_FALSE(t.cache.keep_limit());
  EXPECT_EQ(t.cache.statistics().entries, all);
  for (std::size_t i = 0; i < 1000; ++i)  // what is free, or open, is used
    static_cast<void>(t.store("more " + key_of(i), std::string(1000, 'x')));
  EXPECT_EQ(t.store("one more", std::string(1000, 'x')).outcome, cache_outcome::out_of_memory);
  EXPECT_EQ(t.cache.statistics().evictions, 0U);
  for (std::size_t i = 0; i < all; ++i) EXPECT_TRUE(t.erase(key_of(i)));
  EXPECT_TRUE(t.cache.keep_limit()) << "holes are copied together";
  EXPECT_EQ(t.store("one more", std::string(1000, 'x')).outcome, cache_outcome::done);
}

TEST(ByteCache, ALimitThatLacksMemoryForItsRecordsStays) {
  unsigned refused = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    timed t(4 * mib, true, 64 * mib);
    t.store("a", "1");
    test::failure_plan plan{nth};
    {
      const test::armed now(plan);
      if (!t.cache.limit_memory(64 * mib)) ++refused;
    }
    EXPECT_EQ(t.cache.memory_limit(), (plan.has_failed() ? 4 : 64) * mib);
    EXPECT_EQ(t.value("a"), "1");
    EXPECT_TRUE(t.erase("a"));
    EXPECT_TRUE(t.cache.limit_memory(64 * mib));
    EXPECT_EQ(fill(t, 32 * mib, 10'000), 32 * mib / 10'000);
    if (!plan.has_failed()) break;
    ASSERT_LT(nth, 10U);
  }
  EXPECT_EQ(refused, 2U);
  // Without addresses for it a cache cannot grow.
  test::failure_plan plan{1};
  const test::armed now(plan);
  const byte_cache made({.memory_limit = mib, .largest_limit = 8 * mib, .largest_entry = 1000});
  EXPECT_TRUE(plan.has_failed());
  EXPECT_EQ(made.possible_limits().most, mib);
}

TEST(ByteCache, TakesAtMostThirtyTwoBytesBesideKeyAndValue) {
  timed t(4 * mib);
  const std::string value(100, 'v');
  for (std::size_t i = 0; i < 60'000; ++i) t.store("key_" + std::to_string(10'000'000 + i), value);
  EXPECT_LE(4.0 * mib / static_cast<double>(t.cache.statistics().entries), 12 + 100 + 32);
}

TEST(ByteCache, KeepsWhatIsAskedFor) {
  timed t(1 * mib);
  const std::string value(100, 'v');
  for (std::size_t i = 0; i < 100'000 / less; ++i) {
    t.store(key_of(i), value);
    for (std::size_t hot = 0; hot < 3; ++hot) t.value(key_of(hot * 100));
    if (i > 1000 && i % 1000 == 0) {
      for (std::size_t hot = 0; hot < 3; ++hot) ASSERT_TRUE(t.value(key_of(hot * 100))) << i;
    }
  }
}

TEST(ByteCache, LargeEntriesThatComeBackSoonAfterTheirEvictionStay) {
  timed t;
  const std::string value(30'000, 'v');
  for (std::size_t i = 0; i < 400; ++i) t.store(key_of(i), value);
  std::vector<std::string> back;
  for (std::size_t i = 0; i < 400; ++i) {
    if (!t.value(key_of(i), byte_cache::access::peek)) back.push_back(key_of(i));
  }
  ASSERT_GT(back.size(), 100U);
  ASSERT_LT(back.size(), t.cache.statistics().entries);  // or they would not be remembered
  for (const std::string& key : back) t.store(key, value);
  for (std::size_t i = 0; i < 1000; ++i) t.store("new " + key_of(i), value);
  const auto stayed = std::ranges::count_if(back, [&](const auto& key) { return t.value(key).has_value(); });
  // Which ones collide among those that are remembered, the hashes of the run decide.
  EXPECT_GT(stayed, static_cast<std::ptrdiff_t>(back.size() / 2)) << "of " << back.size();
}

TEST(ByteCache, AReceivedValueIsStoredAfterADecisionThatNeededOtherRoom) {
  timed t(byte_cache::smallest_limit);
  const std::string old(90'000, 'o');
  for (std::size_t i = 0; i < 60; ++i) t.store(key_of(i), old.substr(0, 30'000));
  const std::string key = "key";
  t.store(key, old);
  auto value = t.cache.receive(key.size(), old.size());
  ASSERT_TRUE(value);
  std::fill_n(value.value(), value.size(), 'n');
  unsigned decisions = 0;
  const cache_changed changed = t.cache.change(
      byte_cache::hashed(key),
      [&](const cache_entry*) {
        return ++decisions == 1 ? cache_change{.what = kind::amend, .version = 7}
                                : cache_change{.what = kind::store};
      },
      value);
  ASSERT_EQ(decisions, 2U);  // memory was full at the first one
  EXPECT_EQ(changed.outcome, cache_outcome::done);
  EXPECT_FALSE(value);
  EXPECT_EQ(t.value(key), std::string(old.size(), 'n'));
}

TEST(ByteCache, WithoutEvictionItKeepsAllAndRefusesMore) {
  timed t(2 * mib, false);
  const std::string value(8192, 'v');
  std::size_t stored = 0;
  while (t.store(key_of(stored), value).outcome == cache_outcome::done) ++stored;
  EXPECT_GT(stored, 200U);
  EXPECT_EQ(t.store("one more", value).outcome, cache_outcome::out_of_memory);
  for (std::size_t i = 0; i < stored; ++i) ASSERT_EQ(t.value(key_of(i)), value);
  // What is erased makes room, although it lies here and there.
  for (std::size_t i = 0; i < stored; ++i) {
    if (i % 4 != 0) {
      ASSERT_TRUE(t.erase(key_of(i)));
    }
  }
  for (std::size_t i = 0; i < stored / 2; ++i)
    ASSERT_EQ(t.store("new " + key_of(i), value).outcome, cache_outcome::done) << i;
  for (std::size_t i = 0; i < stored; i += 4) ASSERT_EQ(t.value(key_of(i)), value);
}

TEST(ByteCache, OverwritingEvictsNothing) {
  timed t(4 * mib);
  const std::string value(100, 'v');
  for (std::size_t i = 0; i < 200'000 / (less / 2 + 1); ++i) t.store(key_of(i % 5000), value);
  EXPECT_EQ(t.cache.statistics().evictions, 0U);
  EXPECT_EQ(t.cache.statistics().entries, 5000U);
}

TEST(ByteCache, WhatIsCopiedForHolesHasManyOfThem) {
  timed t;
  const std::string value(4000, 'v');
  const std::size_t keys = 4 * mib / value.size();
  measure::random_generator random(3);
  for (std::size_t i = 0; i < 20 * keys; ++i) t.store(key_of(random.below(keys)), value);
  EXPECT_EQ(t.cache.statistics().evictions, 0U);
  EXPECT_LT(t.cache.statistics().copied, 20 * keys / 2);
}

TEST(ByteCache, OverwritingUsesMemoryAgainRatherThanMore) {
  timed t(32 * mib);
  const std::string value(4000, 'v');
  const std::size_t keys = 4 * mib / value.size();
  measure::random_generator random(3);
  for (std::size_t i = 0; i < 8 * keys; ++i) t.store(key_of(random.below(keys)), value);
  EXPECT_LT(t.cache.statistics().used_bytes, 16 * mib);
  EXPECT_LT(t.cache.statistics().copied, 8 * keys / 2);
}

TEST(ByteCache, CopiesGoBeforeMemoryThatWasNotUsed) {
  timed t(32 * mib);
  const std::string value(4000, 'v');
  const std::size_t keys = 14 * mib / value.size();
  for (std::size_t i = 0; i < keys; ++i) t.store(key_of(i), value);
  const std::size_t used = t.cache.statistics().used_bytes;
  measure::random_generator random(3);
  for (std::size_t i = 0; i < 2 * keys; ++i) t.store(key_of(random.below(keys)), value);
  EXPECT_EQ(t.cache.statistics().entries, keys);
  EXPECT_LT(t.cache.statistics().used_bytes - used, keys * value.size() * 3 / 4);
  EXPECT_LT(t.cache.statistics().copied, 2 * keys);
}

TEST(ByteCache, EntriesThatTakeThreeQuartersMayBeOverwrittenInAnyOrder) {
  timed t;
  const std::string value(400, 'v');
  std::uint64_t held = 0;
  std::size_t keys = 0;
  // 400 bytes, a key of 6 to 9, and at most 32 beside them.
  for (; held < 6 * mib; held += 441) t.store(key_of(keys++), value);
  measure::random_generator random(1);
  for (std::size_t i = 0; i < 5 * keys; ++i) t.store(key_of(random.below(keys)), value);
  EXPECT_EQ(t.cache.statistics().evictions, 0U);
  EXPECT_EQ(t.cache.statistics().entries, keys);
}

TEST(ByteCache, WhatHasEndedGoesBeforeWhatHasNot) {
  timed t(4 * mib);
  const std::string value(100, 'v');
  for (std::size_t i = 0; i < 10'000; ++i) t.store("kept " + key_of(i), value);
  for (std::size_t i = 0; i < 10'000; ++i) t.store("short " + key_of(i), value, {.expires = 105});
  t.seconds = 106;
  for (std::size_t i = 0; i < 12'000; ++i) t.store("new " + key_of(i), value);
  const auto s = t.cache.statistics();
  EXPECT_EQ(s.evictions, 0U);
  EXPECT_GT(s.expired, 2'000U);
  EXPECT_EQ(s.expired, s.expired_unfetched);
  for (std::size_t i = 0; i < 10'000; ++i) ASSERT_TRUE(t.value("kept " + key_of(i)));
}

TEST(ByteCache, WhatHasEndedAmongWhatHasNotGoesFirst) {
  timed t(4 * mib);
  const std::string value(100, 'v');
  // Of about one lifetime, so that they lie in the same segments.
  for (std::size_t i = 0; i < 20'000; ++i) {
    const bool stays = i % 4 == 0;
    t.store((stays ? "kept " : "short ") + key_of(i), value, {.expires = stays ? 160U : 105U});
  }
  t.seconds = 106;
  for (std::size_t i = 0; i < 14'000; ++i) t.store("new " + key_of(i), value);
  EXPECT_EQ(t.cache.statistics().evictions, 0U);
  for (std::size_t i = 0; i < 20'000; i += 4) ASSERT_TRUE(t.value("kept " + key_of(i)));
}

TEST(ByteCache, WhatHasEndedLeavesTheCounts) {
  timed t;
  const std::string apart(100'000, 'a');
  t.store("kept", "1");
  const std::uint64_t bytes = t.cache.statistics().entry_bytes;
  for (std::size_t i = 0; i < 1'000; ++i) t.store(key_of(i), "1", {.expires = 105});
  t.store("touched", "1", {.expires = 200});
  t.store("large", apart, {.expires = 105});
  t.amend("touched", {.expires = 105});
  t.seconds = 105;
  EXPECT_EQ(t.cache.statistics().entries, 1'003U);
  t.cache.reclaim_ended(0);
  EXPECT_EQ(t.cache.statistics().entries, 1'003U);
  t.cache.reclaim_ended();
  EXPECT_EQ(t.cache.statistics().entries, 1U);
  EXPECT_EQ(t.cache.statistics().expired, 1'002U);
  // What is apart waits for readers, which there are none of.
  for (int i = 0; i < 10 && t.cache.statistics().entry_bytes != bytes; ++i) t.store("kept", apart);
  t.store("kept", "1");
  t.cache.flush();
  t.cache.reclaim_ended();
  EXPECT_EQ(t.cache.statistics().entries, 0U);
}

TEST(ByteCache, WhatEndsOneByOneMakesRoomSoon) {
  // A segment is looked at when a part of it has ended, and not each second.
  timed t(mib, false);
  const std::string value(1'000, 'v');
  std::uint32_t i = 0;
  while (t.store(key_of(i), value, {.expires = 110 + i}).outcome == cache_outcome::done) ++i;
  std::uint32_t stored = 0;
  for (t.seconds = 110; t.seconds < 110 + i; ++t.seconds) {
    if (t.store("new " + key_of(t.seconds), value).outcome == cache_outcome::done) ++stored;
  }
  EXPECT_GT(stored, i * 8 / 10) << "room for each that has ended";
}

TEST(ByteCache, AReaderKeepsItsValueWhileItIsOverwrittenAndEvicted) {
  timed t(2 * mib);
  const std::string value(100, 'r');
  t.store("read", value);
  t.cache.get("read", [&](const cache_entry& e) {
    std::thread writer([&] {
      t.store("read", std::string(100, 'w'));
      for (std::size_t i = 0; i < 12'000; ++i) t.store(key_of(i), std::string(100, 'x'));
    });
    writer.join();
    EXPECT_EQ(e.value, value);
  });
}

TEST(ByteCache, ASegmentOfWhichLittleLivesWaitsForItsWriters) {
  caching::memory_budget budget(mib);
  caching::entry_log log(budget);
  const std::uint32_t segment = log.take_free();
  log.open(segment, caching::queue::fresh, 0);
  const caching::location where = log.allocate(16, caching::queue::fresh, 0);
  log.open(log.take_free(), caching::queue::fresh, 0);
  EXPECT_EQ(log.take_loose(log.segment_bytes()), caching::entry_log::none);
  log.complete(where, 16, cache_entry::never);
  EXPECT_EQ(log.take_loose(log.segment_bytes()), segment);
  EXPECT_EQ(log.take_loose(log.segment_bytes()), caching::entry_log::none);
}

/// Runs a function in a thread of another group of writers.
template <class Function>
void in_another_group(Function&& function) {
  const std::uint32_t here = hw::thread_slot();
  std::thread other([&] {
    ASSERT_NE((hw::thread_slot() ^ here) % caching::writer_groups_for(1024), 0U);
    function();
  });
  other.join();
}

TEST(ByteCache, EachGroupOfWritersFillsASegmentOfItsOwn) {
  EXPECT_EQ(caching::writer_groups_for(127), 1U) << "what a small cache has is for entries";
  EXPECT_EQ(caching::writer_groups_for(1024), 16U);
  EXPECT_EQ(caching::writer_groups_for(1U << 20U), caching::most_writer_groups);
  EXPECT_EQ(sizeof(caching::entry_log::segment), hw::cache_line_bytes);
  caching::memory_budget budget(64 * mib);
  caching::entry_log log(budget);
  const std::uint32_t mine = log.take_free();
  log.open(mine, caching::queue::fresh, 0);
  std::uint32_t others = caching::entry_log::none;
  in_another_group([&] {
    EXPECT_EQ(log.allocate(16, caching::queue::fresh, 0), 0U) << "the open segment is another group's";
    others = log.take_free();
    log.open(others, caching::queue::fresh, 0);
    EXPECT_EQ(&log.segment_of(log.allocate(16, caching::queue::fresh, 0)), &log[others]);
  });
  EXPECT_EQ(&log.segment_of(log.allocate(16, caching::queue::fresh, 0)), &log[mine]) << "it was not sealed";
  log.flush();
  in_another_group([&] { EXPECT_EQ(log.allocate(16, caching::queue::fresh, 0), 0U) << "all were sealed"; });
}

TEST(ByteCache, WhatAGroupLeftOpenIsEvictedInItsTurn) {
  caching::memory_budget budget(64 * mib);
  caching::entry_log log(budget);
  const std::uint32_t lifelong = log.take_free();
  log.open(lifelong, caching::queue::fresh, 1);
  const std::uint32_t left = log.take_free();
  caching::location where = 0;
  in_another_group([&] {
    log.open(left, caching::queue::fresh, 0);
    where = log.allocate(16, caching::queue::fresh, 0);
  });
  EXPECT_EQ(log.oldest(caching::queue::fresh), caching::entry_log::none)
      << "a group may go on with its newest one";
  EXPECT_EQ(log[left].end, 0U);
  const std::uint32_t newer = log.take_free();
  log.open(newer, caching::queue::fresh, 0);
  EXPECT_EQ(log.oldest(caching::queue::fresh), caching::entry_log::none) << "a writer is in it";
  log.complete(where, 16, cache_entry::never);
  EXPECT_EQ(log.oldest(caching::queue::fresh), left);
  EXPECT_EQ(log[left].end, 16U) << "it was sealed";
  in_another_group([&] { EXPECT_EQ(log.allocate(16, caching::queue::fresh, 0), 0U) << "as its group sees"; });
  EXPECT_NE(log.allocate(16, caching::queue::fresh, 0), 0U) << "the newest of a lifetime stays open";
  EXPECT_NE(log.allocate(16, caching::queue::fresh, 1), 0U);
}

TEST(ByteCache, VersionsAreUniqueAndCountedInAllGroups) {
  constexpr std::uint64_t block = caching::version_source::block;
  caching::version_source versions(4);
  EXPECT_EQ(versions.flush(), 0U) << "there is none to forget";
  for (std::uint64_t v = 1; v <= block + 1; ++v)
    EXPECT_EQ(versions.next(), v) << "one thread draws them in order";
  in_another_group([&] { EXPECT_EQ(versions.next(), 2 * block + 1); });
  EXPECT_EQ(versions.next(), block + 2);
  EXPECT_EQ(versions.drawn(), block + 3);
  const std::uint64_t until = versions.flush();
  EXPECT_GE(until, 2 * block + 1);
  EXPECT_EQ(versions.drawn(), block + 3);
  EXPECT_GT(versions.next(), until);
  in_another_group(
      [&] { EXPECT_GT(versions.next(), until) << "no group goes on with what was handed out before"; });
  EXPECT_EQ(versions.drawn(), block + 5);
}

TEST(ByteCache, VersionsOfAnEntryIncreaseWhicheverGroupChangesIt) {
  timed t(64 * mib);
  // The other group has a block, and this one a later one.
  in_another_group([&] { t.store("other", "1"); });
  std::uint64_t last = t.store("k", "1").version;
  for (int i = 0; i < 100; ++i) {
    in_another_group([&] {
      const std::uint64_t next = t.store("k", "2").version;
      EXPECT_GT(next, last);
      last = next;
    });
    const std::uint64_t next = t.store("k", "3").version;
    EXPECT_GT(next, last);
    last = next;
  }
  EXPECT_EQ(t.cache.statistics().stored, 202U);
}

TEST(ByteCache, WhatAGroupStoresAfterAFlushOfAnotherIsThere) {
  timed t(64 * mib);
  in_another_group([&] { t.store("before", "1"); });
  t.cache.flush();
  in_another_group([&] { t.store("after", "2"); });
  EXPECT_FALSE(t.value("before").has_value());
  EXPECT_TRUE(t.value("after").has_value());
  EXPECT_EQ(t.cache.statistics().stored, 2U);
}

/// Whether the kernel may back this byte with a huge page.
bool may_be_huge(const std::byte* byte) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<std::uintptr_t>(byte);
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2) is_here = begin <= at && at < end;
    if (is_here && line.starts_with("VmFlags:")) return line.find(" nh") == std::string::npos;
  }
  return true;
}

TEST(ByteCache, AHugePageIsWithinTheLimit) {
  const auto mode = hw::transparent_huge_pages();
  if (mode == "never" || mode == "unavailable") GTEST_SKIP() << "the kernel has no transparent huge pages";
  caching::memory_budget budget(64 * mib);
  caching::entry_log log(budget);
  const std::size_t huge = hw::huge_page_size();
  budget.take(huge + huge / 2);  // of the table
  std::uint32_t last = 0;
  for (std::uint32_t i = log.take_free(); i != caching::entry_log::none; i = log.take_free()) last = i;
  const std::byte* const begin = log.at(0);
  const auto end = static_cast<std::size_t>(log.at(log.begin_of(last)) - begin) + log.segment_bytes();
  ASSERT_GT(end, huge);
  EXPECT_NE(end % huge, 0U);
  EXPECT_TRUE(may_be_huge(begin + end / huge * huge - 1)) << "all of it is used";
  EXPECT_FALSE(may_be_huge(begin + end / huge * huge));
}

TEST(ByteCache, ALogWithManyHolesHasNoHugePages) {
  const auto mode = hw::transparent_huge_pages();
  if (mode == "never" || mode == "unavailable") GTEST_SKIP() << "the kernel has no transparent huge pages";
  caching::memory_budget budget(64 * mib);
  caching::entry_log log(budget);
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = log.take_free(); i != caching::entry_log::none; i = log.take_free())
    all.push_back(i);
  ASSERT_GT(all.size(), 900U);
  const auto discard = [&](std::size_t segments) {
    for (; segments != 0; --segments, all.pop_back()) log.reclaim(all.back());
    EXPECT_FALSE(log.shrink_for(64 * mib));
  };
  discard(8);
  EXPECT_TRUE(may_be_huge(log.at(0))) << "a hole here and there is worth it";
  discard(20);
  EXPECT_FALSE(may_be_huge(log.at(0)));
}

TEST(ByteCache, AFlushEndsWithTheSegmentsThatItFound) {
  caching::memory_budget budget(mib);
  caching::entry_log log(budget);
  const std::uint32_t segment = log.take_free();
  log.open(segment, caching::queue::fresh, 0);
  log.complete(log.allocate(16'000, caching::queue::fresh, 0), 16'000, cache_entry::never);
  EXPECT_FALSE(log.find_ended(1));
  log.flush();
  EXPECT_EQ(log.allocate(16, caching::queue::fresh, 0), 0U) << "it takes nothing from after the flush";
  EXPECT_EQ(log.take_loose(log.segment_bytes()), segment);
  log.unlist(segment);
  EXPECT_TRUE(log.find_ended(1)) << "a reader may be in it";
  log.reclaim(segment);
  EXPECT_FALSE(log.find_ended(1));
}

TEST(ByteCache, AFlushMakesRoomForAsMuchAgain) {
  timed t(2 * mib, false);
  // Of each lifetime, so that there is an open segment of each.
  const auto fill = [&t] {
    std::size_t stored = 0;
    const std::string value(1'000, 'v');
    while (t.store(key_of(stored), value, {.expires = 110 + static_cast<std::uint32_t>(stored % 3) * 10'000})
               .outcome == cache_outcome::done)
      ++stored;
    return stored;
  };
  const std::size_t first = fill();
  for (int i = 0; i < 3; ++i) {
    t.cache.flush();
    t.seconds = 101 + static_cast<std::uint32_t>(i);
    EXPECT_EQ(fill(), first);
  }
}

/// A cache that evicts nothing, filled again and again with entries of one size.
struct refilled : timed {
  refilled(std::size_t limit, std::size_t bytes) : timed(limit, false), value(bytes, 'v') {}

  std::string value;
  std::size_t next = 0;
  std::vector<std::size_t> there;

  /// Stores new keys until one is refused. Of a hundred ones all but one end after ten seconds, if they are to.
  void fill(bool is_short = false) {
    while (true) {
      const std::uint32_t end = is_short && next % 100 != 0 ? seconds + 10 : seconds + 50;
      if (store(key_of(next), value, {.expires = is_short ? end : cache_entry::never}).outcome !=
          cache_outcome::done)
        return;
      there.push_back(next++);
    }
  }
  /// Erases one in n.
  void erase_one_in(std::size_t n) {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (i % n == 0)
        EXPECT_TRUE(erase(key_of(there[i])));
      else
        left.push_back(there[i]);
    }
    there = std::move(left);
  }
  void expect_all_there() {
    for (const std::size_t i : there) ASSERT_TRUE(value_is_there(i)) << i;
  }
  bool value_is_there(std::size_t i) {
    return cache.get(key_of(i), [&](const cache_entry& e) { EXPECT_EQ(e.value, value); });
  }
};

TEST(ByteCache, WhatIsFreeCanBeUsedAgain) {
  const bool is_long = test::environment_number("ESPALIER_STRESS_SCALE", 1) > 5;
  for (const std::size_t mebibytes : {1U, 2U, 3U, 5U, 8U, 13U, 21U, 34U, 64U}) {
    if (mebibytes > 1 && !is_long) break;
    for (const std::size_t bytes : {20U, 100U, 1'000U}) {
      SCOPED_TRACE(std::to_string(mebibytes) + " MiB, values of " + std::to_string(bytes));
      refilled r(mebibytes * mib, bytes);
      r.fill();
      const std::size_t first = r.there.size();
      // A segment is left for copies, one is open, and of each of them a sixteenth may be holes.
      const std::size_t least =
          first * 9 / 10 - 2 * std::max(mebibytes * 1024, std::size_t{32 * 1024}) / (bytes + 20);
      for (const std::size_t one_in : {2U, 5U, 1U, 10U, 2U}) {
        SCOPED_TRACE("one in " + std::to_string(one_in) + " erased");
        r.erase_one_in(one_in);
        r.fill();
        ASSERT_GE(r.there.size(), least);
        r.expect_all_there();
      }
      r.cache.flush();
      r.there.clear();
      r.fill(true);
      ASSERT_GE(r.there.size(), least * 9 / 10) << "after a flush";
      for (int round = 0; round < 2; ++round) {
        r.expect_all_there();
        r.seconds += 10;
        std::erase_if(r.there, [](std::size_t i) { return i % 100 != 0; });
        r.fill(true);
        ASSERT_GE(r.there.size(), least * 9 / 10) << "99 of 100 have ended";
      }
      // Entries of another size, of which more or fewer fit.
      r.erase_one_in(1);
      r.value.resize(bytes == 20 ? 1'000 : 20);
      r.fill();
      ASSERT_GE(r.there.size() * (r.value.size() + 20), least * (bytes + 20) / 2);
      ASSERT_LE(r.cache.statistics().used_bytes, mebibytes * mib + 64 * 1024);
    }
  }
}

TEST(ByteCache, EntriesGoOnInAnotherCache) {
  timed old(4 * mib);
  std::map<std::string, std::string> model;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "key" + std::to_string(i);
    // Some are large.
    model[key] =
        std::string(i % 50 == 0 ? 20'000U + static_cast<unsigned>(i) : static_cast<unsigned>(i) % 300,
                    static_cast<char>('a' + i % 26));
    old.store(
        key, model[key],
        {.flags = static_cast<std::uint32_t>(i % 3), .expires = i % 5 == 0 ? 200U : cache_entry::never});
  }
  for (int i = 0; i < 2000; i += 7) {
    EXPECT_TRUE(old.erase("key" + std::to_string(i)));
    model.erase("key" + std::to_string(i));
  }
  old.store("own", "version", {.version = 77});
  old.amend("own", {.stale = true, .claimed = true});
  old.store("ended", "x", {.expires = 101});
  const auto entry_of = [](timed& of, std::string_view key) {
    cache_entry seen;
    EXPECT_TRUE(of.cache.get(key, [&](const cache_entry& e) { seen = e; }, byte_cache::access::peek)) << key;
    seen.value = {};
    return seen;
  };
  old.seconds = 170;
  static_cast<void>(old.value("key1"));
  std::map<std::string, cache_entry> seen;
  for (const auto& [key, value] : model) seen[key] = entry_of(old, key);
  seen["own"] = entry_of(old, "own");
  model["own"] = "version";

  timed next(8 * mib);
  next.seconds = 170;
  std::size_t moved = 0;
  old.cache.drain([&](const kept_entry& kept) {
    ++moved;
    return next.cache.put_back(kept);
  });
  EXPECT_EQ(moved, model.size());
  std::uint64_t last = 0;
  for (const auto& [key, value] : model) {
    const cache_entry now = entry_of(next, key);
    const cache_entry& before = seen[key];
    EXPECT_EQ(
        std::tie(now.version, now.flags, now.expires, now.accessed, now.fetched, now.stale, now.claimed),
        std::tie(before.version, before.flags, before.expires, before.accessed, before.fetched, before.stale,
                 before.claimed))
        << key;
    EXPECT_EQ(next.value(key), value);
    last = std::max(last, now.version);
  }
  EXPECT_EQ(next.value("ended"), std::nullopt);
  EXPECT_EQ(next.cache.statistics().entries, model.size());
  EXPECT_GT(next.store("new", "x").version, last);
  next.seconds = 200;
  EXPECT_EQ(next.value("key5"), std::nullopt);
}

TEST(ByteCache, EntriesAreEvictedInTheSameOrderInAnotherCache) {
  timed old(mib);
  timed next(mib);
  const std::string value(900, 'x');
  for (int i = 0; i < 800; ++i) old.store("key" + std::to_string(i), value);
  for (int times = 0; times < 4; ++times)
    for (int i = 0; i < 100; ++i) static_cast<void>(old.value("key" + std::to_string(i)));
  old.cache.drain([&](const kept_entry& kept) { return next.cache.put_back(kept); });
  for (int i = 0; i < 600; ++i) next.store("new" + std::to_string(i), value);
  int asked_for = 0;
  int others = 0;
  for (int i = 0; i < 800; ++i)
    (i < 100 ? asked_for : others) += next.value("key" + std::to_string(i), byte_cache::access::peek) ? 1 : 0;
  EXPECT_GT(asked_for, 90);
  EXPECT_LT(others, 400);
}

TEST(ByteCache, AnEntryThatIsTooLargeOrHasNoRoomDoesNotComeBack) {
  timed cache(mib, false);
  const std::string large(mib / 2 + 1, 'x');
  EXPECT_FALSE(cache.cache.put_back({.key = "k", .seen = {.value = large}, .order = 1}));
  int came = 0;
  while (came < 2000 && cache.cache.put_back({.key = "k" + std::to_string(came),
                                              .seen = {.value = std::string_view(large).substr(0, 1000)},
                                              .order = 1}))
    ++came;
  EXPECT_GT(came, 800);
  EXPECT_LT(came, 2000);
  EXPECT_EQ(cache.cache.statistics().entries, static_cast<std::uint64_t>(came));
}

// Gets, stores and erases of four threads, of which each sees whether a value is its key's.
void use_in_threads(byte_cache& cache) {
  const auto store = [&](std::string_view key, std::size_t bytes, char fill, std::uint32_t expires) {
    return cache.change(
        byte_cache::hashed(key),
        [&](const cache_entry*) {
          return cache_change{.what = kind::store,
                              .value_bytes = bytes,
                              .flags = static_cast<std::uint32_t>(bytes),
                              .expires = expires};
        },
        [&](char* to, const cache_entry*) { std::memset(to, fill, bytes); });
  };
  on_threads(4, [&](int thread) {
    auto random = static_cast<std::uint64_t>(thread);
    for (int i = 0; i < 40'000 / less; ++i) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      const auto id = random >> 33U;
      const std::string key = key_of(id % 20'000);
      const char fill = static_cast<char>('a' + id % 20'000 % 26);
      if (i % 3 != 0) {
        cache.get(key, [&](const cache_entry& e) {
          EXPECT_EQ(e.flags, e.value.size());
          EXPECT_TRUE(std::ranges::all_of(e.value, [&](char c) { return c == fill; }));
        });
      } else if (i % 30 != 0) {
        const std::size_t bytes = id % 997 == 0 ? 40'000 : 1 + id % 300;
        EXPECT_EQ(store(key, bytes, fill, id % 5 == 0 ? cache.now() + 1 : cache_entry::never).outcome,
                  cache_outcome::done);
      } else {
        cache.change(
            byte_cache::hashed(key),
            [](const cache_entry* now) {
              return cache_change{.what = now != nullptr ? kind::erase : kind::keep};
            },
            [](char*, const cache_entry*) {});
      }
      if (i == 20'000 / less && thread == 0) cache.flush();
    }
  });
}

TEST(ByteCache, ThreadsSeeWholeEntriesOfTheirKey) {
  byte_cache cache({.memory_limit = 3 * mib, .largest_entry = mib});
  use_in_threads(cache);
  const auto s = cache.statistics();
  EXPECT_LE(s.used_bytes, 3 * mib + 64 * 1024);
  std::size_t visited = 0;
  cache.for_each([&](std::string_view, const cache_entry&) { ++visited; });
  EXPECT_LE(visited, s.entries);
}

TEST(ByteCache, ALimitMayChangeWhileThreadsUseTheCache) {
  byte_cache cache({.memory_limit = 3 * mib, .largest_limit = 12 * mib, .largest_entry = mib / 2});
  std::atomic<bool> ends{false};
  std::thread changes([&] {
    // relaxed: when it ends does not matter
    for (std::size_t i = 0; !ends.load(std::memory_order_relaxed); ++i) {
      EXPECT_TRUE(cache.limit_memory((2 + i * 5 % 11) * mib));
      static_cast<void>(cache.keep_limit(i % 20 * mib / 10));
      static_cast<void>(cache.statistics());
    }
  });
  use_in_threads(cache);
  ends.store(true, std::memory_order_relaxed);  // relaxed: as above
  changes.join();
  ASSERT_TRUE(cache.limit_memory(2 * mib));
  EXPECT_TRUE(cache.keep_limit());
  EXPECT_LE(cache.statistics().used_bytes, 2 * mib);
}

TEST(ByteCache, ChangesOfAKeyTakeTurns) {
  byte_cache cache({.memory_limit = 2 * mib, .largest_entry = mib});
  const auto add_one = [&](std::string_view key) {
    std::uint64_t next = 0;
    cache.change(
        byte_cache::hashed(key),
        [&](const cache_entry* now) {
          next = 1;
          if (now != nullptr) {
            std::memcpy(&next, now->value.data(), sizeof(next));
            ++next;
          }
          return cache_change{.what = kind::store, .value_bytes = sizeof(next)};
        },
        [&](char* to, const cache_entry*) { std::memcpy(to, &next, sizeof(next)); });
  };
  on_threads(4, [&](int) {
    for (int i = 0; i < 20'000 / less; ++i) add_one(i % 2 == 0 ? "one" : "two");
  });
  for (const std::string_view key : {"one", "two"}) {
    std::uint64_t sum = 0;
    cache.get(key, [&](const cache_entry& e) { std::memcpy(&sum, e.value.data(), sizeof(sum)); });
    EXPECT_EQ(sum, 40'000U / less);
  }
}

}  // namespace
}  // namespace espalier
