#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "espalier/delegation/dedicated_servers.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "sim/explore.hpp"

// Scenes of the delegation runtime, for its test and its mutants. In all of them each operation must run exactly once, and
// each thread must come to its end.

namespace espalier::sim::delegated {

using namespace espalier::delegation;

/// What the operations of a scene have done: each has a number, and each partition a log of those that it ran.
struct log {
  static constexpr unsigned most = 16;
  std::array<std::atomic<int>, most> entries{};
  std::atomic<unsigned> length{0};

  unsigned add(int operation) {
    const unsigned at = length.fetch_add(1);
    require(at < most, "an operation runs once");
    entries[at] = operation;
    return at;
  }
  [[nodiscard]] int count(int operation) const {
    int n = 0;
    for (unsigned i = 0; i < length.load(); ++i) n += entries[i].load() == operation ? 1 : 0;
    return n;
  }
};

/// So that waiting threads do soon what they do in the end: serve their own ring, and sleep.
[[nodiscard]] inline options hasty(std::uint32_t ring_depth) {
  options o;
  o.ring_depth = ring_depth;
  o.batch = 2;
  o.nesting = 4;
  o.patience = 3;
  o.spins = 2;
  o.yields = 1;
  o.idle_looks = 2;
  return o;
}

/// A runtime with as many partitions as localities, one in each.
struct world {
  std::unique_ptr<runtime> threads;
  std::unique_ptr<partitions<log>> logs;

  explicit world(unsigned localities, std::uint32_t ring_depth = 1, options o = {})
      : threads(std::make_unique<runtime>(localities::in_turn(localities),
                                          o.patience == 0 ? hasty(ring_depth) : o)),
        logs(std::make_unique<partitions<log>>(*threads, localities)) {}

  /// A thread of the scene, in a locality that it leaves at its end.
  template <class Body>
  auto in(unsigned locality, Body body) {
    return [this, locality, body] {
      threads->attach(locality);
      body();
      threads->leave();
    };
  }

