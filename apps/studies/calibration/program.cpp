#include "apps/studies/calibration/program.hpp"

#include <atomic>
#include <new>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "sim/runtime/spend.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace espalier::simulate {
namespace {

using namespace app::calibration;
using catalog::step;

template <class Operate>
void repeat(step_feed& feed, std::uint64_t pause, Operate operate) {
  for (step s{}; feed.next(s);) {
    operate(s);
    if (pause != 0) sim::spend(pause);
  }
}

/// A visitor of the operation: what it does to a word.
template <class With>
void with_operation(operation op, With with) {
  using word = std::atomic<std::uint64_t>;
  // relaxed: what they cost is the same with any order but for a store, which is no atomic instruction so.
  constexpr auto order = std::memory_order_relaxed;
  switch (op) {
    case operation::load:
      return with([](word& w) { static_cast<void>(w.load(order)); });
    case operation::store:
      return with([](word& w) { w.store(1, order); });
    case operation::compare_and_swap:
      return with([](word& w) {
        std::uint64_t expected = 0;
        static_cast<void>(w.compare_exchange_strong(expected, 0, order));
      });
    case operation::fetch_and_add:
      return with([](word& w) { w.fetch_add(1, order); });
    case operation::swap:
      return with([](word& w) { static_cast<void>(w.exchange(1, order)); });
  }
}

class one_line final : public exercised_program {
 public:
  explicit one_line(const exercise& e) : e_(e) {}

  void operate(unsigned /*thread*/, step_feed& feed) override {
    with_operation(e_.op, [&](auto apply) {
      repeat(feed, e_.pause, [&word = word_.value, apply](const step& /*s*/) { apply(word); });
    });
  }
  [[nodiscard]] std::uint64_t sum() const override {
    // relaxed: all threads have ended.
    return e_.op == operation::fetch_and_add ? word_.value.load(std::memory_order_relaxed) : 0;
  }

 private:
  const exercise e_;
  hw::padded<std::atomic<std::uint64_t>> word_;
};

hw::page_run pages_for(const exercise& e, std::uint64_t bytes) {
  return hw::map_pages(bytes, {.huge = true, .numa_node = e.far ? 1U : 0U});
}

/// A line and its neighbour, which a prefetch may bring.
struct alignas(hw::false_sharing_bytes) spot {
  std::atomic<spot*> next{nullptr};
  std::atomic<std::uint64_t> word{0};
};

/// Thread 0 is measured. One or two of the others have used the lines. From one to the next leads a pointer, so that nothing overlaps.
class latency final : public exercised_program {
 public:
  explicit latency(const exercise& e) : e_(e), pages_(pages_for(e, latency_lines * sizeof(spot))) {}

  void settle(unsigned thread) override {
    if (thread != 0) return;
    for (std::uint64_t i = 0; i < latency_lines; ++i) {
      auto* const made = new (first() + i) spot;
      // relaxed: threads begin later.
      made->next.store(first() + (i + 1) % latency_lines, std::memory_order_relaxed);
    }
  }
  void warm_up(unsigned thread, step_feed& /*feed*/) override {
    const bool writes = e_.lines_are == held::modified;
    // What shares a line that thread 0 writes is thread 0, too.
    // Of neighbours of one L2 none is thread 0's; across sockets thread 1 is in the next one.
    const bool owns = thread == (e_.far ? 1U : 2U);
    const bool shares = !writes && (thread == 0 ? e_.op != operation::load : thread == 3 && !e_.far);
    const bool uses = e_.lines_are != held::in_memory && (owns || shares);
    if (!uses) return;
    for_each([writes](spot& at) {
      // relaxed: only one thread writes.
      if (writes) at.word.store(1, std::memory_order_relaxed);
    });
  }
  void operate(unsigned thread, step_feed& /*feed*/) override {
    if (thread != 0) return;
    with_operation(e_.op, [&](auto apply) {
      for_each([apply, op = e_.op](spot& at) {
        // The pointer is what is loaded.
        if (op != operation::load) apply(at.word);
        if (op == operation::store) std::atomic_thread_fence(std::memory_order_seq_cst);
      });
    });
  }

 private:
  [[nodiscard]] spot* first() const { return reinterpret_cast<spot*>(pages_.data()); }
  template <class Visit>
  void for_each(Visit visit) {
    spot* at = first();
    for (std::uint64_t i = 0; i < latency_lines; ++i) {
      visit(*at);
      at = at->next.load(std::memory_order_relaxed);  // relaxed: as above
    }
  }

  const exercise e_;
  hw::page_run pages_;
};

/// Each thread reads a part of its own, which is twice as long as it will need.
class stream final : public exercised_program {
 public:
  stream(const exercise& e, std::uint64_t operations)
      : lines_(2 * operations / e.threads + 1),
        stride_(hw::whole_pages(lines_ * hw::cache_line_bytes)),
        pages_(pages_for(e, stride_ * e.threads)) {}

  void warm_up(unsigned /*thread*/, step_feed& /*feed*/) override {}
  void operate(unsigned thread, step_feed& feed) override {
    const std::byte* const begin = pages_.data() + thread * stride_;
    std::uint64_t line = 0;
    repeat(feed, 0, [=, lines = lines_, &line](const step& /*s*/) {
      const std::byte* const at = begin + line * hw::cache_line_bytes;
      // relaxed: nothing is written.
      static_cast<void>(
          reinterpret_cast<const std::atomic<std::uint64_t>*>(at)->load(std::memory_order_relaxed));
      line = line + 1 == lines ? 0 : line + 1;
    });
  }

