// Scenes of the cache: its table and its log by themselves, then the whole.

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/cache/byte_cache.hpp"
#include "espalier/cache/entry_log.hpp"
#include "espalier/cache/table.hpp"
#include "espalier/cache/writer_groups.hpp"
#include "espalier/hw/pause.hpp"
#include "scheduled/scenes.hpp"
#include "sim/explore.hpp"
#include "sim/history/recorder.hpp"

namespace espalier::sim {
namespace {

using caching::entry_log;
using caching::location;
using caching::table;
using kind = cache_change::kind;

constexpr std::size_t smallest = byte_cache::smallest_limit;

/// A table whose entries are numbers: each is its own place, and says what its hash is.
struct numbers {
  caching::memory_budget budget{smallest};
  table entries{budget};

  /// All of one bucket, until it splits. The next bit of the hash is that of the number.
  static std::uint64_t hash_of(std::uint64_t n) noexcept { return n << 43U | (n % 2) << 6U; }
  /// Of another bucket and another stripe.
  static std::uint64_t elsewhere(std::uint64_t n) noexcept { return n << 43U | 5U; }

  void insert(std::uint64_t hash, std::uint64_t n) {
    const std::lock_guard held(entries.lock_of(hash));
    entries.insert(hash, table::word_of(hash, n, 0));
  }
  void erase(std::uint64_t hash, std::uint64_t n) {
    const std::lock_guard held(entries.lock_of(hash));
    const table::found f = entries.find_location(hash, n);
    require(f.at != nullptr, "what was inserted is there for a writer");
    entries.erase(hash, *f.at);
  }
  bool has(std::uint64_t hash, std::uint64_t n) {
    return entries.find(hash, [n](location l) { return l == n; }).at != nullptr;
  }
  /// Entries of all buckets.
  template <class Visit>
  void each(Visit&& visit) {
    for (std::size_t b = 0; b < entries.buckets(); ++b) entries.each_in(b, visit);
  }
  [[nodiscard]] unsigned count() {
    unsigned n = 0;
    each([&n](location) { ++n; });
    return n;
  }
  void split() {
    entries.count(1'000'000);
    entries.grow([](location l) { return hash_of(l); });
    entries.count(-1'000'000);
  }
};

constexpr std::uint64_t a_line = 8;

ESPALIER_SCENE(cache, a_split_hides_nothing, 500, 1, steps_up_to(400'000)) {
  auto& t = s.make<numbers>();
  for (std::uint64_t n = 1; n <= a_line + 2; ++n) t.insert(numbers::hash_of(n), n);
  s.thread("splits", [&t] { t.split(); });
  s.thread("finds", [&t] {
    for (const std::uint64_t n : {1U, 8U, 10U})
      require(t.has(numbers::hash_of(n), n), "a reader misses what is there");
  });
  s.thread("raises", [&t] {
    const auto f = t.entries.find(numbers::hash_of(9), [](location l) { return l == 9; });
    require(f.at != nullptr, "a reader misses what is there");
    table::raise(f);
  });
  s.at_end([&t] {
    for (std::uint64_t n = 1; n <= a_line + 2; ++n)
      require(t.has(numbers::hash_of(n), n), "a split loses an entry");
    require(t.entries.buckets() == 65, "a bucket was split");
    require(t.count() == a_line + 2, "an entry is there twice");
  });
}

ESPALIER_SCENE(cache, a_group_draws_each_version_once, 500, 1, steps_up_to(400'000)) {
  struct group {
    caching::version_source versions{1};
    std::array<std::uint64_t, 4> drawn{};
  };
  auto& g = s.make<group>();
  for (std::uint64_t v = 1; v < caching::version_source::block; ++v) static_cast<void>(g.versions.next());
  for (unsigned thread = 0; thread < 2; ++thread) {
    s.thread("draws", [&g, thread] {
      for (unsigned i = 0; i < 2; ++i) g.drawn[2 * thread + i] = g.versions.next();
    });
  }
  s.at_end([&g] {
    for (std::size_t i = 0; i < g.drawn.size(); ++i) {
      require(g.drawn[i] >= caching::version_source::block, "a version is given again");
      for (std::size_t j = 0; j < i; ++j) require(g.drawn[i] != g.drawn[j], "two changes have one version");
    }
    require(g.versions.drawn() == caching::version_source::block + 3, "each version is counted once");
  });
}

ESPALIER_SCENE(cache, writers_go_on_beside_a_split, 500, 1, steps_up_to(400'000)) {
  auto& t = s.make<numbers>();
  for (std::uint64_t n = 1; n <= 4; ++n) t.insert(numbers::hash_of(n), n);
  s.thread("splits", [&t] { t.split(); });
  s.thread("writes", [&t] {
    t.insert(numbers::hash_of(5), 5);
    t.erase(numbers::hash_of(3), 3);
    require(!t.has(numbers::hash_of(3), 3), "what was erased is gone");
    require(t.has(numbers::hash_of(5), 5), "what was inserted is there");
  });
  s.at_end([&t] {
    for (const std::uint64_t n : {1U, 2U, 4U, 5U}) require(t.has(numbers::hash_of(n), n), "an entry is lost");
    require(!t.has(numbers::hash_of(3), 3), "what was erased is gone");
  });
}

ESPALIER_SCENE(cache, overflow_comes_and_goes, 500, 1, steps_up_to(400'000)) {
  auto& t = s.make<numbers>();
  for (std::uint64_t n = 1; n <= a_line; ++n) t.insert(numbers::elsewhere(n), n);
  for (std::uint64_t n = 11; n <= 10 + a_line; ++n) t.insert(numbers::hash_of(n), n);
  s.thread("one bucket", [&t] {
    t.insert(numbers::elsewhere(9), 9);  // a line of overflow
    t.erase(numbers::elsewhere(2), 2);   // which is given up
    t.insert(numbers::elsewhere(2), 2);
  });
  s.thread("another", [&t] {
    t.insert(numbers::hash_of(19), 19);  // may get the line
    t.insert(numbers::hash_of(20), 20);
    t.erase(numbers::hash_of(12), 12);  // the line stays
  });
  s.thread("finds", [&t] {
    require(t.has(numbers::elsewhere(8), 8), "a reader misses what has moved");
    require(t.has(numbers::hash_of(18), 18), "a reader misses what has moved");
    require(t.has(numbers::elsewhere(8), 8), "a reader misses what has moved");
  });
  s.at_end([&t] {
    for (std::uint64_t n = 1; n <= 9; ++n) require(t.has(numbers::elsewhere(n), n), "an entry is lost");
    for (std::uint64_t n = 11; n <= 20; ++n)
      require(t.has(numbers::hash_of(n), n) == (n != 12), "an entry is lost");
  });
}

ESPALIER_SCENE(cache, a_line_is_used_again, 2000, 8, {.model = memory_model::weak}) {
  auto& t = s.make<numbers>();
  for (std::uint64_t n = 1; n <= a_line + 1; ++n) t.insert(numbers::hash_of(n), n);
  for (std::uint64_t n = 11; n <= 10 + a_line; ++n) t.insert(numbers::elsewhere(n), n);
  s.thread("uses it", [&t] {
    t.erase(numbers::hash_of(2), 2);
    t.insert(numbers::elsewhere(19), 19);
  });
  s.thread("finds", [&t] { require(t.has(numbers::hash_of(8), 8), "a reader misses what has moved"); });
}

ESPALIER_SCENE(cache, a_reader_outlives_two_splits, 2000, 8, {.model = memory_model::weak}) {
  auto& t = s.make<numbers>();
  for (std::uint64_t n = 1; n <= 2; ++n) t.insert(numbers::hash_of(n), n);
  s.thread("splits", [&t] {
    t.split();
    t.split();  // of the next bucket, which is empty
  });
  s.thread("finds", [&t] {
    require(t.has(numbers::hash_of(1), 1), "a reader misses what is there");
    require(t.has(numbers::hash_of(1), 1), "a reader misses what is there");
  });
}

ESPALIER_SCENE(cache, a_walk_misses_nothing, 500, 1, steps_up_to(400'000)) {
  auto& t = s.make<numbers>();
  for (std::uint64_t n = 1; n <= a_line + 1; ++n) t.insert(numbers::hash_of(n), n);
  s.thread("erases", [&t] { t.erase(numbers::hash_of(2), 2); });
  s.thread("splits", [&t] { t.split(); });
  s.thread("walks", [&t] {
    std::array<unsigned, a_line + 2> seen{};
    t.each([&seen](location l) { seen[l] = 1; });
    for (std::uint64_t n = 1; n <= a_line + 1; ++n)
      require(seen[n] == 1 || n == 2, "a walk misses what is there all the time");
  });
}

ESPALIER_SCENE(cache, a_sealed_segment_takes_nothing_more, 500, 1, steps_up_to(400'000)) {
  struct parts {
    caching::memory_budget budget{smallest};
    entry_log log{budget};
    std::uint32_t first = log.take_free();
    std::uint32_t second = log.take_free();
    unsigned loose = 0;
    parts() { log.open(first, caching::queue::fresh, 0); }
  };
  auto& p = s.make<parts>();
  for (const char* name : {"writes", "also writes"}) {
    s.thread(name, [&p] {
      for (int i = 0; i < 2; ++i) {
        location where = p.log.allocate(16, caching::queue::fresh, 0);
        // The segment was sealed meanwhile; the next one has room.
        for (; where == 0; where = p.log.allocate(16, caching::queue::fresh, 0)) hw::cpu_relax();
        *p.log.at(where) = std::byte{7};
        p.log.complete(where, 16, 7);
      }
    });
  }
  s.thread("seals", [&p] {
    p.log.open(p.second, caching::queue::fresh, 0);  // seals the first
    if (p.log.take_loose(p.log.segment_bytes()) != entry_log::none) ++p.loose;
    if (!p.log.is_complete(p.first)) return;
    const std::uint32_t end = p.log[p.first].end;
    require(p.log[p.first].complete.load() == end, "no writer is on its way");
    for (std::uint32_t at = p.first == 0 ? 12 : 0; at < end; at += 16)
      require(*p.log.at(p.log.begin_of(p.first) + at / caching::location_unit) == std::byte{7},
              "what is complete is written");
  });
  s.at_end([&p] {
    p.log.seal_open();
    require(p.log.is_complete(p.first) && p.log.is_complete(p.second), "every writer was done");
    while (p.log.take_loose(p.log.segment_bytes()) != entry_log::none) ++p.loose;
    require(p.loose == 2, "what is nearly empty is found, also if it had writers");
    require(p.log[p.first].end + p.log[p.second].end == (p.first == 0 || p.second == 0 ? 12U : 0U) + 4 * 16,
            "room was handed out once");
  });
}

// The whole -----------------------------------------------------------------------------------------------------------

cache_changed store(byte_cache& c, std::string_view key, std::size_t bytes, char fill,
                    std::uint32_t expires = cache_entry::never) {
  return c.change(
      byte_cache::hashed(key),
      [&](const cache_entry*) {
        cache_change change;
        change.what = kind::store;
        change.value_bytes = bytes;
        change.flags = static_cast<unsigned char>(fill);
        change.expires = expires;
        return change;
      },
      [&](char* to, const cache_entry*) {
        to[0] = fill;
        to[bytes - 1] = fill;
      });
}
bool erase(byte_cache& c, std::string_view key) {
  return c.change(
              byte_cache::hashed(key),
              [](const cache_entry* now) {
                cache_change change;
                if (now != nullptr) change.what = kind::erase;
                return change;
              },
              [](char*, const cache_entry*) {})
             .what == kind::erase;
}
void touch(byte_cache& c, std::string_view key, std::uint32_t expires) {
  c.change(
      byte_cache::hashed(key),
      [&](const cache_entry* now) {
        cache_change change;
        change.what = now != nullptr ? kind::amend : kind::keep;
        change.expires = expires;
        return change;
      },
      [](char*, const cache_entry*) {});
}
/// The fill of the value, which must be whole; 0: there is none.
char get(byte_cache& c, std::string_view key) {
  char found = 0;
  c.get(key, [&](const cache_entry& e) {
    found = e.value.front();
    require(e.value.back() == found && e.flags == static_cast<unsigned char>(found),
            "a reader sees half of a value");
  });
  return found;
}

/// The clock stands: the kernel's would be another one in each run.
struct one_cache {
  std::atomic<std::uint32_t> clock{1};
  byte_cache c{{.memory_limit = smallest, .largest_entry = smallest / 2, .clock = &clock}};
};

/// A cache whose limit may change.
struct growing_cache {
  std::atomic<std::uint32_t> clock{1};
  byte_cache c{{.memory_limit = 2 * smallest,
                .largest_limit = 4 * smallest,
                .largest_entry = smallest / 2,
                .clock = &clock}};
};

ESPALIER_SCENE(cache, a_limit_changes, alone()) {
  auto& one = s.make<growing_cache>();
  s.thread("changes", [&one] {
    byte_cache& c = one.c;
    const auto fill = [&c](std::size_t bytes) {
      for (std::size_t i = 0; i < bytes / 5000; ++i) store(c, "k" + std::to_string(i), 5000, 'a');
      return c.statistics().entries;
    };
    const auto before = fill(4 * smallest);
    require(c.limit_memory(4 * smallest), "a limit grows");
    require(fill(8 * smallest) > before * 3 / 2, "a limit that has grown holds more");
    require(!c.limit_memory(4 * smallest + 1), "a limit has no addresses");
    require(c.limit_memory(smallest) && c.keep_limit(), "a limit shrinks");
    const auto left = c.statistics();
    require(left.used_bytes <= smallest, "memory above the limit stays");
    require(left.entries > before / 4, "more was evicted than was above the limit");
  });
}

ESPALIER_SCENE(cache, entries_go_on_in_another_cache, alone()) {
  auto& from = s.make<growing_cache>();
  auto& to = s.make<growing_cache>();
  s.thread("restarts", [&from, &to] {
    store(from.c, "old", 20, 'a');
    store(from.c, "new", 9'000, 'b');
    std::uint64_t version = 0;
    from.c.get("new", [&version](const cache_entry& e) { version = e.version; });
    std::vector<std::string> order;
    from.c.drain([&](const kept_entry& kept) {
      order.emplace_back(kept.key);
      require(to.c.put_back(kept), "an entry goes on");
      return true;
    });
    require(order == std::vector<std::string>{"old", "new"}, "the oldest one is first");
    require(get(to.c, "old") == 'a' && get(to.c, "new") == 'b', "values go on");
    std::uint64_t after = 0;
    to.c.get("new", [&after](const cache_entry& e) { after = e.version; });
    require(after == version, "a version goes on");
    store(to.c, "later", 20, 'c');
    to.c.get("later", [&after](const cache_entry& e) { after = e.version; });
    require(after > version, "a later version is a version of before");
  });
}

ESPALIER_SCENE(cache, values_are_whole, 500, 1, steps_up_to(400'000)) {
  auto& one = s.make<one_cache>();
  store(one.c, "k", 20, 'a');
  s.thread("sets", [&one] {
    store(one.c, "k", 30, 'b');
    require(get(one.c, "k") != 'a', "one's own change is seen");
  });
  s.thread("erases", [&one] {
    erase(one.c, "k");
    store(one.c, "k", 9'000, 'c');  // apart
  });
  s.thread("gets", [&one] {
    const char first = get(one.c, "k");
    if (first != 'a') require(get(one.c, "k") != 'a', "a value comes back");
  });
  s.at_end([&one] {
    const char last = get(one.c, "k");
    require(last == 'b' || last == 'c', "the last change counts");
    require(one.c.statistics().entries == 1, "one key is one entry");
  });
}

void add_one(byte_cache& c, std::string_view key) {
  char next = 0;
  c.change(
      byte_cache::hashed(key),
      [&](const cache_entry* now) {
        next = static_cast<char>(now == nullptr ? 1 : now->value.front() + 1);
        cache_change change;
        change.what = kind::store;
        change.value_bytes = 1;
        change.flags = static_cast<unsigned char>(next);
        return change;
      },
      [&](char* to, const cache_entry*) { *to = next; });
}

ESPALIER_SCENE(cache, changes_take_turns, 500, 1, steps_up_to(400'000)) {
  auto& one = s.make<one_cache>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&one] {
      for (int i = 0; i < 2; ++i) add_one(one.c, "n");
    });
  }
  s.at_end([&one] {
    require(get(one.c, "n") == 4, "no change is lost");
    require(one.c.statistics().entries == 1, "one key is one entry");
  });
}

/// A cache of numbers whose operations are recorded. Values that are even lie apart.
struct recorded_cache : one_cache {
  recorder log;

  void start_with(std::uint64_t key, std::uint64_t value) {
    change(key, [=](const auto&) { return value; });
    log.initial(key, value);
  }
  std::optional<std::uint64_t> get(std::uint64_t key) {
    log.begin(map_operation::find, key);
    std::optional<std::uint64_t> found;
    c.get(name_of(key), [&found](const cache_entry& e) { found = number_in(e); });
    return end_with(found);
  }
  void set(std::uint64_t key, std::uint64_t value) {
    log.begin(map_operation::insert_or_assign, key, value);
    log.end(!change(key, [=](const auto&) { return value; }));
  }
  void add(std::uint64_t key, std::uint64_t value) {
    log.begin(map_operation::insert, key, value);
    log.end(!change(key, [=](const auto& now) { return now ? 0 : value; }));
  }
  void exchange(std::uint64_t key, std::uint64_t value) {
    log.begin(map_operation::exchange, key, value);
    end_with(change(key, [=](const auto&) { return value; }));
  }
  void increment(std::uint64_t key, std::uint64_t by) {
    log.begin(map_operation::update, key, by);
    end_with(change(key, [=, this](const auto& now) {
      const std::uint64_t sum = now.value_or(0) + by;
      log.stores(sum);
      return sum;
    }));
  }
  void erase(std::uint64_t key) {
    log.begin(map_operation::erase, key);
    log.end(sim::erase(c, name_of(key)));
  }

 private:
  static std::string name_of(std::uint64_t key) { return std::to_string(key); }
  static std::uint64_t number_in(const cache_entry& e) {
    std::uint64_t number = 0;
    std::memcpy(&number, e.value.data(), sizeof(number));
    return number;
  }
  std::optional<std::uint64_t> end_with(std::optional<std::uint64_t> before) {
    log.end_with(before ? &*before : nullptr);
    return before;
  }
  /// Stores next(the value now); 0: nothing. Returns the value before.
  template <class Next>
  std::optional<std::uint64_t> change(std::uint64_t key, Next&& next) {
    std::optional<std::uint64_t> before;
    std::uint64_t number = 0;
    const std::string name = name_of(key);
    c.change(
        byte_cache::hashed(name),
        [&](const cache_entry* now) {
          before.reset();
          if (now != nullptr) before = number_in(*now);
          number = next(before);
          cache_change change;
          if (number != 0) change.what = kind::store;
          change.value_bytes = number % 2 == 0 ? 9'000 : sizeof(number);
          return change;
        },
        [&](char* to, const cache_entry*) { std::memcpy(to, &number, sizeof(number)); });
    return before;
  }
};

ESPALIER_SCENE(cache, a_key_is_linearizable, 500, 1, steps_up_to(400'000)) {
  auto& r = s.make<recorded_cache>();
  r.start_with(1, 5);
  s.thread("a", [&r] {
    r.exchange(1, 10);
    r.get(1);
    r.increment(1, 3);
    r.get(2);
  });
  s.thread("b", [&r] {
    r.erase(1);
    r.add(1, 20);
    r.set(2, 7);
  });
  s.thread("c", [&r] {
    r.get(1);
    r.increment(1, 1);
    r.get(1);
    r.erase(2);
  });
  s.at_end([&r] {
    r.get(1);
    r.get(2);
    r.log.check();
  });
}

ESPALIER_SCENE(cache, a_flush_spares_what_comes_after, 500, 1, steps_up_to(400'000)) {
  auto& one = s.make<one_cache>();
  store(one.c, "old", 20, 'o');
  s.thread("flushes", [&one] {
    one.c.flush();
    require(get(one.c, "old") == 0, "what was flushed is gone");
    store(one.c, "new", 20, 'n');
    require(get(one.c, "new") == 'n', "what comes after stays");
  });
  s.thread("gets", [&one] {
    if (get(one.c, "new") == 'n') require(get(one.c, "old") == 0, "what was flushed is gone");
  });
  s.at_end([&one] { require(get(one.c, "new") == 'n', "what comes after stays"); });
}

ESPALIER_SCENE(cache, a_flush_takes_what_comes_from_before, 500, 1, steps_up_to(400'000)) {
  auto& one = s.make<one_cache>();
  store(one.c, "n", 1, 5);
  s.thread("adds one", [&one] { add_one(one.c, "n"); });
  s.thread("flushes", [&one] {
    one.c.flush();
    require(get(one.c, "n") <= 1, "a value from before a flush outlives it");
  });
  s.at_end([&one] { require(get(one.c, "n") <= 1, "a value from before a flush outlives it"); });
}

ESPALIER_SCENE(cache, the_later_flush_counts, 500, 1, steps_up_to(400'000)) {
  auto& one = s.make<one_cache>();
  s.thread("flushes", [&one] { one.c.flush(); });
  s.thread("flushes what it stored", [&one] {
    store(one.c, "k", 20, 'a');
    one.c.flush();
    require(get(one.c, "k") == 0, "what was flushed is gone");
  });
  s.at_end([&one] { require(get(one.c, "k") == 0, "what was flushed does not come back"); });
}

ESPALIER_SCENE(cache, entries_end, 500, 1, steps_up_to(400'000)) {
  auto& one = s.make<one_cache>();
  s.thread("one", [&one] {
    const auto amend = [&one](const cache_change& how) {
      bool there = false;
      one.c.change(
          byte_cache::hashed("k"),
          [&](const cache_entry* now) {
            there = now != nullptr;
            cache_change change = how;
            change.what = there ? kind::amend : kind::keep;
            return change;
          },
          [](char*, const cache_entry*) {});
      return there;
    };
    cache_change how;
    how.expires = 5;
    store(one.c, "k", 20, 'k');
    require(amend(how), "the entry is written again, with an end");
    how.expires = 9;
    require(amend(how), "the end moves");
    one.clock = 8;
    require(get(one.c, "k") == 'k', "it has not ended");
    one.clock = 9;
    require(get(one.c, "k") == 0, "it has ended");
    require(!amend(how), "it has ended for changes too");
    require(one.c.statistics().entries == 0, "a change takes what has ended");
  });
}

ESPALIER_SCENE(cache, large_values_come_and_go, alone()) {
  auto& one = s.make<one_cache>();
  s.thread("one", [&one] {
    store(one.c, "kept", 20, 'k');
    for (int i = 0; i < 20; ++i) {
      require(store(one.c, "k", 400'000, 'l').outcome == cache_outcome::done, "there is room for two");
      if (i % 3 == 0) erase(one.c, "k");
    }
    require(store(one.c, "k", smallest / 2, 'x').outcome == cache_outcome::too_large, "the key counts too");
    require(get(one.c, "kept") == 'k' && get(one.c, "k") == 'l', "what is there stays");
    require(one.c.statistics().evictions == 0, "what was overwritten makes room");
    for (char i = 'A'; i < 'M'; ++i) {
      require(store(one.c, std::string(1, i), 200'000, i).outcome == cache_outcome::done, "there is room");
      require(get(one.c, std::string(1, i)) == i, "what is new is there");
    }
    std::uint64_t there = 0;
    one.c.for_each([&there](std::string_view key, const cache_entry& e) {
      require(e.value.front() == (key == "kept" ? 'k'
                                  : key == "k"  ? 'l'
                                                : key.front()),
              "values are those of their keys");
      ++there;
    });
    require(there == one.c.statistics().entries, "what is counted is there");
    require(one.c.statistics().evictions != 0, "the oldest make room");
    require(one.c.statistics().used_bytes <= smallest + 16 * 1024, "the limit holds");
  });
}

/// One that evicts nothing.
struct keeping_cache {
  std::atomic<std::uint32_t> clock{1};
  byte_cache c{{.memory_limit = smallest, .largest_entry = smallest / 2, .evicts = false, .clock = &clock}};
};

ESPALIER_SCENE(cache, what_is_held_or_received_stays, alone()) {
  auto& one = s.make<one_cache>();
  s.thread("one", [&one] {
    constexpr std::size_t bytes = 100'000;
    const auto fill = [&one] {
      for (char i = 'A'; i < 'Q'; ++i)
        require(store(one.c, std::string(1, i), bytes, i).outcome == cache_outcome::done, "there is room");
    };
    for (int round = 0; round < 20; ++round) {
      require(store(one.c, "k", bytes, 'k').outcome == cache_outcome::done, "there is room");
      byte_cache::hold held;
      std::string_view value;
      one.c.get("k", [&](const cache_entry& e) {
        held = one.c.hold_value(e);
        value = e.value;
      });
      store(one.c, "k", bytes, 'n');
      if (round % 8 == 0) fill();
      require(value.front() == 'k' && value.back() == 'k', "what is held stays");
    }
    for (int round = 0; round < 3; ++round) {
      std::vector<byte_cache::incoming> coming;
      for (auto next = one.c.receive(1, bytes); next; next = one.c.receive(1, bytes)) {
        std::memset(next.value(), 'r', bytes);
        coming.push_back(std::move(next));
      }
      require(coming.size() == smallest / 2 / bytes, "half of the memory is for what comes");
      for (char i = 'A'; i < 'H'; ++i) store(one.c, std::string(1, i), bytes, i);
      for (const auto& c : coming)
        require(c.value()[0] == 'r' && c.value()[bytes - 1] == 'r', "what is received is no entry's");
    }
    for (char i = 'A'; i < 'M'; ++i) {
      byte_cache::incoming value = one.c.receive(1, bytes);
      require(static_cast<bool>(value), "what has come leaves room for the next");
      std::memset(value.value(), i, bytes);
      one.c.change(
          byte_cache::hashed(std::string(1, i)),
          [i](const cache_entry*) {
            cache_change change;
            change.what = kind::store;
            change.flags = static_cast<unsigned char>(i);
            return change;
          },
          value);
      require(get(one.c, std::string(1, i)) == i, "what was received is the value");
    }
    fill();
    require(one.c.statistics().used_bytes <= smallest + 16 * 1024, "the limit holds");
  });
}

ESPALIER_SCENE(cache, without_evictions_all_stay, alone()) {
  auto& all = s.make<keeping_cache>();
  s.thread("one", [&all] {
    const auto fill = [&all](const std::string& prefix) {
      int stored = 0;
      // Of three lifetimes, so that segments of each are open.
      while (store(all.c, prefix + std::to_string(stored), 7'900, 'v',
                   110 + static_cast<std::uint32_t>(stored) % 3 * 10'000)
                 .outcome == cache_outcome::done)
        ++stored;
      return stored;
    };
    const int stored = fill("k");
    for (int i = 0; i < stored; ++i)
      require(get(all.c, "k" + std::to_string(i)) == 'v', "nothing is evicted");
    for (int i = 0; i < stored; ++i) {
      if (i % 4 != 0) erase(all.c, "k" + std::to_string(i));
    }
    require(fill("n") >= stored / 2, "holes make room");
    for (int i = 0; i < stored; i += 4)
      require(get(all.c, "k" + std::to_string(i)) == 'v', "nothing is evicted");
    for (int round = 0; round < 2; ++round) {
      all.c.flush();
      all.clock = 2;
      require(fill("f") == stored, "what was flushed makes room");
      require(get(all.c, "k0") == 0, "what was flushed is gone");
    }
    for (int i = 0; i < stored; ++i) erase(all.c, "f" + std::to_string(i));
    require(fill("f") == stored, "what was erased makes room");
  });
}

ESPALIER_SCENE(cache, what_has_ended_goes_first, alone()) {
  auto& one = s.make<one_cache>();
  s.thread("one", [&one] {
    const auto fill = [&one](const std::string& prefix, int many, std::uint32_t expires) {
      for (int i = 0; i < many; ++i) store(one.c, prefix + std::to_string(i), 7'900, 'v', expires);
    };
    fill("kept", 40, cache_entry::never);
    fill("short", 60, 5);
    one.clock = 5;
    fill("new", 60, cache_entry::never);
    require(one.c.statistics().evictions == 0, "what has ended makes room");
  });
}

ESPALIER_SCENE(cache, what_is_being_filled_stays, alone()) {
  auto& one = s.make<one_cache>();
  s.thread("one", [&one] {
    // Alone in a segment for short lives, which is the oldest one and stays open.
    store(one.c, "slow", 20, 's', 30);
    for (int i = 0; i < 250; ++i) store(one.c, std::to_string(i), 7'900, 'v');
    require(one.c.statistics().evictions > 60, "others make room");
    require(get(one.c, "slow") == 's', "what is being filled stays");
  });
}

ESPALIER_SCENE(cache, what_has_ended_leaves_room, alone()) {
  auto& all = s.make<keeping_cache>();
  s.thread("one", [&all] {
    const auto fill = [&all](const std::string& prefix, std::uint32_t expires) {
      int stored = 0;
      while (store(all.c, prefix + std::to_string(stored), 7'900, 'v', expires).outcome ==
             cache_outcome::done)
        require(++stored < 1000, "a full cache refuses");
      return stored;
    };
    const int stored = fill("t", 5);
    for (int i = 0; i < stored; ++i) touch(all.c, "t" + std::to_string(i), 10);
    all.clock = 5;
    require(fill("x", 60) == 0 && get(all.c, "t0") == 'v', "a touch prolongs a life");
    all.clock = 10;
    const int kept = fill("k", 50);
    require(kept >= stored - 4, "what ends after a first look makes room too");
    // Not from the beginning: segments end here and there.
    for (int i = 0; i < kept; ++i) {
      if (i % 4 != 0) touch(all.c, "k" + std::to_string(i), 15);
    }
    all.clock = 15;
    require(fill("m", 60) >= stored / 2, "what has ended by a touch makes room");
    for (int i = 0; i < kept; i += 4)
      require(get(all.c, "k" + std::to_string(i)) == 'v', "what has not ended is there");
    all.clock = 50;
    require(fill("n", 60) >= stored / 8, "what ends later makes room later");
    all.clock = 60;
    all.c.reclaim_ended();
    require(all.c.statistics().entries == 0, "what has ended leaves the counts");
  });
}

ESPALIER_SCENE(cache, sizes_take_each_others_memory, alone()) {
  auto& all = s.make<keeping_cache>();
  s.thread("one", [&all] {
    const auto fill = [&all](std::size_t bytes, std::uint32_t end = cache_entry::never) {
      int stored = 0;
      while (store(all.c, std::to_string(stored), bytes, 'v', end).outcome == cache_outcome::done) ++stored;
      return stored;
    };
    for (const std::size_t bytes : {30'000U, 400'000U, 7'900U, 90'000U, 7'900U}) {
      const int stored = fill(bytes);
      require(static_cast<std::size_t>(stored) * bytes >= smallest / 4 * 3,
              "what is free is used, whatever it was");
      for (int i = 0; i < stored; ++i) erase(all.c, std::to_string(i));
    }
    const int large = fill(90'000, 5);
    all.clock = 5;
    require(fill(90'000) == large, "what has ended makes room");
  });
}

/// Its keys are numbers.
struct full_of_numbers : keeping_cache {
  /// Returns how many there was room for.
  int fill(std::size_t bytes) {
    const int before = next;
    while (store(c, std::to_string(next), bytes, 'v').outcome == cache_outcome::done) ++next;
    return next - before;
  }
  template <class Goes>
  void erase_if(Goes&& goes) {
    for (int i = 0; i < next; ++i)
      if (goes(i)) sim::erase(c, std::to_string(i));
  }
  [[nodiscard]] std::uint64_t count() { return c.statistics().entries; }

  int next = 0;
};

struct crowded_cache : full_of_numbers {
  crowded_cache() {
    fill(250);
    first = count();
    erase_if([](int) { return true; });
    fill(250);
    second = count();
    erase_if([](int i) { return i % 2 == 0; });
    fill(250);
    third = count();
  }
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t third = 0;
};

ESPALIER_SCENE(cache, what_was_erased_leaves_room, alone()) {
  auto& crowded = s.make<crowded_cache>();
  s.thread("one", [&crowded] {
    require(crowded.second >= crowded.first * 9 / 10, "what was erased makes room");
    require(crowded.third >= crowded.first * 9 / 10, "what was erased here and there makes room");
  });
}

/// Many small entries after few large ones, of which some stay: the table grows beyond what the limit has left.
struct refilled_cache : full_of_numbers {
  refilled_cache() {
    large = fill(1000);
    erase_if([](int i) { return i % 8 != 0; });
    small = fill(1);
  }
  int large = 0;
  int small = 0;
};

ESPALIER_SCENE(cache, copies_beyond_the_limit, alone()) {
  auto& refilled = s.make<refilled_cache>();
  s.thread("one", [&refilled] {
    require(refilled.small >= refilled.large * 10, "what was erased makes room for small entries");
  });
}

/// An entry of the main queue that three gets have asked for, and then none, while all others are asked for once.
struct aged_cache : one_cache {
  aged_cache() {
    store(c, "hot", 7'900, 'h');
    static_cast<void>(sim::get(c, "hot"));
    fill(130);
    for (int i = 0; i < 3; ++i) static_cast<void>(sim::get(c, "hot"));
    fill(250);  // it has been passed over twice
    is_hot = c.get("hot", [](const cache_entry&) {}, byte_cache::access::peek);
    fill(200);
  }
  void fill(int many) {
    for (int i = 0; i < many; ++i, ++next) {
      store(c, std::to_string(next), 7'900, 'v');
      static_cast<void>(sim::get(c, std::to_string(next)));
    }
  }
  int next = 0;
  bool is_hot = false;
};

ESPALIER_SCENE(cache, what_no_get_asks_for_goes_in_the_end, alone()) {
  auto& aged = s.make<aged_cache>();
  s.thread("one", [&aged] {
    require(aged.is_hot, "what gets ask for stays");
    require(get(aged.c, "hot") == 0, "what they asked for long ago goes");
  });
}

/// A key that comes back soon after it was evicted, and one that comes for the first time.
struct returned_cache : one_cache {
  returned_cache() {
    int next = 0;
    const auto fill = [&](int many) {
      for (const int end = next + many; next < end; ++next) store(c, std::to_string(next), 7'900, 'v');
    };
    store(c, "returns", 7'900, 'r');
    while (c.get("returns", [](const cache_entry&) {}, byte_cache::access::peek)) fill(1);
    store(c, "returns", 7'900, 'r');
    store(c, "comes", 7'900, 'c');
    fill(200);
  }
};

ESPALIER_SCENE(cache, what_returns_stays, alone()) {
  auto& returned = s.make<returned_cache>();
  s.thread("one", [&returned] {
    require(get(returned.c, "comes") == 0, "what is new and not asked for goes first");
    require(get(returned.c, "returns") == 'r', "what was evicted lately is proven");
  });
}

/// Nearly full of large values, so that a few more evict.
struct full_cache : one_cache {
  static constexpr std::size_t bytes = 7'900;
  static std::string key(int i) { return std::to_string(i); }

  full_cache() {
    for (int i = 0; c.statistics().evictions == 0; ++i) {
      store(c, key(i), bytes, 'v');
      for (int hot = 0; hot < 12; ++hot) static_cast<void>(get(c, key(hot)));
    }
  }
};

ESPALIER_SCENE(cache, evictions_keep_what_they_move, 60, 1, steps_up_to(400'000)) {
  auto& full = s.make<full_cache>();
  s.thread("evicts", [&full] {
    for (int i = 0; i < 9; ++i)
      require(store(full.c, "e" + full_cache::key(i), full_cache::bytes, 'e').outcome == cache_outcome::done,
              "there is room");
  });
  s.thread("changes", [&full] {
    store(full.c, "1", full_cache::bytes, 'w');
    erase(full.c, "2");
    require(get(full.c, "2") == 0, "what was erased does not come back");
  });
  s.thread("gets", [&full] {
    for (const char* const key : {"0", "1", "2", "0"}) {
      const char seen = get(full.c, key);
      require(seen == 'v' || *key != '0', "what is asked for stays");
      require(seen != 'e', "a reader sees another key's value");
    }
  });
  s.at_end([&full] {
    require(get(full.c, "2") == 0, "what was erased does not come back");
    require(get(full.c, "1") != 'v', "an older value comes back");
    require(full.c.statistics().used_bytes <= smallest + 16 * 1024, "the limit holds");
  });
}

ESPALIER_SCENE(cache, a_flush_outlives_evictions, 60, 1, steps_up_to(400'000)) {
  auto& full = s.make<full_cache>();
  s.thread("flushes", [&full] {
    const std::uint64_t before = full.c.statistics().evictions;
    full.c.flush();
    for (std::uint32_t i = 0; i < 12; ++i) {
      full.clock = 2 + i;
      store(full.c, "n" + full_cache::key(static_cast<int>(i)), full_cache::bytes, 'n');
      for (int old = 0; old < 100; old += 7)
        require(get(full.c, full_cache::key(old)) == 0, "what was flushed is gone");
    }
    require(full.c.statistics().evictions == before, "what was flushed makes room");
  });
}

ESPALIER_SCENE(cache, changes_outlive_evictions, 60, 1, steps_up_to(400'000)) {
  auto& full = s.make<full_cache>();
  s.thread("evicts", [&full] {
    for (int i = 0; i < 9; ++i) store(full.c, "e" + full_cache::key(i), full_cache::bytes, 'e');
  });
  s.thread("changes", [&full] {
    for (int i = 3; i < 12; ++i) {
      store(full.c, full_cache::key(i), 20, 'w');
      require(get(full.c, full_cache::key(i)) != 'v', "an older value comes back");
    }
  });
  s.at_end([&full] {
    for (int i = 3; i < 12; ++i) require(get(full.c, full_cache::key(i)) != 'v', "an older value comes back");
  });
}

ESPALIER_SCENE(cache, two_evict, 60, 1, steps_up_to(400'000)) {
  auto& full = s.make<full_cache>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&full, name] {
      for (int i = 0; i < 5; ++i)
        require(
            store(full.c, name + full_cache::key(i), full_cache::bytes, *name).outcome == cache_outcome::done,
            "there is room");
    });
  }
  s.at_end([&full] {
    std::uint64_t there = 0;
    full.c.for_each([&](std::string_view, const cache_entry&) { ++there; });
    require(there == full.c.statistics().entries, "what is counted is there");
  });
}

ESPALIER_SCENE(cache, room_that_was_not_used_is_counted_once, 60, 1, steps_up_to(400'000)) {
  auto& full = s.make<full_cache>();
  s.thread("throws", [&full] {
    for (int i = 0; i < 8; ++i) {
      try {
        full.c.change(
            byte_cache::hashed("t"),
            [](const cache_entry*) {
              cache_change change;
              change.what = kind::store;
              change.value_bytes = full_cache::bytes;
              return change;
            },
            [](char*, const cache_entry*) { throw 1; });
      } catch (int) {
      }
    }
  });
  s.thread("evicts", [&full] {
    for (int i = 0; i < 20; ++i) store(full.c, "e", full_cache::bytes, 'e');
  });
  s.at_end([&full] {
    std::vector<std::string> keys;
    full.c.for_each([&keys](std::string_view key, const cache_entry&) { keys.emplace_back(key); });
    for (const std::string& key : keys) erase(full.c, key);
    require(full.c.statistics().entry_bytes == 0, "what is gone is counted");
  });
}

}  // namespace
}  // namespace espalier::sim