  /// Notes the operation in a partition, and returns twice its number.
  int note(unsigned partition, int operation) {
    return logs->call_at(partition, [operation](log& l) {
      l.add(operation);
      return 2 * operation;
    });
  }
  /// All have run, once each.
  void expect(unsigned partition, std::initializer_list<int> operations) const {
    const log& l = (*logs)[partition];
    for (const int one : operations) require(l.count(one) == 1, "each operation runs exactly once");
    require(l.length.load() == operations.size(), "no other operation runs");
  }
};

/// Two threads call into each other's locality.
inline void calls(scene& s) {
  auto& w = s.make<world>(2U);
  for (const unsigned mine : {0U, 1U}) {
    s.thread(mine == 0 ? "a" : "b", w.in(mine, [&w, mine] {
      const int first = mine == 0 ? 1 : 3;
      for (int i = first; i < first + 2; ++i)
        require(w.note(1 - mine, i) == 2 * i, "the result is that of the operation");
      w.note(mine, first + 10);
    }));
  }
  s.at_end([&w] {
    w.expect(0, {3, 4, 11});
    w.expect(1, {1, 2, 13});
  });
}

/// A thread submits more than its ring holds, and another one serves. They run in the order of their submission.
inline void in_order(scene& s) {
  auto& w = s.make<world>(2U, 2U);
  s.thread("sends", w.in(0, [&w] {
    for (int i = 1; i <= 5; ++i) auto ignored = w.logs->execute_at(1, [i](log& l) { l.add(i); });
    w.threads->barrier();
    require((*w.logs)[1].length.load() == 5, "a barrier waits for all that was submitted");
  }));
  s.thread("serves", w.in(1, [&w] {
    for (int i = 0; i < 3; ++i) w.threads->poll();
  }));
  s.at_end([&w] {
    w.expect(1, {1, 2, 3, 4, 5});
    for (unsigned i = 0; i < 5; ++i)
      require((*w.logs)[1].entries[i] == static_cast<int>(i) + 1,
              "operations of one thread run in their order");
  });
}

/// Results are read when later operations of the ring have run, and discarded.
inline void late_results(scene& s) {
  auto& w = s.make<world>(2U, 2U);
  s.thread("sends", w.in(0, [&w] {
    const auto submit = [&w](int i) {
      return w.logs->execute_at(1, [i](log& l) {
        l.add(i);
        return 2 * i;
      });
    };
    auto one = submit(1);
    static_cast<void>(submit(2));
    auto three = submit(3);
    auto moved = std::move(one);
    require(three.await() == 6, "the last result is its own");
    require(moved.await() == 2, "a result waits until it is read");
  }));
  s.thread("serves", w.in(1, [&w] {
    for (int i = 0; i < 3; ++i) w.threads->poll();
  }));
  s.at_end([&w] { w.expect(1, {1, 2, 3}); });
}

/// From locality to locality, and back to the first: each operation waits for the next, in rings of one message.
template <unsigned Localities>
void round_trip(scene& s) {
  struct trip {
    static int go(world& w, unsigned from, unsigned steps, int operation) {
      const unsigned to = (from + 1) % Localities;
      return w.logs->call_at(to, [&w, to, steps, operation](log& l) {
        l.add(operation);
        return steps == 1 ? operation : go(w, to, steps - 1, operation + 1) + 1;
      });
    }
  };
  auto& w = s.make<world>(Localities, 1U);
  for (unsigned i = 0; i < Localities; ++i) {
    s.thread(std::string(1, static_cast<char>('a' + i)), w.in(i, [&w, i] {
      const int first = 10 * static_cast<int>(i + 1);
      constexpr int steps = Localities;
      require(trip::go(w, i, steps, first) == first + 2 * (steps - 1), "the trip comes to its end");
    }));
  }
  s.at_end([&w] {
    unsigned all = 0;
    for (unsigned p = 0; p < Localities; ++p) {
      all += (*w.logs)[p].length.load();
      for (unsigned i = 0; i < Localities; ++i) {
        const auto step = (p + Localities - i - 1) % Localities;
        require((*w.logs)[p].count(static_cast<int>(10 * (i + 1) + step)) == 1,
                "each step runs exactly once");
      }
    }
    require(all == Localities * Localities, "no other operation runs");
  });
}

/// There and back twice, while the ring of the first message is full: A -> B -> A -> B.
inline void twice_there_and_back(scene& s) {
  auto& w = s.make<world>(2U, 1U);
  s.thread("a", w.in(0, [&w] {
    const int done = w.logs->call_at(1, [&w](log& l) {
      l.add(1);
      return w.logs->call_at(0, [&w](log& m) {
        m.add(2);
        return w.note(1, 3);
      });
    });
    require(done == 6, "the innermost result comes out");
  }));
  s.thread("b", w.in(1, [&w] {
    for (int i = 0; i < 4; ++i) w.threads->poll();
    w.note(0, 4);
  }));
  s.at_end([&w] {
    w.expect(0, {2, 4});
    w.expect(1, {1, 3});
  });
}

/// An operation of an asynchronous message waits for one that goes back behind other messages.
inline void back_behind_others(scene& s) {
  auto& w = s.make<world>(2U, 2U);
  s.thread("a", w.in(0, [&w] {
    auto first = w.logs->execute_at(1, [&w](log& l) {
      l.add(1);
      return w.logs->call_at(0, [&w](log& m) {
        m.add(2);
        return w.note(1, 3);
      });
    });
    auto second = w.logs->execute_at(1, [](log& l) { l.add(4); });
    second.await();
    require(first.await() == 6, "the innermost result comes out");
  }));
  s.thread("b", w.in(1, [&w] {
    for (int i = 0; i < 4; ++i) w.threads->poll();
  }));
  s.at_end([&w] {
    w.expect(0, {2});
    w.expect(1, {1, 3, 4});
  });
}

/// No thread is in the locality: the sender runs its operations.
inline void locality_without_threads(scene& s) {
  auto& w = s.make<world>(3U, 2U);
  s.thread("a", w.in(0, [&w] {
    w.note(2, 1);
    auto later = w.logs->execute_at(2, [](log& l) { l.add(2); });
  }));
  s.thread("b", w.in(1, [&w] { w.note(2, 3); }));
  s.at_end([&w] { w.expect(2, {1, 2, 3}); });
}

/// A thread ends while its messages are in a ring; another one takes its place in the locality.
inline void leaves(scene& s) {
  auto& w = s.make<world>(2U, 2U);
  s.thread("leaves", w.in(0, [&w] {
    auto one = w.logs->execute_at(1, [](log& l) { l.add(1); });
    auto two = w.logs->execute_at(1, [](log& l) { l.add(2); });
  }));
  s.thread("moves", w.in(1, [&w] {
    w.threads->poll();
    w.threads->attach(0);
    w.note(1, 3);
  }));
  s.thread("serves", w.in(1, [&w] { w.note(0, 4); }));
  s.at_end([&w] {
    w.expect(0, {4});
    w.expect(1, {1, 2, 3});
  });
}

/// Two threads serve one locality, and a third one serves all its rings.
inline void three_servers(scene& s) {
  auto& w = s.make<world>(2U, 2U);
  s.thread("sends", w.in(0, [&w] {
    auto one = w.logs->execute_at(1, [](log& l) {
      l.add(1);
      return 1;
    });
    require(w.note(1, 2) == 4, "the result is that of the operation");
    require(one.await() == 1, "the result is that of the operation");
  }));
  for (const char* name : {"serves", "serves too"}) {
    s.thread(name, w.in(1, [&w] {
      w.threads->poll();
      w.threads->serve_locality(1);
    }));
  }
  s.at_end([&w] { w.expect(1, {1, 2}); });
}

/// A dedicated thread that sleeps between messages.
inline void poller(scene& s) {
  auto& w = s.make<world>(2U, 2U);
  auto& stop = s.make<std::atomic<bool>>(false);
  s.thread("polls", w.in(1, [&w, &stop] { w.threads->serve_until(1, stop); }));
  s.thread("sends", w.in(0, [&w, &stop] {
    require(w.note(1, 1) == 2, "the result is that of the operation");
    w.note(1, 2);
    w.threads->stop_serving(stop);
  }));
  s.at_end([&w] { w.expect(1, {1, 2}); });
}

/// The same where only the poller may serve: no wake-up is lost.
inline void poller_alone(scene& s) {
  options o = hasty(2);
  o.patience = o.spins = 1'000'000;
  auto& w = s.make<world>(2U, 2U, o);
  auto& stop = s.make<std::atomic<bool>>(false);
  s.thread("polls", w.in(1, [&w, &stop] { w.threads->serve_until(1, stop); }));
  s.thread("sends", w.in(0, [&w, &stop] {
    w.note(1, 1);
    w.note(1, 2);
    w.threads->stop_serving(stop);
  }));
  s.at_end([&w] { w.expect(1, {1, 2}); });
}

/// A thread that holds the ring's lock while the sender sleeps: it runs the message, or finds none.
inline void long_operation(scene& s) {
  auto& w = s.make<world>(2U, 1U);
  s.thread("sends", w.in(0, [&w] {
    require(w.note(1, 1) == 2, "the result is that of the operation");
    require(w.note(1, 2) == 4, "the result is that of the operation");
  }));
  s.thread("looks into each ring", w.in(1, [&w] { w.threads->drain(); }));
  s.at_end([&w] { w.expect(1, {1, 2}); });
}

/// A barrier, of a thread that serves itself, and of an operation that has served others.
inline void barriers(scene& s) {
  auto& w = s.make<world>(2U, 4U);
  s.thread("a", w.in(0, [&w] {
    for (int i = 1; i <= 3; ++i) static_cast<void>(w.logs->execute_at(1, [i](log& l) { l.add(i); }));
    w.threads->barrier();
    require((*w.logs)[1].count(3) == 1, "a barrier waits for all that was submitted");
  }));
  s.thread("b", w.in(0, [&w] {
    w.logs->call_at(1, [&w](log& l) {
      l.add(4);
      static_cast<void>(w.logs->execute_at(0, [](log& m) { m.add(5); }));
      w.threads->poll();
      w.threads->barrier();
      require((*w.logs)[0].count(5) == 1, "a barrier waits for all that its operation has submitted");
    });
  }));
  s.thread("c", w.in(1, [&w] { w.threads->poll(); }));
  s.at_end([&w] {
    w.expect(0, {5});
    w.expect(1, {1, 2, 3, 4});
  });
}

/// Continuations run in the thread that submitted the operation, and may submit further ones.
inline void continues(scene& s) {
  auto& w = s.make<world>(2U, 1U);
  auto& continued = s.make<std::atomic<int>>(0);
  s.thread("sends", w.in(0, [&w, &continued] {
    const std::uint32_t me = hw::thread_slot();
    w.logs
        ->execute_at(1,
                     [](log& l) {
                       l.add(1);
                       return 5;
                     })
        .then([&w, &continued, me](outcome<int> result) {
          require(hw::thread_slot() == me, "a continuation runs in the submitting thread");
          require(result.get() == 5, "a continuation gets the result");
          ++continued;
          w.logs->execute_at(1, [](log& l) { l.add(2); }).then([&continued](outcome<void>) { ++continued; });
        });
    w.note(1, 3);
  }));
  s.thread("serves", w.in(1, [&w] {
    for (int i = 0; i < 3; ++i) w.threads->poll();
  }));
  s.at_end([&w, &continued] {
    w.expect(1, {1, 2, 3});
    require(continued.load() == 2, "each continuation runs once");
  });
}

/// A read by the thread itself sees what the thread has submitted for the key.
inline void reads_its_writes(scene& s) {
  auto& w = s.make<world>(2U, 2U);
  s.thread("a", w.in(0, [&w] {
    int key = 0;
    while (w.logs->index_of(key) != 1) ++key;
    auto write = w.logs->execute(key, [](log& l) { l.add(1); });
    const int seen = w.logs->run_here(key, [](log& l) { return l.count(1); });
    require(seen == 1, "a thread reads its writes");
  }));
  s.thread("b", w.in(1, [&w] { w.threads->poll(); }));
  s.at_end([&w] { w.expect(1, {1}); });
}

/// An operation on every partition.
inline void everywhere(scene& s) {
  auto& w = s.make<world>(2U, 1U);
  s.thread("a", w.in(0, [&w] {
    const int sum = w.logs->broadcast(
        0,
        [](log& l) {
          l.add(1);
          return 4;
        },
        [](int a, int b) { return a + b; });
    require(sum == 8, "an aggregate has the result of each partition");
  }));
  s.thread("b", w.in(1, [&w] { w.note(0, 2); }));
  s.at_end([&w] {
    w.expect(0, {1, 2});
    w.expect(1, {1});
  });
}

/// Exceptions come out where the operation was called, or are discarded.
inline void throws(scene& s) {
  auto& w = s.make<world>(2U, 1U);
  s.thread("a", w.in(0, [&w] {
    static_cast<void>(w.logs->execute_at(1, [](log& l) -> int {
      l.add(1);
      throw 1;
    }));
    bool caught = false;
    try {
      w.logs->call_at(1, [&w](log& l) -> int {
        l.add(2);
        w.logs->call_at(0, [](log& m) -> int {
          m.add(3);
          throw 3;
        });
        return 0;
      });
    } catch (int thrown) {
      caught = thrown == 3;
    }
    require(caught, "an exception comes out where the operation was called");
    require(w.note(1, 4) == 8, "the next operation has its own result");
  }));
  s.thread("b", w.in(1, [&w] {
    for (int i = 0; i < 3; ++i) w.threads->poll();
  }));
  s.at_end([&w] {
    w.expect(0, {3});
    w.expect(1, {1, 2, 4});
  });
}

/// What is in the rings when the partitions and the runtime are destroyed runs before.
inline void destroyed(scene& s) {
  auto& w = s.make<world>(2U, 2U);
  auto& ran = s.make<std::atomic<int>>(0);
  auto& ended = s.make<std::atomic<int>>(0);
  for (const unsigned mine : {0U, 1U}) {
    s.thread(mine == 0 ? "a" : "b", [&w, &ran, &ended, mine] {
      w.threads->attach(mine);
      for (int i = 0; i < 2; ++i)
        w.logs->execute_at(1 - mine, [&ran](log&) { ++ran; }).then([&ended](outcome<void>) { ++ended; });
    });
  }
  s.at_end([&w, &ran, &ended] {
    w.logs.reset();
    require(ran.load() == 4, "partitions run what is on its way to them");
    w.threads.reset();
    require(ended.load() == 4, "a runtime runs the continuations that are left");
  });
}

/// Two clients of one dedicated server.
inline void served(scene& s) {
  struct fixture {
    dedicated_servers servers{1, false};
    served_partitions<std::array<int, 2>> all{servers, 1};
    std::atomic<int> ended{0};
  };
  auto& f = s.make<fixture>();
  for (const unsigned mine : {0U, 1U}) {
    s.thread(mine == 0 ? "a" : "b", [&f, mine] {
      for (int i = 1; i <= 2; ++i) {
        const int sum = f.all.call_at(0, [mine](std::array<int, 2>& a) noexcept { return ++a[mine]; });
        require(sum == i, "a request runs exactly once");
      }
      bool caught = false;
      try {
        f.all.call_at(0, [mine](std::array<int, 2>& a) {
          ++a[mine];
          throw mine;
        });
      } catch (unsigned thrown) {
        caught = thrown == mine;
      }
      require(caught, "an exception comes out where the operation was called");
      ++f.ended;
    });
  }
  s.thread("serves", [&f] {
    while (f.ended.load() != 2) {
      if (f.servers.serve(0) == 0) wait_for_others();
    }
  });
  s.at_end([&f] { require(f.all[0] == std::array{3, 3}, "each request runs exactly once"); });
}

/// Calls visit(name, build) for each scene.
template <class Visitor>
void for_each_scene(Visitor&& visit) {
  visit("calls", calls);
  visit("in order", in_order);
  visit("late results", late_results);
  visit("there and back", round_trip<2>);
  visit("round trip", round_trip<3>);
  visit("twice there and back", twice_there_and_back);
  visit("back behind others", back_behind_others);
  visit("locality without threads", locality_without_threads);
  visit("leaves", leaves);
  visit("three servers", three_servers);
  visit("poller", poller);
  visit("poller alone", poller_alone);
  visit("long operation", long_operation);
  visit("barriers", barriers);
  visit("continues", continues);
  visit("reads its writes", reads_its_writes);
  visit("everywhere", everywhere);
  visit("throws", throws);
  visit("destroyed", destroyed);
  visit("served", served);
}

}  // namespace espalier::sim::delegated
