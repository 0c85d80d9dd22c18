// Threads do random operations on the same few keys. What linearizability per key promises is checked while
// they run and afterwards.
//
// Every value that is written names its key, its writer, and the number of that writer's write (its nonce,
// which ascends). Hence:
//   * A value found under a key names that key, and a write that has been begun.
//   * Reads of one key by one thread never go backwards among one writer's values. The writes of one thread
//     take effect in the order in which it did them, and so do the reads of another. Once a read has returned
//     nonce n, the writer's earlier values have been overwritten or erased for good; every later read takes
//     effect later. That includes scans, each of whose visits returns a value that the key had at some moment
//     during the scan, and failed inserts, which write nothing.
//   * exchange, extract and update return the value that they replace or remove. It is gone: no two of them, in
//     all threads together, return the same value, and the thread that removed it does not see it again.
//   * For each key, the writes that reported it new, less the erases that reported it present, leave 1 if it is
//     there in the end and 0 otherwise, whatever the schedule.
//   * A value there in the end is its writer's last successful write of that key.

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <latch>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "espalier/measure/random.hpp"
#include "support/codec.hpp"
#include "support/environment.hpp"
#include "support/every_entry.hpp"
#include "support/model.hpp"
#include "support/on_threads.hpp"
#include "support/suite.hpp"
#include "support/watchdog.hpp"

