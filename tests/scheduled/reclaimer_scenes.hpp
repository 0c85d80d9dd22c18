#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "espalier/map/bst/ticket.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "scheduled/scenes.hpp"
#include "sim/runtime/world.hpp"

// What every reclaimer must survive that reclaims: what a thread can reach under a guard stays; what no thread can reach is
// reclaimed, once.

namespace espalier::sim {

struct object {
  std::atomic<int> alive{1};
  ~object() { alive.store(0); }
};

/// One object that readers reach and writers replace.
template <class Domain>
struct shared_object {
  Domain domain;
  std::atomic<object*> current{new object};
  std::atomic<int> replaced{0};

  shared_object() = default;
  shared_object(const shared_object&) = delete;
  shared_object& operator=(const shared_object&) = delete;
  ~shared_object() { delete current.load(); }

  void read() {
    const auto guard = domain.pin();
    look_twice();
  }
  void look_twice() {
    const object* const seen = current.load(std::memory_order_acquire);
    require(seen->alive.load() == 1, "what a pinned thread reaches is there");
    require(seen->alive.load() == 1, "what a pinned thread reaches stays");
  }
  void replace() {
    auto guard = domain.pin();
    guard.reserve(1);
    object* const old = current.exchange(new object, std::memory_order_acq_rel);
    guard.retire({old, nullptr, this,
                  [](const retired& entry) noexcept { delete static_cast<object*>(entry.object); }});
    replaced.fetch_add(1);
  }
};

template <class Domain>
void everything_is_reclaimed(shared_object<Domain>& shared) {
  require(shared.domain.collect() == 0, "a retired entry is left while no thread is pinned");
  const auto count = shared.domain.statistics();
  require(count.retired == static_cast<std::uint64_t>(shared.replaced.load()) &&
              count.reclaimed == count.retired && count.pinned_threads == 0,
          "the counts agree");
}

template <class Domain>
void two_threads_collect_at_once(scene& s) {
  auto& shared = s.make<shared_object<Domain>>();
  s.thread("reads", [&shared] {
    shared.read();
    shared.read();
  });
  s.thread("replaces", [&shared] {
    shared.replace();
    shared.domain.collect();
    shared.domain.collect();
  });
  s.thread("collects", [&shared] {
    shared.domain.collect();
    shared.domain.collect();
  });
  s.at_end([&shared] { everything_is_reclaimed(shared); });
}

template <class Domain>
void two_threads_replace(scene& s) {
  auto& shared = s.make<shared_object<Domain>>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&shared] {
      shared.replace();
      shared.domain.collect();
      shared.replace();
      shared.domain.collect();
    });
  }
  s.thread("reads", [&shared] { shared.read(); });
  s.at_end([&shared] { everything_is_reclaimed(shared); });
}

template <class Domain>
void nested_guards_protect_until_the_last(scene& s) {
  auto& shared = s.make<shared_object<Domain>>();
  s.thread("reads", [&shared] {
    auto outer = shared.domain.pin();
    const object* const seen = shared.current.load(std::memory_order_acquire);
    {
      const auto inner = shared.domain.pin();
    }
    auto moved = std::move(outer);
    shared.look_twice();
    require(seen->alive.load() == 1, "what was reached first stays");
  });
  s.thread("replaces", [&shared] {
    shared.replace();
    shared.domain.collect();
    shared.replace();
    shared.domain.collect();
  });
  s.at_end([&shared] { everything_is_reclaimed(shared); });
}

/// A thread that unpins and pins again in between: its later pins must not hide an earlier reader.
template <class Domain>
void pinning_again_is_no_pin_of_long_ago(scene& s) {
  auto& shared = s.make<shared_object<Domain>>();
  s.thread("reads", [&shared] {
    for (int i = 0; i < 3; ++i) shared.read();
  });
  s.thread("replaces", [&shared] {
    for (int i = 0; i < 2; ++i) shared.replace();
    shared.domain.collect();
  });
  s.thread("collects", [&shared] {
    for (int i = 0; i < 3; ++i) shared.domain.collect();
  });
  s.at_end([&shared] { everything_is_reclaimed(shared); });
}

