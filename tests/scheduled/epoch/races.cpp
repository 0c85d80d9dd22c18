// The epoch domain alone: what all reclaimers keep, and races of its advances.

#include "espalier/reclaim/epoch.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "scheduled/reclaimer_scenes.hpp"

namespace espalier::sim {
namespace {

ESPALIER_RECLAIMER_SCENES(epoch, epoch_domain, 1)

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
  reclaimer_world<epoch_domain> w;
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
