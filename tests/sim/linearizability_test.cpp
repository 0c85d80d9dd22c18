#include "sim/history/linearizability.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "random_history.hpp"
#include "sim/history/history.hpp"
#include "sim/history/models.hpp"
#include "sim/history/order_search.hpp"

namespace espalier::sim {

static std::ostream& operator<<(std::ostream& out, outcome o) { return out << to_string(o); }

namespace {

using enum map_operation;
constexpr auto linearizable = outcome::linearizable;
constexpr auto violation = outcome::violation;
constexpr auto unknown = outcome::unknown;
constexpr auto absent = std::nullopt;

operation made(map_operation kind, std::uint64_t key, std::uint64_t value, bool result, moment from,
               moment to) {
  operation o;
  o.kind = kind;
  o.key = key;
  o.value = value;
  o.result = result;
  o.invoked = from;
  o.returned = to;
  o.thread = static_cast<std::uint32_t>(from);
  return o;
}

// On key 7; the last two numbers are the moments.
operation returning(std::optional<std::uint64_t> before, map_operation kind, std::uint64_t value, moment from,
                    moment to) {
  operation o = made(kind, 7, value, before.has_value(), from, to);
  o.returned_value = before.value_or(0);
  return o;
}
operation found(std::optional<std::uint64_t> value, moment from, moment to) {
  return returning(value, find, 0, from, to);
}
operation has(bool result, moment from, moment to) { return made(contains, 7, 0, result, from, to); }
operation inserted(std::uint64_t value, bool result, moment from, moment to) {
  return made(insert, 7, value, result, from, to);
}
operation assigned(std::uint64_t value, bool result, moment from, moment to) {
  return made(insert_or_assign, 7, value, result, from, to);
}
operation erased(bool result, moment from, moment to) { return made(erase, 7, 0, result, from, to); }
operation exchanged(std::uint64_t value, std::optional<std::uint64_t> before, moment from, moment to) {
  return returning(before, exchange, value, from, to);
}
operation extracted(std::optional<std::uint64_t> before, moment from, moment to) {
  return returning(before, extract, 0, from, to);
}
operation updated(std::uint64_t amount, std::optional<std::uint64_t> before, moment from, moment to) {
  return returning(before, update, amount, from, to);
}
operation on_key(std::uint64_t key, operation o) {
  o.key = key;
  return o;
}

history history_of(std::initializer_list<operation> operations, const std::vector<map_entry>& initial = {}) {
  history h;
  for (const map_entry& e : initial) h.add_initial(e.key, e.value);
  for (const operation& o : operations) h.add(o);
  return h;
}

outcome result_of(std::initializer_list<operation> operations, const std::vector<map_entry>& initial = {}) {
  return check(history_of(operations, initial)).result;
}

// ---- one operation after the other ----

TEST(sequential, each_kind_on_an_absent_key) {
  EXPECT_EQ(result_of({}), linearizable);
  EXPECT_EQ(result_of({found(absent, 1, 2)}), linearizable);
  EXPECT_EQ(result_of({found(0, 1, 2)}), violation);
  EXPECT_EQ(result_of({has(false, 1, 2)}), linearizable);
  EXPECT_EQ(result_of({has(true, 1, 2)}), violation);
  EXPECT_EQ(result_of({inserted(1, true, 1, 2), found(1, 3, 4)}), linearizable);
  EXPECT_EQ(result_of({inserted(1, false, 1, 2)}), violation);
  EXPECT_EQ(result_of({assigned(1, true, 1, 2), found(1, 3, 4)}), linearizable);
  EXPECT_EQ(result_of({assigned(1, false, 1, 2)}), violation);
  EXPECT_EQ(result_of({erased(false, 1, 2), has(false, 3, 4)}), linearizable);
  EXPECT_EQ(result_of({erased(true, 1, 2)}), violation);
  EXPECT_EQ(result_of({exchanged(1, absent, 1, 2), found(1, 3, 4)}), linearizable);
  EXPECT_EQ(result_of({exchanged(1, absent, 1, 2), found(absent, 3, 4)}), violation);
  EXPECT_EQ(result_of({exchanged(1, 0, 1, 2)}), violation);
  EXPECT_EQ(result_of({exchanged(1, 1, 1, 2)}), violation);
  EXPECT_EQ(result_of({extracted(absent, 1, 2), has(false, 3, 4)}), linearizable);
  EXPECT_EQ(result_of({extracted(0, 1, 2)}), violation);
  EXPECT_EQ(result_of({updated(3, absent, 1, 2), found(3, 3, 4)}), linearizable);
  EXPECT_EQ(result_of({updated(3, absent, 1, 2), found(absent, 3, 4)}), violation);
  EXPECT_EQ(result_of({updated(3, 0, 1, 2)}), violation);
}

TEST(sequential, each_kind_on_a_present_key) {
  const std::vector<map_entry> five{{7, 5}};
  EXPECT_EQ(result_of({found(5, 1, 2)}, five), linearizable);
  EXPECT_EQ(result_of({found(4, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({found(absent, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({has(true, 1, 2)}, five), linearizable);
  EXPECT_EQ(result_of({has(false, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({inserted(1, false, 1, 2), found(5, 3, 4)}, five), linearizable);
  EXPECT_EQ(result_of({inserted(1, false, 1, 2), found(1, 3, 4)}, five), violation);
  EXPECT_EQ(result_of({inserted(1, true, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({assigned(1, false, 1, 2), found(1, 3, 4)}, five), linearizable);
  EXPECT_EQ(result_of({assigned(1, false, 1, 2), found(5, 3, 4)}, five), violation);
  EXPECT_EQ(result_of({assigned(1, true, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({erased(true, 1, 2), found(absent, 3, 4)}, five), linearizable);
  EXPECT_EQ(result_of({erased(true, 1, 2), found(5, 3, 4)}, five), violation);
  EXPECT_EQ(result_of({erased(false, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({exchanged(1, 5, 1, 2), found(1, 3, 4)}, five), linearizable);
  EXPECT_EQ(result_of({exchanged(1, 5, 1, 2), found(5, 3, 4)}, five), violation);
  EXPECT_EQ(result_of({exchanged(1, 4, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({exchanged(1, absent, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({extracted(5, 1, 2), found(absent, 3, 4)}, five), linearizable);
  EXPECT_EQ(result_of({extracted(5, 1, 2), found(5, 3, 4)}, five), violation);
  EXPECT_EQ(result_of({extracted(4, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({extracted(absent, 1, 2)}, five), violation);
  EXPECT_EQ(result_of({updated(3, 5, 1, 2), found(8, 3, 4)}, five), linearizable);
  EXPECT_EQ(result_of({updated(3, 5, 1, 2), found(3, 3, 4)}, five), violation);
  EXPECT_EQ(result_of({updated(3, 8, 1, 2)}, five), violation) << "the value before, not after";
  EXPECT_EQ(result_of({updated(3, absent, 1, 2)}, five), violation);
}

TEST(sequential, keys_do_not_mix) {
  EXPECT_EQ(result_of({inserted(1, true, 1, 2), on_key(8, found(absent, 3, 4))}), linearizable);
  const verdict v = check(history_of({inserted(1, true, 1, 2), on_key(8, found(1, 3, 4))}));
  EXPECT_EQ(v.result, violation);
  EXPECT_EQ(v.key, 8);
}

TEST(sequential, extreme_keys_and_values) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(result_of({on_key(most, assigned(most, true, 1, 2)), on_key(most, found(most, 3, 4)),
                       on_key(0, assigned(0, true, 5, 6)), on_key(0, found(0, 7, 8))}),
            linearizable);
  EXPECT_EQ(result_of({on_key(most, assigned(most, true, 1, 2)), on_key(most, found(absent, 3, 4))}),
            violation);
}

// ---- overlapping operations ----

TEST(overlapping, either_order_of_a_write_and_a_read) {
  EXPECT_EQ(result_of({inserted(1, true, 1, 4), found(1, 2, 3)}), linearizable);
  EXPECT_EQ(result_of({inserted(1, true, 1, 4), found(absent, 2, 3)}), linearizable);
  EXPECT_EQ(result_of({inserted(1, true, 1, 4), found(2, 2, 3)}), violation);
}

TEST(overlapping, order_of_moments) {
  EXPECT_EQ(result_of({inserted(1, true, 1, 2), found(absent, 3, 4)}), violation) << "stale read";
  EXPECT_EQ(result_of({inserted(1, true, 1, 3), found(absent, 3, 4)}), linearizable) << "they touch";
  EXPECT_EQ(result_of({found(1, 1, 2), inserted(1, true, 3, 4)}), violation) << "read from the future";
  EXPECT_EQ(result_of({found(1, 1, 3), inserted(1, true, 3, 4)}), linearizable) << "they touch";
  EXPECT_EQ(result_of({assigned(1, false, 1, 9), found(1, 2, 3), found(0, 4, 5)}, {{7, 0}}), violation)
      << "old after new";
  EXPECT_EQ(result_of({assigned(1, false, 1, 9), found(0, 2, 3), found(1, 4, 5)}, {{7, 0}}), linearizable);
}

TEST(overlapping, lost_update) {
  EXPECT_EQ(result_of({inserted(1, true, 1, 4), inserted(2, true, 2, 3)}), violation);
  EXPECT_EQ(result_of({inserted(1, true, 1, 4), inserted(2, false, 2, 3)}), linearizable);
  EXPECT_EQ(result_of({inserted(1, true, 1, 4), assigned(2, true, 2, 3), found(2, 5, 6)}), violation);
  EXPECT_EQ(result_of({inserted(1, true, 1, 4), assigned(2, false, 2, 3), found(2, 5, 6)}), linearizable);
  EXPECT_EQ(result_of({inserted(1, true, 1, 4), assigned(2, false, 2, 3), found(1, 5, 6)}), violation);
}

TEST(overlapping, updates_add_up) {
  EXPECT_EQ(result_of({updated(1, 0, 1, 4), updated(1, 0, 2, 3)}, {{7, 0}}), violation) << "one is lost";
  EXPECT_EQ(result_of({updated(1, absent, 1, 4), updated(1, absent, 2, 3)}), violation) << "both inserted";
  for (const std::uint64_t sum : {9U, 10U, 11U, 12U}) {
    EXPECT_EQ(result_of({updated(1, 9, 1, 4), updated(2, 10, 2, 3), found(sum, 5, 6)}, {{7, 9}}),
              sum == 12 ? linearizable : violation);
    EXPECT_EQ(result_of({updated(1, 11, 1, 4), updated(2, 9, 2, 3), found(sum, 5, 6)}, {{7, 9}}),
              sum == 12 ? linearizable : violation);
  }
  EXPECT_EQ(result_of({updated(1, 9, 1, 6), assigned(20, false, 2, 3), found(20, 4, 5)}, {{7, 9}}),
            linearizable);
  EXPECT_EQ(result_of({updated(1, 9, 1, 3), assigned(20, false, 2, 4), found(10, 5, 6)}, {{7, 9}}), violation)
      << "the assignment came later, for the update returned 9";
  EXPECT_EQ(result_of({updated(1, 20, 1, 3), assigned(20, false, 2, 4), found(20, 5, 6)}, {{7, 9}}),
            violation)
      << "the update came later";
}

TEST(overlapping, a_value_is_extracted_once) {
  EXPECT_EQ(result_of({extracted(5, 1, 4), extracted(5, 2, 3)}, {{7, 5}}), violation);
  EXPECT_EQ(result_of({extracted(5, 1, 4), extracted(absent, 2, 3)}, {{7, 5}}), linearizable);
  EXPECT_EQ(result_of({extracted(5, 1, 4), erased(true, 2, 3)}, {{7, 5}}), violation);
  EXPECT_EQ(result_of({extracted(5, 1, 4), exchanged(6, 5, 2, 3)}, {{7, 5}}), violation);
  EXPECT_EQ(result_of({extracted(6, 1, 4), exchanged(6, 5, 2, 3)}, {{7, 5}}), linearizable);
  EXPECT_EQ(result_of({extracted(5, 1, 4), exchanged(6, absent, 2, 3)}, {{7, 5}}), linearizable);
}

TEST(overlapping, a_returned_value_was_the_last_one) {
  for (const auto before : {5U, 6U}) {
    const auto expected = before == 6 ? linearizable : violation;
    EXPECT_EQ(result_of({assigned(6, false, 1, 2), extracted(before, 3, 4)}, {{7, 5}}), expected);
    EXPECT_EQ(result_of({assigned(6, false, 1, 2), exchanged(8, before, 3, 4)}, {{7, 5}}), expected);
    EXPECT_EQ(result_of({assigned(6, false, 1, 2), updated(8, before, 3, 4)}, {{7, 5}}), expected);
    EXPECT_EQ(result_of({assigned(6, false, 1, 3), extracted(before, 3, 4)}, {{7, 5}}), expected)
        << "the assignment returned that it replaced a value";
    EXPECT_EQ(result_of({assigned(6, before == 5, 1, 3), extracted(before, 3, 4)}, {{7, 5}}), linearizable);
  }
  EXPECT_EQ(result_of({exchanged(1, 5, 1, 6), exchanged(2, 1, 2, 5), exchanged(3, 2, 3, 4)}, {{7, 5}}),
            linearizable);
  EXPECT_EQ(result_of({exchanged(1, 5, 1, 6), exchanged(2, 1, 2, 5), exchanged(3, 1, 3, 4)}, {{7, 5}}),
            violation);
  EXPECT_EQ(result_of({exchanged(1, 5, 1, 4), exchanged(2, 9, 2, 3)}, {{7, 5}}), violation) << "never there";
}

TEST(overlapping, one_key_is_erased_once) {
  EXPECT_EQ(result_of({erased(true, 1, 4), erased(true, 2, 3)}, {{7, 1}}), violation);
  EXPECT_EQ(result_of({erased(true, 1, 4), erased(false, 2, 3)}, {{7, 1}}), linearizable);
  EXPECT_EQ(result_of({erased(true, 1, 6), erased(true, 2, 5), inserted(1, true, 3, 4)}, {{7, 1}}),
            linearizable);
}

TEST(overlapping, a_failed_insert_saw_the_key) {
  EXPECT_EQ(result_of({erased(true, 1, 2), inserted(2, false, 3, 4)}, {{7, 1}}), violation);
  EXPECT_EQ(result_of({erased(true, 1, 3), inserted(2, false, 2, 4), found(absent, 5, 6)}, {{7, 1}}),
            linearizable);
  EXPECT_EQ(result_of({erased(true, 1, 3), inserted(2, false, 2, 4), found(2, 5, 6)}, {{7, 1}}), violation);
}

// Both last writes are possible until the reads tell.
TEST(overlapping, every_state_is_carried_over_a_quiescent_moment) {
  const auto two_writes = [](std::initializer_list<operation> then) {
    history h = history_of({assigned(1, true, 1, 4), assigned(2, false, 2, 3)});
    for (const operation& o : then) h.add(o);
    return check(h).result;
  };
  EXPECT_EQ(two_writes({has(true, 5, 6), found(2, 7, 8)}), linearizable);
  EXPECT_EQ(two_writes({has(true, 5, 6), found(1, 7, 8)}), violation) << "1 was written as new";
  history both = history_of({assigned(1, false, 1, 4), assigned(2, false, 2, 3)}, {{7, 0}});
  for (const std::uint64_t value : {1U, 2U}) {
    history h = both;
    h.add(has(true, 5, 6));
    h.add(inserted(9, false, 7, 8));
    h.add(found(value, 9, 10));
    EXPECT_EQ(check(h).result, linearizable);
    h.add(found(3 - value, 11, 12));
    EXPECT_EQ(check(h).result, violation) << "the state cannot be both";
  }
  both.add(found(0, 5, 6));
  EXPECT_EQ(check(both).result, violation);
}

// ---- operations that did not return ----

TEST(pending, may_or_may_not_have_taken_effect) {
  for (const map_operation write : {insert, insert_or_assign, exchange, update}) {
    const operation p = made(write, 7, 3, false, 5, never);
    EXPECT_EQ(result_of({p}), linearizable);
    EXPECT_EQ(result_of({p, found(3, 6, 7)}), linearizable) << "it must have";
    EXPECT_EQ(result_of({p, found(absent, 6, 7)}), linearizable) << "it need not";
    EXPECT_EQ(result_of({p, found(absent, 6, 7), found(3, 8, 9)}), linearizable) << "not yet, then it did";
    EXPECT_EQ(result_of({p, found(3, 6, 7), found(absent, 8, 9)}), violation) << "not undone";
    EXPECT_EQ(result_of({p, found(3, 1, 2)}), violation) << "not before it began";
    EXPECT_EQ(result_of({p, erased(true, 6, 7), found(3, 8, 9)}), violation) << "not twice";
    EXPECT_EQ(result_of({p, found(4, 6, 7)}), violation);
  }
}

TEST(pending, erase_and_assignment_over_a_value) {
  const operation p = made(erase, 7, 0, false, 5, never);
  EXPECT_EQ(result_of({p, found(1, 6, 7), found(absent, 8, 9)}, {{7, 1}}), linearizable);
  EXPECT_EQ(result_of({p, found(absent, 6, 7), found(1, 8, 9)}, {{7, 1}}), violation);
  const operation q = made(insert, 7, 3, false, 5, never);
  EXPECT_EQ(result_of({q, found(3, 6, 7)}, {{7, 1}}), violation) << "insert does not overwrite";
  const operation r = made(insert_or_assign, 7, 3, false, 5, never);
  EXPECT_EQ(result_of({r, found(3, 6, 7)}, {{7, 1}}), linearizable);
}

TEST(pending, exchange_extract_and_update_over_a_value) {
  const auto takes_effect = [](map_operation write, std::optional<std::uint64_t> value) {
    const operation p = made(write, 7, 3, false, 5, never);
    const operation then = found(value, 6, 7);
    EXPECT_EQ(result_of({p, found(5, 6, 7)}, {{7, 5}}), linearizable) << "it need not";
    EXPECT_EQ(result_of({p, then}, {{7, 5}}), linearizable) << "it may, whatever it would have returned";
    EXPECT_EQ(result_of({p, then, found(5, 8, 9)}, {{7, 5}}), violation) << "not undone";
    EXPECT_EQ(result_of({p, found(9, 6, 7)}, {{7, 5}}), violation);
  };
  takes_effect(exchange, 3);
  takes_effect(extract, absent);
  takes_effect(update, 8);
}

// What they have taken is not returned again.
TEST(pending, exchange_and_extract_take_the_value) {
  for (const map_operation write : {exchange, extract}) {
    const operation p = made(write, 7, 3, false, 5, never);
    EXPECT_EQ(result_of({p, extracted(5, 6, 7), extracted(absent, 8, 9)}, {{7, 5}}), linearizable);
    EXPECT_EQ(result_of({p, extracted(5, 6, 7), extracted(5, 8, 9)}, {{7, 5}}), violation);
    EXPECT_EQ(result_of({p, extracted(5, 6, 7), extracted(3, 8, 9)}, {{7, 5}}),
              write == exchange ? linearizable : violation);
  }
}

TEST(pending, an_update_adds_to_the_value_at_its_moment) {
  const operation p = made(update, 7, 3, false, 1, never);
  for (const std::uint64_t sum : {20U, 23U}) {
    EXPECT_EQ(result_of({p, assigned(20, false, 2, 3), found(sum, 4, 5)}, {{7, 5}}), linearizable);
  }
  EXPECT_EQ(result_of({p, found(8, 2, 3), assigned(20, false, 4, 5), found(23, 6, 7)}, {{7, 5}}), violation)
      << "not twice";
}

TEST(pending, readers_say_nothing) {
  EXPECT_EQ(result_of({made(find, 7, 9, true, 1, never), made(contains, 7, 0, true, 2, never)}),
            linearizable);
}

TEST(pending, floats_over_quiescent_moments) {
  history h = history_of({made(insert_or_assign, 7, 99, false, 1, never)}, {{7, 0}});
  for (moment m = 2; m < 2000; m += 2) h.add(found(0, m, m + 1));
  h.add(found(99, 3000, 3001));
  EXPECT_EQ(check(h).result, linearizable);
  h.add(found(0, 3002, 3003));
  const verdict v = check(h);
  EXPECT_EQ(v.result, violation);
  EXPECT_LE(v.evidence.size(), 3);
}

// ---- scans ----

operation scanned(std::uint64_t from, bool reached_end, moment begun, moment ended) {
  return made(scan, from, 0, reached_end, begun, ended);
}

struct scan_case {
  std::vector<map_entry> initial;
  std::vector<operation> others;
  operation scan;
  std::vector<map_entry> visited;
};

outcome result_of(const scan_case& c, scan_guarantee guarantee) {
  history h;
  for (const map_entry& e : c.initial) h.add_initial(e.key, e.value);
  h.add(c.scan, c.visited);
  for (const operation& o : c.others) h.add(o);
  return check(h, {}, guarantee).result;
}

/// The same with a reverse scan.
scan_case in_mirror(scan_case c) {
  const auto turn = [](std::uint64_t& key) { key = 100 - key; };
  for (map_entry& e : c.initial) turn(e.key);
  for (map_entry& e : c.visited) turn(e.key);
  for (operation& o : c.others) turn(o.key);
  turn(c.scan.key);
  c.scan.kind = reverse_scan;
  return c;
}

void expect_both(outcome expected, const scan_case& of) {
  for (const scan_case& c : {of, in_mirror(of)}) {
    EXPECT_EQ(result_of(c, scan_guarantee::per_key), expected) << to_string(c.scan.kind);
    EXPECT_EQ(result_of(c, scan_guarantee::snapshot), expected) << to_string(c.scan.kind);
  }
}

TEST(scans, alone) {
  const std::vector<map_entry> three{{1, 10}, {2, 20}, {3, 30}};
  expect_both(linearizable, {three, {}, scanned(0, true, 1, 2), three});
  expect_both(linearizable, {three, {}, scanned(2, true, 1, 2), {{2, 20}, {3, 30}}});
  expect_both(linearizable, {three, {}, scanned(4, true, 1, 2), {}});
  expect_both(violation, {three, {}, scanned(3, true, 1, 2), {}});
  expect_both(violation, {three, {}, scanned(0, true, 1, 2), {{1, 10}, {3, 30}}});
  expect_both(violation, {three, {}, scanned(0, true, 1, 2), {{1, 10}, {2, 20}}});
  expect_both(violation, {three, {}, scanned(0, true, 1, 2), {{1, 10}, {2, 21}, {3, 30}}});
  expect_both(violation, {three, {}, scanned(0, true, 1, 2), {{1, 10}, {2, 20}, {3, 30}, {4, 40}}});
}

TEST(scans, that_were_stopped_cover_less) {
  const std::vector<map_entry> three{{1, 10}, {2, 20}, {3, 30}};
  expect_both(linearizable, {three, {}, scanned(0, false, 1, 2), {}});
  expect_both(linearizable, {three, {}, scanned(0, false, 1, 2), {{1, 10}, {2, 20}}});
  expect_both(violation, {three, {}, scanned(0, false, 1, 2), {{2, 20}}});
  expect_both(violation, {three, {}, scanned(0, false, 1, 2), {{1, 10}, {2, 21}}});
  expect_both(violation, {three, {}, scanned(0, false, 1, 2), {{1, 10}, {3, 30}}});
}

TEST(scans, visit_in_order) {
  const std::vector<map_entry> two{{1, 10}, {2, 20}};
  expect_both(violation, {two, {}, scanned(0, true, 1, 2), {{2, 20}, {1, 10}}});
  expect_both(violation, {two, {}, scanned(0, true, 1, 2), {{1, 10}, {1, 10}, {2, 20}}});
  expect_both(violation, {two, {}, scanned(2, true, 1, 2), {{1, 10}, {2, 20}}});
}

TEST(scans, beside_writers) {
  const std::vector<map_entry> seven{{7, 1}};
  const auto whole = scanned(0, true, 10, 20);
  for (const operation& o : {erased(true, 5, 15), erased(true, 15, 25)}) {
    expect_both(linearizable, {seven, {o}, whole, {}});
    expect_both(linearizable, {seven, {o}, whole, seven});
  }
  expect_both(violation, {seven, {erased(true, 5, 9)}, whole, seven});
  expect_both(violation, {seven, {erased(true, 21, 25)}, whole, {}});
  expect_both(linearizable, {seven, {assigned(2, false, 15, 16)}, whole, {{7, 2}}});
  expect_both(violation, {seven, {assigned(2, false, 21, 25)}, whole, {{7, 2}}});
  // Absent for a moment, although present before and after.
  expect_both(linearizable, {seven, {erased(true, 11, 12), inserted(1, true, 13, 14)}, whole, {}});
  expect_both(violation, {seven, {erased(true, 5, 6), inserted(1, true, 7, 8)}, whole, {}});
  expect_both(linearizable, {{}, {made(insert, 7, 1, false, 5, never)}, whole, seven});
}

TEST(scans, a_snapshot_is_of_one_moment) {
  // 1 is written before 2, yet only 2 is seen: each key alone is in order.
  const auto first = on_key(1, inserted(10, true, 11, 12));
  const auto second = on_key(2, inserted(20, true, 13, 14));
  const scan_case torn{{}, {first, second}, scanned(0, true, 10, 20), {{2, 20}}};
  EXPECT_EQ(result_of(torn, scan_guarantee::per_key), linearizable);
  EXPECT_EQ(result_of(torn, scan_guarantee::snapshot), violation);
  expect_both(linearizable, {{}, {first, second}, scanned(0, true, 10, 20), {{1, 10}}});
  expect_both(linearizable, {{}, {first, second}, scanned(0, true, 10, 20), {{1, 10}, {2, 20}}});
}

TEST(scans, two_snapshots_agree_on_an_order) {
  history h;
  h.add(on_key(1, inserted(10, true, 1, 20)));
  h.add(on_key(2, inserted(20, true, 2, 21)));
  h.add(scanned(0, true, 3, 18), std::array{map_entry{1, 10}});
  h.add(scanned(0, true, 4, 19), std::array{map_entry{2, 20}});
  EXPECT_EQ(check(h, {}, scan_guarantee::per_key).result, linearizable);
  const verdict v = check(h, {}, scan_guarantee::snapshot);
  EXPECT_EQ(v.result, violation);
  EXPECT_EQ(v.evidence.size(), 4);
  EXPECT_NE(v.explanation.find("the map"), std::string::npos) << v.explanation;
}

TEST(scans, that_did_not_return_say_nothing) {
  history h = history_of({}, {{1, 10}});
  h.add(scanned(0, true, 1, never), {});
  EXPECT_EQ(check(h, {}, scan_guarantee::per_key).result, linearizable);
  EXPECT_EQ(check(h, {}, scan_guarantee::snapshot).result, linearizable);
}

// ---- explanations ----

TEST(explanations, show_the_part_without_an_order) {
  history h;
  for (moment m = 0; m < 1000; m += 2) h.add(assigned(m, m == 0, m, m + 1));
  h.add(assigned(1, false, 1000, 1010));
  h.add(has(true, 1001, 1011));
  h.add(found(2, 1002, 1012));
  h.add(assigned(3, false, 1013, 1014));
  for (std::uint64_t k = 100; k < 200; ++k) h.add(on_key(k, inserted(1, true, k, 2000)));
  const verdict v = check(h);
  ASSERT_EQ(v.result, violation);
  EXPECT_EQ(v.key, 7);
  EXPECT_EQ(v.evidence.size(), 2) << v.explanation;
  for (const char* const part : {"key 7", "find(7) -> 2", "could only be 1 or 998", "Before moment 1000: 998",
                                 "insert_or_assign(7, 1) -> false"}) {
    EXPECT_NE(v.explanation.find(part), std::string::npos) << part << " in\n" << v.explanation;
  }
  EXPECT_EQ(v.explanation.find("contains"), std::string::npos) << v.explanation;
}

TEST(explanations, keep_the_reads_that_matter) {
  const verdict v = check(
      history_of({assigned(1, false, 1, 9), found(1, 2, 3), has(true, 2, 3), found(0, 4, 5)}, {{7, 0}}));
  ASSERT_EQ(v.result, violation);
  EXPECT_EQ(v.evidence.size(), 3) << v.explanation;
}

TEST(explanations, name_the_possible_results_of_an_extract) {
  history h = history_of(
      {updated(2, 5, 1, 2), exchanged(30, 7, 3, 10), updated(1, 30, 4, 13), extracted(9, 5, 12)}, {{7, 5}});
  h.add(made(update, 7, 100, false, 6, never));
  const verdict v = check(h);
  ASSERT_EQ(v.result, violation);
  EXPECT_NE(v.explanation.find("no order agrees with extract(7) -> 9"), std::string::npos) << v.explanation;
  EXPECT_NE(v.explanation.find("could only be 30 or 31 or 130 or 131."), std::string::npos) << v.explanation;
}

// Never quiescent: the part cannot begin at such a moment.
TEST(explanations, stay_short_where_operations_never_pause) {
  history h;
  h.add_initial(7, 0);
  for (moment m = 1; m < 2000; m += 2) h.add(assigned(m, false, m, m + 3));
  h.add(found(5, 1990, 1991));
  const verdict v = check(h);
  ASSERT_EQ(v.result, violation);
  EXPECT_LE(v.evidence.size(), 8) << v.explanation;
}

// From the state that the explanation names.
void evidence_has_no_order(random_history_options options, std::size_t at_least) {
  std::size_t seen = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const verdict v = check(random_history(options, seed).make());
    if (v.result != violation) continue;
    for (const auto start : std::initializer_list<std::optional<std::uint64_t>>{absent, 0, 1, 2, 3}) {
      const std::string state = start ? std::to_string(*start) : "absent";
      if (v.explanation.find(": " + state + ".\n  T") == std::string::npos) continue;
      history part;
      if (start) part.add_initial(v.key.value_or(0), *start);
      for (const operation& o : v.evidence) part.add(o);
      ++seen;
      EXPECT_EQ(check(part).result, violation) << v.explanation;
    }
  }
  EXPECT_GE(seen, at_least);
}

TEST(explanations, evidence_has_no_order_itself) {
  evidence_has_no_order({.threads = 6, .operations = 60, .values = 4, .wrong = 2}, 100);
}

TEST(explanations, evidence_of_a_busy_key_has_no_order_itself) {
  evidence_has_no_order({.threads = 4, .operations = 600, .keys = 1, .values = 4, .late = 1}, 100);
}

// The order that explanations list.
TEST(explanations, an_order_can_be_replayed) {
  const check_limits limits;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const random_history_options options{
        .threads = 6, .operations = 60, .keys = 1, .values = 4, .pending = 3};
    const history h = random_history(options, seed).make();
    std::vector<observation> operations;
    for (const operation& o : h.operations()) {
      const auto source = static_cast<std::uint32_t>(&o - h.operations().data());
      if (!o.pending() || !only_observes(o)) operations.push_back({o, source});
    }
    std::ranges::sort(operations, {}, [](const observation& o) { return o.what.invoked; });
    register_model model;
    search_budget budget(limits);
    order_search<register_model> search(model, budget);
    register_state now;
    if (!h.initial().empty()) now = {h.initial().front().value, true};
    ASSERT_EQ(search.run(operations, std::array{now}), linearizable);
    std::vector<bool> placed(operations.size());
    moment latest_invocation = 0;
    for (const std::uint32_t i : search.order()) {
      const operation& o = operations[i].what;
      EXPECT_FALSE(placed[i]);
      placed[i] = true;
      EXPECT_GE(o.returned, latest_invocation) << "it precedes one that stands before it";
      latest_invocation = std::max(latest_invocation, o.invoked);
      const auto next = register_model::apply(o, now);
      ASSERT_TRUE(next.has_value()) << "seed " << seed;
      now = next.value_or(now);
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
      EXPECT_TRUE(placed[i] || operations[i].what.pending());
    }
  }
}

// ---- limits ----

// Writers that all overlap, then a read of what none wrote: every subset is tried.
history hard(std::uint32_t writers) {
  history h;
  h.add_initial(7, 0);
  for (std::uint32_t w = 1; w <= writers; ++w) h.add(assigned(w, false, w, 1000 + w));
  h.add(found(77, 500, 600));
  return h;
}

TEST(limits, end_in_unknown) {
  EXPECT_EQ(check(hard(8)).result, violation);
  check_limits limits;
  limits.steps = 200;
  verdict v = check(hard(8), limits);
  EXPECT_EQ(v.result, unknown);
  EXPECT_NE(v.explanation.find("steps"), std::string::npos) << v.explanation;
  EXPECT_LE(v.steps, 220);

  limits = {};
  limits.memo_bytes = 100'000;
  v = check(hard(12), limits);
  EXPECT_EQ(v.result, unknown);
  EXPECT_NE(v.explanation.find("memory"), std::string::npos) << v.explanation;

  limits = {};
  int asked = 0;
  limits.expired = [&] { return ++asked > 2; };
  v = check(hard(12), limits);
  EXPECT_EQ(v.result, unknown);
  EXPECT_NE(v.explanation.find("time"), std::string::npos) << v.explanation;

  v = check(hard(64));
  EXPECT_EQ(v.result, unknown);
  EXPECT_NE(v.explanation.find("64"), std::string::npos) << v.explanation;
}

TEST(limits, a_limit_on_one_key_hides_no_violation_of_another) {
  history h = hard(64);
  h.add(on_key(8, found(1, 1, 2)));
  const verdict v = check(h);
  EXPECT_EQ(v.result, violation);
  EXPECT_EQ(v.key, 8);
}

TEST(limits, memory_of_snapshots) {
  random_history_options options;
  options.threads = 10;
  options.operations = 400;
  options.keys = 30;
  options.values = 100;
  options.scans = 20;
  const history h = random_history(options, 1).make();
  EXPECT_EQ(check(h, {}, scan_guarantee::snapshot).result, linearizable);
  check_limits limits;
  limits.memo_bytes = 20'000;
  EXPECT_EQ(check(h, limits, scan_guarantee::snapshot).result, unknown);
}

// ---- against every permutation ----

class every_order {
 public:
  explicit every_order(const history& h) : history_(h) {
    for (const map_entry& e : h.initial()) start_[e.key] = e.value;
  }

  [[nodiscard]] bool exists() {
    rest_.assign(history_.operations().begin(), history_.operations().end());
    return continues(start_);
  }

 private:
  using contents = std::map<std::uint64_t, std::uint64_t>;

  bool continues(const contents& now) {
    if (std::ranges::all_of(rest_, &operation::pending)) return true;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      const operation o = rest_[i];
      const auto precedes = [&](const operation& other) { return other.returned < o.invoked; };
      if (std::ranges::any_of(rest_, precedes)) continue;
      contents next = now;
      if (!happens(o, next) && !o.pending()) continue;
      rest_.erase(rest_.begin() + static_cast<std::ptrdiff_t>(i));
      const bool found = continues(next);
      rest_.insert(rest_.begin() + static_cast<std::ptrdiff_t>(i), o);
      if (found) return true;
    }
    return false;
  }

  // Whether the map would have answered so.
  bool happens(const operation& o, contents& map) const {
    const auto at = map.find(o.key);
    const bool as_returned = o.result ? at != map.end() && at->second == o.returned_value : at == map.end();
    switch (o.kind) {
      case find:
        return as_returned;
      case contains:
        return map.contains(o.key) == o.result;
      case insert:
        return map.try_emplace(o.key, o.value).second == o.result;
      case insert_or_assign:
        return map.insert_or_assign(o.key, o.value).second == o.result;
      case erase:
        return (map.erase(o.key) == 1) == o.result;
      case exchange:
        map[o.key] = o.value;
        return as_returned;
      case extract:
        map.erase(o.key);
        return as_returned;
      case update:
        map[o.key] += o.value;
        return as_returned;
      case scan:
      case reverse_scan:
        break;
    }
    std::vector<map_entry> expected;
    for (const auto& [key, value] : map) {
      if (o.kind == scan ? key >= o.key : key <= o.key) expected.push_back({key, value});
    }
    if (o.kind == reverse_scan) std::ranges::reverse(expected);
    const auto visited = history_.entries(o);
    if (!o.result && expected.size() > visited.size()) expected.resize(visited.size());
    return std::ranges::equal(expected, visited);
  }

  const history& history_;
  contents start_;
  std::vector<operation> rest_;
};

struct tally {
  std::size_t linearizable = 0;
  std::size_t violations = 0;
};

tally compare(random_history_options options, std::uint64_t histories) {
  tally seen;
  for (std::uint64_t seed = 0; seed < histories; ++seed) {
    options.operations = 3 + seed % 5;
    options.threads = 2 + static_cast<std::uint32_t>(seed / 5 % 4);
    options.keys = 1 + seed / 20 % 2;
    const history h = random_history(options, seed).make();
    const bool expected = every_order(h).exists();
    const verdict v = check(h, {}, scan_guarantee::snapshot);
    std::ostringstream text;
    h.write_text(text);
    EXPECT_EQ(v.result, expected ? linearizable : violation) << "seed " << seed << "\n" << text.str();
    if (v.result == linearizable) {
      EXPECT_EQ(check(h).result, linearizable) << "a snapshot is per key, seed " << seed;
    }
    ++(expected ? seen.linearizable : seen.violations);
    if (::testing::Test::HasFailure()) break;
  }
  return seen;
}

TEST(permutations, agree_on_maps_that_work) {
  const tally seen = compare({.pending = 10}, 4000);
  EXPECT_EQ(seen.violations, 0);
}

TEST(permutations, agree_on_wrong_results) {
  const tally seen = compare({.wrong = 15, .pending = 10}, 6000);
  EXPECT_GT(seen.linearizable, 1000);
  EXPECT_GT(seen.violations, 1000);
}

TEST(permutations, agree_on_late_effects) {
  const tally seen = compare({.late = 30, .pending = 5}, 15000);
  EXPECT_GT(seen.linearizable, 1000);
  EXPECT_GT(seen.violations, 1000);
}

TEST(permutations, agree_on_snapshots) {
  const tally seen = compare({.late = 20, .wrong = 3, .pending = 5, .scans = 30}, 12000);
  EXPECT_GT(seen.linearizable, 1000);
  EXPECT_GT(seen.violations, 1000);
}

// ---- size ----

TEST(size, a_million_operations_on_a_thousand_keys) {
  random_history_options options;
  options.threads = 8;
  options.operations = 1'000'000;
  options.keys = 1000;
  options.values = 1000;
  const history h = random_history(options, 1).make();
  ASSERT_EQ(h.operations().size(), 1'000'000);
  EXPECT_EQ(check(h).result, linearizable);
}

TEST(size, twelve_threads_on_one_key) {
  random_history_options options;
  options.threads = 12;
  options.operations = 60;
  options.keys = 1;
  options.values = 5;
  std::size_t violations = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    options.wrong = 0;
    EXPECT_EQ(check(random_history(options, seed).make()).result, linearizable);
    options.wrong = 5;
    const outcome o = check(random_history(options, seed).make()).result;
    EXPECT_NE(o, unknown);
    if (o == violation) ++violations;
  }
  EXPECT_GT(violations, 20);
  EXPECT_EQ(check(hard(12)).result, violation);
}

TEST(size, one_busy_key_without_a_pause) {
  random_history_options options;
  options.threads = 8;
  options.operations = 50'000;
  options.keys = 1;
  options.values = 3;
  history h = random_history(options, 3).make();
  EXPECT_EQ(check(h).result, linearizable);
  h.add(found(77, 60'000, 60'001));
  EXPECT_EQ(check(h).result, violation);
}

// ---- recording ----

TEST(recording, lanes_merge_into_one_history) {
  history_lane a(0);
  history_lane b(1);
  a.begin(insert, 7, 3, 1);
  b.begin(find, 7, 0, 2);
  a.end(true, 3);
  b.end_with(3, 4);
  b.begin(scan, 5, 0, 5);
  b.visit(7, 3);
  b.end_scan(true, 6);
  a.begin(scan, 0, 0, 7);
  a.visit(7, 4);
  a.visit(9, 1);
  a.end_scan(false, 8);
  a.begin(reverse_scan, 8, 0, 10);
  a.visit(7, 4);
  a.end_scan(true, 11);
  b.begin(erase, 7, 0, 9);
  history h;
  h.add_initial(9, 1);
  h.add(b);
  h.add(a);
  ASSERT_EQ(h.operations().size(), 6);
  std::vector<std::string> lines;
  for (const operation& o : h.operations()) lines.push_back(describe(h, o));
  EXPECT_EQ(lines, (std::vector<std::string>{"find(7) -> 3", "scan(5) -> 7: 3, end", "erase(7) pending",
                                             "insert(7, 3) -> true", "scan(0) -> 7: 4, 9: 1, stopped",
                                             "reverse_scan(8) -> 7: 4, end"}));
  std::ostringstream text;
  h.write_text(text);
  EXPECT_EQ(text.str(),
            "initial 9 1\n"
            "find 1 2 4 7 0 3\n"
            "scan 1 5 6 5 1 1 7 3\n"
            "erase 1 9 - 7 0 0\n"
            "insert 0 1 3 7 3 1\n"
            "scan 0 7 8 0 2 0 7 4 9 1\n"
            "reverse_scan 0 10 11 8 1 1 7 4\n");
  EXPECT_EQ(check(h).result, violation) << "9 was there during scan(5)";
}

TEST(recording, values_before) {
  history_lane lane(0);
  lane.begin(exchange, 7, 3, 1);
  lane.end_with(absent, 2);
  lane.begin(update, 7, 4, 3);
  lane.end_with(3, 4);
  lane.begin(extract, 7, 0, 5);
  lane.end_with(7, 6);
  lane.begin(find, 7, 0, 7);
  lane.end_with(absent, 8);
  lane.begin(update, 7, 4, 9);
  history h;
  h.add(lane);
  std::vector<std::string> lines;
  for (const operation& o : h.operations()) lines.push_back(describe(h, o));
  EXPECT_EQ(lines,
            (std::vector<std::string>{"exchange(7, 3) -> absent", "update(7, +4) -> 3", "extract(7) -> 7",
                                      "find(7) -> absent", "update(7, +4) pending"}));
  std::ostringstream text;
  h.write_text(text);
  EXPECT_EQ(text.str(),
            "exchange 0 1 2 7 3 -\n"
            "update 0 3 4 7 4 3\n"
            "extract 0 5 6 7 0 7\n"
            "find 0 7 8 7 0 -\n"
            "update 0 9 - 7 4 -\n");
  EXPECT_EQ(check(h).result, linearizable);
}

TEST(recording, refuses_what_cannot_be) {
  history_lane lane(4);
  EXPECT_THROW(lane.end(true, 1), std::invalid_argument);
  lane.begin(insert, 1, 1, 10);
  EXPECT_THROW(lane.end_with(1, 11), std::invalid_argument);
  EXPECT_THROW(lane.end(true, 10), std::invalid_argument);
  EXPECT_THROW(lane.visit(1, 1), std::invalid_argument);
  lane.end(true, 11);
  EXPECT_THROW(lane.end(true, 12), std::invalid_argument);
  EXPECT_THROW(lane.begin(find, 1, 0, 11), std::invalid_argument);
  EXPECT_THROW(lane.begin(find, 1, 0, never), std::invalid_argument);
  ASSERT_EQ(lane.operations().size(), 1);

  history h;
  h.add_initial(1, 1);
  EXPECT_THROW(h.add_initial(1, 2), std::invalid_argument);
  EXPECT_THROW(h.add(found(1, 2, 1)), std::invalid_argument);
  EXPECT_THROW(h.add(scanned(0, true, 1, 2)), std::invalid_argument);
  EXPECT_THROW(h.add(found(1, 1, 2), {}), std::invalid_argument);
  EXPECT_TRUE(h.operations().empty());

  for (const map_operation kind : {find, exchange, extract, update}) {
    history_lane other(0);
    other.begin(kind, 1, 1, 1);
    EXPECT_THROW(other.end(true, 2), std::invalid_argument) << to_string(kind);
  }
}

TEST(recording, timeline) {
  operation late = made(erase, 7, 0, false, 8, never);
  late.thread = 2;
  operation first = inserted(3, true, 3, 9);
  first.thread = 0;
  operation second = found(absent, 5, 14);
  second.thread = 11;
  std::ostringstream out;
  print_timeline(out, history_of({late, second, first}));
  EXPECT_EQ(out.str(),
            "  T0   3..9   [-----]     insert(7, 3) -> true\n"
            "  T11  5..14    [-----]   find(7) -> absent\n"
            "  T2   8..        [---->  erase(7) pending\n");
}

}  // namespace
}  // namespace espalier::sim
