// The epoch domain alone: what a pinned thread can reach stays; what no thread can reach is reclaimed, once.

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <utility>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "scheduled/scenes.hpp"
#include "sim/runtime/world.hpp"

namespace espalier::sim {
namespace {

/// The owner of entries.
struct owner {
  bool purged = false;
  bool called_after = false;
};

struct thing {
  int value = 7;
};

void reclaim(const retired& entry) noexcept {
  owner& of = *static_cast<owner*>(entry.owner);
  if (of.purged) of.called_after = true;
  delete static_cast<thing*>(entry.object);
}

void hand_over(epoch_domain::guard& guard, owner& of, thing* detached) {
  guard.retire({detached, nullptr, &of, reclaim});
}

/// One entry more than a bag holds: seals the bag.
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
ESPALIER_SCENE(epoch_races, readers, 50) {
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

ESPALIER_SCENE(epoch_races, nested, 50) {
  auto& w = s.make<world>();
  s.thread("reader", [&] { w.look_during([&] { auto inner = w.domain.pin(); }); });
  s.thread("writer", [&] {
    w.replace();
    w.domain.collect();
  });
}

/// What a guard was moved to ends the protection, and that only once: the next guard protects again.
ESPALIER_SCENE(epoch_races, moved, 50) {
  auto& w = s.make<world>();
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
ESPALIER_SCENE(epoch_races, collectors, 10, 0.2) {
  auto& w = s.make<world>();
  w.fill(more_than_a_bag);
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] { w.domain.collect(); });
  }
}

/// A map with entries also in a sealed bag is destroyed.
ESPALIER_SCENE(epoch_races, purged, 10, 0.2) {
  auto& w = s.make<world>();
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
ESPALIER_SCENE(epoch_races, purged_beside, 50) {
  auto& w = s.make<world>();
  auto& dying = s.make<owner>();
  s.thread("dying", [&] { w.domain.purge(&dying); });
  s.thread("reader", [&] { w.look(); });
  s.thread("writer", [&] { w.replace(); });
}

// Where several threads must come in one order, flags lead them; the explorer finds the rest.

using flag = std::atomic<bool>;
void await(const flag& f) {
  while (!f.load()) wait_for_others();
}

/// A guard inside another one is renewed whenever the epoch has moved.
ESPALIER_SCENE(epoch_races, renewed, 50) {
  auto& w = s.make<world>();
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
ESPALIER_SCENE(epoch_races, late_reader, 50) {
  auto& w = s.make<world>();
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
ESPALIER_SCENE(epoch_races, bags, 10, 0.2) {
  auto& w = s.make<world>();
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

/// A bag is begun in one epoch and filled further in another.
ESPALIER_SCENE(epoch_races, old_bag, 50) {
  auto& w = s.make<world>();
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
ESPALIER_SCENE(epoch_races, advancers, 10, 0.2) {
  auto& w = s.make<world>();
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
ESPALIER_SCENE(epoch_races, advanced_by_another, 200, 4,
               {.strategies = {"random"}, .model = memory_model::weak}) {
  struct relay : world {
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

/// Stops the collectors of a scene at their heavy fences.
struct stops {
  struct stop {
    hint* give = nullptr;
    const hint* await = nullptr;
  };
  /// The next three fences of a thread.
  struct of_thread {
    std::size_t passed = 0;
    std::array<stop, 3> before{};
    std::array<stop, 3> behind{};
  };
  std::array<of_thread, 33> at{};  // by slot
};
constinit stops* fences = nullptr;

/// What scenes have whose collectors stop.
struct stopping {
  world w;
  stops stopped;
  stopping() { fences = &stopped; }
  stopping(const stopping&) = delete;
  stopping& operator=(const stopping&) = delete;
  ~stopping() { fences = nullptr; }
};

void stop_at(const stops::stop& one) {
  if (one.give != nullptr) one.give->give();
  if (one.await != nullptr) one.await->await();
}

/// A collection advances three times. Between the first two the reader pins one epoch behind the stamp of what it reads,
/// and behind the last fence it reads and unpins. From then on only the scan orders that read.
ESPALIER_SCENE(epoch_races, read_behind_the_last_fence, 200, 4,
               {.strategies = {"random"}, .model = memory_model::weak}) {
  struct all : stopping {
    hint pinned, moved, seen, detached, fenced, read;
  };
  auto& a = s.make<all>();
  s.thread("reader", [&a] {
    a.moved.await();
    a.w.look_during([&] {
      a.seen.give();
      a.fenced.await();
    });
    a.read.give();
  });
  s.thread("writer", [&a] {
    a.w.replace_after([&] {
      a.pinned.give();
      a.seen.await();
    });
    a.detached.give();
  });
  s.thread("collector", [&a] {
    a.pinned.await();
    a.stopped.at[hw::thread_slot()] = {.before = {stops::stop{}, {&a.moved, &a.detached}},
                                       .behind = {stops::stop{}, {}, {&a.fenced, &a.read}}};
    a.w.domain.collect();
    // Where an advance was refused: the reader has pinned in an older epoch.
    a.moved.give();
    a.fenced.give();
  });
}

/// Two threads advance, each past its fence before a reader pins whose announcement waits in its store buffer. What
/// the reader sees is unlinked by a thread that pinned one epoch earlier.
ESPALIER_SCENE(epoch_races, unseen_reader, 10, 0.2,
               {.strategies = {"random"}, .model = memory_model::buffered}) {
  struct all : stopping {
    std::atomic<int> unpinned{0};
    hint pinned, moved, first_behind, second_behind, seen, detached, advanced, collected;
  };
  auto& a = s.make<all>();
  s.thread("reader", [&a] {
    a.first_behind.await();
    a.second_behind.await();
    a.w.look_during([&] {
      a.seen.give();
      a.collected.await();
    });
  });
  s.thread("writer", [&a] {
    a.w.replace_after([&] {
      ++a.unpinned;  // makes the announcement visible; the same below for the unpin
      a.pinned.give();
      a.seen.await();
    });
    ++a.unpinned;
    a.detached.give();
  });
  s.thread("collector", [&a] {
    a.pinned.await();
    a.w.domain.collect();
    const std::uint32_t mine = hw::thread_slot();
    a.stopped.at[mine] = {.before = {stops::stop{}, {&a.advanced, &a.collected}},
                          .behind = {stops::stop{&a.first_behind, &a.detached}}};
    a.moved.give();
    a.w.domain.collect();
    a.advanced.give();
  });
  s.thread("second collector", [&a] {
    a.moved.await();
    a.stopped.at[hw::thread_slot()] = {.behind = {stops::stop{&a.second_behind, &a.advanced}}};
    a.w.domain.collect();
    a.collected.give();
  });
}

}  // namespace
}  // namespace espalier::sim

namespace espalier::hw {

/// Replaces the simulator's, which it calls.
void fence_heavy() noexcept {
  static void (*const simulated)() =
      std::bit_cast<void (*)()>(dlsym(RTLD_NEXT, "_ZN8espalier2hw11fence_heavyEv"));
  using sim::fences;
  auto* const mine = fences != nullptr ? &fences->at[thread_slot()] : nullptr;
  const std::size_t n = mine != nullptr ? mine->passed++ : 0;
  const bool stops = mine != nullptr && n < mine->before.size();
  if (stops) sim::stop_at(mine->before[n]);
  simulated();
  if (stops) sim::stop_at(mine->behind[n]);
}

}  // namespace espalier::hw
