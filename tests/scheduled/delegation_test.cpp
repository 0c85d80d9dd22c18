// Scenes of the delegation runtime. In all of them each operation must run exactly once, and each thread must come to its end.

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "espalier/delegation/dedicated_servers.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "scheduled/scenes.hpp"
#include "sim/explore.hpp"

namespace espalier::sim {
namespace {

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
[[nodiscard]] options hasty(std::uint32_t ring_depth) {
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
ESPALIER_SCENE(delegation, calls, 1500) {
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
ESPALIER_SCENE(delegation, in_order, 1500) {
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
ESPALIER_SCENE(delegation, late_results, 1500) {
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
void round_trip_over(scene& s) {
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

ESPALIER_SCENE(delegation, there_and_back, 1500) { round_trip_over<2>(s); }
ESPALIER_SCENE(delegation, round_trip, 1500) { round_trip_over<3>(s); }

/// There and back twice, while the ring of the first message is full: A -> B -> A -> B.
ESPALIER_SCENE(delegation, twice_there_and_back, 1500) {
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
ESPALIER_SCENE(delegation, back_behind_others, 1500) {
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
ESPALIER_SCENE(delegation, locality_without_threads, 1500) {
  auto& w = s.make<world>(3U, 2U);
  s.thread("a", w.in(0, [&w] {
    w.note(2, 1);
    auto later = w.logs->execute_at(2, [](log& l) { l.add(2); });
  }));
  s.thread("b", w.in(1, [&w] { w.note(2, 3); }));
  s.at_end([&w] { w.expect(2, {1, 2, 3}); });
}

/// A thread ends while its messages are in a ring; another one takes its place in the locality.
ESPALIER_SCENE(delegation, leaves, 1500) {
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
ESPALIER_SCENE(delegation, three_servers, 1500) {
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
ESPALIER_SCENE(delegation, poller, 1500) {
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
ESPALIER_SCENE(delegation, poller_alone, 1500) {
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
ESPALIER_SCENE(delegation, long_operation, 1500, 10) {
  auto& w = s.make<world>(2U, 1U);
  s.thread("sends", w.in(0, [&w] {
    require(w.note(1, 1) == 2, "the result is that of the operation");
    require(w.note(1, 2) == 4, "the result is that of the operation");
  }));
  s.thread("looks into each ring", w.in(1, [&w] { w.threads->drain(); }));
  s.at_end([&w] { w.expect(1, {1, 2}); });
}

/// A barrier, of a thread that serves itself, and of an operation that has served others.
ESPALIER_SCENE(delegation, barriers, 1500) {
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
ESPALIER_SCENE(delegation, continues, 1500) {
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
ESPALIER_SCENE(delegation, reads_its_writes, 1500) {
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
ESPALIER_SCENE(delegation, everywhere, 1500) {
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
ESPALIER_SCENE(delegation, throws, 1500) {
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
ESPALIER_SCENE(delegation, destroyed, 1500) {
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
ESPALIER_SCENE(delegation, served, 1500) {
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

// What comes in a given order, in every schedule.

/// Threads take turns by it.
struct steps {
  std::atomic<int> done{0};
  void await(int step) const {
    while (done.load() < step) wait_for_others();
  }
};

/// Where only the threads of a locality serve.
[[nodiscard]] options patient(std::uint32_t ring_depth) {
  options o = hasty(ring_depth);
  o.patience = o.spins = 1'000'000;
  return o;
}

[[nodiscard]] bool is_readable(int fd) {
  pollfd look{fd, POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

/// Until the second locality has run so many operations.
void poll_until(world& w, unsigned operations) {
  while ((*w.logs)[1].length.load() != operations) {
    if (w.threads->poll() == 0) wait_for_others();
  }
}

/// The last thread of a locality takes the share of one that leaves.
ESPALIER_SCENE(delegation, shares_follow, 100, .05) {
  auto& w = s.make<world>(2U, 2U, patient(2));
  auto& step = s.make<steps>();
  s.thread("leaves", [&w, &step] {
    w.threads->attach(1);
    step.done = 1;
    step.await(2);
    w.threads->leave();
    step.done = 3;
  });
  s.thread("serves", [&w, &step] {
    step.await(1);
    w.threads->attach(1);
    step.done = 2;
    step.await(4);
    w.threads->poll();
    require((*w.logs)[1].count(1) == 1, "the thread that is left serves all rings");
    step.done = 5;
    w.threads->leave();
  });
  s.thread("sends", w.in(0, [&w, &step] {
    step.await(3);
    auto sent = w.logs->execute_at(1, [](log& l) { l.add(1); });
    step.done = 4;
    step.await(5);
  }));
}

/// A loop is woken in the locality to which it has come.
ESPALIER_SCENE(delegation, loop_that_moves, 100, .05) {
  auto& w = s.make<world>(2U, 2U, patient(2));
  auto& step = s.make<steps>();
  s.thread("loop", [&w, &step] {
    for (const unsigned there : {1U, 0U}) {
      w.threads->attach(there);
      require(w.threads->arm(), "a loop without work sleeps");
    }
    step.done = 1;
    step.await(2);
    require(is_readable(w.threads->event_fd()), "a message to its locality wakes a loop");
    w.threads->poll();
    w.threads->leave();
  });
  s.thread("sends", w.in(1, [&w, &step] {
    step.await(1);
    auto sent = w.logs->execute_at(0, [](log& l) { l.add(1); });
    step.done = 2;
  }));
}

/// Each message wakes another one of the loops, also when none of those woken does anything.
ESPALIER_SCENE(delegation, loops, 100, .05) {
  auto& w = s.make<world>(2U, 2U, patient(2));
  auto& step = s.make<steps>();
  auto& armed = s.make<std::atomic<int>>(0);
  auto& woken = s.make<std::atomic<int>>(0);
  for (const char* name : {"loop", "loop too"}) {
    s.thread(name, w.in(1, [&w, &step, &armed, &woken] {
      require(w.threads->arm(), "a loop without work sleeps");
      ++armed;
      step.await(1);
      if (is_readable(w.threads->event_fd())) ++woken;
      ++armed;
      step.await(2);
      require(is_readable(w.threads->event_fd()), "each loop is woken");
      poll_until(w, 2);
    }));
  }
  s.thread("sends", w.in(0, [&w, &step, &armed, &woken] {
    while (armed.load() != 2) wait_for_others();
    auto one = w.logs->execute_at(1, [](log& l) { l.add(1); });
    step.done = 1;
    while (armed.load() != 4) wait_for_others();
    require(woken.load() == 1, "one message wakes one loop");
    auto two = w.logs->execute_at(1, [](log& l) { l.add(2); });
    step.done = 2;
  }));
  s.at_end([&w] { w.expect(1, {1, 2}); });
}

/// A loop looks for work when it arms its descriptor, and has not been told before of what comes then.
ESPALIER_SCENE(delegation, arms, 100, .05) {
  auto& w = s.make<world>(2U, 2U, patient(2));
  auto& step = s.make<steps>();
  s.thread("loop", w.in(1, [&w, &step] {
    step.await(1);
    require(!w.threads->arm(), "a loop with work does not sleep");
    w.threads->poll();
    require(w.threads->arm(), "a loop without work sleeps");
    step.done = 2;
    step.await(3);
    require(is_readable(w.threads->event_fd()), "a message wakes a loop");
    w.threads->poll();
    require(w.threads->arm(), "a loop without work sleeps");
    require(!is_readable(w.threads->event_fd()), "a loop is told of what comes after it was armed");
  }));
  s.thread("sends", w.in(0, [&w, &step] {
    auto one = w.logs->execute_at(1, [](log& l) { l.add(1); });
    step.done = 1;
    step.await(2);
    auto two = w.logs->execute_at(1, [](log& l) { l.add(2); });
    step.done = 3;
    two.await();
  }));
}

/// A sender has run its message when a loop arms its descriptor: the loop is told.
ESPALIER_SCENE(delegation, run_before, 100, .05) {
  auto& w = s.make<world>(2U, 2U);
  auto& step = s.make<steps>();
  s.thread("loop", w.in(1, [&w, &step] {
    w.threads->poll();
    step.done = 1;
    step.await(2);
    require(!w.threads->arm(), "a loop hears of what a sender has run since it last polled");
    w.threads->poll();
    require(w.threads->arm(), "a loop without work sleeps");
  }));
  s.thread("sends", w.in(0, [&w, &step] {
    step.await(1);
    w.note(1, 1);
    step.done = 2;
  }));
}

/// The same while it does so.
ESPALIER_SCENE(delegation, run_by_its_sender, 100, .05) {
  auto& w = s.make<world>(2U, 2U);
  s.thread("loop", w.in(1, [&w] {
    w.threads->poll();
    while ((*w.logs)[1].length.load() == 0) {
      if (w.threads->arm()) {
        while (!is_readable(w.threads->event_fd())) wait_for_others();
      }
      w.threads->poll();
    }
  }));
  s.thread("sends", w.in(0, [&w] { w.note(1, 1); }));
}

/// Operations wait, and their thread serves others on top of them: no more than it may.
ESPALIER_SCENE(delegation, frames, 100, .05) {
  options o = patient(2);
  o.nesting = 2;
  auto& w = s.make<world>(2U, 2U, o);
  auto& sent = s.make<std::atomic<int>>(0);
  auto& on_stack = s.make<std::atomic<int>>(0);
  for (int i = 1; i <= 3; ++i) {
    s.thread(std::string(1, static_cast<char>('a' + i)), w.in(0, [&w, &sent, &on_stack, i] {
      auto one = w.logs->execute_at(1, [&w, &on_stack, i](log& l) {
        require(++on_stack <= 2, "a thread serves no more operations on top of each other than it may");
        w.note(0, i);
        --on_stack;
        l.add(i);
      });
      ++sent;
      poll_until(w, 3);
    }));
  }
  s.thread("serves", w.in(1, [&w, &sent] {
    while (sent.load() != 3) wait_for_others();
    poll_until(w, 3);
  }));
}

/// Each partition has its own dedicated server.
ESPALIER_SCENE(delegation, served_by_its_own, 100, .05) {
  struct fixture {
    dedicated_servers servers{2, false};
    served_partitions<int> all{servers, 2};
    std::array<std::atomic<std::uint32_t>, 2> slots{};
    std::atomic<int> ended{0};
  };
  auto& f = s.make<fixture>();
  for (const unsigned mine : {0U, 1U}) {
    s.thread(mine == 0 ? "server" : "other server", [&f, mine] {
      f.slots[mine] = hw::thread_slot();
      while (f.ended.load() != 2) {
        if (f.servers.serve(mine) == 0) wait_for_others();
      }
    });
    s.thread(mine == 0 ? "client" : "other client", [&f] {
      for (const unsigned p : {0U, 1U}) {
        const std::uint32_t by = f.all.call_at(p, [](int&) noexcept { return hw::thread_slot(); });
        require(by == f.slots[p].load(), "the server of a partition runs its operations");
      }
      ++f.ended;
    });
  }
}

// What one thread does alone.

/// A scene of one thread, in the first of two localities.
template <class Body>
void by_one_thread(scene& s, const options& o, Body body) {
  auto& w = s.make<world>(2U, o.ring_depth, o);
  s.thread("a", w.in(0, [&w, body] { body(w); }));
}

ESPALIER_SCENE(delegation, first_exception, alone()) {
  by_one_thread(s, hasty(2), [](world& w) {
    int thrown = -1;
    try {
      w.logs->broadcast(0, [&w](log& l) -> int { throw &l == &(*w.logs)[0] ? 0 : 1; }, std::plus<int>());
    } catch (int one) {
      thrown = one;
    }
    require(thrown == 0, "a broadcast throws what the first partition has thrown");
  });
}

/// Where it may not wait, and where a part cannot be submitted.
ESPALIER_SCENE(delegation, refused_broadcast, alone()) {
  struct brittle {
    int* copies;
    int* ran;
    brittle(int* c, int* r) : copies(c), ran(r) {}
    brittle(const brittle& other) : copies(other.copies), ran(other.ran) {
      if (++*copies == 2) throw std::bad_alloc();
    }
    int operator()(log&) const { return ++*ran; }
  };
  auto& w = s.make<world>(3U, 2U);
  s.thread("a", w.in(0, [&w] {
    int ran = 0;
    std::function<void(unsigned)> inside = [&](unsigned more) {
      if (more != 0) return w.logs->call_at(0, [&](log&) { inside(more - 1); });
      bool refused = false;
      try {
        w.logs->broadcast(0, [&ran](log&) { return ++ran; }, std::plus<int>());
      } catch (const nesting_error&) {
        refused = true;
      }
      require(refused && ran == 0, "a broadcast that may not wait submits nothing");
    };
    inside(w.threads->chosen().nesting);
    w.threads->barrier();
    require(ran == 0, "a broadcast that may not wait submits nothing");
    int copies = 0;
    bool short_of_memory = false;
    try {
      w.logs->broadcast(0, brittle(&copies, &ran), std::plus<int>());
    } catch (const std::bad_alloc&) {
      short_of_memory = true;
    }
    require(short_of_memory && ran == 1, "what a broadcast has submitted ends before it");
  }));
}

ESPALIER_SCENE(delegation, newest_of_a_key, alone()) {
  options o = hasty(4);
  o.batch = 1;
  by_one_thread(s, o, [](world& w) {
    int key = 0;
    while (w.logs->index_of(key) != 1) ++key;
    for (const int i : {1, 2}) static_cast<void>(w.logs->execute(key, [i](log& l) { l.add(i); }));
    require(w.logs->run_here(key, [](log& l) { return l.count(2); }) == 1, "a thread reads its last write");
  });
}

ESPALIER_SCENE(delegation, partition_of_an_operation, alone()) {
  by_one_thread(s, hasty(2), [](world& w) {
    partition_variable<int> own(*w.threads, 2);
    int key = 0;
    while (w.logs->index_of(key) != 1) ++key;
    w.logs->call_at(0, [&](log&) {
      require(&own.here() == &own[0], "an operation finds the variables of its partition");
      w.logs->call_at(1, [&](log&) {
        require(&own.here() == &own[1], "an operation finds the variables of its partition");
      });
      require(&own.here() == &own[0], "an operation has its own partition after it has served");
      w.logs->run_here(key, [](log&) {});
      require(&own.here() == &own[0], "an operation has its own partition after it has run another one");
    });
  });
}

/// While an operation waits the thread takes an answer that is its own.
ESPALIER_SCENE(delegation, depth_of_a_continuation, alone()) {
  options o = hasty(4);
  o.nesting = 2;
  by_one_thread(s, o, [](world& w) {
    bool refused = false;
    w.logs->execute_at(1, [](log&) {}).then([&](outcome<void>) {
      try {
        w.logs->call_at(0, [&w](log&) { w.logs->call_at(1, [](log&) {}); });
      } catch (const nesting_error&) {
        refused = true;
      }
    });
    w.logs->call_at(0, [&w](log&) { w.logs->call_at(1, [](log&) {}); });
    require(!refused, "a continuation is no deeper than its operation's sender");
  });
}

ESPALIER_SCENE(delegation, turns_wrap, alone()) {
  by_one_thread(s, hasty(4), [](world& w) {
    for (int i = 1; i <= 4; ++i) static_cast<void>(w.logs->execute_at(1, [i](log& l) { l.add(i); }));
    w.threads->barrier();
    require((*w.logs)[1].length.load() == 4, "a barrier waits for all that was submitted");
  });
}

ESPALIER_SCENE(delegation, many_rings, alone()) {
  s.thread("a", [] {
    detail::member sender;
    const std::unique_ptr<detail::ring> rings[] = {std::make_unique<detail::ring>(sender, 1, std::nullopt),
                                                   std::make_unique<detail::ring>(sender, 1, std::nullopt),
                                                   std::make_unique<detail::ring>(sender, 1, std::nullopt)};
    detail::ring_table table;
    for (std::uint32_t i = 0; i < 130; ++i) {
      table.reserve();
      table.add(*rings[i % 3]);
    }
    for (std::uint32_t i = 0; i < table.count(); ++i)
      require(&table[i] == rings[i % 3].get(), "each ring is in its place");
  });
}

ESPALIER_SCENE(delegation, large_and_throws, alone()) {
  by_one_thread(s, hasty(2), [](world& w) {
    auto thrown = w.logs->execute_at(
        1, [room = std::array<long, 20>{}](log&) -> int { throw static_cast<int>(room[0]); });
    bool caught = false;
    try {
      thrown.await();
    } catch (int) {
      caught = true;
    }
    require(caught, "an exception comes out where the operation was awaited");
  });
}

ESPALIER_SCENE(delegation, closes, alone()) {
  s.thread("a", [] {
    int fd = -1;
    {
      runtime threads(localities::in_turn(1));
      fd = threads.event_fd();
      threads.leave();
    }
    require(fcntl(fd, F_GETFD) == -1, "a runtime closes its descriptors");
  });
}

/// A thread alone runs its messages by looking for their results.
ESPALIER_SCENE(delegation, looks, alone()) {
  by_one_thread(s, hasty(2), [](world& w) {
    auto polled = w.logs->execute_at(1, [](log& l) { l.add(1); });
    for (int i = 0; i < 20; ++i) w.threads->poll();
    require((*w.logs)[1].count(1) == 1, "a loop of poll() runs what no other thread does");
    auto looked_at = w.logs->execute_at(1, [](log& l) { l.add(2); });
    bool is_ready = false;
    for (int i = 0; i < 20; ++i) is_ready = looked_at.is_ready();
    require(is_ready, "a loop of is_ready() runs what no other thread does");
  });
}

/// Each operation, and each continuation, brings about the next one without waiting.
ESPALIER_SCENE(delegation, chains, alone()) {
  by_one_thread(s, hasty(2), [](world& w) {
    for (const unsigned p : {0U, 1U}) {
      for (const bool continues : {false, true}) {
        int ran = 0;
        int on_stack = 0;
        std::function<void()> next = [&] {
          require(++on_stack <= 6, "those that nothing waits for do not pile up on the stack");
          if (++ran < 12) {
            if (continues)
              w.logs->execute_at(p, [](log&) {}).then([&](outcome<void>) { next(); });
            else
              static_cast<void>(w.logs->execute_at(p, [&](log&) { next(); }));
          }
          --on_stack;
        };
        next();
        for (int i = 0; i < 20; ++i) w.threads->barrier();
        require(ran == 12, "each of them runs");
      }
    }
  });
}

/// What is postponed runs in its order, at last where it is awaited, and its result comes where it is expected.
ESPALIER_SCENE(delegation, postponed, alone()) {
  by_one_thread(s, hasty(2), [](world& w) {
    const auto note = [](int i) {
      return [i](log& l) {
        l.add(i);
        return i;
      };
    };
    int continued = 0;
    std::function<void(unsigned)> follow = [&](unsigned more) {
      w.logs->execute_at(0, [](log&) {}).then([&, more](outcome<void>) {
        if (more != 1) return follow(more - 1);
        auto one = w.logs->execute_at(0, note(1));
        w.logs->execute_at(0, note(2)).then([&](outcome<int> result) { continued = result.get(); });
        auto three = w.logs->execute_at(0, note(3));
        static_cast<void>(w.logs->execute_at(0, note(4)));
        require((*w.logs)[0].length.load() == 0, "what finds no room is postponed");
        auto moved = std::move(three);
        require(moved.await() == 3 && one.await() == 1, "a result comes to its operation");
        require(continued == 2, "a continuation of what is postponed runs");
        static_cast<void>(w.logs->execute_at(0, note(5)));
      });
    };
    follow(w.threads->chosen().nesting);
    for (unsigned i = 0; i < 5; ++i)
      require((*w.logs)[0].entries[i].load() == static_cast<int>(i) + 1, "they run in their order");
    w.expect(0, {1, 2, 3, 4, 5});
  });
}

/// A result that is discarded submits an operation when it is destroyed.
ESPALIER_SCENE(delegation, parting, alone()) {
  struct submits {
    world* w;
    explicit submits(world* to) : w(to) {}
    submits(submits&& other) noexcept : w(std::exchange(other.w, nullptr)) {}
    ~submits() {
      if (w != nullptr) static_cast<void>(w->logs->execute_at(1, [](log& l) { l.add(2); }));
    }
  };
  by_one_thread(s, hasty(1), [](world& w) {
    static_cast<void>(w.logs->execute_at(1, [&w](log& l) {
      l.add(1);
      return submits(&w);
    }));
    w.threads->barrier();
    w.threads->barrier();
    w.expect(1, {1, 2});
  });
}

}  // namespace
}  // namespace espalier::sim
