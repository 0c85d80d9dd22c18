// What every lock must guarantee. A deadlock is reported as a livelock: no thread continues.

#include <array>
#include <cstddef>
#include <string>

#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/std_mutex.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

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

constexpr const char* thread_names[] = {"a", "b", "c", "d"};

/// lock() and unlock(), and nothing else.
template <class Lock>
void mutual_exclusion(scene& s, int threads, int rounds) {
  auto& shared = s.make<locked_data<Lock>>();
  for (int t = 0; t < threads; ++t) {
    s.thread(thread_names[t], [&shared, rounds] {
      lock_user<Lock> user(shared.lock);  // with one queue node for all its acquisitions
      for (int round = 0; round < rounds; ++round) {
        user.lock();
        shared.data.visit();
        user.unlock();
      }
    });
  }
  s.at_end([&shared, threads, rounds] {
    require(shared.data.entered == threads * rounds, "each thread was inside as often as it locked");
    lock_user<Lock> user(shared.lock);
    require(user.try_lock(), "the lock is free when all have unlocked");
    user.unlock();
  });
}

/// Threads that only try, concurrent with one that waits for the lock.
template <class Lock>
void tries_beside_lock(scene& s) {
  constexpr int rounds = 2;
  auto& shared = s.make<locked_data<Lock>>();
  auto& taken = s.make<std::array<int, 3>>();
  for (std::size_t t = 0; t < 2; ++t) {
    s.thread(thread_names[t], [&shared, mine = &taken[t]] {
      lock_user<Lock> user(shared.lock);
      for (int round = 0; round < rounds; ++round) {
        if (!user.try_lock()) continue;
        shared.data.visit();
        ++*mine;
        user.unlock();
      }
    });
  }
  s.thread("insists", [&shared, mine = &taken[2]] {
    lock_user<Lock> user(shared.lock);
    for (int round = 0; round < rounds; ++round) {
      user.lock();
      shared.data.visit();
      ++*mine;
      user.unlock();
    }
  });
  s.at_end([&] {
    require(taken[2] == rounds, "who insists is let in");
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

/// The next thread sees what one thread did before it unlocked. Nothing but the lock orders a plain store.
template <class Lock>
void hand_on_what_was_written(scene& s) {
  struct list {
    Lock lock;
    int* last = nullptr;
    int values[6]{};
    int used = 0;
  };
  auto& shared = s.make<list>();
  for (int t = 0; t < 3; ++t) {
    s.thread(thread_names[t], [&shared] {
      for (int round = 0; round < 2; ++round) {
        lock_user<Lock> user(shared.lock);
        user.lock();
        int* const mine = &shared.values[shared.used++];
        *mine = shared.last == nullptr ? 1 : *shared.last + 1;
        shared.last = mine;
        user.unlock();
      }
    });
  }
  s.at_end([&shared] { require(*shared.last == 6, "each saw what the one before it wrote"); });
}

template <class Lock>
bool add_lock(const std::string& name) {
  const auto add = [&name](const char* what, const scene_build& build) {
    add_scene("locks/" + name, what, build, scene_runs(4000).in_all_models());
  };
  add("excludes_two_threads", [](scene& s) { mutual_exclusion<Lock>(s, 2, 3); });
  add("excludes_three_threads", [](scene& s) { mutual_exclusion<Lock>(s, 3, 2); });
  add("excludes_four_threads", [](scene& s) { mutual_exclusion<Lock>(s, 4, 1); });
  add("is_tried", tries_beside_lock<Lock>);
  add("nests", nested_locks<Lock>);
  add("hands_on_what_was_written", hand_on_what_was_written<Lock>);
  return true;
}
[[maybe_unused]] const bool locks_are_added =
    add_lock<ttas_lock>("ttas_lock") && add_lock<ticket_lock>("ticket_lock") &&
    add_lock<mcs_lock>("mcs_lock") && add_lock<std_mutex>("std_mutex");

}  // namespace
}  // namespace espalier::sim
