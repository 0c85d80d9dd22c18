#pragma once

#include <atomic>
#include <string>

#include "espalier/sync/optimistic_lock.hpp"
#include "sim/explore.hpp"

// What an optimistic_lock keeps, as scenes for explore().

namespace espalier::sim::optimistic {

/// Two numbers behind one lock that are changed together.
struct guarded_pair {
  optimistic_lock lock;
  optimistic_field<int> left{0};
  optimistic_field<int> right{0};

  /// Adds one to each, from what was read before the lock was taken.
  void add() {
    while (true) {
      const optimistic_lock::read_section seen = lock.read();
      const int a = left.get(seen);
      const int b = right.get(seen);
      if (const optimistic_lock::write_guard held = seen.upgrade()) {
        left.set(held, a + 1);
        right.set(held, b + 1);
        return;
      }
      wait_for_others();
    }
  }
};

inline void additions_are_kept(scene& s) {
  auto& p = s.make<guarded_pair>();
  for (const char* name : {"a", "b", "c"}) {
    s.thread(name, [&p] {
      p.add();
      p.add();
    });
  }
  s.at_end([&p] {
    require(p.left.get(exclusive_access{}) == 6 && p.right.get(exclusive_access{}) == 6,
            "an addition is lost");
  });
}

inline void a_valid_section_is_one_moment(scene& s) {
  auto& p = s.make<guarded_pair>();
  for (const char* name : {"writes", "writes too"}) {
    s.thread(name, [&p] {
      p.add();
      p.add();
    });
  }
  s.thread("reads", [&p] {
    for (int i = 0; i < 3; ++i) {
      const optimistic_lock::read_section seen = p.lock.read();
      const int a = p.left.get(seen);
      const int b = p.right.get(seen);
      if (seen.validate()) require(a == b, "a valid section saw half of a change");
    }
  });
}

/// Words that are not atomic: the lock alone orders its holders, those too that change nothing.
inline void holders_exclude_each_other(scene& s) {
  struct state {
    optimistic_lock lock;
    int visits = 0;
    int seen = 0;
  };
  auto& p = s.make<state>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&p] {
      optimistic_lock::write_guard held = p.lock.lock();
      ++p.visits;
    });
  }
  s.thread("looks", [&p] {
    optimistic_lock::write_guard held = p.lock.lock();
    p.seen = p.visits;
    held.release_unchanged();
  });
  s.at_end([&p] {
    require(p.visits == 2, "a visit is lost");
    require(!p.lock.is_locked(), "the lock is held when no thread holds it");
  });
}

inline void unchanged_is_no_change(scene& s) {
  auto& p = s.make<guarded_pair>();
  const optimistic_lock::read_section before = p.lock.read();
  s.thread("changes nothing", [&p] {
    for (int i = 0; i < 2; ++i) {
      optimistic_lock::write_guard held = p.lock.lock();
      if (held) held.release_unchanged();
    }
  });
  // Fails while the other thread holds the lock, and not afterwards.
  s.thread("upgrades", [&p, before] {
    optimistic_lock::write_guard held = before.upgrade();
    for (; !held; held = before.upgrade()) wait_for_others();
    p.left.set(held, 1);
  });
  s.at_end([&p, before] {
    require(p.left.get(exclusive_access{}) == 1, "the upgrade succeeds");
    require(!before.validate(), "a change ends earlier sections");
  });
}

/// A child is replaced and its number spoilt. A reader that couples parent and child never uses the old one.
inline void a_reader_never_uses_an_unlinked_child(scene& s) {
  struct node {
    optimistic_lock lock;
    optimistic_field<int> number;
    explicit node(int n) : number(n) {}
  };
  struct tree {
    optimistic_lock lock;
    optimistic_field<node*> child;
  };
  auto& old = s.make<node>(1);
  auto& fresh = s.make<node>(2);
  auto& parent = s.make<tree>();
  {
    const optimistic_lock::write_guard held = parent.lock.lock();
    parent.child.set(held, &old);
  }
  s.thread("replaces", [&] {
    const optimistic_lock::write_guard above = parent.lock.lock();
    optimistic_lock::write_guard held = old.lock.lock();
    old.number.set(held, -1);
    parent.child.set(above, &fresh);
    held.release_obsolete();
  });
  for (const char* name : {"reads", "reads too"}) {
    s.thread(name, [&] {
      for (int last = 0, i = 0; i < 2; ++i) {
        const optimistic_lock::read_section above = parent.lock.read();
        node* const child = parent.child.get(above);
        const optimistic_lock::read_section seen = child->lock.read();
        if (seen.obsolete() || !above.validate()) continue;
        const int number = child->number.get(seen);
        if (!seen.validate()) continue;
        require(number > 0, "an unlinked child is read");
        require(number >= last, "a later section sees an earlier child");
        last = number;
      }
    });
  }
  s.at_end([&] {
    require(old.lock.read().obsolete() && !old.lock.lock(), "what is obsolete stays so");
    require(parent.child.get(exclusive_access{}) == &fresh, "the child is replaced");
  });
}

