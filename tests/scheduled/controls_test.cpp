// Programs that are wrong in well-known ways. A tool must find these faults, or its other results mean nothing.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "espalier/hw/pause.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "scheduled/battery.hpp"
#include "sim/explore.hpp"
#include "sim/memory/eager_reclaimer.hpp"
#include "support/plain_map.hpp"

namespace {

using namespace espalier;
using sim::failure_kind;
using sim::scene;

// Maps: a locked std::map, except for the selected flaw.

enum class flaw : std::uint8_t {
  none,
  assign_by_erase_and_insert,
  find_remembers,
  erase_reports_true,
  scan_by_position,
  extract_in_two_steps,
};

template <flaw Flaw>
struct flawed_map : test::plain_map<flawed_map<Flaw>> {
  using plain = test::plain_map<flawed_map>;
  using typename plain::bound_type;
  using typename plain::hold;
  using typename plain::key;
  using typename plain::value;

  static constexpr map_properties properties = test::plain_properties("flawed_map");

  std::optional<value> do_find(no_guard&, key k) const {
    const hold lock(this->mutex_);
    auto& memory = found_last[hw::thread_slot()];
    if (Flaw == flaw::find_remembers && memory.first == k && memory.second) return memory.second;
    const std::optional<value> found = this->value_at(k);
    if (found) memory = {k, found};
    return found;
  }

  bool do_assign(no_guard& guard, key k, value v) {
    if (Flaw != flaw::assign_by_erase_and_insert) return plain::do_assign(guard, k, v);
    const bool was_there = do_erase(guard, k);
    return this->do_insert(guard, k, v) && !was_there;
  }

  bool do_erase(no_guard& guard, key k) {
    if (Flaw != flaw::erase_reports_true) return plain::do_erase(guard, k);
    if (!this->do_contains(guard, k)) return false;
    const hold lock(this->mutex_);
    this->map_.erase(k);
    return true;
  }

  template <class Function>
  std::optional<value> do_update(no_guard& guard, key k, Function&& f) {
    bool later = false;
    const auto extract_later = [&](const std::optional<value>& before) {
      const std::optional<value> after = f(before);
      later = Flaw == flaw::extract_in_two_steps && !after;
      return later ? before : after;
    };
    const std::optional<value> before = plain::do_update(guard, k, extract_later);
    if (later) plain::do_erase(guard, k);
    return before;
  }

  template <class Visit>
  void do_scan(no_guard&, const bound_type& bound, Visit&& visit) const {
    bound_type next = bound;
    std::optional<std::pair<key, value>> entry;
    for (std::size_t visits = 0;; ++visits) {
      {
        const hold lock(this->mutex_);
        const bound_type& from = Flaw == flaw::scan_by_position ? bound : next;
        auto at = this->map_.begin();
        while (at != this->map_.end() && !from.admits(at->first)) ++at;
        if (Flaw == flaw::scan_by_position) {
          for (std::size_t i = 0; i < visits && at != this->map_.end(); ++i) ++at;
        }
        if (at == this->map_.end()) return;
        entry = *at;
      }
      if (!visit(entry->first, entry->second)) return;
      next = bound_type::behind(this->key_comp(), entry->first);
    }
  }

