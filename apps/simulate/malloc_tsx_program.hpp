#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

// The two benchmarks of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan
// and Lev, 2015, section 2) over allocators and locks. Instrumented.

namespace espalier::simulate {

/// Where the nodes come from: two models, RAND over the first of them, and the library's own.
enum class allocation : std::uint8_t { glibc, random, size_classes, index_aware };
inline constexpr std::size_t allocations = 4;

[[nodiscard]] constexpr std::string_view to_string(allocation a) noexcept {
  constexpr std::string_view names[allocations] = {"glibc-model", "random", "size-classes-model",
                                                   "index-aware"};
  return names[static_cast<std::size_t>(a)];
}

/// How a critical section runs.
enum class section_policy : std::uint8_t {
  tts,        ///< under a test-and-test-and-set lock
  tle,        ///< attempted as a transaction each time, else under the lock: the paper's
  tle_learnt  ///< as sync/elided_lock does it, which passes over sections of a lock that keep falling back
};
inline constexpr std::size_t section_policies = 3;

[[nodiscard]] constexpr std::string_view to_string(section_policy p) noexcept {
  constexpr std::string_view names[section_policies] = {"tts", "tle", "tle-learnt"};
  return names[static_cast<std::size_t>(p)];
}

/// What became of sections so far, beside the transactions, which the simulator counts.
struct section_counts {
  std::uint64_t under_lock = 0;
  /// Those of them that were not attempted.
  std::uint64_t passed_over = 0;

  friend constexpr section_counts operator-(section_counts a, section_counts b) noexcept {
    return {a.under_lock - b.under_lock, a.passed_over - b.passed_over};
  }
};

using address_visitor = std::function<void(std::uintptr_t)>;

/// Figure 1: nodes in a ring.
class ring_program {
 public:
  ring_program() = default;
  ring_program(const ring_program&) = delete;
  ring_program& operator=(const ring_program&) = delete;
  virtual ~ring_program() = default;

  /// One critical section: once round the ring, each node written.
  virtual void traverse() = 0;
  [[nodiscard]] virtual section_counts sections() const = 0;
  /// The address that a traversal writes of each node.
  virtual void visit(const address_visitor& visitor) const = 0;
  /// Nodes in the ring that the last traversal has written; marks them for the next call.
  virtual std::size_t written() = 0;
};
/// Allocates one node after the other, as many as `order` has, and links them in that order. Nodes are of at least
/// least_node_bytes.
[[nodiscard]] std::unique_ptr<ring_program> make_ring(allocation from, section_policy policy,
                                                      std::size_t node_bytes,
                                                      std::span<const std::uint32_t> order);

/// When a section that inserts allocates the node.
enum class node_made : std::uint8_t {
  before_search,  ///< and gives it back where the key is there already
  after_search    ///< only where it is not
};

/// Figure 2: an AVL tree under one lock, whose critical sections allocate and free its nodes.
class tree_program {
 public:
  tree_program() = default;
  tree_program(const tree_program&) = delete;
  tree_program& operator=(const tree_program&) = delete;
  virtual ~tree_program() = default;

  /// Adds a key, with nobody else at work.
  virtual void add(std::uint32_t key) = 0;
  /// Has the calling thread map and touch so many nodes' memory beforehand: no transaction can.
  virtual void reserve(std::size_t nodes) = 0;
  /// One critical section: inserts (3 in 10) or overwrites, erases (3 in 10) or finds a key below `range`, as
  /// the random number says. Returns by how many keys the tree has grown.
  virtual int operate(std::uint64_t random, std::uint32_t range) = 0;
  [[nodiscard]] virtual section_counts sections() const = 0;
  /// The address of each node.
  virtual void visit(const address_visitor& visitor) const = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// What is wrong with the tree, or null.
  [[nodiscard]] virtual const char* check_invariants() const = 0;
};
[[nodiscard]] std::unique_ptr<tree_program> make_tree(allocation from, section_policy policy,
                                                      std::size_t node_bytes, node_made when);

/// A node of either benchmark has at least so many bytes.
inline constexpr std::size_t least_node_bytes = 32;

}  // namespace espalier::simulate