/// Other threads reclaim what an ended thread retired and never collected.
template <class Domain>
void bags_of_ended_threads(scene& s) {
  auto& shared = s.make<shared_object<Domain>>();
  auto& ended = s.make<std::atomic<int>>(0);
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] {
      shared.replace();
      shared.replace();
      ended.fetch_add(1);
    });
  }
  s.thread("collects", [&] {
    while (ended.load() != 2) wait_for_others();
    require(shared.domain.collect() == 0, "a thread that has ended holds nothing up");
  });
  s.at_end([&shared] { everything_is_reclaimed(shared); });
}

/// More than two bags, so that retiring advances and reclaims by itself, while a reader pins and unpins.
template <class Domain>
void full_bags(scene& s) {
  auto& shared = s.make<shared_object<Domain>>();
  s.thread("retires", [&shared] {
    for (int i = 0; i < 140; ++i) shared.replace();
  });
  s.thread("retires too", [&shared] {
    for (int i = 0; i < 70; ++i) shared.replace();
  });
  s.thread("reads", [&shared] {
    for (int i = 0; i < 40; ++i) shared.read();
  });
  s.at_end([&shared] { everything_is_reclaimed(shared); });
}

/// A map is destroyed beside another one on the same domain. The other map's thread collects what both have retired.
/// Entries reclaimed after the purge would go to the destroyed map's placement, which no longer has memory.
template <class Domain>
void purge_of_a_dying_map(scene& s) {
  using shipped_map = ticket<std::uint64_t, std::uint64_t, map_traits::with_reclaimer<Domain>>;
  auto& domain = s.make<Domain>();
  auto& living = s.make<shipped_map>(&domain);
  living.insert(1, 1);
  living.insert(2, 2);
  s.thread("dies", [&domain] {
    const auto dying = std::make_unique<shipped_map>(&domain);
    dying->insert(1, 1);
    dying->insert(2, 2);
    dying->erase(1);
    dying->erase(2);
  });
  s.thread("lives", [&] {
    living.erase(1);
    domain.collect();
    living.erase(2);
    domain.collect();
  });
  s.thread("reads", [&living] { static_cast<void>(living.find(2)); });
  s.at_end([&] {
    require(domain.collect() == 0, "a retired entry is left while no thread is pinned");
    require(living.usage().blocks == 0, "the empty map holds nothing");
  });
}

/// The owner of entries.
struct owner {
  bool purged = false;
  bool called_after = false;
};

struct thing {
  int value = 7;
};

inline void reclaim_thing(const retired& entry) noexcept {
  owner& of = *static_cast<owner*>(entry.owner);
  if (of.purged) of.called_after = true;
  delete static_cast<thing*>(entry.object);
}

template <class Guard>
void hand_over(Guard& guard, owner& of, thing* detached) {
  guard.retire({detached, nullptr, &of, reclaim_thing});
}

/// One entry more than a bag holds: seals the bag.
constexpr int more_than_a_bag = 64;

template <class Domain>
struct reclaimer_world {
  owner of;
  Domain domain;
  std::atomic<thing*> shared{new thing};

  reclaimer_world() = default;
  reclaimer_world(const reclaimer_world&) = delete;
  reclaimer_world& operator=(const reclaimer_world&) = delete;
  ~reclaimer_world() { delete shared.load(); }

  void replace() {
    replace_after([] {});
  }
  /// Replaces the object in a thread that is pinned, and calls meanwhile() before.
  template <class Meanwhile>
  void replace_after(const Meanwhile& meanwhile) {
    auto guard = domain.pin();
    guard.reserve(1);
    meanwhile();
    hand_over(guard, of, shared.exchange(new thing));
  }
  void look() {
    look_during([this] { check(*shared.load()); });
  }
  /// Pins, calls meanwhile() after it has read the object's address, and checks that the object is still there.
  template <class Meanwhile>
  void look_during(const Meanwhile& meanwhile) {
    auto guard = domain.pin();
    const thing* const seen = shared.load();
    meanwhile();
    check(*seen);
  }
  static void check(const thing& seen) {
    require(seen.value == 7, "a reader sees what is not there any more");
  }
  void fill(int count) { fill(count, of); }
  void fill(int count, owner& entries_owner) {
    auto guard = domain.pin();
    for (int i = 0; i < count; ++i) {
      guard.reserve(1);
      hand_over(guard, entries_owner, new thing);
    }
  }
};

