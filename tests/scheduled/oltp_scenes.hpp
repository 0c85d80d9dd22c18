#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/oltp/database.hpp"
#include "oltp/registers.hpp"
#include "oltp/serializability.hpp"
#include "sim/explore.hpp"

// Scenes of the in-memory database, for its test and its mutants. Each is a few transactions, of which each history must be
// serializable.

namespace espalier::sim::transactional {

using test::committed;
using test::registers;

inline oltp::database_options options_of(
    oltp::protocol p, unsigned commits_per_epoch = oltp::database_options().commits_per_epoch,
    unsigned precedence_after = oltp::database_options().precedence_after) {
  return {.map = "locked_map",
          .by = p,
          .index_placement = "shared_heap",
          .row_placement = "shared_heap",
          .commits_per_epoch = commits_per_epoch,
          .precedence_after = precedence_after};
}

/// Registers, and what the threads of a scene have committed on them.
struct world {
  registers all;
  std::array<std::vector<committed>, 4> of;

  world(oltp::protocol p, std::uint64_t count, unsigned commits_per_epoch = 1,
        unsigned precedence_after = oltp::database_options().precedence_after)
      : all(options_of(p, commits_per_epoch, precedence_after), count) {}

  void run(unsigned thread, const test::steps_of_a_transaction& steps) {
    of[thread].push_back(all.commit(thread, steps));
  }
  /// Registers that exist before the threads begin: each has the value 1000 + its number.
  void fill(std::uint64_t from, std::uint64_t to) {
    run(3, [&](oltp::transaction& t, committed& did) {
      for (std::uint64_t at = from; at <= to; ++at)
        all.append(t, at, 1000 + at, at % registers::colours, did);
    });
  }
  /// Each row is under its colour, and under no other.
  void expect_colours() {
    std::size_t by_colour = 0;
    std::size_t rows = 0;
    all.database().transact([&](oltp::transaction& t) {
      by_colour = rows = 0;
      committed did;
      for (std::uint64_t c = 0; c < registers::colours; ++c) all.read_colour(t, c, did);
      by_colour = did.reads.size();
      did = {};
      all.read_range(t, 0, all.count() - 1, did);
      for (const auto& r : did.reads) rows += r.list.empty() ? 0 : 1;
    });
    require(by_colour == rows, "an index has each row once");
  }
  void expect_serializable() {
    const auto fault = all.fault_of(of);
    require(!fault, fault ? *fault : std::string());
  }
};

/// A point that another thread waits for, but not for ever: what the waiting one has locked may be in the way.
class milestone {
 public:
  void reach() { reached_.store(true); }
  void wait() const {
    for (int n = 0; n < 30 && !reached_.load(); ++n) wait_for_others();
  }

 private:
  std::atomic<bool> reached_{false};
};

/// Threads with a transaction each, on registers of which some are there.
template <class... Bodies>
void transactions(scene& s, oltp::protocol p, std::uint64_t count,
                  std::optional<std::pair<std::uint64_t, std::uint64_t>> there, Bodies... bodies) {
  auto& w = s.make<world>(p, count);
  if (there) w.fill(there->first, there->second);
  unsigned thread = 0;
  const auto add = [&](auto body) {
    const unsigned mine = thread++;
    s.thread(std::string(1, static_cast<char>('a' + mine)), [&w, mine, body] {
      w.run(mine, [&w, body](oltp::transaction& t, committed& did) { body(w.all, t, did); });
    });
  };
  (add(bodies), ...);
  s.at_end([&w] {
    w.expect_serializable();
    w.expect_colours();
  });
}

using there = std::pair<std::uint64_t, std::uint64_t>;

/// Each reads both registers and changes the other's.
template <oltp::protocol P>
void write_skew(scene& s) {
  transactions(
      s, P, 2, there{0, 1},
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read(t, 0, did);
        r.append(t, 1, 1, 1, did);
      },
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read(t, 1, did);
        r.append(t, 0, 2, 0, did);
      });
}

