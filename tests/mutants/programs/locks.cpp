// Locks exclude other threads, admit each at last, and refuse only while a thread holds them.

#include <string>

#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "mutants/driver.hpp"

namespace espalier::mutants {
namespace {

/// Protected by a lock; a plain word, so that two threads inside at once are detected.
class guarded {
 public:
  void visit() {
    sim::require(!occupied_, "two threads are inside the lock");
    occupied_ = true;
    ++visits_;
    occupied_ = false;
  }
  [[nodiscard]] int visits() const noexcept { return visits_; }

 private:
  bool occupied_ = false;
  int visits_ = 0;
};

template <class Lock>
struct holder {
  Lock& lock;
  void acquire() { lock.lock(); }
  bool try_acquire() { return lock.try_lock(); }
  void release() { lock.unlock(); }
};
template <queue_lockable Lock>
struct holder<Lock> {
  Lock& lock;
  typename Lock::queue_node node{};  // one for all its acquisitions
  void acquire() { lock.lock(node); }
  bool try_acquire() { return lock.try_lock(node); }
  void release() { lock.unlock(node); }
};

template <class Lock>
void excludes(sim::scene& s) {
  auto& lock = s.make<Lock>();
  auto& inside = s.make<guarded>();
  for (const char* name : {"a", "b", "c"}) {
    s.thread(name, [&] {
      holder<Lock> mine{lock};
      for (int round = 0; round < 2; ++round) {
        mine.acquire();
        inside.visit();
        mine.release();
      }
    });
  }
  s.at_end([&] { sim::require(inside.visits() == 6, "a visit behind the lock is lost"); });
}

template <class Lock>
void tries(sim::scene& s) {
  auto& lock = s.make<Lock>();
  auto& inside = s.make<guarded>();
  auto& entered = s.make<std::atomic<int>>(0);
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] {
      holder<Lock> mine{lock};
      if (!mine.try_acquire()) return;
      inside.visit();
      ++entered;
      mine.release();
    });
  }
  s.thread("c", [&] {
    holder<Lock> mine{lock};
    mine.acquire();
    inside.visit();
    ++entered;
    mine.release();
    mine.acquire();
    mine.release();
  });
  s.at_end([&] {
    sim::require(inside.visits() == entered, "a visit behind the lock is lost");
    holder<Lock> mine{lock};
    sim::require(mine.try_acquire(), "the lock is held when nobody holds it");
    mine.release();
  });
}

template <class Lock>
void both(scenes& all, const std::string& name) {
  all.run(name + " excludes", excludes<Lock>);
  all.run(name + " tries", tries<Lock>);
}

}  // namespace

void explore_all(scenes& all) {
  both<ttas_lock>(all, "ttas_lock");
  both<ticket_lock>(all, "ticket_lock");
  both<mcs_lock>(all, "mcs_lock");
}

}  // namespace espalier::mutants
