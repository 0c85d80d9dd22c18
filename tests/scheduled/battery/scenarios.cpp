#include <cstddef>
#include <limits>
#include <utility>

#include "scheduled/battery/scenario.hpp"

namespace espalier::sim::battery {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
/// Replaced by a value that no other step writes.
constexpr std::uint64_t some_value = 0;

using steps = std::vector<step>;

step find(std::uint64_t key) { return {map_operation::find, key, 0}; }
step find_in_batch(std::uint64_t key) { return {map_operation::find, key, find_together}; }
step contains(std::uint64_t key) { return {map_operation::contains, key, 0}; }
step insert(std::uint64_t key) { return {map_operation::insert, key, some_value}; }
step assign(std::uint64_t key) { return {map_operation::insert_or_assign, key, some_value}; }
step assign(std::uint64_t key, std::uint64_t value) { return {map_operation::insert_or_assign, key, value}; }
step erase(std::uint64_t key) { return {map_operation::erase, key, 0}; }
step exchange(std::uint64_t key) { return {map_operation::exchange, key, some_value}; }
step extract(std::uint64_t key) { return {map_operation::extract, key, 0}; }
step add(std::uint64_t key, std::uint64_t amount) { return {map_operation::update, key, amount}; }
step scan(std::uint64_t from = 0, std::uint64_t most = largest) { return {map_operation::scan, from, most}; }
step reverse_scan() { return {map_operation::reverse_scan, largest, largest}; }

/// Keys in order of insertion, then each thread's steps.
program of(const std::vector<std::uint64_t>& keys, std::vector<steps> threads) {
  program p;
  for (const std::uint64_t key : keys) p.initial.push_back({key, key + 1});
  std::uint64_t next = 1000;
  for (steps& all : threads) {
    for (step& s : all) {
      if (stores_value(s.op) && s.argument == some_value) s.argument = ++next;
    }
    p.threads.push_back({std::move(all), false});
  }
  return p;
}

/// With steps before the threads begin.
program after(steps before, program p) {
  p.before = std::move(before);
  return p;
}

program guarded(std::size_t thread, program p) {
  p.threads[thread].one_guard = true;
  return p;
}

class collection {
 public:
  scenario& add(std::string name, std::vector<program> programs) {
    all_.push_back({std::move(name), std::move(programs)});
    return all_.back();
  }
  /// For maps whose nodes have several entries.
  scenario& add_many_entries(std::string name, std::vector<program> programs) {
    scenario& added = add(std::move(name), std::move(programs));
    added.many_entries = true;
    return added;
  }
  void add_wide(std::string name, std::vector<program> programs) {
    add(std::move(name), std::move(programs)).wide = true;
  }
  [[nodiscard]] const std::vector<scenario>& all() const { return all_; }
  [[nodiscard]] std::vector<scenario> take() { return std::move(all_); }