/// Each changes both registers, in another order, in one epoch.
template <oltp::protocol P>
void crossing(scene& s) {
  auto& w = s.make<world>(P, 2U, 1000U);
  w.fill(0, 1);
  for (const unsigned mine : {0U, 1U}) {
    s.thread(mine == 0 ? "a" : "b", [&w, mine] {
      w.run(mine, [&w, mine](oltp::transaction& t, committed& did) {
        w.all.append(t, mine, 1 + mine, 1, did);
        w.all.append(t, 1 - mine, 11 + mine, 1, did);
      });
    });
  }
  s.at_end([&w] { w.expect_serializable(); });
}

/// Each sees an empty range and inserts into the other's.
template <oltp::protocol P>
void two_empty_ranges(scene& s) {
  transactions(
      s, P, 4, std::nullopt,
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read_range(t, 0, 1, did);
        r.append(t, 2, 1, 0, did);
      },
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read_range(t, 2, 3, did);
        r.append(t, 1, 2, 0, did);
      });
}

/// A range is read twice while another transaction inserts into it, before its end.
template <oltp::protocol P>
void insert_at_the_end(scene& s) {
  transactions(
      s, P, 4, there{1, 1},
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read_range(t, 0, 2, did);
        r.read(t, 3, did);
        r.read_range(t, 0, 2, did);
      },
      [](registers& r, oltp::transaction& t, committed& did) {
        r.append(t, 2, 1, 0, did);
        r.append(t, 3, 2, 0, did);
      });
}

/// One inserts before a row for which it waits. The owner inserts between them, and reads the range up to its new row twice.
template <oltp::protocol P>
void gap_has_changed(scene& s) {
  struct fixture : world {
    milestone begun, locked, inserted;
    fixture() : world(P, 5) {}
  };
  auto& w = s.make<fixture>();
  w.fill(3, 4);
  s.thread("a", [&w] {
    w.run(0, [&w](oltp::transaction& t, committed& did) {
      w.begun.reach();
      w.locked.wait();
      w.all.put(t, 1, 1, 0, did);
    });
    w.inserted.reach();
  });
  s.thread("b", [&w] {
    w.begun.wait();
    w.run(1, [&w](oltp::transaction& t, committed& did) {
      w.all.read_range(t, 3, 3, did);
      w.locked.reach();
      w.inserted.wait();
      w.all.put(t, 2, 2, 1, did);
    });
    w.run(1, [&w](oltp::transaction& t, committed& did) {
      w.all.read_range(t, 0, 1, did);
      w.inserted.wait();
      w.all.read_range(t, 0, 1, did);
    });
  });
  s.at_end([&w] { w.expect_serializable(); });
}

/// Two look for a register that is absent and insert it, one asks for another absent one.
template <oltp::protocol P>
void absent(scene& s) {
  transactions(
      s, P, 3, there{2, 2},
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 1, 1, 0, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 1, 2, 1, did); },
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read(t, 0, did);
        r.read(t, 1, did);
      });
}

/// One reads what another one changes, and a third one begins an epoch between them.
template <oltp::protocol P>
void epochs(scene& s) {
  transactions(
      s, P, 2, there{0, 1},
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 0, 1, 0, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.read(t, 0, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 1, 2, 1, did); });
}

