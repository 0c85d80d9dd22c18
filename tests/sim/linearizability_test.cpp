#include "sim/history/linearizability.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "espalier/measure/random.hpp"
#include "sim/history/history.hpp"
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

std::string drawn(const history& h) {
  std::ostringstream out;
  print_timeline(out, h);
  return out.str();
}

using contents = std::map<std::uint64_t, std::uint64_t>;

/// Performs an operation that is no scan, and sets what it returns.
void perform(operation& o, contents& map) {
  const auto at = map.find(o.key);
  o.result = at != map.end();
  o.returned_value = o.result ? at->second : 0;
  switch (o.kind) {
    case insert:
      o.result = map.try_emplace(o.key, o.value).second;
      break;
    case insert_or_assign:
      o.result = map.insert_or_assign(o.key, o.value).second;
      break;
    case erase:
    case extract:
      map.erase(o.key);
      break;
    case exchange:
      map[o.key] = o.value;
      break;
    case update:
      map[o.key] += o.value;
      break;
    default:
      break;
  }
}

/// What a scan to the end visits.
std::vector<map_entry> in_range(const operation& scanning, const contents& map) {
  std::vector<map_entry> entries;
  for (const auto& [key, value] : map) {
    if (scanning.kind == scan ? key >= scanning.key : key <= scanning.key) entries.push_back({key, value});
  }
  if (scanning.kind == reverse_scan) std::ranges::reverse(entries);
  return entries;
}

// Histories of a map that works, or nearly works: threads that take turns at random, each going from invocation to effect
// to return.

struct random_history_options {
  std::uint32_t threads = 3;
  std::size_t operations = 6;
  std::uint64_t keys = 2;
  std::uint64_t values = 2;
  /// In percent: effects that come after the return, results that are wrong, operations without a return.
  unsigned late = 0;
  unsigned wrong = 0;
  unsigned pending = 0;
  unsigned scans = 0;
};

class random_history {
 public:
  random_history(const random_history_options& options, std::uint64_t seed)
      : options_(options), random_(seed), threads_(options.threads) {
    for (std::uint32_t t = 0; t < options.threads; ++t)
      lanes_.emplace_back(t, options.operations / options.threads + 1);
  }

  [[nodiscard]] history make() {
    history made;
    for (std::uint64_t key = 0; key < options_.keys; ++key) {
      if (below(2) == 0) continue;
      made.add_initial(key, below(options_.values));
      map_[key] = made.initial().back().value;
    }
    for (std::size_t begun = 0; begun < options_.operations;) {
      const auto t = static_cast<std::size_t>(below(options_.threads));
      if (threads_[t].now == stage::idle) ++begun;
      step(threads_[t], lanes_[t]);
    }
    for (std::size_t t = 0; t < threads_.size(); ++t)
      while (threads_[t].now != stage::idle) step(threads_[t], lanes_[t]);
    for (const history_lane& lane : lanes_) made.add(lane);
    return made;
  }

 private:
  static constexpr std::size_t all_but_scans = map_operations.size() - 2;
  static_assert(is_scan(map_operations[all_but_scans]) && is_scan(map_operations.back()));

  enum class stage : std::uint8_t { idle, invoked, effective };

  struct thread_state {
    stage now = stage::idle;
    operation doing;
    std::vector<map_entry> visited;
  };

  std::uint64_t below(std::uint64_t bound) { return random_.next() % bound; }
  bool chance(unsigned percent) { return below(100) < percent; }

  void step(thread_state& t, history_lane& lane) {
    switch (t.now) {
      case stage::idle: {
        t = {};
        t.now = stage::invoked;
        operation& o = t.doing;
        o.kind = map_operations[chance(options_.scans) ? all_but_scans + below(2) : below(all_but_scans)];
        o.key = below(options_.keys);
        o.value = below(options_.values);
        lane.begin(o.kind, o.key, o.value, ++clock_);
        break;
      }
      case stage::invoked:
        if (chance(options_.late)) {
          // As a map that answers from what it saw and writes later.
          auto before = map_;
          take_effect(t);
          end(t, lane);
          map_.swap(before);
          later_.push_back(t);
        } else if (chance(options_.pending)) {
          if (below(2) == 0) take_effect(t);
          t.now = stage::idle;
        } else {
          take_effect(t);
          t.now = stage::effective;
        }
        break;
      case stage::effective:
        end(t, lane);
        break;
    }
    if (!later_.empty() && below(3) == 0) {
      take_effect(later_.back());
      later_.pop_back();
    }
  }