namespace espalier::test {
namespace {

void rest(long nanoseconds) noexcept {
  const timespec time{0, nanoseconds};
  nanosleep(&time, nullptr);
}

void install_handler() {
  struct sigaction action{};
  action.sa_handler = [](int) {
    const int saved = errno;
    rest(50'000);
    errno = saved;
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

/// Stops threads for a moment, repeatedly, at any point. With few processors a schedule in which one thread stops in
/// the middle of an operation while others continue is otherwise rare. It uses signals with a handler that sleeps.
/// ThreadSanitizer delivers signals only at system calls, so there it has little effect.
///
/// Destroy it before the threads are joined; the threads may have ended by then.
class interruptions {
 public:
  explicit interruptions(std::span<std::thread> threads) {
    install_handler();
    thread_ = std::thread([this, threads] {
      measure::random_generator random(5005);
      while (!end_.load(std::memory_order_relaxed)) {
        pthread_kill(threads[random.below(threads.size())].native_handle(), SIGUSR1);
        rest(static_cast<long>(random.below(60'000)));
      }
    });
  }
  interruptions(const interruptions&) = delete;
  interruptions& operator=(const interruptions&) = delete;
  ~interruptions() {
    end_.store(true, std::memory_order_relaxed);
    thread_.join();
  }

 private:
  std::atomic<bool> end_{false};
  std::thread thread_;
};

struct written {
  std::uint64_t key;     // 16 bits of the value
  std::uint64_t writer;  // 8
  std::uint64_t nonce;   // 40
};

value encode(const written& w) { return w.key << 48U | w.writer << 40U | w.nonce; }
written decode(value v) { return {v >> 48U, v >> 40U & 0xffU, v & ((std::uint64_t{1} << 40U) - 1)}; }

struct settings {
  std::size_t threads;
  key keys;
  std::uint64_t operations_each;
  bool interrupted = false;
};

/// Relative frequencies; each thread of a run takes the next of these.
struct mix {
  std::array<unsigned, map_operations.size()> frequency;  // in the order of map_operations
  bool guarded;                                           // several operations to a guard
};
// find, contains, insert, insert_or_assign, erase, exchange, extract, update, scan
constexpr mix mixes[] = {
    {{10, 5, 40, 0, 40, 0, 10, 10, 1}, false},
    {{10, 5, 20, 25, 40, 20, 0, 20, 1}, true},
    {{40, 10, 15, 15, 20, 10, 10, 10, 2}, false},
    {{10, 0, 5, 60, 25, 10, 10, 5, 1}, true},
};

/// Any of the map's operations, each as often as the others.
map_operation any_operation(const subject_type& type, random_source& random) {
  for (;;) {
    const map_operation what = map_operations[random.below(map_operations.size())];
    if (has(type, what)) return what;
  }
}

/// Whether it is gone from the map when an operation returns it.
enum class fate : std::uint8_t { stays, gone };

class worker {
 public:
  worker(const subject_type& type, const settings& s, std::size_t number, watchdog& dog)
      : balance(s.keys, 0),
        last_write(s.keys, 0),
        settings_(s),
        number_(number),
        mix_(mixes[number % std::size(mixes)]),
        random_(1001, number),
        seen_(s.keys * s.threads, 0),
        dog_(dog) {
    for (const map_operation what : map_operations) {
      if (!has(type, what)) frequency(what) = 0;
    }
  }

  void run(subject& map) {
    const std::uint64_t burst = mix_.guarded ? 16 : 256;
    for (std::uint64_t done = 0; done < settings_.operations_each && wrong.empty(); done += burst) {
      const auto some = [&](operations& with) {
        for (std::uint64_t i = 0; i < burst && wrong.empty(); ++i) step(with);
      };
      if (mix_.guarded) {
        map.with_guard(some);
      } else {
        some(map.plain());
      }
    }
    dog_.done(number_);
  }

  // Read by the others once this one has ended.
  std::vector<std::int64_t> balance;      // per key: reported new, less reported erased
  std::vector<std::uint64_t> last_write;  // per key: nonce of the last write that took effect, or 0
  std::vector<value> gone;                // the first values that this one replaced or removed
  std::string wrong;                      // the first thing that went wrong

 private:
  static constexpr std::size_t most_gone = 1U << 20U;

  unsigned& frequency(map_operation what) { return mix_.frequency[static_cast<std::size_t>(what)]; }

  map_operation choose() {
    unsigned sum = 0;
    for (const map_operation what : map_operations) sum += frequency(what);
    auto draw = static_cast<unsigned>(random_.below(sum));
    for (const map_operation what : map_operations) {
      if (draw < frequency(what)) return what;
      draw -= frequency(what);
    }
    return map_operation::find;
  }

  void step(operations& with) {
    const map_operation what = choose();
    const key k = random_.below(settings_.keys);
    dog_.begin(number_, what, k);
    switch (what) {
      case map_operation::find:
        if (random_.below(4) == 0)
          find_batch(with, k);
        else if (const std::optional<value> v = with.find(k))
          saw(k, *v);
        break;
      case map_operation::contains:
        static_cast<void>(with.contains(k));
        break;
      case map_operation::insert:
        if (with.insert(k, next_value(k))) {
          last_write[k] = nonce_;
          ++balance[k];
        }
        break;
      case map_operation::insert_or_assign:
        if (with.insert_or_assign(k, next_value(k))) ++balance[k];
        last_write[k] = nonce_;
        break;
      case map_operation::erase:
        if (with.erase(k)) --balance[k];
        break;
      case map_operation::exchange:
        replaced(k, with.exchange(k, next_value(k)), true);
        break;
      case map_operation::extract:
        replaced(k, with.extract(k), false);
        break;
      case map_operation::update:
        update(with, k);
        break;
      case map_operation::scan:
        scan(with, k);
        break;
      case map_operation::reverse_scan:
        break;
    }
  }

  /// Of some keys from that one on, one after the other, as the batch finds them.
  void find_batch(operations& with, key k) {
    std::array<key, 5> keys;
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = (k + i) % settings_.keys;
    std::array<std::optional<value>, keys.size()> found;
    std::size_t present = with.find_batch(keys, found);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!found[i]) continue;
      saw(keys[i], *found[i]);
      --present;
    }
    if (present != 0) fail("a batch has found another number of keys than it says");
  }

  /// An update that stores always, toggles presence, or stores only where there is a value.
  void update(operations& with, key k) {
    const std::uint64_t kind = random_.below(3);
    const value mine = next_value(k);
    std::optional<value> computed_from;
    bool stored = false;
    const std::optional<value> before = with.update(k, [&](std::optional<value> now) -> std::optional<value> {
      computed_from = now;
      stored = kind == 0 || (kind == 1) != now.has_value();
      return stored ? std::optional(mine) : std::nullopt;
    });
    if (before != computed_from)
      fail("an update of key " + std::to_string(k) + " returns another value than the one that it replaced");
    replaced(k, before, stored);
  }

  /// After an operation of this thread that had `before` and left its own value, or none.
  void replaced(key k, std::optional<value> before, bool stored) {
    if (stored) last_write[k] = nonce_;
    balance[k] += (stored ? 1 : 0) - (before ? 1 : 0);
    if (!before) return;
    saw(k, *before, fate::gone);
    if (gone.size() < most_gone) gone.push_back(*before);
  }

  void scan(operations& with, key from) {
    const bool bounded = random_.below(2) == 0;
    const key to = bounded ? random_.below(settings_.keys) + 1 : settings_.keys;
    std::optional<key> last;
    std::uint64_t left = 40;
    const auto visit = [&](key k, value v) {
      if (k < from || k >= to || (last && *last >= k)) {
        fail("a scan from " + std::to_string(from) + " to " + std::to_string(to) + " visits " +
             std::to_string(k) + " after " + (last ? std::to_string(*last) : "nothing"));
        return false;
      }
      last = k;
      saw(k, v);
      return --left != 0 && wrong.empty();
    };
    if (bounded) {
      with.scan(from, to, visit);
    } else {
      with.scan(from, visit);
    }
  }

  value next_value(key k) { return encode({k, number_, ++nonce_}); }

  void saw(key k, value v, fate then = fate::stays) {
    const written w = decode(v);
    if (w.key != k || w.writer >= settings_.threads || w.nonce == 0) {
      fail("key " + std::to_string(k) + " has a value that no thread wrote there: " + std::to_string(v));
      return;
    }
    std::uint64_t& latest = seen_[k * settings_.threads + w.writer];
    if (2 * w.nonce < latest) {
      fail("key " + std::to_string(k) + ": write " + std::to_string(w.nonce) + " of thread " +
           std::to_string(w.writer) + " was seen after its write " + std::to_string(latest / 2) +
           (latest % 2 == 0 ? "" : ", which was gone"));
    }
    latest = 2 * w.nonce + (then == fate::gone ? 1 : 0);
  }

  void fail(std::string what) {
    if (wrong.empty()) wrong = std::move(what);
  }

  const settings& settings_;
  const std::size_t number_;
  mix mix_;
  random_source random_;
  std::uint64_t nonce_ = 0;
  std::vector<std::uint64_t>
      seen_;  // per key and writer: the latest nonce seen, twice, plus 1 if it was gone then
  watchdog& dog_;
};

/// So many in this kind of build, times ESPALIER_STRESS_SCALE; a quarter of that for what differs from an algorithm's
/// default in a policy or in its values.
std::uint64_t scaled(const subject_type& type, std::uint64_t operations) {
  // ThreadSanitizer sees a race whether or not it does harm.
  double scale = thread_sanitizer ? 0.05 : instrumented ? 0.2 : 1.0;
  if (!type.variant.empty() || !type.codec.empty()) scale /= 4;
  const double wished = environment_number("ESPALIER_STRESS_SCALE", 1.0);
  // With fewer processors than threads a fair lock is mostly handed to a thread that is not running, at the
  // price of a turn of the scheduler: beside other programs, minutes for what takes milliseconds alone.
  scale *= type.queues ? std::min(wished, 1.0) / 40 : wished;
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(static_cast<double>(operations) * scale), 256);
}

void expect_conserved(operations& map, const settings& s, const std::vector<worker>& workers) {
  std::vector<value> gone;
  for (const worker& w : workers) gone.insert(gone.end(), w.gone.begin(), w.gone.end());
  std::sort(gone.begin(), gone.end());
  const auto twice = std::adjacent_find(gone.begin(), gone.end());
  EXPECT_TRUE(twice == gone.end()) << "write " << decode(*twice).nonce << " of thread "
                                   << decode(*twice).writer << " to key " << decode(*twice).key
                                   << " was removed twice";
  std::size_t present = 0;
  for (key k = 0; k < s.keys; ++k) {
    std::int64_t left = 0;
    for (const worker& w : workers) left += w.balance[k];
    const std::optional<value> there = map.find(k);
    EXPECT_EQ(left, there ? 1 : 0) << "conservation of key " << k;
    if (!there) continue;
    ++present;
    EXPECT_FALSE(std::binary_search(gone.begin(), gone.end(), *there))
        << "key " << k << " was left with a value that was removed";
    const written last = decode(*there);
    ASSERT_EQ(last.key, k) << "the value left under key " << k;
    ASSERT_LT(last.writer, s.threads) << "the value left under key " << k;
    EXPECT_EQ(last.nonce, workers[last.writer].last_write[k])
        << "key " << k << " was left with a value that its writer has overwritten";
  }
  EXPECT_EQ(map.size(), present);
}

/// Calls work(t) in so many threads, which are interrupted if that is asked for.
template <class Work>
void run_threads(std::size_t count, bool interrupted, const Work& work) {
  std::barrier start(static_cast<std::ptrdiff_t>(count));
  std::latch finished(static_cast<std::ptrdiff_t>(count));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      work(t);
      finished.count_down();
    });
  }
  {
    std::optional<interruptions> disturb;
    if (interrupted) disturb.emplace(threads);
    finished.wait();
  }
  for (std::thread& t : threads) t.join();
}

void stress(const subject_type& type, settings s) {
  s.operations_each = scaled(type, s.operations_each);
  const auto map = make(type);
  {
    watchdog dog(type, *map);
    std::vector<worker> workers;
    workers.reserve(s.threads);
    for (std::size_t t = 0; t < s.threads; ++t) workers.emplace_back(type, s, t, dog);
    run_threads(s.threads, s.interrupted, [&](std::size_t t) { workers[t].run(*map); });
    for (const worker& w : workers) {
      EXPECT_EQ(w.wrong, "");
    }
    expect_conserved(map->plain(), s, workers);
  }
  expect_sound_at_rest(*map, type);
  for (key k = 0; k < s.keys; ++k) map->plain().erase(k);
  expect_equal(map->plain(), {}, key_range(0, s.keys));
  expect_sound_at_rest(*map, type);
  expect_emptied(*map, type);
}

/// Each thread has keys of its own, neighbours of the others' in the tree, and so knows every outcome. With `in_turns` it
/// inserts most of its keys and erases them again, so that nodes come and go.
void own_keys(const subject_type& type, key keys_each, bool in_turns) {
  constexpr std::size_t count = 4;
  const std::uint64_t steps = scaled(type, 40000);
  const auto map = make(type);
  watchdog dog(type, *map);
  std::vector<model> expected(count);
  std::vector<std::string> wrong(count);
  on_threads(static_cast<int>(count), [&](int number) {
    const auto t = static_cast<std::size_t>(number);
    random_source random(2002, t);
    model& mine = expected[t];
    const auto note = [&](std::string_view what, key k) {
      wrong[t] = std::string(what) + " of the own key " + std::to_string(k) + " went wrong";
    };
    for (std::uint64_t i = 0; i < steps && wrong[t].empty(); ++i) {
      const key k = random.below(keys_each) * count + t;
      map_operation what = any_operation(type, random);
      if (in_turns && random.below(4) != 0)
        what = i / (2 * keys_each) % 2 == 0 ? map_operation::insert : map_operation::erase;
      dog.begin(t, what, k);
      bool right = true;
      if (what == map_operation::scan) {
        auto next = mine.lower_bound(k);
        map->plain().scan_to_end(k, [&](key seen, value with) {
          if (seen % count != t) return;
          right = right && next != mine.end() && next->first == seen && next->second == with;
          if (next != mine.end()) ++next;
        });
        right = right && next == mine.end();
      } else {
        const step a{what, k, random.next()};
        right = act(map->plain(), a) == act(mine, a);
      }
      if (!right) note(to_string(what), k);
    }
    dog.done(t);
  });
  model all;
  for (std::size_t t = 0; t < count; ++t) {
    EXPECT_EQ(wrong[t], "");
    all.merge(expected[t]);
  }
  expect_equal(map->plain(), all, key_range(0, keys_each * count));
  expect_sound_at_rest(*map, type);
}

}  // namespace

ESPALIER_SUITE_TAKES(stress) {
  // An order affects neither memory nor the ordering of accesses.
  return type.properties.reads_beside_writers && (!every_entry || type.codec != folded_suffix);
}

ESPALIER_CHECK(stress, one_key) { stress(type, {4, 1, 120000}); }
ESPALIER_CHECK(stress, two_keys) { stress(type, {4, 2, 160000}); }
ESPALIER_CHECK(stress, sixteen_keys) { stress(type, {4, 16, 200000}); }
ESPALIER_CHECK(stress, sixty_four_keys) { stress(type, {4, 64, 200000}); }
ESPALIER_CHECK(stress, thousand_keys) { stress(type, {4, 1024, 120000}); }
ESPALIER_CHECK(stress, eight_threads) { stress(type, {8, 8, 60000}); }

ESPALIER_CHECK(stress, two_keys_interrupted) { stress(type, {4, 2, 100000, true}); }
ESPALIER_CHECK(stress, five_keys_interrupted) { stress(type, {4, 5, 100000, true}); }
ESPALIER_CHECK(stress, sixteen_keys_interrupted) { stress(type, {4, 16, 100000, true}); }

ESPALIER_CHECK(stress, keys_that_stay) {
  // Odd keys are there from the beginning and only assigned to; no operation may find one absent, whatever
  // happens to the even keys around them.
  constexpr std::size_t count = 4;
  constexpr key keys = 32;
  const std::uint64_t steps = scaled(type, 100000);
  const auto map = make(type);
  for (key i = 0; i < keys; ++i) {
    const key k = i * 13 % keys;
    if (k % 2 == 1) map->plain().insert(k, k);
  }
  watchdog dog(type, *map);
  std::vector<std::string> wrong(count);
  on_threads(static_cast<int>(count), [&](int number) {
    const auto t = static_cast<std::size_t>(number);
    random_source random(2003, t);
    operations& with = map->plain();
    for (std::uint64_t i = 0; i < steps && wrong[t].empty(); ++i) {
      const key k = random.below(keys);
      const bool stays = k % 2 == 1;
      const value v = i * keys + k;
      const map_operation what = any_operation(type, random);
      dog.begin(t, what, k);
      bool there = true;
      if (what == map_operation::scan) {
        key next = k | 1U;
        with.scan_to_end(k, [&](key seen, value found) {
          there = there && seen <= next && found % keys == seen;
          if (seen == next) next += 2;
        });
        there = there && next == keys + 1;
        if (!there) wrong[t] = "a scan from " + std::to_string(k) + " misses a key that is always there";
      } else if (what == map_operation::contains) {
        std::array<key, 4> together;
        for (std::size_t j = 0; j < together.size(); ++j) together[j] = (k + j) % keys;
        std::array<std::optional<value>, together.size()> found;
        with.find_batch(together, found);
        for (std::size_t j = 0; j < together.size(); ++j) {
          there = found[j] ? *found[j] % keys == together[j] : together[j] % 2 == 0;
          if (!there && wrong[t].empty())
            wrong[t] = "a batch misses key " + std::to_string(together[j]) + " that is always there";
        }
        there = with.contains(k);
      } else if (what == map_operation::update) {
        const auto f = [&](std::optional<value> now) {
          return stays || !now ? std::optional(v) : std::nullopt;
        };
        there = with.update(k, f).has_value();
      } else if (!stays || (what != map_operation::erase && what != map_operation::extract)) {
        const outcome o = act(with, {what, k, v});
        const bool adds = what == map_operation::insert || what == map_operation::insert_or_assign;
        there = o.found || o.changed != adds;
      }
      if (!there && stays && wrong[t].empty())
        wrong[t] =
            std::string(to_string(what)) + " misses key " + std::to_string(k) + " that is always there";
    }
    dog.done(t);
  });
  for (const std::string& w : wrong) EXPECT_EQ(w, "");
  expect_sound_at_rest(*map, type);
}

ESPALIER_CHECK(stress, own_keys_between_others) { own_keys(type, 24, false); }
ESPALIER_CHECK(stress, own_keys_come_and_go) { own_keys(type, 75, true); }

ESPALIER_CHECK(stress, updates_add_up) {
  // Threads add to the values of a few keys, where an absent key counts as 0, and take some of them out. For each key,
  // what was taken out and what is left are what was added, however often an update was begun again.
  if (!type.properties.exchanges) GTEST_SKIP() << "the map does not exchange";
  constexpr std::size_t count = 4;
  constexpr key keys = 3;
  struct given_up {};
  struct sums {
    std::array<value, keys> added{};
    std::array<value, keys> taken{};
  };
  const std::uint64_t steps = scaled(type, 60000);
  const auto map = make(type);
  std::vector<sums> of_thread(count);
  std::vector<std::string> wrong(count);
  {
    watchdog dog(type, *map);
    run_threads(count, true, [&](std::size_t t) {
      random_source random(2004, t);
      sums& mine = of_thread[t];
      const auto step = [&](operations& with) {
        const key k = random.below(keys);
        const value amount = 1 + random.below(1000);
        const std::uint64_t kind = random.below(16);
        if (kind == 0) {
          dog.begin(t, map_operation::extract, k);
          mine.taken[k] += with.extract(k).value_or(0);
        } else if (kind == 1) {
          dog.begin(t, map_operation::exchange, k);
          mine.taken[k] += with.exchange(k, amount).value_or(0);
          mine.added[k] += amount;
        } else {
          // Throws in its first call, in the next one, or later than it is ever asked.
          const std::uint64_t patience = random.below(8);
          std::uint64_t calls = 0;
          std::optional<value> computed_from;
          dog.begin(t, map_operation::update, k);
          try {
            const std::optional<value> before = with.update(k, [&](std::optional<value> now) {
              if (calls++ == patience) throw given_up();
              computed_from = now;
              return now.value_or(0) + amount;
            });
            mine.added[k] += amount;
            if (before != computed_from)
              wrong[t] = "an update of key " + std::to_string(k) + " returns another value than it added to";
          } catch (const given_up&) {  // and has added nothing
          }
        }
      };
      for (std::uint64_t i = 0; i < steps && wrong[t].empty(); i += 16) {
        const auto some = [&](operations& with) {
          for (int j = 0; j < 16; ++j) step(with);
        };
        if (t % 2 == 0) {
          some(map->plain());
        } else {
          map->with_guard(some);
        }
      }
      dog.done(t);
    });
  }
  std::size_t present = 0;
  for (key k = 0; k < keys; ++k) {
    value added = 0;
    value taken = 0;
    for (const sums& s : of_thread) {
      added += s.added[k];
      taken += s.taken[k];
    }
    const std::optional<value> left = map->plain().find(k);
    if (left) ++present;
    EXPECT_EQ(taken + left.value_or(0), added) << "sum of key " << k;
  }
  for (const std::string& w : wrong) EXPECT_EQ(w, "");
  EXPECT_EQ(map->plain().size(), present);
  expect_sound_at_rest(*map, type);
}

}  // namespace espalier::test
