#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "apps/common/interface.hpp"

// The two benchmarks of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan
// and Lev, 2015, section 2) with different allocators and locks. Instrumented.

namespace espalier::simulate {

/// The source of the nodes: two models, RAND on top of the first, and the library's own.
enum class allocation : std::uint8_t { glibc, random, size_classes, index_aware };
inline constexpr std::array allocations{allocation::glibc, allocation::random, allocation::size_classes,
                                        allocation::index_aware};

[[nodiscard]] constexpr std::string_view to_string(allocation a) noexcept {
  constexpr std::string_view names[allocations.size()] = {"glibc-model", "random", "size-classes-model",
                                                          "index-aware"};
  return names[static_cast<std::size_t>(a)];
}

/// How a critical section is executed.
enum class section_policy : std::uint8_t {
  tts,        ///< under a test-and-test-and-set lock
  tle,        ///< always attempted as a transaction first, else under the lock: the paper's
  tle_learnt  ///< as in sync/elided_lock, which does not attempt sections of a lock that keep falling back
};
inline constexpr std::array section_policies{section_policy::tts, section_policy::tle,
                                             section_policy::tle_learnt};

[[nodiscard]] constexpr std::string_view to_string(section_policy p) noexcept {
  constexpr std::string_view names[section_policies.size()] = {"tts", "tle", "tle-learnt"};
  return names[static_cast<std::size_t>(p)];
}

/// The outcomes of sections so far; the simulator counts the transactions.
struct section_counts {
  std::uint64_t under_lock = 0;
  /// Sections among them that were not attempted.
  std::uint64_t passed_over = 0;

  friend constexpr section_counts operator-(section_counts a, section_counts b) noexcept {
    return {a.under_lock - b.under_lock, a.passed_over - b.passed_over};
  }
};

using address_visitor = std::function<void(std::uintptr_t)>;

/// Figure 1: nodes in a ring.
class ring_program : public app::interface {
 public:
  /// One critical section: traverses the ring once and writes each node.
  virtual void traverse() = 0;
  [[nodiscard]] virtual section_counts sections() const = 0;
  /// Visits the address that a traversal writes in each node.
  virtual void visit(const address_visitor& visitor) const = 0;
  /// The number of nodes in the ring that the last traversal has written; marks them for the next call.
  virtual std::size_t written() = 0;
};
/// Allocates one node after the other, as many as `order` has, and links them in that order. Nodes have at least
/// least_node_bytes.
[[nodiscard]] std::unique_ptr<ring_program> make_ring(allocation from, section_policy policy,
                                                      std::size_t node_bytes,
                                                      std::span<const std::uint32_t> order);

/// When an inserting section allocates the node.
enum class node_made : std::uint8_t {
  before_search,  ///< and frees it if the key is present already
  after_search    ///< only if the key is absent
};

/// Figure 2: an AVL tree under one lock, with critical sections that allocate and free its nodes.
class tree_program : public app::interface {
 public:
  /// Adds a key, while no other thread uses the tree.
  virtual void add(std::uint32_t key) = 0;
  /// Makes the calling thread map and touch memory for this many nodes beforehand, which no transaction can do.
  virtual void reserve(std::size_t nodes) = 0;
  /// One critical section: inserts (3 in 10) or overwrites, erases (3 in 10) or finds a key below `range`, as chosen by
  /// the random number. Returns by how many keys the tree has grown.
  virtual int operate(std::uint64_t random, std::uint32_t range) = 0;
  [[nodiscard]] virtual section_counts sections() const = 0;
  /// Visits the address of each node.
  virtual void visit(const address_visitor& visitor) const = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// The first fault of the tree, or null.
  [[nodiscard]] virtual const char* check_invariants() const = 0;
};
[[nodiscard]] std::unique_ptr<tree_program> make_tree(allocation from, section_policy policy,
                                                      std::size_t node_bytes, node_made when);

/// The minimal size of a node in either benchmark.
inline constexpr std::size_t least_node_bytes = 32;

}  // namespace espalier::simulate