/// One thread reads, one replaces, one collects.
template <class Domain>
void readers(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  s.thread("reader", [&] { w.look(); });
  s.thread("writer", [&] {
    w.replace();
    w.replace();
  });
  s.thread("collector", [&] {
    w.domain.collect();
    w.domain.collect();
  });
}

template <class Domain>
void nested(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  s.thread("reader", [&] { w.look_during([&] { auto inner = w.domain.pin(); }); });
  s.thread("writer", [&] {
    w.replace();
    w.domain.collect();
  });
}

/// What a guard was moved to ends the protection, and that only once: the next guard protects again.
template <class Domain>
void moved(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  s.thread("reader", [&] {
    {
      auto from = w.domain.pin();
      auto guard = std::move(from);
    }
    w.look();
  });
  s.thread("writer", [&] {
    w.replace();
    w.domain.collect();
  });
}

/// The entries of an ended thread (here: main, before the others begin) are taken over once.
template <class Domain>
void collectors(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  w.fill(more_than_a_bag);
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] { w.domain.collect(); });
  }
}

/// A map with entries also in a sealed bag is destroyed.
template <class Domain>
void purged(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  auto& dying = s.make<owner>();
  w.fill(more_than_a_bag, dying);
  s.thread("dying", [&] {
    w.domain.purge(&dying);
    dying.purged = true;
  });
  s.thread("collector", [&] { w.domain.collect(); });
  s.at_end([&] {
    w.domain.collect();
    require(!dying.called_after, "an entry of a purged owner is reclaimed");
  });
}

/// A map is destroyed while another one uses its domain.
template <class Domain>
void purged_beside(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  auto& dying = s.make<owner>();
  s.thread("dying", [&] { w.domain.purge(&dying); });
  s.thread("reader", [&] { w.look(); });
  s.thread("writer", [&] { w.replace(); });
}

// Where several threads must come in one order, flags lead them; the explorer finds the rest.

using flag = std::atomic<bool>;
inline void await(const flag& f) {
  while (!f.load()) wait_for_others();
}

/// A guard inside another one is renewed whenever the epoch has moved.
template <class Domain>
void renewed(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  auto& epochs = s.make<std::atomic<int>>(0);
  auto& renewals = s.make<std::atomic<int>>(-1);
  constexpr int rounds = 3;
  s.thread("reader", [&] {
    w.look_during([&] {
      auto inner = w.domain.pin();
      for (int i = 0; i <= rounds; ++i) {
        renewals = i;
        while (epochs.load() <= i) wait_for_others();
        inner.renew();
      }
    });
  });
  s.thread("writer", [&] {
    while (renewals.load() < 0) wait_for_others();
    w.replace();
    for (int i = 0; i <= rounds; ++i) {
      while (renewals.load() < i) wait_for_others();
      w.domain.collect();
      epochs = i + 1;
    }
  });
}

/// A writer that is pinned, or about to be, while the epoch moves; a reader that pins later and reads before
/// the writer unlinks.
template <class Domain>
void late_reader(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  auto& moved = s.make<flag>(false);
  auto& seen = s.make<flag>(false);
  auto& detached = s.make<flag>(false);
  auto& collected = s.make<flag>(false);
  s.thread("reader", [&] {
    await(moved);
    w.look_during([&] {
      seen = true;
      await(collected);
    });
  });
  s.thread("writer", [&] {
    w.replace_after([&] { await(seen); });
    detached = true;
  });
  s.thread("collector", [&] {
    w.domain.collect();
    moved = true;
    await(detached);
    w.domain.collect();
    collected = true;
  });
}

