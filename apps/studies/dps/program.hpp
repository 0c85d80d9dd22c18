#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/common/interface.hpp"
#include "apps/simulate/simulated_map.hpp"
#include "apps/studies/partitioned_threads.hpp"

// What "Scalable Data-structures with Hierarchical, Distributed Delegation" (Ren and Parmer, Middleware 2019) runs in its
// sections 5.1 and 5.2: operations without data, read-write objects, maps and a priority queue, each by several techniques.
// Instrumented.

namespace espalier::simulate {

/// How a thread reaches the structure.
enum class technique : std::uint8_t {
  shared,        ///< each thread operates on the one structure
  partitioned,   ///< each thread operates on the partition of the key, wherever it lies: without delegation
  delegated,     ///< by a message to the partition's locality, and waits: DPS
  asynchronous,  ///< as delegated, and goes on while no more than two messages to a locality are in flight
  served         ///< by a request to the partition's dedicated server, and waits: ffwd
};

/// Makes a map that a partition has. Every technique calls it through this interface.
using map_maker = std::unique_ptr<simulated_map> (*)();

using app::thread_role;

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
  // Of maps and queues.
  map_maker make = nullptr;
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
  /// Several times, each time by all threads.
  virtual void operate(unsigned thread, study_feed& feed) = 0;
  /// The operations of this thread's partition, or all, by itself: which brings that into the caches.
  virtual void warm(unsigned thread, step_feed& feed) = 0;
  /// Of the operations of warm(), how many a thread leaves to others for one that it performs.
  [[nodiscard]] virtual unsigned partitions_warmed() const = 0;
  /// Writes of all operations on objects together, for a check.
  [[nodiscard]] virtual std::uint64_t writes() const = 0;
};

/// Operations that only compute.
[[nodiscard]] std::unique_ptr<studied_program> make_computation(const program_shape& shape);
/// The atomic read-write objects of section 5.1: an operation reads and writes every line of one. Each has an MCS lock, except
/// at a dedicated server.
[[nodiscard]] std::unique_ptr<studied_program> make_objects(const program_shape& shape);
/// Any map.
[[nodiscard]] std::unique_ptr<studied_program> make_map(const program_shape& shape);
/// A priority queue. Shared it is what make_shared_queue() makes. An insert is a push, an erase a pop, and a find looks at the minimum. With
/// partitions the last two ask all of them, and a pop goes to the best (sections 3.4 and 4.4).
[[nodiscard]] std::unique_ptr<studied_program> make_queue(const program_shape& shape);
/// ffwd's list: clients look for the place, and a server changes the links there.
[[nodiscard]] std::unique_ptr<studied_program> make_served_list(const program_shape& shape);

// What no catalogue has: queues, and the maps of a dedicated server, which no other thread uses.

[[nodiscard]] std::unique_ptr<simulated_map> make_shared_queue();
[[nodiscard]] std::unique_ptr<simulated_map> make_sequential_tree();
[[nodiscard]] std::unique_ptr<simulated_map> make_sequential_skip_list();

}  // namespace espalier::simulate
