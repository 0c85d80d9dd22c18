// Elided locks in the simulator's transactions: with all causes of aborts, and concurrent with sections that take the lock.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "espalier/hw/pause.hpp"
#include "espalier/sync/elided_lock.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "scheduled/expect.hpp"
#include "scheduled/scenes.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace espalier::sim {
namespace {

void is_elided(const exploration_report& report) { EXPECT_GT(report.transactions.committed, 0U); }

/// Few attempts, so that fallbacks are frequent.
template <class Lock>
struct elided_in_simulation : elided<Lock, simulated_htm> {
  elided_in_simulation()
      : elided<Lock, simulated_htm>(
            elision_budgets{.conflict = 1, .capacity = 0, .lock_held = 2, .other = 1}) {}
};

template <class Lock>
struct elided_words {
  elided_in_simulation<Lock> lock;
  alignas(64) int x = 0;
  alignas(64) int y = 0;
};

/// Threads with elided sections, concurrent with one that takes the lock.
template <class Lock>
void elided_and_plain_sections(scene& s) {
  auto& all = s.make<elided_words<Lock>>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&all] {
      for (int i = 0; i < 3; ++i) all.lock.elide([&all]() noexcept { ++all.x; });
    });
  }
  s.thread("plain", [&all] {
    for (int i = 0; i < 2; ++i) all.lock.locked([&all] { ++all.x; });
  });
  s.at_end([&all] {
    require(all.x == 8, "an increment is lost or made twice");
    require(!all.lock.is_locked(), "the lock is left held");
    const elision_counts counts = all.lock.counts();
    require(counts.sections() == (simulated_htm::available() ? 6U : 0U), "a section is counted wrongly");
  });
}

/// Two numbers that are equal outside sections.
template <class Lock>
void elided_reader_of_a_pair(scene& s) {
  auto& all = s.make<elided_words<Lock>>();
  s.thread("holder", [&all] {
    all.lock.locked([&all] {
      ++all.x;
      ++all.y;
    });
  });
  s.thread("reader", [&all] {
    all.lock.elide([&all]() noexcept { require(all.x == all.y, "a section sees half of another"); });
  });
  s.thread("writer", [&all] {
    all.lock.elide([&all]() noexcept {
      ++all.x;
      ++all.y;
    });
  });
}

/// A transaction that sees a half-executed section may write to any address to which that state points.
template <class Lock>
void elided_writer_through_an_index(scene& s) {
  struct guarded {
    elided_in_simulation<Lock> lock;
    alignas(64) int index = 0;
    alignas(64) std::array<int, 2> cells{};
  };
  auto& all = s.make<guarded>();
  s.thread("holder", [&all] {
    all.lock.locked([&all] {
      all.index = 1;
      all.cells[1] = 5;
      require(all.cells[1] == 5, "a section is disturbed");
      all.cells[1] = 0;
      all.index = 0;
    });
  });
  s.thread("writer", [&all] {
    all.lock.elide([&all]() noexcept {
      require(all.index == 0, "a section sees half of another");
      ++all.cells[static_cast<std::size_t>(all.index)];
    });
  });
  s.at_end([&all] { require(all.cells[0] == 1 && all.cells[1] == 0, "a write is lost or misplaced"); });
}

/// A lock inside another one, concurrent with holders of the inner one.
template <class Lock>
void nested_elided_sections(scene& s) {
  auto& outer = s.make<elided_words<Lock>>();
  auto& inner = s.make<elided_words<Lock>>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&outer, &inner] {
      outer.lock.elide([&outer, &inner]() noexcept {
        ++outer.x;
        inner.lock.elide([&inner]() noexcept {
          require(inner.x == inner.y, "a section sees half of another");
          ++inner.x;
          ++inner.y;
        });
        ++outer.y;
      });
    });
  }
  s.thread("holder", [&inner] {
    inner.lock.locked([&inner] {
      ++inner.x;
      ++inner.y;
    });
  });
  s.at_end([&outer, &inner] {
    require(outer.x == 2 && outer.y == 2, "an outer section is lost or runs twice");
    require(inner.x == 3 && inner.y == 3, "an inner section is lost or runs twice");
  });
}

/// A lock that one thread elides: in a transaction it may be read only if that thread's last look outside found it free.
class watched_lock : public ttas_lock {
 public:
  [[nodiscard]] bool is_locked() const noexcept {
    const bool held = ttas_lock::is_locked();
    note(simulated_htm::active(), held);
    return held;
  }

 private:
  // Not instrumented: no abort restores what it writes.
  [[gnu::no_sanitize_thread, gnu::noinline]] void note(bool inside, bool held) const noexcept {
    require(!inside || seen_free_, "an attempt begins although the lock was not seen free");
    seen_free_ = !inside && !held;
  }

  mutable bool seen_free_ = false;
};

ESPALIER_SCENE(attempts_to_elide, attempts_begin_where_the_lock_looks_free,
               scene_runs(2000).checked_by(is_elided)) {
  auto& all = s.make<elided_words<watched_lock>>();
  s.thread("elides", [&all] {
    for (int i = 0; i < 3; ++i) all.lock.elide([&all]() noexcept { ++all.x; });
  });
  s.thread("plain", [&all] {
    for (int i = 0; i < 2; ++i) all.lock.locked([&all] { ++all.x; });
  });
  s.at_end([&all] { require(all.x == 5, "an increment is lost or made twice"); });
}