/// The replaced object goes into a bag that is full right after, while a reader holds it.
template <class Domain>
void bags(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  auto& seen = s.make<flag>(false);
  auto& collected = s.make<flag>(false);
  s.thread("reader", [&] {
    w.look_during([&] {
      seen = true;
      await(collected);
    });
  });
  s.thread("writer", [&] {
    await(seen);
    w.replace();
    w.fill(more_than_a_bag);
    w.domain.collect();
    collected = true;
  });
}

/// A bag is filled, and a reader comes, after a collection has looked at the threads and before it comes to the bag.
template <class Domain>
void sealed_during_a_collection(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  auto& seen = s.make<flag>(false);
  auto& collected = s.make<flag>(false);
  s.thread("collector", [&] {
    w.domain.collect();
    collected = true;
  });
  s.thread("reader", [&] {
    w.look_during([&] {
      seen = true;
      await(collected);
    });
  });
  s.thread("writer", [&] {
    w.fill(more_than_a_bag - 4);
    await(seen);
    w.replace();
    w.fill(4);
  });
}

/// A bag is begun in one epoch and filled further in another.
template <class Domain>
void old_bag(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  auto& begun = s.make<flag>(false);
  auto& pinned = s.make<std::atomic<int>>(0);
  auto& collected = s.make<std::atomic<int>>(0);
  auto& detached = s.make<flag>(false);
  const auto reach = [](const std::atomic<int>& count, int n) {
    while (count.load() < n) wait_for_others();
  };
  s.thread("reader", [&, reach] {
    for (int n = 1; n <= 3; ++n) {
      w.look_during([&] {
        pinned = n;
        reach(collected, n);
      });
    }
  });
  s.thread("writer", [&, reach] {
    w.replace();
    begun = true;
    reach(pinned, 3);
    w.replace();
    detached = true;
  });
  s.thread("collector", [&, reach] {
    await(begun);
    for (int n = 1; n <= 3; ++n) {
      reach(pinned, n);
      if (n == 3) await(detached);
      w.domain.collect();
      collected = n;
    }
  });
}

/// Two threads advance at once, beside a reader that is one epoch ahead of the stamp of what it reads.
template <class Domain>
void advancers(scene& s) {
  auto& w = s.make<reclaimer_world<Domain>>();
  auto& pinned = s.make<flag>(false);
  auto& moved = s.make<flag>(false);
  auto& seen = s.make<flag>(false);
  auto& detached = s.make<flag>(false);
  auto& collected = s.make<std::atomic<int>>(0);
  s.thread("reader", [&] {
    await(moved);
    w.look_during([&] {
      seen = true;
      while (collected.load() != 2) wait_for_others();
    });
  });
  s.thread("writer", [&] {
    w.replace_after([&] {
      pinned = true;
      await(seen);
    });
    detached = true;
  });
  s.thread("collector", [&] {
    await(pinned);
    w.domain.collect();
    moved = true;
    await(detached);
    w.domain.collect();
    ++collected;
  });
  s.thread("second collector", [&] {
    await(detached);
    w.domain.collect();
    ++collected;
  });
}

/// A signal between threads outside the scene's memory. A waiting thread lets others take steps and does not yield the
/// processor: neither side empties a store buffer.
class hint {
 public:
  void give() {
    const sim::own_code scope;
    given_ = true;
  }
  void await() const {
    while (!is_given()) static_cast<void>(turn_.load(std::memory_order_relaxed));
  }

 private:
  [[nodiscard]] bool is_given() const {
    const sim::own_code scope;
    return given_;
  }

  std::atomic<int> turn_{0};
  bool given_ = false;
};

