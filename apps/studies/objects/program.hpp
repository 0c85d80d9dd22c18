#pragma once

#include <cstdint>
#include <memory>

#include "apps/common/interface.hpp"

// The atomic read-write objects with which the authors of DPS measure delegation (Middleware 2019, section 5.1): each
// is several cache lines long, and an operation reads and writes every line of one of them. Instrumented.

namespace espalier::simulate {

/// Provides the next object. Implemented outside the simulated program.
class object_feed : public app::interface {
 public:
  /// False if there are no more.
  virtual bool next(std::uint64_t& object) = 0;
  /// This thread has ended, and its operations are done. all_ended(): whether that is true of all threads.
  virtual void ended() = 0;
  virtual bool all_ended() = 0;
};

struct objects_shape {
  std::uint64_t objects;
  std::uint64_t lines;
  unsigned threads;
  unsigned localities;
  /// Messages from one thread that may be in flight to one locality; 0 if each thread does its operations itself.
  unsigned in_flight;
};

/// The same objects in two programs.
class objects_program : public app::interface {
 public:
  /// Called once by each thread, before time begins: touches memory that must lie near it.
  virtual void settle(unsigned thread, unsigned locality) = 0;
  virtual void operate(unsigned thread, unsigned locality, object_feed& feed) = 0;

  /// Writes of all operations together, for a check.
  [[nodiscard]] virtual std::uint64_t writes() const = 0;
};

/// Every thread locks the object, with the object's MCS lock, and works on it where it is.
[[nodiscard]] std::unique_ptr<objects_program> make_locked_objects(const objects_shape& shape);

/// Objects are spread over localities. A thread of the object's locality performs an operation, under the object's
/// lock. A thread sends messages of one line each, through a ring for each pair of sender and locality, and serves the
/// requests for its own locality while it waits. It waits for the answer if one message is in flight (DPS's synchronous
/// mode), else for a place in the ring (its asynchronous mode, section 4.4, for operations that return nothing). This
/// is the core of a delegation runtime, without its conveniences.
[[nodiscard]] std::unique_ptr<objects_program> make_delegated_objects(const objects_shape& shape);

}  // namespace espalier::simulate
