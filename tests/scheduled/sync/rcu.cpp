// What a grace period must guarantee.

#include <atomic>

#include "espalier/reclaim/rcu.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

/// Readers reach an object in read sections; a writer replaces it, waits for a grace period and frees it.
class replaced_thing {
 public:
  replaced_thing() = default;
  replaced_thing(const replaced_thing&) = delete;
  replaced_thing& operator=(const replaced_thing&) = delete;
  ~replaced_thing() { delete current_.load(); }

  void read() {
    const rcu_domain::read_section inside(domain_);
    const thing* const seen = current_.load(std::memory_order_acquire);
    require(seen->alive.load() == 1, "what a section reaches is there");
    require(seen->alive.load() == 1, "what a section reaches stays");
  }
  void replace() {
    const thing* const old = current_.exchange(new thing, std::memory_order_acq_rel);
    domain_.synchronize();
    delete old;
  }
  /// Stores, where the other function exchanges: the store may wait in a buffer.
  void replace_alone() {
    const thing* const old = current_.load(std::memory_order_relaxed);
    current_.store(new thing, std::memory_order_release);
    domain_.synchronize();
    delete old;
  }

 private:
  struct thing {
    std::atomic<int> alive{1};
    ~thing() { alive.store(0); }
  };

  rcu_domain domain_;
  std::atomic<thing*> current_{new thing};
};

ESPALIER_SCENE(rcu, section_is_waited_for, scene_runs(5000).in_all_models()) {
  auto& shared = s.make<replaced_thing>();
  s.thread("reads", [&shared] {
    shared.read();
    shared.read();
  });
  s.thread("replaces", [&shared] {
    shared.replace_alone();
    shared.replace_alone();
  });
}

ESPALIER_SCENE(rcu, all_sections_are_waited_for, scene_runs(5000).in_all_models()) {
  auto& shared = s.make<replaced_thing>();
  for (const char* name : {"reads", "reads too", "reads as well"}) {
    s.thread(name, [&shared] { shared.read(); });
  }
  s.thread("replaces", [&shared] { shared.replace_alone(); });
}

ESPALIER_SCENE(rcu, two_wait_at_once, scene_runs(5000).in_all_models()) {
  auto& shared = s.make<replaced_thing>();
  s.thread("reads", [&shared] {
    shared.read();
    shared.read();
  });
  for (const char* name : {"replaces", "replaces too"}) {
    s.thread(name, [&shared] {
      shared.replace();
      shared.read();
    });
  }
}

/// A thread that has ended, or that waits for the caller outside of sections, delays no grace period.
ESPALIER_SCENE(rcu, threads_outside_are_not_waited_for, scene_runs(5000).in_all_models()) {
  auto& domain = s.make<rcu_domain>();
  auto& returned = s.make<std::atomic<bool>>(false);
  s.thread("ends", [&] { const rcu_domain::read_section inside(domain); });
  s.thread("waits outside", [&] {
    {
      const rcu_domain::read_section inside(domain);
    }
    while (!returned.load()) wait_for_others();
  });
  s.thread("synchronizes", [&] {
    domain.synchronize();
    returned = true;
  });
}

/// Sections of another domain are not waited for.
ESPALIER_SCENE(rcu, domains_are_apart, scene_runs(5000).in_all_models()) {
  auto& one = s.make<rcu_domain>();
  auto& other = s.make<rcu_domain>();
  auto& returned = s.make<std::atomic<bool>>(false);
  s.thread("stays inside", [&] {
    const rcu_domain::read_section inside(other);
    while (!returned.load()) wait_for_others();
    one.synchronize();
  });
  s.thread("synchronizes", [&] {
    one.synchronize();
    returned = true;
  });
}

}  // namespace
}  // namespace espalier::sim