/// Of two collections one is refused, because the reader is pinned; the other advances for both after the unpin.
template <class Domain>
void advanced_by_another(scene& s) {
  struct relay : reclaimer_world<Domain> {
    hint has_read;
    hint retired;
  };
  auto& w = s.make<relay>();
  s.thread("reader", [&w] {
    auto guard = w.domain.pin();
    thing* const mine = w.shared.load(std::memory_order_acquire);
    w.has_read.give();
    w.retired.await();
    require(mine->value == 7, "a reader sees what is not there any more");
  });
  s.thread("writer", [&w] {
    w.has_read.await();
    w.replace();
    w.retired.give();
    w.domain.collect();
  });
  s.thread("collector", [&w] {
    w.retired.await();
    w.domain.collect();
  });
}

}  // namespace espalier::sim

// NOLINTBEGIN(cppcoreguidelines-macro-usage)
/// All of these, as the suites <domain> and <domain>_races; type: the reclaimer; share: of the usual schedules.
#define ESPALIER_RECLAIMER_SCENES(domain, type, share)                                                       \
  ESPALIER_SCENE(domain, two_threads_collect_at_once, scene_runs(5000 * (share)).in_all_models()) {          \
    two_threads_collect_at_once<type>(s);                                                                    \
  }                                                                                                          \
  ESPALIER_SCENE(domain, two_threads_replace, scene_runs(5000 * (share)).in_all_models()) {                  \
    two_threads_replace<type>(s);                                                                            \
  }                                                                                                          \
  ESPALIER_SCENE(domain, nested_guards_protect_until_the_last, scene_runs(5000 * (share)).in_all_models()) { \
    nested_guards_protect_until_the_last<type>(s);                                                           \
  }                                                                                                          \
  ESPALIER_SCENE(domain, pinning_again_is_no_pin_of_long_ago, scene_runs(5000 * (share)).in_all_models()) {  \
    pinning_again_is_no_pin_of_long_ago<type>(s);                                                            \
  }                                                                                                          \
  ESPALIER_SCENE(domain, bags_of_ended_threads, scene_runs(3000 * (share)).in_all_models()) {                \
    bags_of_ended_threads<type>(s);                                                                          \
  }                                                                                                          \
  ESPALIER_SCENE(domain, full_bags, scene_runs(150 * (share)).in_all_models()) { full_bags<type>(s); }       \
  ESPALIER_SCENE(domain##_races, readers, 50) { readers<type>(s); }                                          \
  ESPALIER_SCENE(domain##_races, nested, 50) { nested<type>(s); }                                            \
  ESPALIER_SCENE(domain##_races, moved, 50) { moved<type>(s); }                                              \
  ESPALIER_SCENE(domain##_races, collectors, 10, 0.2) { collectors<type>(s); }                               \
  ESPALIER_SCENE(domain##_races, purged, 10, 0.2) { purged<type>(s); }                                       \
  ESPALIER_SCENE(domain##_races, purged_beside, 50) { purged_beside<type>(s); }                              \
  ESPALIER_SCENE(domain##_races, renewed, 50) { renewed<type>(s); }                                          \
  ESPALIER_SCENE(domain##_races, late_reader, 50) { late_reader<type>(s); }                                  \
  ESPALIER_SCENE(domain##_races, bags, 10, 0.2) { bags<type>(s); }                                           \
  ESPALIER_SCENE(domain##_races, sealed_during_a_collection, 1000, 4) {                                      \
    sealed_during_a_collection<type>(s);                                                                     \
  }                                                                                                          \
  ESPALIER_SCENE(domain##_races, old_bag, 50) { old_bag<type>(s); }                                          \
  ESPALIER_SCENE(domain##_races, advancers, 10, 0.2) { advancers<type>(s); }                                 \
  ESPALIER_SCENE(domain##_races, advanced_by_another, 200, 4,                                                \
                 {.strategies = {"random"}, .model = memory_model::weak}) {                                  \
    advanced_by_another<type>(s);                                                                            \
  }                                                                                                          \
  ESPALIER_SCENE(domain, purge_of_a_dying_map, scene_runs(1000 * (share)).in_all_models()) {                 \
    purge_of_a_dying_map<type>(s);                                                                           \
  }
// NOLINTEND(cppcoreguidelines-macro-usage)
