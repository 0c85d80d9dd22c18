#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "espalier/workload/random.hpp"
#include "support/subject.hpp"

// What a map must be equal to: std::map, and helpers that compare the two. Single-threaded.

namespace espalier::test {

using model = std::map<key, value>;
using random_source = workload::random_generator;

[[nodiscard]] std::unique_ptr<subject> make(const subject_type& type);

/// The ends of the key domain, and keys around the powers of two at which narrow arithmetic goes wrong;
/// ascending, all within the type's domain.
[[nodiscard]] std::vector<key> boundary_keys(const subject_type& type);

/// 0 to 3, which published code uses as marks, the largest, and some around sign changes.
[[nodiscard]] std::span<const value> boundary_values();

/// Keys first, first + step, ... below end.
[[nodiscard]] std::vector<key> key_range(key first, key end, key step = 1);

/// Every way to read gives what the model has: a scan from 0, find and contains of each of its keys and of
/// the further keys.
void expect_equal(operations& map, const model& expected, std::span<const key> also = {});

/// No invariant is broken; and, once retired memory is given back, the blocks that the map holds are those
/// that it can reach.
void expect_sound_at_rest(subject& map, const subject_type& type);

/// Whether a node lies in two places, its size being that of both.
[[nodiscard]] inline bool splits_nodes(const subject_type& type) {
  return type.placement == "split_clusters";
}

/// The blocks of a map without entries: none, but where nodes are split. There the head is one of them, for a
/// node's address tells where its rest is.
[[nodiscard]] std::uint64_t blocks_when_empty(const subject_type& type);

/// Does random operations of all kinds on both and compares the outcomes. With no values given, values are
/// random words. Stops at the first difference.
void run_against_model(operations& map, model& expected, random_source& random, std::span<const key> keys,
                       std::span<const value> values, std::size_t steps);

}  // namespace espalier::test