/// Whether the simulator added no aborts to those of the scene's sections, which have this cause alone.
bool counts_only(const elision_counts& counts, elision_event cause) {
  return counts.attempts() == counts.of(cause) && counts.of(cause) != 0;
}

/// Sections that cannot be transactions: of six in a row, three are attempted.
ESPALIER_SCENE(attempts_to_elide, fallbacks_are_learnt, 50, 1) {
  auto& all = s.make<elided_words<ttas_lock>>();
  s.thread("only", [&all] {
    for (int i = 0; i < 6; ++i) {
      all.lock.elide([&all]() noexcept {
        hw::cpu_relax();
        ++all.x;
      });
    }
  });
  s.at_end([&all] {
    require(all.x == 6, "a section is lost or made twice");
    const elision_counts counts = all.lock.counts();
    if (!counts_only(counts, elision_event::other)) return;
    require(counts.of(elision_event::other) == 6,
            "a section has more or fewer attempts than its budget allows");
    require(counts.of(elision_event::fallback) == 3 && counts.of(elision_event::skipped) == 3,
            "sections that fall back are attempted too often, or never again");
  });
}

/// An inner lock that every transaction finds held is another thread's doing: the section is attempted as often as for a
/// lock of its own, and so are the next ones.
ESPALIER_SCENE(attempts_to_elide, an_inner_lock_is_waited_for, 50, 1) {
  struct held_inside {
    void lock() noexcept {}
    bool try_lock() noexcept { return true; }
    void unlock() noexcept {}
    [[nodiscard]] bool is_locked() const noexcept { return simulated_htm::active(); }
  };
  auto& outer = s.make<elided_words<ttas_lock>>();
  auto& inner = s.make<elided_in_simulation<held_inside>>();
  s.thread("only", [&outer, &inner] {
    for (int i = 0; i < 4; ++i)
      outer.lock.elide([&outer, &inner]() noexcept { inner.elide([&outer]() noexcept { ++outer.x; }); });
  });
  s.at_end([&outer] {
    require(outer.x == 4, "a section is lost or made twice");
    const elision_counts counts = outer.lock.counts();
    if (!counts_only(counts, elision_event::lock_held)) return;
    require(counts.of(elision_event::lock_held) == 12 && counts.of(elision_event::fallback) == 4,
            "a held inner lock is taken for the section's own fault");
  });
}

/// Fetch-and-increment: linearizable if and only if each number is drawn once, and a number drawn after another was
/// returned is larger than that one.
template <class Lock>
void linearizable_elided_counter(scene& s) {
  struct draw {
    std::uint64_t called;
    std::uint64_t returned;
    int number;
  };
  struct history {
    elided_in_simulation<Lock> lock;
    alignas(64) int next = 0;
    std::array<draw, 6> draws{};
  };
  auto& all = s.make<history>();
  for (std::size_t t = 0; t < 3; ++t) {
    s.thread(std::array{"a", "b", "c"}[t], [&all, t] {
      for (std::size_t i = 0; i < 2; ++i) {
        draw& mine = all.draws[2 * t + i];
        mine.called = now();
        const auto section = [&all]() noexcept { return all.next++; };
        mine.number = t == 2 ? all.lock.locked(section) : all.lock.elide(section);
        mine.returned = now();
      }
    });
  }
  s.at_end([&all] {
    std::array<int, 6> drawn{};
    for (const draw& d : all.draws) ++drawn[static_cast<std::size_t>(d.number)];
    for (const int times : drawn) require(times == 1, "a number is drawn twice");
    for (const draw& early : all.draws) {
      for (const draw& late : all.draws)
        require(early.returned >= late.called || early.number < late.number, "numbers go back in time");
    }
  });
}

void has_all_aborts(const exploration_report& report) {
  const auto& counts = report.transactions;
  EXPECT_GT(counts.committed, 0U);
  EXPECT_GT(counts.of(hw::abort_cause::conflict), 0U);
  EXPECT_GT(counts.of(hw::abort_cause::explicit_abort), 0U) << "no transaction ever finds the lock taken";
  EXPECT_GT(counts.of(hw::abort_cause::other), 0U);
}

template <class Lock>
bool add_elided(const std::string& name) {
  const auto add = [&name](const char* what, const scene_build& build, report_check* check = is_elided) {
    add_scene("elided_locks/" + name, what, build, scene_runs(2000).checked_by(check));
  };
  add("sections_exclude_one_another", elided_and_plain_sections<Lock>, has_all_aborts);
  add("no_half_section_is_seen", elided_reader_of_a_pair<Lock>);
  add("the_holder_keeps_the_lock", elided_writer_through_an_index<Lock>);
  add("sections_nest", nested_elided_sections<Lock>);
  add("a_counter_is_linearizable", linearizable_elided_counter<Lock>);
  return true;
}
[[maybe_unused]] const bool elided_are_added =
    add_elided<ttas_lock>("ttas_lock") && add_elided<ticket_lock>("ticket_lock") &&
    add_scene(
        "elided_locks", "exclude_without_transactions", elided_and_plain_sections<ttas_lock>,
        scene_runs(500, 1, {.transactions = std::nullopt}).checked_by([](const exploration_report& report) {
          EXPECT_EQ(report.transactions.begun, 0U);
        }));

}  // namespace
}  // namespace espalier::sim