 private:
  std::vector<scenario> all_;
};

/// Few keys, and the empty map: the tree is linked only by its root.
void add_small_maps(collection& c) {
  c.add("empty_map",
        {of({}, {{insert(1)}, {erase(1)}, {find(1), scan()}}),
         of({}, {{insert(1), find(2)}, {insert(2), find(1)}}),
         of({}, {{insert(1)}, {insert(2)}, {insert(3)}}), of({}, {{erase(1), insert(1)}, {scan(), scan()}})});
  c.add("last_key_goes_while_another_comes", {of({1}, {{erase(1)}, {insert(2)}, {contains(1), contains(2)}}),
                                              of({2}, {{erase(2)}, {insert(1)}, {scan()}}),
                                              of({1}, {{erase(1), insert(1)}, {insert(2), erase(2)}}),
                                              of({1}, {{erase(1)}, {erase(1)}, {insert(1)}})});
  c.add("two_keys_go_and_come",
        {of({1, 2}, {{erase(1)}, {erase(2)}, {insert(3)}}), of({2, 1}, {{erase(1)}, {erase(2)}, {scan()}}),
         of({1, 2}, {{erase(1), insert(1)}, {erase(2), insert(2)}})});
  c.add("storm_on_one_key", {of({}, {{insert(1), erase(1), insert(1)},
                                     {erase(1), insert(1), erase(1)},
                                     {contains(1), contains(1), contains(1)}}),
                             of({5}, {{insert(5), erase(5)}, {erase(5), insert(5)}, {assign(5), find(5)}})});
  c.add("keys_at_the_ends_of_the_domain",
        {of({0, largest}, {{erase(0), insert(0)}, {erase(largest), insert(largest)}, {scan(), find(0)}}),
         of({}, {{insert(0)}, {insert(largest)}, {scan(largest), scan()}}),
         of({std::uint64_t{1} << 31U, std::uint64_t{1} << 63U},
            {{insert((std::uint64_t{1} << 31U) - 1)}, {erase(std::uint64_t{1} << 63U)}, {scan(1)}})});
}

/// Leaves change in transactions: a full leaf that has lost its keys before it is split, and filters that
/// know absent keys. The keys 0, 233 and 610 have one mark in those of euno_btree.
void add_leaves(collection& c) {
  c.add_many_entries("insert_into_a_full_leaf_beside_erases",
                     {of({10, 20, 30}, {{insert(25), find(25)}, {erase(10), erase(20)}}),
                      of({10, 20, 30}, {{insert(5)}, {erase(20), erase(30)}, {find(10), scan()}}),
                      of({10, 20, 30}, {{insert(25)}, {erase(30)}, {erase(20)}, {erase(10)}})});
  c.add_many_entries("keys_that_share_a_mark",
                     {of({0, 233}, {{erase(0), find(233)}, {insert(610), find(610)}}),
                      of({233}, {{insert(0), erase(0)}, {assign(233), find(233)}, {erase(233), insert(610)}}),
                      of({0, 233, 610}, {{erase(233), find(0)}, {erase(610), find(0)}, {assign(0)}})});
  c.add_many_entries("find_of_a_key_that_a_scan_has_seen",
                     {of({10}, {{assign(10), insert(5)}, {assign(10)}, {scan(), find(5)}}),
                      of({10, 20}, {{assign(20), insert(5)}, {assign(20), scan(), contains(5)}})});
}

/// Two or more updates at one place of a tree.
void add_neighbours(collection& c) {
  c.add("two_inserts_of_one_key",
        {of({}, {{insert(1), find(1)}, {insert(1), find(1)}}),
         of({10, 30}, {{insert(20), find(20)}, {insert(20), find(20)}, {contains(20), contains(20)}}),
         of({10, 30}, {{insert(20)}, {insert(20)}, {erase(20)}}),
         of({10, 20, 30}, {{assign(25)}, {insert(25)}, {assign(25), find(25)}})});
  c.add("insert_beside_erase_of_the_neighbour",
        {of({10, 20, 30}, {{insert(25)}, {erase(20)}, {find(30), find(25)}}),
         of({10, 20, 30}, {{insert(15)}, {erase(20)}, {scan()}}),
         of({10, 20, 30}, {{insert(25)}, {erase(30)}, {find(20), find(25)}}),
         of({30, 20, 10}, {{insert(15), find(15)}, {erase(10), find(20)}}),
         of({20, 10, 30}, {{insert(5), insert(15)}, {erase(10)}, {contains(5), contains(15)}})});
  c.add("updates_on_both_sides_of_an_erase",
        {of({10, 20, 30}, {{insert(15)}, {erase(20)}, {insert(25)}}),
         of({10, 20, 30, 40}, {{erase(20)}, {insert(25)}, {erase(30)}}),
         of({10, 20, 30, 40}, {{erase(30), insert(30)}, {erase(20), insert(20)}})});
  c.add("both_siblings_go",
        {of({10, 20}, {{erase(10)}, {erase(20)}}), of({20, 10}, {{erase(10)}, {erase(20)}}),
         of({10, 20, 30}, {{erase(20)}, {erase(30)}, {find(10), scan()}}),
         of({30, 20, 10}, {{erase(10)}, {erase(20)}, {contains(30), scan()}}),
         of({20, 10, 30, 25}, {{erase(25)}, {erase(30)}, {insert(27)}})});
  // If several flagged leaves lie on one path, a single swing of an edge can remove them all.
  c.add("adjacent_leaves_go",
        {of({10, 20, 30, 40}, {{erase(10)}, {erase(20)}, {erase(30)}}),
         of({40, 30, 20, 10}, {{erase(10)}, {erase(20)}, {erase(30)}}),
         of({10, 20, 30, 40}, {{erase(40)}, {erase(30)}, {erase(20)}}),
         of({10, 20, 30, 40, 50}, {{erase(50)}, {erase(40)}, {erase(30)}, {erase(20)}}),
         of({10, 50, 20, 40, 30}, {{erase(20)}, {erase(40)}, {erase(30)}}),
         of({10, 50, 20, 40, 30}, {{erase(20)}, {erase(40)}, {erase(30)}, {erase(50)}}),
         of({50, 40, 30, 20, 10}, {{erase(10), find(50)}, {erase(20)}, {erase(30)}, {scan()}})});
  c.add("adjacent_leaves_go_beside_inserts",
        {of({10, 20, 30, 40}, {{erase(20)}, {erase(30)}, {insert(25)}}),
         of({10, 20, 30, 40}, {{erase(30)}, {erase(40)}, {insert(35)}}),
         of({40, 30, 20, 10}, {{erase(20)}, {erase(10)}, {insert(15), erase(15)}}),
         of({10, 50, 20, 40, 30}, {{erase(30)}, {erase(40)}, {insert(35)}, {erase(20)}})});
  c.add("one_erase_of_each_key_succeeds",
        {of({10, 20}, {{erase(10), erase(20)}, {erase(20), erase(10)}}),
         of({10, 20, 30}, {{erase(20), erase(30)}, {erase(30), erase(20)}, {erase(20)}}),
         of({30, 20, 10}, {{erase(10), erase(20)}, {erase(20), erase(10)}, {find(30)}})});
}

/// Readers concurrent with one writer, which may stop at any point (battery.cpp). The readers finish if reads take no
/// lock.
void add_one_writer(collection& c) {
  c.add("one_writer_beside_readers",
        {of({10, 20, 30}, {{erase(20), insert(20)}, {find(20), contains(30)}, {scan(), find(10)}}),
         of({20, 10, 30, 25}, {{erase(20), erase(25)}, {find(25), find(20)}, {scan()}}),
         of({10, 20}, {{assign(20), assign(15), erase(10)}, {find(20), find(15)}, {contains(10), scan(15)}}),
         of({1}, {{erase(1), insert(2), insert(1)}, {find(1), find(2)}, {scan()}}),
         of({50, 20, 80, 60, 70}, {{erase(50), erase(80)}, {find(60), find(80)}, {scan(), scan()}})});
}

/// Batches search by ways of their own.
void add_batches(collection& c) {
  c.add("find_of_a_batch_beside_changes",
        {of({10, 20, 30},
            {{find_in_batch(20), find_in_batch(30)}, {erase(10), insert(25)}, {assign(20), insert(15)}}),
         of({10, 20, 30, 40}, {{find_in_batch(30), find_in_batch(20)}, {erase(40), erase(10), erase(20)}}),
         of({10}, {{insert(5), find_in_batch(5)}, {erase(10), insert(15)}, {find_in_batch(15)}})})
      .weight = 0.5;
}

/// Overwrites a value, concurrently with every other operation on its key.
std::vector<program> assignments() {
  return {of({10, 20}, {{assign(10), assign(10)}, {erase(10)}, {find(10), find(10)}}),
          of({10}, {{assign(10)}, {erase(10), insert(10)}, {find(10), find(10)}}),
          of({10, 20}, {{assign(20)}, {assign(20)}, {find(20), find(20)}}),
          of({10}, {{assign(10), assign(10), assign(10)}, {find(10), find(10), find(10)}}),
          of({10, 20}, {{assign(20), erase(20)}, {assign(20), find(20)}, {insert(20)}}),
          of({}, {{assign(1), assign(1)}, {assign(1), erase(1)}, {find(1), find(1)}}),
          of({10, 20, 30}, {{assign(20), assign(20)}, {erase(10)}, {find(20), find(20)}}),
          of({10, 20}, {{assign(10), assign(20)}, {scan()}, {assign(10)}})};
}

void add_values(collection& c) {
  c.add("assignments", assignments());
  c.add_wide("assignments_of_wide_values", assignments());
  c.add_wide("wide_values_that_are_not_used",
             {of({10, 20}, {{insert(10), insert(20)}, {erase(10)}, {insert(10)}}),
              of({}, {{insert(1)}, {insert(1)}, {assign(1)}}),
              of({10, 20, 30}, {{assign(20)}, {erase(20)}, {erase(30)}, {insert(25)}})});
  c.add_wide(
      "wide_values_read_while_they_go",
      {of({10, 20}, {{find(20), find(20)}, {erase(20), insert(20)}, {assign(20)}}),
       of({10, 20, 30}, {{scan()}, {assign(10), assign(30)}, {erase(20)}}),
       guarded(0, of({10, 20}, {{find(20), find(20), find(20)}, {assign(20), assign(20)}, {erase(20)}}))});
}

/// Each operation that returns a value, beside each that stores, moves or erases it. The amounts are powers of two, so
/// that a sum says which updates are in it.
std::vector<program> exchanges() {
  return {of({10}, {{add(10, 1024)}, {add(10, 2048)}, {find(10), find(10)}}),
          of({}, {{add(1, 1024), add(1, 2048)}, {add(1, 4096)}, {find(1)}}),
          of({10, 20}, {{add(20, 1024)}, {extract(20)}, {find(20)}}),
          of({10, 20}, {{add(20, 1024)}, {assign(20)}, {find(20), find(20)}}),
          of({10}, {{extract(10)}, {extract(10)}, {exchange(10)}}),
          of({10, 20}, {{extract(10)}, {assign(10)}, {exchange(10), find(10)}}),
          of({10, 20}, {{exchange(20), exchange(20)}, {erase(20)}, {exchange(20)}}),
          of({}, {{exchange(1), extract(1)}, {add(1, 1024), extract(1)}, {insert(1)}}),
          of({10, 20, 30}, {{extract(20)}, {assign(20), assign(20)}, {erase(10)}}),
          of({10, 20, 30}, {{add(20, 1024)}, {erase(20), insert(20)}, {erase(30)}}),
          of({10, 20, 30}, {{extract(10)}, {extract(20)}, {extract(30), scan()}}),
          of({50, 20, 80}, {{extract(50)}, {assign(50)}, {add(80, 1024), find(80)}}),
          of({50, 20, 80}, {{extract(50)}, {add(50, 1024), find(50)}, {erase(20)}}),
          of({50, 20, 80, 60, 70}, {{erase(50)}, {add(60, 1024), add(60, 2048)}, {assign(60), find(60)}}),
          of({50, 20, 80, 60}, {{extract(50), exchange(50)}, {extract(60)}, {add(60, 1024), find(60)}}),
          of({50, 20, 80, 60, 70}, {{extract(50)}, {extract(80)}, {add(50, 1024), add(80, 1024)}}),
          of({40, 20, 60, 50}, {{extract(40), extract(50)}, {add(50, 1024)}, {exchange(40)}}),
          of({20, 10, 30, 25}, {{extract(20), add(20, 1024)}, {extract(25)}, {assign(20), add(25, 1024)}}),
          of({5}, {{extract(5), add(5, 1024)}, {extract(5), exchange(5)}, {find(5), scan()}}),
          of({10, 20}, {{add(10, 1024), add(20, 1024)}, {add(20, 2048), add(10, 2048)}, {scan()}})};
}

void add_exchanges(collection& c) {
  c.add("exchanges", exchanges()).weight = 2;
  c.add("exchanges_of_wide_values", exchanges()).wide = true;
  c.add("exchanges_under_one_guard",
        {guarded(0, of({10, 20}, {{extract(20), add(20, 1024), exchange(20)}, {assign(20), extract(20)}})),
         guarded(0, guarded(1, of({10, 20, 30}, {{exchange(20), extract(20), extract(30)},
                                                 {add(20, 1024), add(30, 1024), extract(10)}}))),
         guarded(1, of({50, 20, 80}, {{erase(50), insert(50)},
                                      {extract(50), add(50, 1024), extract(80), find(50)},
                                      {assign(80)}}))});
}

/// A key that is erased and inserted again, for readers and for updates that hold state from its first life.
void add_returning_keys(collection& c) {
  c.add("erase_insert_and_find_of_one_key",
        {of({10, 20}, {{erase(20), insert(20)}, {find(20), find(20)}, {find(10)}}),
         of({10, 20, 30}, {{erase(20), insert(20)}, {erase(20), insert(20)}, {find(20), find(20)}}),
         of({10, 20, 30}, {{erase(20), insert(20)}, {erase(10)}, {erase(30)}}),
         of({10, 20, 30}, {{erase(30), insert(30)}, {insert(25), erase(25)}, {find(20), find(30)}})});
  c.add("erase_insert_and_erase_of_one_key",
        {of({10, 20}, {{erase(20), insert(20), erase(20)}, {erase(20), insert(20)}}),
         of({10, 20, 30}, {{erase(20), insert(20), erase(20), insert(20)}, {erase(30), insert(30)}}),
         of({10, 20, 30}, {{insert(25), erase(25), insert(25), erase(25)}, {erase(20)}, {erase(30)}})});
  c.add("long_read_while_its_path_goes",
        {of({10, 20, 30, 40, 50}, {{find(50), find(40)}, {erase(50), erase(30), insert(50)}}),
         of({50, 40, 30, 20, 10}, {{find(10), find(20)}, {erase(10), erase(20), insert(20), insert(10)}}),
         of({10, 20, 30, 40}, {{contains(40)}, {erase(30), insert(35)}, {erase(40), insert(45)}}),
         of({40, 20, 60, 10, 30}, {{find(30)}, {erase(20), insert(25)}, {erase(30), insert(31)}})});
  c.add("guard_held_over_several_operations",
        {guarded(0, of({10, 20, 30},
                       {{find(20), contains(30), find(20), scan()}, {erase(20), erase(30), insert(20)}})),
         guarded(0,
                 of({10, 20, 30}, {{erase(20), insert(20), erase(30)}, {erase(30), insert(30)}, {find(20)}})),
         guarded(1, guarded(0, of({10, 20}, {{erase(10), insert(10)}, {erase(20), insert(20)}, {scan()}}))),
         guarded(0,
                 of({10, 20, 30, 40}, {{scan(), scan()}, {erase(20), erase(30)}, {insert(25), erase(40)}}))});
}

void add_scans(collection& c) {
  c.add("scan_beside_updates_of_other_keys",
        {of({10, 20, 30, 40}, {{scan()}, {erase(20), insert(25)}, {erase(40), insert(35)}}),
         of({40, 30, 20, 10}, {{scan()}, {erase(20), erase(30)}, {insert(15), insert(5)}}),
         of({30, 10, 50, 20, 40}, {{scan(), scan()}, {erase(10), insert(10)}, {erase(50), insert(50)}}),
         of({10, 20, 30}, {{scan(15)}, {erase(10), insert(12)}, {erase(30), insert(30)}}),
         // Of a map whose nodes have several entries: the nodes before and behind the scan are split.
         of({10, 20, 30, 40, 50, 60}, {{scan()}, {insert(15), insert(25)}, {insert(45)}})});
  c.add("scan_after_a_find", {of({10, 30}, {{insert(20)}, {find(20), scan()}}),
                              of({10, 20, 30}, {{erase(20)}, {find(20), scan()}}),
                              of({10, 30, 20}, {{erase(30), insert(30)}, {contains(30), scan(20)}})});
  c.add("scans_that_stop",
        {of({10, 20, 30, 40}, {{scan(15, 2), scan(0, 1)}, {erase(20)}, {insert(17), erase(30)}}),
         of({10, 20, 30}, {{scan(10, 1), scan(11, 1), scan(21, 1)}, {erase(10), erase(20)}}),
         of({20, 30}, {{scan(0, 2)}, {insert(10), erase(30)}, {insert(40)}})});
  c.add("scan_while_all_keys_go",
        {of({10, 20}, {{scan(), scan()}, {erase(10), erase(20)}, {insert(30)}}),
         of({10, 20, 30}, {{scan()}, {erase(10), erase(30)}, {erase(20)}}),
         of({10, 20, 30}, {{scan()}, {erase(10), insert(10), erase(10)}, {erase(30), insert(30)}})});
  // The node that the scan has read goes, and a key comes to its neighbour.
  c.add_many_entries("scan_while_its_node_goes",
                     {of({40, 80, 120, 160}, {{scan()}, {erase(40), erase(80), erase(120), insert(80)}})});
  // More keys than a scan visits under one guard or one lock, with changes where it switches guards.
  std::vector<std::uint64_t> many;
  constexpr std::uint64_t count = 521;
  many.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) many.push_back(2 * (i * 367 % count));
  scenario& breath =
      c.add("scan_over_several_guards",
            {of(many, {{scan()}, {erase(1022), erase(1024), insert(1023)}}),
             of(many, {{scan()}, {erase(126), erase(128), insert(127)}, {insert(1021), erase(1026)}})});
  breath.weight = 0.02;
  breath.step_budget = 1'000'000;
  scenario& back =
      c.add("reverse_scan_over_several_guards",
            {of(many, {{reverse_scan()}, {erase(18), erase(16), insert(17)}}),
             of(many, {{reverse_scan()}, {erase(914), erase(912), insert(913)}, {insert(19), erase(14)}})});
  back.weight = breath.weight;
  back.step_budget = breath.step_budget;
}