/// Three, of which each looks at what the others change, and takes precedence after its first attempt.
template <oltp::protocol P>
void precedence(scene& s) {
  struct fixture : world {
    std::array<unsigned, 3> attempts{};
    fixture() : world(P, 3, 1, 1) {}
    void run_counted(unsigned thread, const test::steps_of_a_transaction& steps) {
      run(thread, [&, thread](oltp::transaction& t, committed& did) {
        ++attempts[thread];
        steps(t, did);
      });
    }
  };
  auto& w = s.make<fixture>();
  w.fill(1, 1);
  s.thread("a", [&w] {
    w.run_counted(0, [&w](oltp::transaction& t, committed& did) {
      w.all.append(t, 1, 1, 1, did);
      w.all.append(t, 0, 2, 0, did);
    });
  });
  s.thread("b", [&w] {
    w.run_counted(1, [&w](oltp::transaction& t, committed& did) {
      w.all.append(t, 0, 3, 1, did);
      w.all.append(t, 1, 4, 0, did);
    });
  });
  s.thread("c", [&w] {
    w.run_counted(2, [&w](oltp::transaction& t, committed& did) {
      w.all.read_range(t, 0, 2, did);
      w.all.append(t, 2, 5, 2, did);
    });
  });
  s.at_end([&w] {
    w.expect_serializable();
    w.expect_colours();
    // Silo: each other thread has one attempt while one has precedence.
    for (const unsigned n : w.attempts)
      require(n <= (P == oltp::protocol::silo ? 8U : 2U), "an attempt with precedence commits");
  });
}

/// A row is erased and another one inserted, while it is looked for under both keys.
template <oltp::protocol P>
void moved(scene& s) {
  transactions(
      s, P, 2, there{0, 1},
      [](registers& r, oltp::transaction& t, committed& did) {
        r.move(t, 0, 1, did);
        r.append(t, 1, 2, 0, did);
      },
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read(t, 0, did);
        r.read(t, 1, did);
      },
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 0, 3, 2, did); });
}

/// A secondary key changes, while the index is read.
template <oltp::protocol P>
void recoloured(scene& s) {
  transactions(
      s, P, 3, there{0, 2},
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 0, 1, 1, did); },
      [](registers& r, oltp::transaction& t, committed& did) {
        r.append(t, 1, 2, 0, did);
        r.read(t, 0, did);
      },
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read_colour(t, 1, did);
        r.read_colour(t, 0, did);
      });
}