/// An object that left the structure is not changed any more, whatever a thread saw of it before.
inline void an_obsolete_object_is_not_changed(scene& s) {
  auto& p = s.make<guarded_pair>();
  auto& gone = s.make<std::atomic<bool>>(false);
  s.thread("removes", [&] {
    optimistic_lock::write_guard held = p.lock.lock();
    gone.store(true);
    held.release_obsolete();
  });
  for (const char* name : {"adds", "adds too"}) {
    s.thread(name, [&] {
      for (int i = 0; i < 2; ++i) {
        const optimistic_lock::read_section seen = p.lock.read();
        const int a = p.left.get(seen);
        if (const optimistic_lock::write_guard held = seen.upgrade()) {
          require(!gone.load(), "a removed object is locked");
          p.left.set(held, a + 1);
        }
      }
    });
  }
}

/// Writers beside readers exclude each other, and a reader beside them never waits nor starts again.
inline void readers_see_each_step_of_writers_beside_them(scene& s) {
  auto& p = s.make<guarded_pair>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&p] {
      for (int i = 0; i < 2; ++i) {
        optimistic_lock::write_guard held = p.lock.read().upgrade_beside_readers();
        for (; !held; held = p.lock.read().upgrade_beside_readers()) wait_for_others();
        p.left.set(held, p.left.get(held) + 1);
        held.release_unchanged();
      }
    });
  }
  s.thread("reads", [&p] {
    for (int last = 0, i = 0; i < 3; ++i) {
      const optimistic_lock::read_section seen = p.lock.read();
      const int now = p.left.get(seen);
      require(seen.validate(), "a writer beside readers ends their section");
      require(now >= last, "a later section sees an earlier step");
      last = now;
    }
  });
  s.at_end([&p] {
    require(p.left.get(exclusive_access{}) == 4, "a step is lost");
    require(!p.lock.is_locked(), "the lock is held when no thread holds it");
  });
}

/// A writer with the lock to itself is not beside one beside readers. What that one releases with a new version ends
/// earlier sections.
inline void a_writer_beside_readers_excludes_other_writers(scene& s) {
  auto& p = s.make<guarded_pair>();
  const optimistic_lock::read_section before = p.lock.read();
  s.thread("beside readers", [&p] {
    for (int i = 0; i < 2; ++i) {
      optimistic_lock::write_guard held = p.lock.read().upgrade_beside_readers();
      for (; !held; held = p.lock.read().upgrade_beside_readers()) wait_for_others();
      p.left.set(held, p.left.get(held) + 1);
    }
  });
  for (const char* name : {"alone", "alone too"}) {
    s.thread(name, [&p] {
      const optimistic_lock::write_guard held = p.lock.lock();
      require(p.lock.is_locked(), "a lock that is held says that it is not");
      const int first = p.left.get(held);
      p.right.set(held, first);
      require(p.left.get(held) == first, "two writers hold one lock");
    });
  }
  s.at_end([&p, before] {
    require(p.left.get(exclusive_access{}) == 2, "a step is lost");
    require(!before.validate(), "a new version ends earlier sections");
  });
}

/// Calls run(name, scene) for each.
template <class Run>
void for_each_scene(const Run& run) {
  run("additions are kept", additions_are_kept);
  run("a valid section is one moment", a_valid_section_is_one_moment);
  run("holders exclude each other", holders_exclude_each_other);
  run("unchanged is no change", unchanged_is_no_change);
  run("a reader never uses an unlinked child", a_reader_never_uses_an_unlinked_child);
  run("an obsolete object is not changed", an_obsolete_object_is_not_changed);
  run("readers see each step of writers beside them", readers_see_each_step_of_writers_beside_them);
  run("a writer beside readers excludes other writers", a_writer_beside_readers_excludes_other_writers);
}

}  // namespace espalier::sim::optimistic
