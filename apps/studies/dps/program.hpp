#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/common/interface.hpp"
#include "apps/simulate/simulated_map.hpp"

// What "Scalable Data-structures with Hierarchical, Distributed Delegation" (Ren and Parmer, Middleware 2019) runs in its
// sections 5.1 and 5.2: operations without data, read-write objects and search trees, each by several techniques.
// Instrumented.

namespace espalier::simulate {

/// How a thread reaches the structure.
enum class technique : std::uint8_t {
  shared,        ///< each thread operates on the one structure, which only objects have
  partitioned,   ///< each thread operates on the partition of the key, wherever it lies: without delegation
  delegated,     ///< by a message to the partition's locality, and waits: DPS
  asynchronous,  ///< as delegated, and goes on while no more than two messages to a locality are in flight
  served         ///< by a request to the partition's dedicated server, and waits: ffwd
};

/// A thread's part in a program.
struct thread_role {
  /// Its locality; of a dedicated server, which one it is.
  unsigned home = 0;
  /// It prepares the share `rank` of `members` of the partition `home`; none of it if there are 0.
  unsigned rank = 0;
  unsigned members = 0;
  bool serves = false;
};

struct program_shape {
  technique how = technique::shared;
  std::vector<thread_role> roles;
  /// Localities, or dedicated servers; 1 for a shared structure.
  unsigned partitions = 1;
  /// Cycles that an operation takes besides its accesses, and that a thread takes between two operations.
  std::uint64_t length = 0;
  std::uint64_t delay = 0;
  /// Cycles that a thread which only serves takes before it looks for requests; no client then serves its own messages.
  std::uint64_t pause = 0;
  // Of objects.
  std::uint64_t objects = 0;
  std::uint64_t lines = 0;
};

/// Provides a thread's operations: keys are those of a tree, or numbers of objects. Implemented outside the simulated
/// program.
class study_feed : public step_feed {
 public:
  /// This thread has done its operations. all_ended(): whether that is true of every thread that has any.
  virtual void ended() = 0;
  virtual bool all_ended() = 0;
};

class studied_program : public app::interface {
 public:
  /// Called once by each thread, before time begins. Touches memory that must lie near it, and performs the steps on the
  /// partition that it prepares.
  virtual void settle(unsigned thread, step_feed& feed) = 0;
  virtual void operate(unsigned thread, study_feed& feed) = 0;
  /// Writes of all operations on objects together, for a check.
  [[nodiscard]] virtual std::uint64_t writes() const = 0;
};

/// Operations that only compute.
[[nodiscard]] std::unique_ptr<studied_program> make_computation(const program_shape& shape);
/// The atomic read-write objects of section 5.1: an operation reads and writes every line of one. Each has an MCS lock, except
/// at a dedicated server.
[[nodiscard]] std::unique_ptr<studied_program> make_objects(const program_shape& shape);
/// A tree by messages: `ticket`, which the paper has in its localities.
[[nodiscard]] std::unique_ptr<studied_program> make_tree(const program_shape& shape);

}  // namespace espalier::simulate
