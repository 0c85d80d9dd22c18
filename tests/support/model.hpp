#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "espalier/catalog/step.hpp"
#include "espalier/measure/random.hpp"
#include "support/subject.hpp"

// The reference for a map: std::map, and helpers that compare the two. Single-threaded.

namespace espalier::test {

using model = std::map<key, value>;
using random_source = measure::random_generator;

[[nodiscard]] std::unique_ptr<subject> make(const subject_type& type);

/// The ends of the key domain, and keys around the powers of two at which narrow arithmetic fails; ascending, all
/// within the type's domain.
[[nodiscard]] std::vector<key> boundary_keys(const subject_type& type);

/// 0 to 3, which published code uses as marks, the largest value, and some around sign changes.
[[nodiscard]] std::span<const value> boundary_values();

/// Keys first, first + step, ... below end.
[[nodiscard]] std::vector<key> key_range(key first, key end, key step = 1);
[[nodiscard]] std::vector<key> shuffled(std::vector<key> keys, std::uint64_t seed);

[[nodiscard]] std::optional<value> find(const model& in, key k);

using catalog::step;

/// All that a step tells its caller. Equal for a map and its model.
struct outcome {
  bool changed = false;
  std::optional<value> found;
  std::size_t visits = 0;
  std::uint64_t entries = 0;  // a sum over what a scan visits

  friend bool operator==(const outcome&, const outcome&) = default;
};

/// Performs it, and allocates nothing unless the map does. An update adds the argument, where an absent key counts as 0; a scan
/// ends after ten entries.
outcome act(operations& map, const step& a);
outcome act(model& map, const step& a);

/// Checks that every way to read gives the model's contents: a scan from 0, a range-for, find and contains of each of
/// its keys and of the further keys; lower_bound and bounded scans of some of them; first, size and empty.
void expect_equal(operations& map, const model& expected, std::span<const key> also = {});

/// Checks a scan of the keys from `from` that are smaller than `to`, which may be the smaller one.
void expect_bounded_scan(operations& map, const model& expected, key from, key to);

/// Checks the invariants; and, after retired memory is reclaimed, that the blocks that the map holds are those that it
/// can reach.
void expect_sound_at_rest(subject& map, const subject_type& type);

/// Whether a node lies in two places; its size is the sum of both.
[[nodiscard]] inline bool splits_nodes(const subject_type& type) {
  return type.placement == "split_clusters";
}

/// The number of blocks of a map without entries: none, unless nodes are split. Then the head is one of them, because a
/// node's address determines where its rest lies.
[[nodiscard]] std::uint64_t blocks_when_empty(const subject_type& type);

/// Of a map whose last entry has been erased, where nothing waits to be reclaimed: it holds no more than an empty one, but for
/// the last node where nodes have several entries.
void expect_emptied(subject& map, const subject_type& type);

/// Performs random operations of all kinds that the map has on both and compares the outcomes. If no values are given,
/// values are random words. Stops at the first difference.
void run_against_model(operations& map, model& expected, random_source& random, std::span<const key> keys,
                       std::span<const value> values, std::size_t steps);

}  // namespace espalier::test