/// Two insert rows of one colour, while a third one reads it.
template <oltp::protocol P>
void one_colour(scene& s) {
  transactions(
      s, P, 3, there{1, 1},
      [](registers& r, oltp::transaction& t, committed& did) { r.put(t, 0, 1, 1, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.put(t, 2, 2, 1, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.read_colour(t, 1, did); });
}

/// One undoes what it did, while others read and insert.
template <oltp::protocol P>
void undone(scene& s) {
  auto& w = s.make<world>(P, 3U);
  w.fill(0, 0);
  s.thread("a", [&w] {
    const bool done = w.all.database().transact([&w](oltp::transaction& t) {
      committed ignored;
      w.all.append(t, 0, 1, 1, ignored);
      w.all.append(t, 1, 2, 1, ignored);
      w.all.move(t, 0, 3, ignored);
      t.roll_back();
    });
    require(!done, "a transaction that was rolled back has not committed");
  });
  s.thread("b", [&w] {
    w.run(1, [&w](oltp::transaction& t, committed& did) {
      w.all.read_range(t, 0, 2, did);
      w.all.read_colour(t, 1, did);
    });
  });
  s.thread("c",
           [&w] { w.run(2, [&w](oltp::transaction& t, committed& did) { w.all.append(t, 1, 4, 1, did); }); });
  s.at_end([&w] {
    w.expect_serializable();
    w.expect_colours();
  });
}

struct job {
  std::uint64_t id;
  std::uint64_t kind = 0;
};
template <oltp::protocol P>
struct jobs_of {
  oltp::database all{options_of(P)};
  oltp::table<job>& jobs = all.create_table<job>("jobs", [](const job& j) { return j.id; });
};

/// A row leaves, by an erase or an undone insert, and comes back, while another transaction looks for it twice.
template <oltp::protocol P, bool Erased>
void leaves_and_comes(scene& s) {
  struct fixture : jobs_of<P> {
    milestone leaves, is_back;
  };
  auto& f = s.make<fixture>();
  if (Erased) f.all.transact([&f](oltp::transaction& t) { t.insert(f.jobs, {1}); });
  s.thread("a", [&f] {
    f.all.transact([&f](oltp::transaction& t) {
      Erased ? t.erase(f.jobs, 1) : t.insert(f.jobs, {1});
      f.leaves.reach();
      if (!Erased) t.roll_back();
    });
    f.all.transact([&f](oltp::transaction& t) { t.insert(f.jobs, {1}); });
    f.is_back.reach();
  });
  s.thread("b", [&f] {
    bool first = false;
    bool second = false;
    f.leaves.wait();
    f.all.transact([&](oltp::transaction& t) {
      first = static_cast<bool>(t.find(f.jobs, 1));
      f.is_back.wait();
      second = static_cast<bool>(t.find(f.jobs, 1));
    });
    require(first == second, "a row that was absent stays absent");
  });
}

/// Two take the first of a queue and erase it.
template <oltp::protocol P>
void queue(scene& s) {
  struct fixture : jobs_of<P> {
    std::array<std::uint64_t, 3> taken{};
  };
  auto& f = s.make<fixture>();
  f.all.transact([&f](oltp::transaction& t) {
    for (std::uint64_t id = 1; id <= 2; ++id) require(t.insert(f.jobs, {id}), "a job is new");
  });
  const auto take = [&f](unsigned mine) {
    f.all.transact([&f, mine](oltp::transaction& t) {
      const auto first = t.first(f.jobs.primary_index(), 0, oltp::transaction::last_key, oltp::intent::write);
      f.taken[mine] = first ? first->id : 0;
      if (first) t.erase(first);
    });
  };
  s.thread("a", [take] { take(0); });
  s.thread("b", [take] { take(1); });
  s.thread("c", [&f] {
    f.all.transact([&f](oltp::transaction& t) { f.taken[2] = t.insert(f.jobs, {3}) ? 3 : 0; });
  });
  s.at_end([&f] {
    require(f.taken[0] != 0 && f.taken[1] != 0 && f.taken[0] != f.taken[1], "each job is taken once");
    std::uint64_t left = 0;
    f.jobs.for_each_at_rest([&](const job&) { ++left; });
    require(left == 1 && f.taken[2] == 3, "the third one is there");
  });
}

/// TPC-C's Order-Status concurrent with New-Order: the newest order of a customer, by a secondary index, and all its lines.
struct purchase {
  std::uint64_t id;
  std::uint64_t customer;
  std::uint64_t lines;
};
struct purchase_line {
  std::uint64_t id;  ///< 8 * purchase + number of the line
};
template <oltp::protocol P>
void order_status(scene& s) {
  struct fixture {
    const std::uint64_t customer = 7;
    oltp::database all{options_of(P)};
    oltp::table<purchase>& orders =
        all.create_table<purchase>("orders", [](const purchase& o) { return o.id; });
    oltp::table_index<purchase>& by_customer = orders.create_index(
        "by customer", oltp::uniqueness::many, [](const purchase& o) { return o.customer; });
    oltp::table<purchase_line>& lines =
        all.create_table<purchase_line>("lines", [](const purchase_line& l) { return l.id; });

    void place(oltp::transaction& t, std::uint64_t id, std::uint64_t count) {
      require(t.insert(orders, {id, customer, count}), "an order is new");
      for (std::uint64_t n = 0; n < count; ++n) require(t.insert(lines, {8 * id + n}), "a line is new");
    }
    /// The newest order, and how many lines it says that it has and has.
    std::array<std::uint64_t, 3> newest(oltp::transaction& t) {
      std::array<std::uint64_t, 3> found{};
      t.scan(by_customer, customer, customer, [&](const purchase& o) {
        if (o.id > found[0]) found = {o.id, o.lines, 0};
      });
      t.scan(lines, 8 * found[0], 8 * found[0] + 7, [&](const purchase_line&) { ++found[2]; });
      return found;
    }
  };
  auto& f = s.make<fixture>();
  f.all.transact([&f](oltp::transaction& t) { f.place(t, 1, 1); });
  s.thread("new order", [&f] { f.all.transact([&f](oltp::transaction& t) { f.place(t, 2, 2); }); });
  s.thread("order status", [&f] {
    std::array<std::uint64_t, 3> found{};
    std::uint64_t lines_of_second = 0;
    f.all.transact([&](oltp::transaction& t) {
      lines_of_second = 0;
      found = f.newest(t);
      t.scan(f.lines, 16, 23, [&](const purchase_line&) { ++lines_of_second; });
    });
    require(found[0] == 1 || found[0] == 2, "there is a newest order");
    require(found[1] == found[0] && found[2] == found[1], "an order has all its lines");
    require(lines_of_second == (found[0] == 2 ? 2U : 0U),
            "the lines are there with their order, or neither is");
  });
  s.at_end([&f] {
    std::array<std::uint64_t, 3> found{};
    f.all.transact([&](oltp::transaction& t) { found = f.newest(t); });
    require(found == std::array<std::uint64_t, 3>{2, 2, 2}, "the second order is the newest one");
  });
}

/// How many jobs have a key of the range.
template <class Jobs>
std::uint64_t count_of(Jobs& f, oltp::transaction& t, std::uint64_t from, std::uint64_t to) {
  std::uint64_t n = 0;
  t.scan(f.jobs, from, to, [&](const job&) { ++n; });
  return n;
}

/// A range is read twice. Between, another transaction inserts its last key, behind the row just below it.
template <oltp::protocol P>
void insert_of_the_last_key(scene& s) {
  struct fixture : jobs_of<P> {
    milestone looked, inserted;
  };
  auto& f = s.make<fixture>();
  f.all.transact([&f](oltp::transaction& t) {
    for (const std::uint64_t id : {1U, 9U}) t.insert(f.jobs, {id});
  });
  s.thread("a", [&f] {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    f.all.transact([&](oltp::transaction& t) {
      first = count_of(f, t, 0, 2);
      f.looked.reach();
      f.inserted.wait();
      second = count_of(f, t, 0, 2);
    });
    require(first == second, "a range stays as it was");
  });
  s.thread("b", [&f] {
    f.looked.wait();
    f.all.transact([&f](oltp::transaction& t) { t.insert(f.jobs, {2}); });
    f.inserted.reach();
  });
}

/// A transaction inserts into a range that it has read, and so does another one.
template <oltp::protocol P>
void insert_beside_its_own(scene& s) {
  struct fixture : jobs_of<P> {
    milestone own, other;
  };
  auto& f = s.make<fixture>();
  f.all.transact([&f](oltp::transaction& t) { t.insert(f.jobs, {9}); });
  s.thread("a", [&f] {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    f.all.transact([&](oltp::transaction& t) {
      first = count_of(f, t, 0, 8);
      t.insert(f.jobs, {3});
      f.own.reach();
      f.other.wait();
      second = count_of(f, t, 0, 8);
    });
    require(second == first + 1, "a range has got what the transaction has inserted");
  });
  s.thread("b", [&f] {
    f.own.wait();
    f.all.transact([&f](oltp::transaction& t) { t.insert(f.jobs, {5}); });
    f.other.reach();
  });
  s.thread("c", [&f] {
    f.all.transact([&f](oltp::transaction& t) {
      f.own.wait();
      static_cast<void>(count_of(f, t, 6, 8));  // an insert has to lock gaps
      f.other.wait();
    });
  });
}

/// One of two ranges has a row at every moment, but each is empty at some. What looks at one after the other, when it reads and
/// when it commits, finds both empty each time.
template <oltp::protocol P>
void empty_in_turns(scene& s) {
  struct fixture : jobs_of<P> {
    milestone first_is_read, first_is_full, second_is_read, first_will_be_full;
  };
  auto& f = s.make<fixture>();
  f.all.transact([&f](oltp::transaction& t) { t.insert(f.jobs, {200}); });
  const auto move = [&f](std::uint64_t from, std::uint64_t to, milestone* at_end = nullptr) {
    f.all.transact([&f, from, to, at_end](oltp::transaction& t) {
      t.insert(f.jobs, {to});
      t.erase(f.jobs, from);
      if (at_end != nullptr) at_end->reach();
    });
  };
  s.thread("a", [&f] {
    std::uint64_t rows = 0;
    f.all.transact([&](oltp::transaction& t) {
      rows = count_of(f, t, 100, 109);
      f.first_is_read.reach();
      f.first_is_full.wait();
      // So that the commit has other ranges to look at between the two.
      for (std::uint64_t from = 110; from < 200; from += 10) rows += count_of(f, t, from, from + 9);
      rows += count_of(f, t, 200, 209);
      f.second_is_read.reach();
      f.first_will_be_full.wait();
    });
    require(rows != 0, "one of two ranges has a row at every moment");
  });
  s.thread("b", [&f, move] {
    f.first_is_read.wait();
    move(200, 100);
    f.first_is_full.reach();
    f.second_is_read.wait();
    move(100, 201);
    move(201, 101, &f.first_will_be_full);
  });
}

/// The program catches the end of an attempt that reads, and goes on.
template <oltp::protocol P>
void caught(scene& s) {
  struct fixture : jobs_of<P> {
    milestone changed, has_read;
  };
  auto& f = s.make<fixture>();
  f.all.transact([&f](oltp::transaction& t) {
    for (const std::uint64_t id : {1U, 2U}) t.insert(f.jobs, {id});
  });
  s.thread("a", [&f] {
    f.all.transact([&f](oltp::transaction& t) {
      t.update(f.jobs, 1, [](job& j) { j.kind = 1; });
      f.changed.reach();
      f.has_read.wait();
    });
  });
  s.thread("b", [&f] {
    bool found = false;
    f.changed.wait();
    f.all.transact([&](oltp::transaction& t) {
      found = false;
      try {
        found = static_cast<bool>(t.find(f.jobs, 1));
      } catch (...) {
      }
      f.has_read.reach();
    });
    require(found, "an attempt whose end was caught does not commit");
  });
}

/// A transaction that began again is older than one that has begun since its first attempt: it waits for that one.
template <oltp::protocol P>
void keeps_its_age(scene& s) {
  struct fixture : jobs_of<P> {
    milestone holds, has_died;
    std::atomic<bool> tries{false}, younger_holds{false};
  };
  auto& f = s.make<fixture>();
  f.all.transact([&f](oltp::transaction& t) { t.insert(f.jobs, {1}); });
  const auto change = [&f](oltp::transaction& t) { t.update(f.jobs, 1, [](job& j) { ++j.kind; }); };
  s.thread("a", [&f, change] {
    f.all.transact([&f, change](oltp::transaction& t) {
      change(t);
      f.holds.reach();
      f.has_died.wait();
    });
    const bool is_younger = f.tries.load();
    f.all.transact([&f, change, is_younger](oltp::transaction& t) {
      change(t);
      f.younger_holds = is_younger;
      for (int n = 0; n < 10; ++n) wait_for_others();
      f.younger_holds = false;
    });
  });
  s.thread("b", [&f, change] {
    f.holds.wait();
    f.all.transact([&f, change](oltp::transaction& t) {
      f.tries = true;
      const bool holds = f.younger_holds.load();
      try {
        change(t);
      } catch (const oltp::restart&) {
        f.has_died.reach();
        require(P != oltp::protocol::wait_die || !holds, "it does not die of a younger one");
        throw;
      }
    });
  });
}

/// What one transaction alone sees and leaves: undone changes, the last key of all, and rows of odd sizes.
template <oltp::protocol P>
void alone(scene& s) {
  struct odd {
    std::array<char, 3> id;
  };
  struct fixture : jobs_of<P> {
    oltp::table<odd>& odds = this->all.template create_table<odd>(
        "odds", [](const odd& o) { return std::uint64_t{0} + static_cast<unsigned char>(o.id[0]); });
  };
  auto& f = s.make<fixture>();
  s.thread("a", [&f] {
    constexpr std::uint64_t last = oltp::transaction::last_key;
    f.all.transact([&f](oltp::transaction& t) {
      for (const std::uint64_t id : {std::uint64_t{1}, std::uint64_t{2}, last}) t.insert(f.jobs, {id, 7});
      t.insert(f.odds, {{'a', 'b', 'c'}});
    });
    f.all.transact([&f](oltp::transaction& t) {
      const auto change = [](job& j) { ++j.kind; };
      t.update(f.jobs, 1, change);
      t.update(f.jobs, 1, change);
      t.update(f.jobs, 2, change);
      t.erase(f.jobs, 2);
      t.roll_back();
    });
    std::uint64_t rows = 0;
    f.jobs.for_each_at_rest([&](const job& j) {
      ++rows;
      require(j.kind == 7, "a row is as it was before what was undone");
    });
    require(rows == 3, "all rows are there");
    f.all.transact([&f](oltp::transaction& t) {
      t.erase(f.jobs, last);
      require(!t.first(f.jobs, 5, last), "there is no row from 5 on");
      static_cast<void>(t.find(f.odds, 'a'));
      t.update(f.odds, 'a', [](odd& o) { o.id[1] = 'x'; });
      const auto after_it = t.find(f.jobs, 1);
      t.update(after_it, [](job& j) {
        require(reinterpret_cast<std::uintptr_t>(&j) % alignof(job) == 0, "a copy of a row is aligned");
      });
    });
  });
}

/// Calls visit(name, build) for each scene of a protocol.
template <oltp::protocol P, class Visitor>
void for_each_scene(Visitor& visit) {
  const std::string by(to_string(P));
  visit(by + ", write skew", write_skew<P>);
  visit(by + ", crossing", crossing<P>);
  visit(by + ", two empty ranges", two_empty_ranges<P>);
  visit(by + ", insert at the end", insert_at_the_end<P>);
  visit(by + ", gap has changed", gap_has_changed<P>);
  visit(by + ", absent", absent<P>);
  visit(by + ", epochs", epochs<P>);
  visit(by + ", precedence", precedence<P>);
  visit(by + ", moved", moved<P>);
  visit(by + ", recoloured", recoloured<P>);
  visit(by + ", one colour", one_colour<P>);
  visit(by + ", undone", undone<P>);
  visit(by + ", erased and inserted", leaves_and_comes<P, true>);
  visit(by + ", undone and inserted", leaves_and_comes<P, false>);
  visit(by + ", queue", queue<P>);
  visit(by + ", insert of the last key", insert_of_the_last_key<P>);
  visit(by + ", insert beside its own", insert_beside_its_own<P>);
  visit(by + ", empty in turns", empty_in_turns<P>);
  visit(by + ", caught", caught<P>);
  visit(by + ", keeps its age", keeps_its_age<P>);
  visit(by + ", alone", alone<P>);
  visit(by + ", order status", order_status<P>);
}
template <class Visitor>
void for_each_scene(Visitor&& visit) {
  for_each_scene<oltp::protocol::no_wait>(visit);
  for_each_scene<oltp::protocol::wait_die>(visit);
  for_each_scene<oltp::protocol::silo>(visit);
}

[[nodiscard]] inline exploration_options long_runs() {
  exploration_options o;
  o.step_budget = 400'000;
  return o;
}

}  // namespace espalier::sim::transactional