  mutable std::array<std::pair<key, std::optional<value>>, 8> found_last{};
};

sim::battery::options small_options() {
  sim::battery::options o;
  o.schedules_per_scenario = 200;
  return o;
}

TEST(flawed_maps, one_without_a_flaw_passes) {
  const auto r = sim::battery::run<flawed_map<flaw::none>>(small_options());
  EXPECT_TRUE(r.passed) << r.text;
}

template <flaw Flaw>
void expect_not_linearizable() {
  const auto r = sim::battery::run<flawed_map<Flaw>>(small_options());
  ASSERT_FALSE(r.passed);
  EXPECT_NE(r.text.find(to_string(failure_kind::requirement)), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("not linearizable"), std::string::npos) << r.text;
}

TEST(flawed_maps, assign_by_erase_and_insert) { expect_not_linearizable<flaw::assign_by_erase_and_insert>(); }
// Here the operations do not overlap where the fault is, so their recorded intervals must not be too long.
TEST(flawed_maps, find_remembers) { expect_not_linearizable<flaw::find_remembers>(); }
TEST(flawed_maps, erase_reports_true) { expect_not_linearizable<flaw::erase_reports_true>(); }
TEST(flawed_maps, scan_by_position) { expect_not_linearizable<flaw::scan_by_position>(); }
TEST(flawed_maps, extract_in_two_steps) { expect_not_linearizable<flaw::extract_in_two_steps>(); }

/// The map without a flaw, except for a false claim: it holds a lock while it works.
template <progress Finds, progress Updates>
struct boastful_map : flawed_map<flaw::none> {
  static constexpr map_properties properties{"boastful_map", Finds, Updates, balance::strict, false, "none"};
};

template <class Map>
void expect_stopped_by_one(const char* scenario) {
  sim::battery::options o = small_options();
  o.only = scenario;
  const auto r = sim::battery::run<Map>(o);
  ASSERT_FALSE(r.passed);
  EXPECT_NE(r.text.find(to_string(failure_kind::livelock)), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("/stalled"), std::string::npos) << r.text;
}

TEST(boastful_maps, one_that_promises_nothing_passes) {
  for (const char* scenario : {"two_inserts_of_one_key", "one_writer_beside_readers"}) {
    sim::battery::options o = small_options();
    o.only = scenario;
    const auto r = sim::battery::run<boastful_map<progress::blocking, progress::blocking>>(o);
    EXPECT_TRUE(r.passed) << r.text;
  }
}

TEST(boastful_maps, updates_that_are_not_lock_free) {
  expect_stopped_by_one<boastful_map<progress::lock_free, progress::lock_free>>("two_inserts_of_one_key");
}

TEST(boastful_maps, finds_that_are_not_lock_free) {
  expect_stopped_by_one<boastful_map<progress::lock_free, progress::blocking>>("one_writer_beside_readers");
}

// Locks.

sim::exploration_report explore(const char* name, const std::function<void(scene&)>& build,
                                sim::memory_model model = sim::memory_model::any,
                                std::uint64_t schedules = 4000) {
  sim::exploration_options o;
  o.schedules = schedules;
  o.model = model;
  return sim::explore(name, o, build);
}

sim::exploration_report expect_found(failure_kind kind, const char* name,
                                     const std::function<void(scene&)>& build,
                                     sim::memory_model model = sim::memory_model::any,
                                     std::uint64_t schedules = 4000) {
  sim::exploration_report report = explore(name, build, model, schedules);
  EXPECT_FALSE(report.passed()) << "nothing was found in " << report.runs << " schedules";
  if (!report.passed()) {
    EXPECT_EQ(report.failure->kind, kind) << report;
  }
  return report;
}

/// Dekker's entry protocol: each thread announces that it wants to enter, then checks whether the other does.
template <std::memory_order Order>
void dekker(scene& s) {
  struct entry {
    std::atomic<bool> wants[2]{};
    std::atomic<int> inside{0};
  };
  auto& shared = s.make<entry>();
  for (const int me : {0, 1}) {
    s.thread(me == 0 ? "a" : "b", [&shared, me] {
      shared.wants[me].store(true, Order);
      if (shared.wants[1 - me].load(Order)) return;
      sim::require(shared.inside.fetch_add(1) == 0, "both are inside");
      shared.inside.fetch_sub(1);
    });
  }
}

TEST(flawed_locks, dekker_needs_a_fence) {
  const auto relaxed = dekker<std::memory_order_relaxed>;
  EXPECT_TRUE(explore("dekker", relaxed, sim::memory_model::sequential).passed());
  expect_found(failure_kind::requirement, "dekker", relaxed, sim::memory_model::buffered);
  const auto fenced =
      explore("dekker_fenced", dekker<std::memory_order_seq_cst>, sim::memory_model::buffered);
  EXPECT_TRUE(fenced.passed()) << fenced;
}

TEST(flawed_locks, locks_in_two_orders) {
  expect_found(failure_kind::livelock, "locks_in_two_orders", [](scene& s) {
    auto& locks = s.make<std::array<std::mutex, 2>>();
    s.thread("a", [&locks] {
      const std::scoped_lock first(locks[0]);
      const std::scoped_lock second(locks[1]);
    });
    s.thread("b", [&locks] {
      const std::scoped_lock first(locks[1]);
      const std::scoped_lock second(locks[0]);
    });
  });
}

// Reclamation: one cell that a reader reaches and a writer unlinks.

struct cell {
  sim::eager_reclaimer reclaimer;
  std::atomic<int*> current{new int(1)};
  ~cell() { delete current.load(); }

