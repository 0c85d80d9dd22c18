// The epoch domain as its users see it.

#include "espalier/reclaim/epoch.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "espalier/map/bst/ticket.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

struct object {
  std::atomic<int> alive{1};
  ~object() { alive.store(0); }
};

/// One object that readers reach and writers replace.
struct shared_object {
  epoch_domain domain;
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

void everything_is_reclaimed(shared_object& shared) {
  require(shared.domain.collect() == 0, "a retired entry is left while no thread is pinned");
  const auto count = shared.domain.statistics();
  require(count.retired == static_cast<std::uint64_t>(shared.replaced.load()) &&
              count.reclaimed == count.retired && count.pinned_threads == 0,
          "the counts agree");
}

ESPALIER_SCENE(epoch, two_threads_collect_at_once, scene_runs(5000).in_all_models()) {
  auto& shared = s.make<shared_object>();
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

ESPALIER_SCENE(epoch, two_threads_replace, scene_runs(5000).in_all_models()) {
  auto& shared = s.make<shared_object>();
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

ESPALIER_SCENE(epoch, nested_guards_protect_until_the_last, scene_runs(5000).in_all_models()) {
  auto& shared = s.make<shared_object>();
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
ESPALIER_SCENE(epoch, pinning_again_is_no_pin_of_long_ago, scene_runs(5000).in_all_models()) {
  auto& shared = s.make<shared_object>();
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
ESPALIER_SCENE(epoch, bags_of_ended_threads, scene_runs(3000).in_all_models()) {
  auto& shared = s.make<shared_object>();
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
ESPALIER_SCENE(epoch, full_bags, scene_runs(150).in_all_models()) {
  auto& shared = s.make<shared_object>();
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

using shipped_map = ticket<std::uint64_t, std::uint64_t>;

/// A map is destroyed beside another one on the same domain. The other map's thread collects what both have retired.
/// Entries reclaimed after the purge would go to the destroyed map's placement, which no longer has memory.
ESPALIER_SCENE(epoch, purge_of_a_dying_map, scene_runs(1000).in_all_models()) {
  auto& domain = s.make<epoch_domain>();
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

}  // namespace
}  // namespace espalier::sim
