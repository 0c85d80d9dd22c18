// Scenes of the in-memory database. Each is a few transactions, of which each history must be serializable.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/oltp/database.hpp"
#include "oltp/registers.hpp"
#include "oltp/serializability.hpp"
#include "scheduled/scenes.hpp"
#include "sim/explore.hpp"

namespace espalier::sim {
namespace {

using test::committed;
using test::registers;

oltp::database_options options_of(oltp::protocol p,
                                  unsigned commits_per_epoch = oltp::database_options().commits_per_epoch,
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

using scene_of_protocol = void(scene&, oltp::protocol);

bool add_for_each_protocol(const char* name, scene_of_protocol& build) {
  for (const auto p : {oltp::protocol::no_wait, oltp::protocol::wait_die, oltp::protocol::silo})
    add_scene(std::string(to_string(p)), name, [p, &build](scene& s) { build(s, p); },
              {100, 1, steps_up_to(400'000)});
  return true;
}

#define ESPALIER_SCENE_OF_EACH_PROTOCOL(name)                                       \
  void name(scene& s, oltp::protocol p);                                            \
  [[maybe_unused]] const bool name##_is_added = add_for_each_protocol(#name, name); \
  void name(scene& s, oltp::protocol p)

/// Each reads both registers and changes the other's.
ESPALIER_SCENE_OF_EACH_PROTOCOL(write_skew) {
  transactions(
      s, p, 2, there{0, 1},
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(crossing) {
  auto& w = s.make<world>(p, 2U, 1000U);
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(two_empty_ranges) {
  transactions(
      s, p, 4, std::nullopt,
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(insert_at_the_end) {
  transactions(
      s, p, 4, there{1, 1},
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(gap_has_changed) {
  struct fixture : world {
    milestone begun, locked, inserted;
    explicit fixture(oltp::protocol p) : world(p, 5) {}
  };
  auto& w = s.make<fixture>(p);
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(absent) {
  transactions(
      s, p, 3, there{2, 2},
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 1, 1, 0, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 1, 2, 1, did); },
      [](registers& r, oltp::transaction& t, committed& did) {
        r.read(t, 0, did);
        r.read(t, 1, did);
      });
}

/// One reads what another one changes, and a third one begins an epoch between them.
ESPALIER_SCENE_OF_EACH_PROTOCOL(epochs) {
  transactions(
      s, p, 2, there{0, 1},
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 0, 1, 0, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.read(t, 0, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.append(t, 1, 2, 1, did); });
}

/// Three, of which each looks at what the others change, and takes precedence after its first attempt.
ESPALIER_SCENE_OF_EACH_PROTOCOL(precedence) {
  struct fixture : world {
    std::array<unsigned, 3> attempts{};
    explicit fixture(oltp::protocol p) : world(p, 3, 1, 1) {}
    void run_counted(unsigned thread, const test::steps_of_a_transaction& steps) {
      run(thread, [&, thread](oltp::transaction& t, committed& did) {
        ++attempts[thread];
        steps(t, did);
      });
    }
  };
  auto& w = s.make<fixture>(p);
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
  s.at_end([&w, p] {
    w.expect_serializable();
    w.expect_colours();
    // Silo: each other thread has one attempt while one has precedence.
    for (const unsigned n : w.attempts)
      require(n <= (p == oltp::protocol::silo ? 8U : 2U), "an attempt with precedence commits");
  });
}

/// A row is erased and another one inserted, while it is looked for under both keys.
ESPALIER_SCENE_OF_EACH_PROTOCOL(moved) {
  transactions(
      s, p, 2, there{0, 1},
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(recoloured) {
  transactions(
      s, p, 3, there{0, 2},
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(one_colour) {
  transactions(
      s, p, 3, there{1, 1},
      [](registers& r, oltp::transaction& t, committed& did) { r.put(t, 0, 1, 1, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.put(t, 2, 2, 1, did); },
      [](registers& r, oltp::transaction& t, committed& did) { r.read_colour(t, 1, did); });
}

/// One undoes what it did, while others read and insert.
ESPALIER_SCENE_OF_EACH_PROTOCOL(undone) {
  auto& w = s.make<world>(p, 3U);
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
struct with_jobs {
  explicit with_jobs(oltp::protocol p) : all(options_of(p)) {}
  oltp::database all;
  oltp::table<job>& jobs = all.create_table<job>("jobs", [](const job& j) { return j.id; });
};

/// A row leaves, by an erase or an undone insert, and comes back, while another transaction looks for it twice.
void leaves_and_comes(scene& s, oltp::protocol p, bool erased) {
  struct fixture : with_jobs {
    using with_jobs::with_jobs;
    milestone leaves, is_back;
  };
  auto& f = s.make<fixture>(p);
  if (erased) f.all.transact([&f](oltp::transaction& t) { t.insert(f.jobs, {1}); });
  s.thread("a", [&f, erased] {
    f.all.transact([&f, erased](oltp::transaction& t) {
      erased ? t.erase(f.jobs, 1) : t.insert(f.jobs, {1});
      f.leaves.reach();
      if (!erased) t.roll_back();
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(erased_and_inserted) { leaves_and_comes(s, p, true); }
ESPALIER_SCENE_OF_EACH_PROTOCOL(undone_and_inserted) { leaves_and_comes(s, p, false); }

/// Rows that no index has are there if their transaction has committed, and with the contents that it gave them.
ESPALIER_SCENE_OF_EACH_PROTOCOL(appended) {
  auto& f = s.make<with_jobs>(p);
  s.thread("a", [&f] {
    f.all.transact([&f](oltp::transaction& t) {
      t.append(f.jobs, {1, 10});
      t.append(f.jobs, {1, 11});
    });
    f.all.transact([&f](oltp::transaction& t) {
      t.append(f.jobs, {2, 20});
      t.roll_back();
    });
  });
  s.thread("b", [&f] {
    f.all.transact([&f](oltp::transaction& t) {
      t.append(f.jobs, {1, 30});
      require(!t.find(f.jobs, 1), "no transaction finds it");
    });
  });
  s.at_end([&f] {
    std::vector<std::uint64_t> kinds;
    f.jobs.for_each_at_rest([&kinds](const job& j) { kinds.push_back(j.kind); });
    std::sort(kinds.begin(), kinds.end());
    require(kinds == std::vector<std::uint64_t>{10, 11, 30}, "the rows of both, and none that was undone");
  });
}

/// Two take the first of a queue and erase it.
ESPALIER_SCENE_OF_EACH_PROTOCOL(queue) {
  struct fixture : with_jobs {
    using with_jobs::with_jobs;
    std::array<std::uint64_t, 3> taken{};
  };
  auto& f = s.make<fixture>(p);
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(order_status) {
  struct fixture {
    explicit fixture(oltp::protocol p) : all(options_of(p)) {}
    const std::uint64_t customer = 7;
    oltp::database all;
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
  auto& f = s.make<fixture>(p);
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(insert_of_the_last_key) {
  struct fixture : with_jobs {
    using with_jobs::with_jobs;
    milestone looked, inserted;
  };
  auto& f = s.make<fixture>(p);
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(insert_beside_its_own) {
  struct fixture : with_jobs {
    using with_jobs::with_jobs;
    milestone own, other;
  };
  auto& f = s.make<fixture>(p);
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(empty_in_turns) {
  struct fixture : with_jobs {
    using with_jobs::with_jobs;
    milestone first_is_read, first_is_full, second_is_read, first_will_be_full;
  };
  auto& f = s.make<fixture>(p);
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(caught) {
  struct fixture : with_jobs {
    using with_jobs::with_jobs;
    milestone changed, has_read;
  };
  auto& f = s.make<fixture>(p);
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
ESPALIER_SCENE_OF_EACH_PROTOCOL(keeps_its_age) {
  struct fixture : with_jobs {
    using with_jobs::with_jobs;
    milestone holds, has_died;
    std::atomic<bool> tries{false}, younger_holds{false};
  };
  auto& f = s.make<fixture>(p);
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
  s.thread("b", [&f, change, p] {
    f.holds.wait();
    f.all.transact([&f, change, p](oltp::transaction& t) {
      f.tries = true;
      const bool holds = f.younger_holds.load();
      try {
        change(t);
      } catch (const oltp::restart&) {
        f.has_died.reach();
        require(p != oltp::protocol::wait_die || !holds, "it does not die of a younger one");
        throw;
      }
    });
  });
}

/// What one transaction alone sees and leaves: undone changes, the last key of all, and rows of odd sizes.
ESPALIER_SCENE_OF_EACH_PROTOCOL(one_alone) {
  struct odd {
    std::array<char, 3> id;
  };
  struct fixture : with_jobs {
    using with_jobs::with_jobs;
    oltp::table<odd>& odds = all.create_table<odd>(
        "odds", [](const odd& o) { return std::uint64_t{0} + static_cast<unsigned char>(o.id[0]); });
  };
  auto& f = s.make<fixture>(p);
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

/// The steps of erasing so many rows of one key one by one, the oldest first.
std::uint64_t steps_of_erasing(std::uint64_t rows) {
  exploration_options o = alone().how;
  o.schedules = 1;
  o.step_budget = 10'000'000;
  const exploration_report report = explore("erasing", o, [rows](scene& s) {
    auto& w = s.make<with_jobs>(oltp::protocol::no_wait);
    w.jobs.create_index("by kind", oltp::uniqueness::many, [](const job& j) { return j.kind; });
    w.all.transact([&](oltp::transaction& t) {
      for (std::uint64_t id = 0; id < rows; ++id) t.insert(w.jobs, {id});
    });
    s.thread("a", [&w, rows] {
      for (std::uint64_t id = 0; id < rows; ++id)
        w.all.transact([&](oltp::transaction& t) { t.erase(w.jobs, id); });
    });
  });
  EXPECT_TRUE(report.passed()) << report;
  return report.longest_run;
}

TEST(oltp, rows_leave_a_long_list_in_linear_time) {
  const std::uint64_t short_list = steps_of_erasing(300);
  EXPECT_GT(short_list, 300U);
  EXPECT_LT(steps_of_erasing(600), short_list * 5 / 2);
}

}  // namespace
}  // namespace espalier::sim