  void read() {
    const auto guard = reclaimer.pin();
    if (const int* const seen = current.load()) sim::require(*seen == 1, "the value is there");
  }
  static retired entry_of(int* memory) {
    return {memory, nullptr, nullptr, [](const retired& e) noexcept { delete static_cast<int*>(e.object); }};
  }
};

void around_a_reader(scene& s, void (*write)(cell&)) {
  auto& shared = s.make<cell>();
  s.thread("reads", [&shared] {
    shared.read();
    shared.read();
  });
  s.thread("writes", [&shared, write] { write(shared); });
}

TEST(flawed_reclamation, none) {
  const auto report = explore("right", [](scene& s) {
    around_a_reader(s, [](cell& c) {
      auto guard = c.reclaimer.pin();
      guard.reserve(1);
      guard.retire(cell::entry_of(c.current.exchange(nullptr)));
    });
  });
  EXPECT_TRUE(report.passed()) << report;
}

TEST(flawed_reclamation, retired_before_it_is_unlinked) {
  expect_found(failure_kind::use_after_free, "retired_before_it_is_unlinked", [](scene& s) {
    around_a_reader(s, [](cell& c) {
      {
        auto guard = c.reclaimer.pin();
        guard.reserve(1);
        guard.retire(cell::entry_of(c.current.load()));
      }
      c.current.store(nullptr);
    });
  });
}

TEST(flawed_reclamation, freed_at_once) {
  expect_found(failure_kind::use_after_free, "freed_at_once",
               [](scene& s) { around_a_reader(s, [](cell& c) { delete c.current.exchange(nullptr); }); });
}

TEST(flawed_reclamation, retired_by_two) {
  expect_found(failure_kind::bad_retire, "retired_by_two", [](scene& s) {
    auto& shared = s.make<cell>();
    for (const char* name : {"a", "b"}) {
      s.thread(name, [&shared] {
        auto guard = shared.reclaimer.pin();
        guard.reserve(1);
        int* const seen = shared.current.load();
        if (seen == nullptr) return;
        shared.current.store(nullptr);
        guard.retire(cell::entry_of(seen));
      });
    }
  });
}

TEST(flawed_reclamation, lost_when_two_write) {
  expect_found(failure_kind::leak, "lost_when_two_write", [](scene& s) {
    auto& shared = s.make<cell>();
    for (const char* name : {"a", "b"}) {
      s.thread(name, [&shared] {
        auto guard = shared.reclaimer.pin();
        guard.reserve(1);
        int* seen = shared.current.load();
        int* const fresh = new int(1);
        // The loser leaks its own object.
        if (!shared.current.compare_exchange_strong(seen, fresh)) return;
        guard.retire(cell::entry_of(seen));
      });
    }
  });
}

// A stack, and the number of schedules that finds its fault: the explorer's own control.

/// Treiber's stack (IBM RJ 5118, 1986) without protection: pop reads next from a node that another thread may
/// have popped and pushed again meanwhile, with another node below.
class treiber_stack {
 public:
  struct node {
    std::atomic<node*> next{nullptr};
    int value = 0;
  };

  void push(node* fresh) {
    node* top = head_.load();
    do {
      fresh->next.store(top);
    } while (!head_.compare_exchange_weak(top, fresh));
  }

  node* pop() {
    node* top = head_.load();
    while (top != nullptr && !head_.compare_exchange_weak(top, top->next.load())) {
    }
    return top;
  }

 private:
  std::atomic<node*> head_{nullptr};
};

struct shared_stack {
  treiber_stack stack;
  treiber_stack::node nodes[3];
  std::atomic<int> owners[3]{};

