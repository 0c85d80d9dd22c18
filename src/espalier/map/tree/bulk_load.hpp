#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>

// What the loads of B+trees have in common: how many nodes they make, and threads that make the leaves.

namespace espalier::btree {

/// Entries for a load: first[i] is a pair, or the like.
template <class Entries>
concept indexed_entries = requires(const Entries& first, std::iter_difference_t<Entries> i) { first[i]; };

/// How full a load leaves its nodes: inserts then do not split each of them at once.
[[nodiscard]] constexpr std::size_t loaded(unsigned capacity) noexcept {
  return std::max(1U, capacity * 85 / 100);
}
/// So many nodes have room for that many entries.
[[nodiscard]] constexpr std::size_t nodes_for(std::size_t entries, std::size_t of_each) noexcept {
  return (entries + of_each - 1) / of_each;
}
/// Where the part of one of them begins.
[[nodiscard]] constexpr std::size_t begin_of(std::size_t part, std::size_t parts, std::size_t all) noexcept {
  return all / parts * part + all % parts * part / parts;
}

/// Calls make(i) for each i below `count`. Each thread makes some in a row, and ends with its first error. Throws the first
/// error in their order, and std::system_error if there are no more threads.
void make_all(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& make);

}  // namespace espalier::btree