/// The first insert splits a leaf and the node above.
void add_deep_splits(collection& c) {
  const std::vector<std::uint64_t> keys{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120};
  c.add_many_entries("reads_beside_a_split_of_inner_nodes",
                     {of(keys, {{insert(85)}, {find(110), find(120)}})});
  c.add_many_entries("insert_beside_a_split_and_its_end",
                     {of(keys, {{insert(85), erase(90)}, {insert(95), find(95)}})});
  // Not below the root. The erase leaves one child to the new inner node, in the few steps before that has a place.
  c.add_many_entries(
       "erase_below_an_inner_node_that_is_split",
       {of({10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180, 190},
           {{insert(175)}, {erase(190)}})})
      .weight = 10;
  // Not below the root. The inner node has one leaf, and the erase unlinks both.
  c.add_many_entries("insert_into_the_last_leaf_of_an_inner_node",
                     {after({erase(90)}, of({10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 75},
                                            {{erase(100)}, {insert(95), find(95)}}))})
      .weight = 10;
}

/// The programs of usual length that scan, with reverse scans instead.
void add_reverse_scans(collection& c) {
  std::vector<program> programs;
  for (const scenario& s : c.all()) {
    if (s.wide || s.weight < 1) continue;
    for (program p : s.programs) {
      bool scans = false;
      for (thread_program& t : p.threads) {
        for (step& one : t.steps) {
          if (one.op != map_operation::scan) continue;
          scans = true;
          one = {map_operation::reverse_scan, one.key == 0 ? largest : one.key, one.argument};
        }
      }
      if (scans) programs.push_back(std::move(p));
    }
  }
  c.add("reverse_scans", std::move(programs)).weight = 4;
  // The node to which the scan goes next, and the root.
  c.add_many_entries("reverse_scans_beside_splits",
                     {of({10, 20, 30, 40, 50, 60}, {{reverse_scan()}, {insert(15)}}),
                      of({50, 90, 130}, {{reverse_scan()}, {insert(10)}})});
  c.add_many_entries("reverse_scan_while_its_node_goes",
                     {of({40, 80, 120, 160}, {{reverse_scan()}, {erase(40), erase(160), insert(160)}})});
}

