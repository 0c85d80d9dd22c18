#pragma once

#include <array>
#include <cstddef>

#include "espalier/sync/lock_concept.hpp"
#include "sim/explore.hpp"

// What every lock must guarantee, as scenes for explore(). A deadlock is reported as a livelock: no thread continues.

namespace espalier::sim {

/// A lock of either kind; its threads supply the queue node if it needs one.
template <class Lock>
class lock_user {
 public:
  explicit lock_user(Lock& lock) : lock_(lock) {}

  void lock() {
    if constexpr (queue_lockable<Lock>)
      lock_.lock(node_.value);
    else
      lock_.lock();
  }
  [[nodiscard]] bool try_lock() {
    if constexpr (queue_lockable<Lock>)
      return lock_.try_lock(node_.value);
    else
      return lock_.try_lock();
  }
  void unlock() noexcept {
    if constexpr (queue_lockable<Lock>)
      lock_.unlock(node_.value);
    else
      lock_.unlock();
  }

 private:
  struct none {};
  template <class L>
  struct node_of {
    none value;
  };
  template <queue_lockable L>
  struct node_of<L> {
    typename L::queue_node value;
  };

  Lock& lock_;
  [[no_unique_address]] node_of<Lock> node_;
};

/// Data that a lock protects: nothing here is atomic.
struct protected_data {
  int inside = 0;
  int entered = 0;

  void visit() {
    require(++inside == 1, "two threads are inside");
    const int before = entered;
    entered = before + 1;
    require(--inside == 0, "two threads were inside");
  }
};

template <class Lock>
struct locked_data {
  Lock lock;
  protected_data data;
};

inline constexpr const char* thread_names[] = {"a", "b", "c", "d"};

/// lock() and unlock(), and nothing else.
template <class Lock, int Threads, int Rounds>
void mutual_exclusion(scene& s) {
  auto& shared = s.make<locked_data<Lock>>();
  for (int t = 0; t < Threads; ++t) {
    s.thread(thread_names[t], [&shared] {
      lock_user<Lock> user(shared.lock);  // with one queue node for all its acquisitions
      for (int round = 0; round < Rounds; ++round) {
        user.lock();
        shared.data.visit();
        user.unlock();
      }
    });
  }
  s.at_end([&shared] {
    require(shared.data.entered == Threads * Rounds, "each thread was inside as often as it locked");
    lock_user<Lock> user(shared.lock);
    require(user.try_lock(), "the lock is free when all have unlocked");
    user.unlock();
  });
}

/// Threads that only try, concurrent with one that waits for the lock.
template <class Lock, int Rounds>
void tries_beside_lock(scene& s) {
  auto& shared = s.make<locked_data<Lock>>();
  auto& taken = s.make<std::array<int, 3>>();
  for (std::size_t t = 0; t < 2; ++t) {
    s.thread(thread_names[t], [&shared, mine = &taken[t]] {
      lock_user<Lock> user(shared.lock);
      for (int round = 0; round < Rounds; ++round) {
        if (!user.try_lock()) continue;
        shared.data.visit();
        ++*mine;
        user.unlock();
      }
    });
  }
  s.thread("insists", [&shared, mine = &taken[2]] {
    lock_user<Lock> user(shared.lock);
    for (int round = 0; round < Rounds; ++round) {
      user.lock();
      shared.data.visit();
      ++*mine;
      user.unlock();
    }
  });
  s.at_end([&] {
    require(taken[2] == Rounds, "who insists is let in");
    require(shared.data.entered == taken[0] + taken[1] + taken[2], "who got the lock was alone");
  });
}

/// Two locks held at once, always in one order.
template <class Lock>
void nested_locks(scene& s) {
  auto& outer = s.make<locked_data<Lock>>();
  auto& inner = s.make<locked_data<Lock>>();
  for (int t = 0; t < 2; ++t) {
    s.thread(thread_names[t], [&outer, &inner] {
      lock_user<Lock> first(outer.lock);
      lock_user<Lock> second(inner.lock);
      first.lock();
      second.lock();
      outer.data.visit();
      inner.data.visit();
      first.unlock();
      inner.data.visit();
      second.unlock();
    });
  }
  s.thread("inner", [&inner] {
    lock_user<Lock> only(inner.lock);
    only.lock();
    inner.data.visit();
    only.unlock();
  });
  s.at_end([&] { require(outer.data.entered == 2 && inner.data.entered == 5, "no visit is lost"); });
}

}  // namespace espalier::sim
