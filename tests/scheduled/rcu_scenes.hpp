#pragma once

#include <atomic>

#include "espalier/reclaim/rcu.hpp"
#include "sim/explore.hpp"

// What a grace period must guarantee, as scenes for explore().

namespace espalier::sim {

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

inline void section_is_waited_for(scene& s) {
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

inline void all_sections_are_waited_for(scene& s) {
  auto& shared = s.make<replaced_thing>();
  for (const char* name : {"reads", "reads too", "reads as well"}) {
    s.thread(name, [&shared] { shared.read(); });
  }
  s.thread("replaces", [&shared] { shared.replace_alone(); });
}

inline void two_wait_at_once(scene& s) {
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

}  // namespace espalier::sim
