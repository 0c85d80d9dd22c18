// The epoch domain, by itself: what a pinned thread reaches stays; what nobody reaches goes, once.

#include <atomic>

#include "espalier/reclaim/epoch.hpp"
#include "mutants/driver.hpp"

namespace espalier::mutants {
namespace {

/// Of whom entries are.
struct owner {
  bool purged = false;
  bool called_after = false;
};

struct thing {
  int value = 7;
};

void give_back(const retired& entry) noexcept {
  owner& of = *static_cast<owner*>(entry.owner);
  if (of.purged) of.called_after = true;
  delete static_cast<thing*>(entry.object);
}

void hand_over(epoch_domain::guard& guard, owner& of, thing* detached) {
  guard.retire({detached, nullptr, &of, give_back});
}

/// A bag and one more: seals the bag.
constexpr int more_than_a_bag = 64;

struct world {
  owner of;
  epoch_domain domain;
  std::atomic<thing*> shared{new thing};

  world() = default;
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world() { delete shared.load(); }

  void replace() {
    thing* const fresh = new thing;
    auto guard = domain.pin();
    guard.reserve(1);
    hand_over(guard, of, shared.exchange(fresh));
  }
  void look() {
    auto guard = domain.pin();
    thing* const seen = shared.load();
    sim::require(seen->value == 7, "a reader sees what is not there any more");
    sim::require(seen->value == 7, "a reader sees what is not there any more");
  }
  void fill(int count) {
    auto guard = domain.pin();
    for (int i = 0; i < count; ++i) {
      guard.reserve(1);
      hand_over(guard, of, new thing);
    }
  }
};

/// One reads, one replaces, one collects.
void readers(sim::scene& s) {
  auto& w = s.make<world>();
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

void nested(sim::scene& s) {
  auto& w = s.make<world>();
  s.thread("reader", [&] {
    auto outer = w.domain.pin();
    thing* const seen = w.shared.load();
    {
      auto inner = w.domain.pin();
    }
    sim::require(seen->value == 7, "a reader sees what is not there any more");
  });
  s.thread("writer", [&] {
    w.replace();
    w.domain.collect();
  });
}

/// What an ended thread (here: main, before the others begin) has left is taken over once.
void collectors(sim::scene& s) {
  auto& w = s.make<world>();
  w.fill(more_than_a_bag);
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] { w.domain.collect(); });
  }
}

/// A map dies whose entries lie in a sealed bag, too.
void purged(sim::scene& s) {
  auto& w = s.make<world>();
  auto& dying = s.make<owner>();
  {
    auto guard = w.domain.pin();
    for (int i = 0; i < more_than_a_bag; ++i) {
      guard.reserve(1);
      hand_over(guard, dying, new thing);
    }
  }
  s.thread("dying", [&] {
    w.domain.purge(&dying);
    dying.purged = true;
  });
  s.thread("collector", [&] { w.domain.collect(); });
  s.at_end([&] {
    w.domain.collect();
    sim::require(!dying.called_after, "an entry of a purged owner is given back");
  });
}

/// A map dies beside another one of its domain.
void purged_beside(sim::scene& s) {
  auto& w = s.make<world>();
  auto& dying = s.make<owner>();
  s.thread("dying", [&] { w.domain.purge(&dying); });
  s.thread("reader", [&] { w.look(); });
  s.thread("writer", [&] { w.replace(); });
}

// What takes several threads in one order is led there by flags; the explorer finds the rest.

using flag = std::atomic<bool>;
void await(const flag& f) {
  while (!f.load()) sim::wait_for_others();
}

/// A writer that is pinned, or about to be, while the epoch moves; a reader that pins later and reads before
/// the writer detaches.
void late_reader(sim::scene& s) {
  auto& w = s.make<world>();
  auto& moved = s.make<flag>(false);
  auto& seen = s.make<flag>(false);
  auto& detached = s.make<flag>(false);
  auto& collected = s.make<flag>(false);
  s.thread("reader", [&] {
    await(moved);
    auto guard = w.domain.pin();
    thing* const mine = w.shared.load();
    seen = true;
    await(collected);
    sim::require(mine->value == 7, "a reader sees what is not there any more");
  });
  s.thread("writer", [&] {
    {
      auto guard = w.domain.pin();
      guard.reserve(1);
      await(seen);
      hand_over(guard, w.of, w.shared.exchange(new thing));
    }
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

/// The replaced thing goes into a bag that is full right after, while a reader holds it.
void bags(sim::scene& s) {
  auto& w = s.make<world>();
  auto& seen = s.make<flag>(false);
  auto& collected = s.make<flag>(false);
  s.thread("reader", [&] {
    auto guard = w.domain.pin();
    thing* const mine = w.shared.load();
    seen = true;
    await(collected);
    sim::require(mine->value == 7, "a reader sees what is not there any more");
  });
  s.thread("writer", [&] {
    await(seen);
    w.replace();
    w.fill(more_than_a_bag);
    w.domain.collect();
    collected = true;
  });
}

/// A bag is begun in one epoch and goes on in another.
void old_bag(sim::scene& s) {
  auto& w = s.make<world>();
  auto& begun = s.make<flag>(false);
  auto& pinned = s.make<std::atomic<int>>(0);
  auto& collected = s.make<std::atomic<int>>(0);
  auto& detached = s.make<flag>(false);
  const auto reach = [](const std::atomic<int>& count, int n) {
    while (count.load() < n) sim::wait_for_others();
  };
  s.thread("reader", [&, reach] {
    for (int n = 1; n <= 3; ++n) {
      auto guard = w.domain.pin();
      thing* const mine = w.shared.load();
      pinned = n;
      reach(collected, n);
      sim::require(mine->value == 7, "a reader sees what is not there any more");
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

}  // namespace

round_result explore_all(const round_options& options) {
  scenes all(options);
  all.run("readers", readers);
  all.run("nested", nested);
  all.run("late reader", late_reader);
  all.run("old bag", old_bag);
  all.run("purged beside", purged_beside);
  all.run("collectors", collectors, {}, 0.2);
  all.run("purged", purged, {}, 0.2);
  all.run("bags", bags, {}, 0.2);
  return std::move(all).result();
}

}  // namespace espalier::mutants
