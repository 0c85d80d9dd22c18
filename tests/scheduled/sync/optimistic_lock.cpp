// What an optimistic_lock and the versioned locks of edges keep.

#include <gtest/gtest.h>

#include <atomic>

#include "espalier/sync/optimistic_lock.hpp"
#include "espalier/sync/version_lock.hpp"
#include "scheduled/expect.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

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

ESPALIER_SCENE(optimistic_lock, additions_are_kept, 6000) {
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

ESPALIER_SCENE(optimistic_lock, a_valid_section_is_one_moment, 6000) {
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
ESPALIER_SCENE(optimistic_lock, holders_exclude_each_other, 6000) {
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

ESPALIER_SCENE(optimistic_lock, unchanged_is_no_change, 6000) {
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
ESPALIER_SCENE(optimistic_lock, a_reader_never_uses_an_unlinked_child, 6000) {
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
ESPALIER_SCENE(optimistic_lock, an_obsolete_object_is_not_changed, 6000) {
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
ESPALIER_SCENE(optimistic_lock, readers_see_each_step_of_writers_beside_them, 6000) {
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
ESPALIER_SCENE(optimistic_lock, a_writer_beside_readers_excludes_other_writers, 6000) {
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

/// The control: a reader that does not validate sees half of a change.
TEST(optimistic_lock, what_is_not_validated_may_be_torn) {
  expect_broken(failure_kind::requirement, 6000, [](scene& s) {
    auto& p = s.make<guarded_pair>();
    s.thread("writes", [&p] { p.add(); });
    s.thread("reads", [&p] {
      const optimistic_lock::read_section seen = p.lock.read();
      const int a = p.left.get(seen);
      require(a == p.right.get(seen), "torn");
    });
  });
}

/// A number behind each side of a lock.
template <class Lock>
struct numbers_at_sides {
  using side = typename Lock::side;
  using version = typename Lock::version;

  Lock lock;
  std::atomic<int> left{0};
  std::atomic<int> right{0};

  std::atomic<int>& of(side s) { return s == side::left ? left : right; }

  /// Adds one to what was read without the lock. This is correct only if locking at the version validates the read.
  bool try_add(side s) {
    const version seen = lock.read(s);
    const int before = of(s).load(std::memory_order_acquire);
    if (!lock.try_lock(s, seen)) return false;
    of(s).store(before + 1, std::memory_order_release);
    lock.unlock(s, seen);
    return true;
  }
  bool try_add_both() {
    const version seen_left = lock.read(side::left);
    const version seen_right = lock.read(side::right);
    const int left_before = left.load(std::memory_order_acquire);
    const int right_before = right.load(std::memory_order_acquire);
    if (!lock.try_lock_both(seen_left, seen_right)) return false;
    left.store(left_before + 1, std::memory_order_release);
    right.store(right_before + 1, std::memory_order_release);
    lock.unlock(side::left, seen_left);
    lock.unlock(side::right, seen_right);
    return true;
  }
  void add(side s) {
    while (!try_add(s)) wait_for_others();
  }
};

using pair = numbers_at_sides<version_lock_pair>;
using side = version_lock_pair::side;

ESPALIER_SCENE(version_lock, locking_at_a_version_is_validation, 8000) {
  auto& p = s.make<pair>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&p] {
      p.add(side::left);
      p.add(side::left);
    });
  }
  s.thread("right", [&p] {
    p.add(side::right);
    p.add(side::right);
  });
  s.at_end([&p] {
    require(p.left == 4 && p.right == 2, "no addition is lost");
    require(p.lock.read(side::left) == 8 && p.lock.read(side::right) == 4,
            "each unlock moves its own side on by one even version");
  });
}

ESPALIER_SCENE(version_lock, both_sides_at_once, 8000) {
  auto& p = s.make<pair>();
  s.thread("both", [&p] {
    while (!p.try_add_both()) wait_for_others();
  });
  s.thread("left", [&p] { p.add(side::left); });
  s.thread("right", [&p] { p.add(side::right); });
  s.at_end([&p] { require(p.left == 2 && p.right == 2, "no addition is lost"); });
}

ESPALIER_SCENE(version_lock, what_is_reverted_has_not_happened, 8000) {
  auto& p = s.make<pair>();
  const auto seen = p.lock.read(side::left);
  s.thread("reverts", [&p] {
    const auto mine = p.lock.read(side::left);
    if (p.lock.try_lock(side::left, mine)) p.lock.revert(side::left, mine);
  });
  // Fails while the other thread holds it, and never after.
  s.thread("keeps its version", [&p, seen] {
    while (!p.lock.try_lock(side::left, seen)) wait_for_others();
    p.lock.unlock(side::left, seen);
  });
  s.at_end([&p] { require(p.lock.read(side::left) == 2, "one change is counted"); });
}

ESPALIER_SCENE(version_lock, never_unlocked_means_removed, 8000) {
  auto& p = s.make<pair>();
  auto& removed = s.make<std::atomic<bool>>(false);
  s.thread("removes", [&] {
    while (true) {
      const auto left = p.lock.read(side::left);
      const auto right = p.lock.read(side::right);
      if (p.lock.try_lock_both(left, right)) break;
      wait_for_others();
    }
    removed.store(true);
  });
  for (const auto which : {side::left, side::right}) {
    s.thread(which == side::left ? "left" : "right", [&, which] {
      for (int i = 0; i < 3; ++i) {
        const auto seen = p.lock.read(which);
        if (!p.lock.try_lock(which, seen)) continue;
        require(!removed.load(), "a removed side is locked");
        p.lock.unlock(which, seen);
      }
    });
  }
  s.at_end([&] {
    require(version_lock_pair::is_held(p.lock.read(side::left)) &&
                version_lock_pair::is_held(p.lock.read(side::right)),
            "what was removed stays so");
  });
}

/// The control: with two bits the versions wrap after two updates, and an attempt that slept that long gets the lock
/// although all has changed.
TEST(version_lock, few_bits_wrap_and_lose_an_addition) {
  using narrow = numbers_at_sides<basic_version_lock_pair<2>>;
  expect_broken(failure_kind::requirement, 8000, [](scene& s) {
    auto& p = s.make<narrow>();
    s.thread("sleeps", [&p] { p.add(narrow::side::left); });
    s.thread("twice", [&p] {
      p.add(narrow::side::left);
      p.add(narrow::side::left);
    });
    s.at_end([&p] { require(p.left == 3, "no addition is lost"); });
  });
}

}  // namespace
}  // namespace espalier::sim