  void take_effect(thread_state& t) {
    if (!is_scan(t.doing.kind)) return perform(t.doing, map_);
    t.doing.result = true;
    for (const map_entry& e : in_range(t.doing, map_)) {
      if (!t.doing.result) break;
      t.visited.push_back(e);
      t.doing.result = below(4) != 0;
    }
  }

  void end(thread_state& t, history_lane& lane) {
    const operation& o = t.doing;
    t.now = stage::idle;
    if (is_scan(o.kind)) {
      for (const map_entry& e : t.visited) {
        if (chance(options_.wrong)) continue;
        lane.visit(e.key, chance(options_.wrong) ? below(options_.values) : e.value);
      }
      lane.end_scan(o.result, ++clock_);
    } else if (returns_value(o.kind)) {
      auto before = o.result ? std::optional(o.returned_value) : absent;
      if (chance(options_.wrong)) before = below(options_.values);
      lane.end_with(before, ++clock_);
    } else {
      lane.end(o.result != chance(options_.wrong), ++clock_);
    }
  }

  random_history_options options_;
  measure::random_generator random_;
  std::vector<history_lane> lanes_;
  std::vector<thread_state> threads_;
  std::vector<thread_state> later_;
  contents map_;
  moment clock_ = 0;
};

// ---- against every order ----

/// Tries the operations in every order, on a std::map.
class every_order {
 public:
  every_order(const history& h, std::vector<operation> operations)
      : history_(h), operations_(std::move(operations)) {}

  [[nodiscard]] bool exists() {
    contents start;
    for (const map_entry& e : history_.initial()) start[e.key] = e.value;
    return continues((std::uint64_t{1} << operations_.size()) - 1, start);
  }

 private:
  /// Whether the rest, a set of bits, has an order.
  bool continues(std::uint64_t rest, const contents& now) {
    const auto left = [rest](std::size_t i) { return (rest >> i & 1U) != 0; };
    if (!failed_.emplace(rest, now).second) return false;
    bool all_pending = true;
    moment first_return = never;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (!left(i)) continue;
      all_pending = all_pending && operations_[i].pending();
      first_return = std::min(first_return, operations_[i].returned);
    }
    if (all_pending) return true;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const operation& o = operations_[i];
      if (!left(i) || first_return < o.invoked) continue;
      contents next = now;
      if (!happens(o, next) && !o.pending()) continue;
      if (continues(rest & ~(std::uint64_t{1} << i), next)) return true;
    }
    return false;
  }

  /// Whether the map would have answered so.
  static bool happens(const operation& o, contents& map) {
    operation here = o;
    perform(here, map);
    return here.result == o.result && (!returns_value(o.kind) || here.returned_value == o.returned_value);
  }

  const history& history_;
  std::vector<operation> operations_;
  std::set<std::pair<std::uint64_t, contents>> failed_;
};

/// What a scan says of each key that it covers, as finds; nothing if it visits keys out of order.
std::optional<std::vector<operation>> finds_of(const history& h, const operation& o,
                                               const std::set<std::uint64_t>& keys) {
  const auto precedes = [&](std::uint64_t a, std::uint64_t b) { return o.kind == scan ? a < b : b < a; };
  std::map<std::uint64_t, std::uint64_t> seen;
  std::uint64_t last = o.key;
  for (const map_entry& e : h.entries(o)) {
    if (precedes(e.key, last) || !seen.emplace(e.key, e.value).second) return std::nullopt;
    last = e.key;
  }
  std::vector<operation> finds;
  for (const std::uint64_t key : keys) {
    if (precedes(key, o.key) || (!o.result && (seen.empty() || precedes(last, key)))) continue;
    finds.push_back(made(find, key, 0, seen.contains(key), o.invoked, o.returned));
    if (seen.contains(key)) finds.back().returned_value = seen[key];
  }
  return finds;
}

/// The verdict by trying every order of each key.
outcome by_every_order(const history& h) {
  std::set<std::uint64_t> keys;
  for (const map_entry& e : h.initial()) keys.insert(e.key);
  for (const operation& o : h.operations()) {
    if (!is_scan(o.kind))
      keys.insert(o.key);
    else
      for (const map_entry& e : h.entries(o)) keys.insert(e.key);
  }
  std::map<std::uint64_t, std::vector<operation>> parts;
  for (const operation& o : h.operations()) {
    std::vector<operation> parts_of{o};
    if (is_scan(o.kind)) {
      if (o.pending()) continue;
      const auto finds = finds_of(h, o, keys);
      if (!finds) return violation;
      parts_of = *finds;
    }
    for (const operation& one : parts_of) parts[one.key].push_back(one);
  }
  const auto has_order = [&](auto& part) { return every_order(h, std::move(part.second)).exists(); };
  return std::ranges::all_of(parts, has_order) ? linearizable : violation;
}