 private:
  std::uint64_t lines_;
  std::uint64_t stride_;
  hw::page_run pages_;
};

template <class Lock>
class section final : public exercised_program {
 public:
  explicit section(const exercise& e) : e_(e), locks_(e.places), lines_(e.places * e.lines) {}

  void operate(unsigned /*thread*/, step_feed& feed) override {
    repeat(feed, e_.pause, [locks = locks_.data(), lines = lines_.data(), n = e_.lines](const step& s) {
      const std::uint64_t which = s.key;
      const lock_guard hold(locks[which].value);
      for (std::uint64_t i = 0; i < n; ++i) ++lines[which * n + i].value;
    });
  }
  [[nodiscard]] std::uint64_t sum() const override {
    std::uint64_t all = 0;
    for (const auto& line : lines_) all += line.value;
    return all;
  }

 private:
  const exercise e_;
  std::vector<hw::padded<Lock>> locks_;
  std::vector<hw::padded<std::uint64_t>> lines_;
};

/// Keys of a bucket in a list, in order.
template <class Lock>
class table final : public exercised_program {
  struct entry {
    std::uint64_t key;
    entry* next;
  };
  struct alignas(hw::false_sharing_bytes) bucket {
    Lock lock;
    entry* first = nullptr;
  };

 public:
  explicit table(const exercise& e) : e_(e), buckets_(e.places) {}
  ~table() override {
    for (bucket& b : buckets_)
      while (b.first != nullptr) erase(b, b.first->key);
  }

  /// Every second key, of which each thread brings a part.
  void settle(unsigned thread) override {
    for (std::uint64_t i = thread; i < e_.places * keys_of_bucket / 2; i += e_.threads) {
      const std::uint64_t key = i / e_.places * 2 * e_.places + i % e_.places;
      const lock_guard hold(of(key).lock);
      insert(of(key), key);
    }
  }
  void operate(unsigned /*thread*/, step_feed& feed) override {
    repeat(feed, e_.pause, [this](const step& s) {
      bucket& b = of(s.key);
      const lock_guard hold(b.lock);
      if (s.op == map_operation::insert)
        insert(b, s.key);
      else if (s.op == map_operation::erase)
        erase(b, s.key);
      else
        static_cast<void>(place_of(b, s.key));
    });
  }

 private:
  [[nodiscard]] bucket& of(std::uint64_t key) { return buckets_[key % buckets_.size()]; }
  /// The pointer to the first entry that is not below the key.
  [[nodiscard]] static entry** place_of(bucket& b, std::uint64_t key) {
    entry** at = &b.first;
    while (*at != nullptr && (*at)->key < key) at = &(*at)->next;
    return at;
  }
  static void insert(bucket& b, std::uint64_t key) {
    entry** const at = place_of(b, key);
    if (*at == nullptr || (*at)->key != key) *at = new entry{key, *at};
  }
  static void erase(bucket& b, std::uint64_t key) {
    entry** const at = place_of(b, key);
    if (*at == nullptr || (*at)->key != key) return;
    const entry* const gone = *at;
    *at = gone->next;
    delete gone;
  }

  const exercise e_;
  std::vector<bucket> buckets_;
};

class transaction final : public exercised_program {
 public:
  explicit transaction(const exercise& e) : e_(e), words_(e.places), given_up_(e.threads) {}

  void operate(unsigned thread, step_feed& feed) override {
    std::uint64_t* const word = &words_[thread % e_.places].value;
    std::uint64_t& without = given_up_[thread].value;
    repeat(feed, e_.pause, [word, &without](const step& /*s*/) {
      for (unsigned i = 0; i < most_attempts; ++i)
        if (sim::simulated_htm::run([word]() noexcept { ++*word; }).committed) return;
      ++without;
      // relaxed: only the sum counts.
      std::atomic_ref<std::uint64_t>(*word).fetch_add(1, std::memory_order_relaxed);
    });
  }
  [[nodiscard]] std::uint64_t sum() const override { return total(words_); }
  [[nodiscard]] std::uint64_t given_up() const override { return total(given_up_); }

 private:
  using padded_words = std::vector<hw::padded<std::uint64_t>>;
  [[nodiscard]] static std::uint64_t total(const padded_words& words) {
    std::uint64_t all = 0;
    for (const auto& w : words) all += w.value;
    return all;
  }

  const exercise e_;
  padded_words words_;
  padded_words given_up_;
};

template <template <class> class Program>
std::unique_ptr<exercised_program> under_lock(const exercise& e) {
  switch (e.lock) {
    case lock_kind::ticket:
      return std::make_unique<Program<ticket_lock>>(e);
    case lock_kind::mcs:
      return std::make_unique<Program<mcs_lock>>(e);
    case lock_kind::ttas:
      return std::make_unique<Program<ttas_lock>>(e);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<exercised_program> make_exercised(const exercise& e, std::uint64_t operations) {
  switch (e.what) {
    case work::one_line:
      return std::make_unique<one_line>(e);
    case work::latency:
      return std::make_unique<latency>(e);
    case work::section:
      return under_lock<section>(e);
    case work::table:
      return under_lock<table>(e);
    case work::stream:
      return std::make_unique<stream>(e, operations);
    case work::transaction:
      return std::make_unique<transaction>(e);
  }
  return nullptr;
}

}  // namespace espalier::simulate