/// Internal trees move the successor of a key that has two children, or link it elsewhere; external ones replace
/// routers there.
void add_two_children(collection& c) {
  c.add("the_successor_is_the_right_child",
        {of({50, 20, 80}, {{erase(50)}, {find(80), find(80)}, {scan()}}),
         of({50, 20, 80}, {{erase(50), insert(50)}, {erase(80), insert(80)}, {find(20)}}),
         of({50, 20, 80}, {{erase(50)}, {assign(80), assign(80)}, {find(80), find(80)}}),
         of({50, 20, 80}, {{erase(50)}, {insert(60)}, {insert(90)}}),
         of({50, 20, 80, 90}, {{erase(50)}, {erase(80)}, {contains(90), contains(20)}})});
  c.add("the_successor_is_deeper",
        {of({50, 20, 80, 60, 70}, {{erase(50)}, {find(60), find(70)}, {erase(60)}}),
         of({50, 20, 80, 60, 70}, {{erase(50)}, {insert(55), find(55)}, {find(60)}}),
         of({50, 20, 80, 60, 70, 90}, {{erase(50)}, {erase(80)}, {find(60), scan()}}),
         of({50, 20, 90, 80, 70, 60}, {{erase(50)}, {erase(70), insert(70)}, {find(60), find(80)}}),
         of({50, 20, 80, 60}, {{erase(50), erase(60)}, {assign(60)}, {find(60), find(60)}})});
  // An insert finds an empty edge; the range of keys of that edge has changed when it links there.
  c.add("insert_below_a_successor_that_moves",
        {of({50, 20, 80}, {{insert(52)}, {insert(55), erase(50)}, {contains(52), contains(55)}}),
         of({50, 20, 80, 60}, {{insert(55)}, {erase(50)}, {contains(55), contains(60)}}),
         of({50, 20, 80, 60}, {{insert(65)}, {erase(50), insert(50)}, {contains(65), contains(60)}}),
         of({50, 20, 80}, {{insert(70), erase(80)}, {erase(50)}, {scan()}})});
  c.add("erases_that_share_a_successor",
        {of({50, 30, 70, 20, 40, 60, 90}, {{erase(50)}, {erase(30)}, {erase(70)}}),
         of({50, 30, 70, 20, 40, 60, 90}, {{erase(50)}, {erase(60)}, {erase(40)}}),
         of({30, 20, 50, 40, 60}, {{erase(30)}, {erase(40)}, {erase(50), find(60)}}),
         of({40, 20, 60, 50}, {{erase(40), erase(50)}, {erase(50), erase(60)}, {contains(20)}})});
  c.add("relocation_and_values_that_recur",
        {of({50, 20, 80}, {{assign(80, 1), assign(80, 2), assign(80, 1)}, {erase(50)}, {find(80), find(80)}}),
         of({50, 20, 80, 60},
            {{assign(60, 1), assign(60, 2)}, {erase(50), insert(50)}, {assign(60, 1), find(60)}})});
  c.add("root_goes", {of({50}, {{erase(50)}, {find(50)}, {insert(50)}}),
                      of({50, 20}, {{erase(50)}, {find(20), scan()}, {insert(70)}}),
                      of({50, 80}, {{erase(50)}, {find(80), scan()}, {insert(20)}}),
                      of({50, 20, 80}, {{erase(50)}, {erase(50)}, {erase(20), find(80)}})});
  // Keys 10, 90, 20, 15, 80, 60: a relocated key with neighbours that are erased one after the other.
  c.add("relocation_beside_erase_of_the_neighbours",
        {of({10, 90, 20, 15, 80, 60}, {{insert(30), contains(30)},
                                       {insert(40), erase(20), erase(15), erase(40)},
                                       {erase(10), contains(30)}}),
         of({10, 90, 20, 15, 80, 60, 40},
            {{erase(20), erase(40)}, {erase(15), erase(10)}, {insert(30), contains(30)}})});
  c.add("erase_of_two_children_beside_insert_of_the_key",
        {of({50, 20, 80}, {{erase(50)}, {insert(50), find(50)}, {assign(50)}}),
         of({50, 20, 80, 60}, {{erase(50), insert(50)}, {erase(50), insert(50)}, {find(50), find(60)}}),
         of({50, 20, 80, 10, 30}, {{erase(20)}, {erase(50)}, {insert(25), contains(30)}})});
}

}  // namespace

std::vector<scenario> written_scenarios() {
  collection c;
  add_small_maps(c);
  add_leaves(c);
  add_neighbours(c);
  add_one_writer(c);
  add_batches(c);
  add_values(c);
  add_returning_keys(c);
  add_scans(c);
  add_two_children(c);
  add_deep_splits(c);
  add_reverse_scans(c);
  add_exchanges(c);
  return c.take();
}

}  // namespace espalier::sim::battery