  shared_stack() {
    for (int i = 2; i >= 0; --i) {
      nodes[i].value = i;
      stack.push(&nodes[i]);
    }
  }
  treiber_stack::node* take() {
    treiber_stack::node* const n = stack.pop();
    if (n != nullptr) sim::require(owners[n->value].fetch_add(1) == 0, "a node is popped by two");
    return n;
  }
  void give(treiber_stack::node* n) {
    if (n == nullptr) return;
    owners[n->value].fetch_sub(1);
    stack.push(n);
  }
};

/// Three threads, each four times: pops two nodes, pushes two.
void rounds(sim::scene& s) {
  auto& all = s.make<shared_stack>();
  for (const char* name : {"a", "b", "c"}) {
    s.thread(name, [&all] {
      for (int round = 0; round < 4; ++round) {
        treiber_stack::node* const first = all.take();
        treiber_stack::node* const second = all.take();
        all.give(first);
        all.give(second);
      }
    });
  }
}

sim::exploration_report explore_with(const char* strategy, std::uint64_t schedules, std::uint64_t seed) {
  sim::exploration_options options;
  options.schedules = schedules;
  options.seed = seed;
  options.strategies = {strategy};
  // The fault exists under every model.
  options.model = sim::memory_model::sequential;
  return sim::explore("treiber", options, rounds);
}

TEST(treiber, aba_is_found) {
  for (const auto& [strategy, schedules] : {std::pair{"random", 100U}, {"pct:3", 4000U}}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      EXPECT_FALSE(explore_with(strategy, schedules, seed).passed()) << strategy << ", seed " << seed;
  }
}

// Functions of the C library that access memory: their accesses are seen, even if sizes are constant and compilers would
// not call them.

struct plain {
  std::uint64_t first = 1;
  std::uint64_t second = 1;
};

/// A failure in this file's own code, which a few schedules find.
void expect_found_here(failure_kind kind, const char* name, const std::function<void(scene&)>& build) {
  SCOPED_TRACE(name);
  const auto report = expect_found(kind, name, build, sim::memory_model::any, 500);
  if (report.passed()) return;
  EXPECT_NE(report.failure->text.find("controls_test.cpp"), std::string::npos) << report;
}

/// One thread frees a block while another still uses it.
template <class Use>
void expect_use_after_free(const char* name, Use use) {
  expect_found_here(failure_kind::use_after_free, name, [use](scene& s) {
    auto& current = s.make<std::atomic<plain*>>(new plain);
    s.thread("uses", [&current, use] {
      if (plain* const seen = current.load()) use(*seen);
    });
    s.thread("frees", [&current] { delete current.exchange(nullptr); });
  });
}

TEST(library_calls, on_a_freed_block) {
  expect_use_after_free("memset", [](plain& p) { std::memset(&p, 0, sizeof p); });
  expect_use_after_free("memcpy_to", [](plain& p) {
    const plain mine;
    std::memcpy(&p, &mine, sizeof p);
  });
  expect_use_after_free("memcpy_from", [](plain& p) {
    plain mine;
    std::memcpy(&mine, &p, sizeof p);
    sim::require(mine.first == mine.second, "both parts are from one block");
  });
  expect_use_after_free("memmove", [](plain& p) { std::memmove(&p.second, &p.first, sizeof p.first); });
  expect_use_after_free("memcmp", [](plain& p) {
    const plain mine;
    sim::require(std::memcmp(&p, &mine, sizeof p) == 0, "nobody has written");
  });
}

/// A copy may be interrupted between the writes of its parts: halves of two values meet.
TEST(library_calls, copies_are_steps_of_their_own) {
  expect_found_here(failure_kind::requirement, "copies", [](scene& s) {
    auto& shared = s.make<plain>();
    s.thread("writes", [&shared] {
      std::memset(&shared.first, 0, sizeof shared.first);
      std::memset(&shared.second, 0, sizeof shared.second);
    });
    s.thread("reads", [&shared] {
      plain seen;
      std::memcpy(&seen, &shared, sizeof seen);
      sim::require(seen.first == seen.second, "both parts are of one time");
    });
  });
}

}  // namespace