struct tally {
  std::size_t linearizable = 0;
  std::size_t violations = 0;

  void compare(const history& h) {
    const outcome expected = by_every_order(h);
    ASSERT_EQ(check(h).result, expected) << drawn(h);
    ++(expected == outcome::linearizable ? linearizable : violations);
  }
};

/// Every operation of a key with the values 1 and 2, and every result that it may have; no scan.
std::vector<operation> every_operation() {
  std::vector<operation> all;
  for (const map_operation kind : map_operations) {
    if (is_scan(kind)) continue;
    const bool takes_value = is_write(kind) && kind != erase && kind != extract;
    for (const std::uint64_t value :
         takes_value ? std::vector<std::uint64_t>{1, 2} : std::vector<std::uint64_t>{0}) {
      all.push_back(made(kind, 7, value, false, 0, 0));
      for (std::uint64_t before = 1; before <= (returns_value(kind) ? 3U : 1U); ++before) {
        all.push_back(made(kind, 7, value, true, 0, 0));
        if (returns_value(kind)) all.back().returned_value = before;
      }
    }
  }
  return all;
}

/// Two of them in every relation of their intervals, and then a find.
TEST(every_order, of_any_two_operations_and_what_they_leave) {
  struct interval {
    moment from, to;
  };
  constexpr std::pair<interval, interval> relations[] = {
      {{1, 2}, {3, 4}},     {{1, 3}, {3, 4}},     {{1, 4}, {2, 3}},     {{1, 3}, {2, 4}},
      {{1, never}, {3, 4}}, {{1, never}, {8, 9}}, {{3, never}, {1, 2}}, {{1, never}, {2, never}},
      {{1, 9}, {2, 3}},     {{1, 5}, {2, 4}}};
  const std::vector<operation> all = every_operation();
  tally seen;
  for (const std::uint64_t initial : {0U, 1U}) {
    for (const auto& [one, other] : relations) {
      for (operation a : all) {
        for (operation b : all) {
          for (std::uint64_t left = 0; left <= 4; ++left) {
            history h;
            if (initial != 0) h.add_initial(7, initial);
            a.invoked = one.from;
            a.returned = one.to;
            b.invoked = other.from;
            b.returned = other.to;
            h.add(a);
            h.add(b);
            h.add(found(left == 0 ? absent : std::optional(left), 5, 6));
            ASSERT_NO_FATAL_FAILURE(seen.compare(h));
          }
        }
      }
    }
  }
  EXPECT_GT(seen.linearizable, 1000);
}

/// Alone, and beside any write of one of its keys that comes before, during or after it.
TEST(every_order, of_any_scan_and_what_it_may_visit) {
  std::vector<std::vector<map_entry>> visited{{}};
  for (std::size_t i = 0; visited[i].size() < 3; ++i) {
    for (const map_entry& e : {map_entry{1, 1}, map_entry{2, 1}, map_entry{2, 2}, map_entry{3, 1}}) {
      visited.push_back(visited[i]);
      visited.back().push_back(e);
    }
  }
  std::vector<operation> writes{made(find, 9, 0, false, 1, 2)};
  for (const auto& [from, to] :
       {std::pair<moment, moment>{1, 2}, {5, 15}, {12, 13}, {15, 25}, {30, 31}, {5, never}}) {
    for (const bool result : {false, true}) {
      for (const map_operation kind : {insert, insert_or_assign, erase})
        writes.push_back(made(kind, 2, 2, result, from, to));
    }
  }
  tally seen;
  for (const operation& write : writes) {
    const bool alone = !is_write(write.kind);
    for (const auto& entries : visited) {
      if (entries.size() == 3 && !alone) break;
      for (const bool has_all : {false, true}) {
        for (const std::uint64_t from : {0U, 2U, 4U}) {
          for (const bool reached_end : {false, true}) {
            for (const map_operation kind : {scan, reverse_scan}) {
              history h;
              for (const std::uint64_t key : {1U, 2U, 3U})
                if (has_all || key != 2) h.add_initial(key, 1);
              h.add(write);
              h.add(made(kind, from, 0, reached_end, 10, 20), entries);
              ASSERT_NO_FATAL_FAILURE(seen.compare(h));
            }
          }
        }
      }
    }
  }
  EXPECT_GT(seen.linearizable, 500);
}

