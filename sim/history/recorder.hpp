#pragma once

#include <cstdint>
#include <optional>

#include "sim/history/history.hpp"

namespace espalier::sim {

/// The history of one map in one run of a simulated program. Its data lie outside the program's memory, and none of its
/// actions is a step of the program.
///
/// An operation is recorded as if it were called right before its first access to shared memory. A thread that is
/// interrupted there might as well have been interrupted before the call, so that operations overlap only if the run
/// made them overlap. An operation that has changed the map returns when all threads see its stores: a thread that
/// learns of its return from the thread itself learns it through a later store.
///
/// Under the weak memory model an operation that returns a value, or visits one, also happens after the call that stored
/// it: values may be pointers to data that their writers have prepared. The call that stores the value of an update is
/// that of its function, which may prepare the data.
///
/// Only inside a scene. Throws std::logic_error elsewhere.
class recorder {
 public:
  recorder();
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;
  ~recorder();

  /// The map holds this entry before the threads begin.
  void initial(std::uint64_t key, std::uint64_t value);

  /// The running thread calls an operation, then returns from it.
  void begin(map_operation kind, std::uint64_t key, std::uint64_t value = 0);
  void end(bool result);
  /// Of find, exchange, extract and update: the value before, or null.
  void end_with(const std::uint64_t* before);
  /// The function of the open update is about to return this value. It may be called again, and then stores another.
  void stores(std::uint64_t value);
  /// The open scan visited an entry.
  void visit(std::uint64_t key, std::uint64_t value);
  void end_scan(bool reached_end);

  /// Fails the run unless the history is linearizable, scans per key.
  void check() const;

 private:
  struct state;
  state* state_;
};

}  // namespace espalier::sim
