#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "apps/common/interface.hpp"
#include "apps/studies/partitioned_threads.hpp"
#include "espalier/measure/random.hpp"

// The five caches of section 5.3 of "Scalable Data-structures with Hierarchical, Distributed Delegation" (Ren and Parmer,
// Middleware 2019), called in the process that has them: a get copies a value into a buffer, a set stores one. The same
// source runs on this machine (native.cpp) and, instrumented, on a simulated one (simulated.cpp).

namespace espalier::app::caches {

enum class engine : std::uint8_t {
  stock,   ///< what memcached 1.5 does, with its locks
  ffwd,    ///< the same without locks: a dedicated server does all gets and sets, and the client waits
  parsec,  ///< byte_cache, on which all threads operate
  dps,  ///< `stock` in partitions: a get is a message whose answer the thread awaits, a set one that it does not
  dps_parsec,  ///< byte_cache in partitions: a thread reads any partition itself, and sets as `dps` does
  dps_parsec_fenced,  ///< as above, and a get waits for the thread's own sets of the key
};

/// 16 bytes, as in the paper.
struct cache_key {
  std::array<std::uint64_t, 2> words;

  static constexpr cache_key of(std::uint64_t number) noexcept {
    return {{measure::mix64(number + 1), number}};
  }
  friend bool operator==(const cache_key&, const cache_key&) = default;
};

/// Of the key with this number.
struct request {
  std::uint64_t number = 0;
  bool sets = false;
};

/// Provides a thread's requests, and judges what gets return. Implemented outside the simulated program.
class request_feed : public app::interface {
 public:
  /// False: there are no more.
  virtual bool next(request& r) = 0;
  /// Makes the value that a set stores, or with which an item begins.
  virtual void make_value(std::uint64_t number, std::byte* value) = 0;
  /// A get has ended. Null: a miss.
  virtual void got(std::uint64_t number, const std::byte* value) = 0;
  /// A set has ended, or its thread goes on without it; false if it failed at once.
  virtual void was_set(std::uint64_t number, bool stored) = 0;
  /// This thread has done its requests. all_ended(): whether that is true of every thread that has any.
  virtual void ended() = 0;
  virtual bool all_ended() = 0;
};

struct cache_shape {
  engine how = engine::stock;
  std::vector<thread_role> roles;
  unsigned partitions = 1;
  std::uint64_t items = 0;
  std::size_t value_bytes = 0;  ///< a multiple of 8
};

class studied_cache : public app::interface {
 public:
  /// Called once by each thread, before time begins: stores its share of the items, and touches memory that must lie near it.
  virtual void settle(unsigned thread, request_feed& feed) = 0;
  /// Runs the feed's requests. Each thread calls it after settle(), as often as it likes.
  virtual void operate(unsigned thread, request_feed& feed) = 0;
  /// Of a cache at rest. False: there is no such item.
  virtual bool find(std::uint64_t number, std::byte* to) = 0;
};

[[nodiscard]] std::unique_ptr<studied_cache> make_cache(const cache_shape& shape);

}  // namespace espalier::app::caches