tally compare_random(random_history_options options, std::uint64_t histories) {
  tally seen;
  for (std::uint64_t seed = 0; seed < histories; ++seed) {
    options.threads = 2 + static_cast<std::uint32_t>(seed % 5);
    options.operations = 3 + seed / 5 % 20;
    options.keys = 1 + seed / 100 % 3;
    seen.compare(random_history(options, seed).make());
    if (::testing::Test::HasFailure()) break;
  }
  return seen;
}

TEST(every_order, of_maps_that_work) {
  EXPECT_EQ(compare_random({.pending = 10, .scans = 20}, 1000).violations, 0);
}

TEST(every_order, of_maps_with_late_effects_and_wrong_results) {
  for (const auto& options :
       {random_history_options{.values = 3, .late = 15, .pending = 5},
        random_history_options{.values = 3, .wrong = 5, .pending = 5},
        random_history_options{.values = 3, .late = 20, .wrong = 2, .pending = 5, .scans = 20}}) {
    const tally seen = compare_random(options, 4000);
    EXPECT_GT(seen.linearizable, 500);
    EXPECT_GT(seen.violations, 500);
  }
}

TEST(keys, do_not_mix_and_may_be_extreme) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  history h = history_of({on_key(most, assigned(most, true, 1, 2)), on_key(most, found(most, 3, 4)),
                          on_key(0, assigned(0, true, 5, 6)), on_key(0, found(0, 7, 8))});
  EXPECT_EQ(check(h).result, linearizable);
  h.add(on_key(most, found(0, 9, 10)));
  const verdict v = check(h);
  EXPECT_EQ(v.result, violation);
  EXPECT_EQ(v.key, most);
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

TEST(scans, two_need_not_agree_on_an_order) {
  history h;
  h.add(on_key(1, inserted(10, true, 1, 20)));
  h.add(on_key(2, inserted(20, true, 2, 21)));
  h.add(scanned(0, true, 3, 18), std::array{map_entry{1, 10}});
  h.add(scanned(0, true, 4, 19), std::array{map_entry{2, 20}});
  EXPECT_EQ(check(h).result, linearizable);
}

TEST(scans, that_did_not_return_say_nothing) {
  history h = history_of({}, {{1, 10}});
  h.add(scanned(0, true, 1, never), {});
  EXPECT_EQ(check(h).result, linearizable);
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
    search_budget budget(limits);
    order_search search(budget);
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
      const auto next = apply(o, now);
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

// ---- size ----

TEST(size, a_million_operations_on_a_thousand_keys) {
  const random_history_options options{.threads = 8, .operations = 1'000'000, .keys = 1000, .values = 1000};
  const history h = random_history(options, 1).make();
  ASSERT_EQ(h.operations().size(), 1'000'000);
  EXPECT_EQ(check(h).result, linearizable);
}

TEST(size, twelve_threads_on_one_key) {
  random_history_options options{.threads = 12, .operations = 60, .keys = 1, .values = 5};
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
  history h = random_history({.threads = 8, .operations = 50'000, .keys = 1, .values = 3}, 3).make();
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
  EXPECT_EQ(drawn(h),
            "  T0  1..3    [---]                   insert(7, 3) -> true\n"
            "  T1  2..4      [---]                 find(7) -> 3\n"
            "  T1  5..6            [-]             scan(5) -> 7: 3, end\n"
            "  T0  7..8                [-]         scan(0) -> 7: 4, 9: 1, stopped\n"
            "  T1  9..                     [---->  erase(7) pending\n"
            "  T0  10..11                    [-]   reverse_scan(8) -> 7: 4, end\n");
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
  EXPECT_EQ(drawn(h),
            "  T0  1..2  [-]                 exchange(7, 3) -> absent\n"
            "  T0  3..4      [-]             update(7, +4) -> 3\n"
            "  T0  5..6          [-]         extract(7) -> 7\n"
            "  T0  7..8              [-]     find(7) -> absent\n"
            "  T0  9..                   [>  update(7, +4) pending\n");
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
  EXPECT_EQ(drawn(history_of({late, second, first})),
            "  T0   3..9   [-----]     insert(7, 3) -> true\n"
            "  T11  5..14    [-----]   find(7) -> absent\n"
            "  T2   8..        [---->  erase(7) pending\n");
}

}  // namespace
}  // namespace espalier::sim
