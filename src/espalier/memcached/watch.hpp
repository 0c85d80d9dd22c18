#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "espalier/cache/byte_cache.hpp"
#include "espalier/memcached/clock.hpp"

// What the command watch shows: a line for each event, to each connection that asked for its kind. A line goes into a buffer of
// the watcher, and its transport sends it from there. Where the buffer is full the line is skipped, and counted: no event waits for a
// watcher. Lines are made only while there are watchers; without them an operation looks at one word.

namespace espalier::memcached {

class output;

/// Kinds of events.
enum class event : std::uint8_t { command, prefix, fetch, mutation, deletion, eviction };
/// A set of them.
class event_kinds {
 public:
  constexpr event_kinds() noexcept = default;
  constexpr event_kinds(event one) noexcept : bits_(1U << static_cast<unsigned>(one)) {}
  constexpr explicit event_kinds(unsigned bits) noexcept : bits_(bits) {}
  [[nodiscard]] constexpr unsigned bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr bool has(event one) const noexcept { return (bits_ & event_kinds(one).bits_) != 0; }
  [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
  constexpr void add(event_kinds more) noexcept { bits_ |= more.bits_; }
  constexpr void remove(event_kinds less) noexcept { bits_ &= ~less.bits_; }

 private:
  unsigned bits_ = 0;
};

class watch_log;

/// One connection that watches. It may not outlive the log.
class watcher {
 public:
  watcher(watch_log& of, event_kinds kinds) noexcept : of_(of), kinds_(kinds) {}
  watcher(const watcher&) = delete;
  watcher& operator=(const watcher&) = delete;
  ~watcher();

  /// Moves the lines to the output, and after them how many were skipped.
  void collect(output& to);

 private:
  friend class watch_log;

  watch_log& of_;
  event_kinds kinds_;
  // Under the log's mutex.
  std::string lines_;
  std::uint64_t skipped_ = 0;
};

/// The watchers, and what they see. Any thread may call anything.
class watch_log final : public eviction_observer {
 public:
  static constexpr std::size_t most_watchers = 20;

  /// `bytes` is the size of a watcher's buffer.
  watch_log(const second_clock& clock, std::size_t bytes) noexcept : clock_(clock), bytes_(bytes) {}

  /// What is to be told to tell(), or is otherwise of interest: one load.
  [[nodiscard]] event_kinds wanted() const noexcept {
    return event_kinds(wanted_.load(std::memory_order_relaxed));  // relaxed: a setting
  }
  /// Whether these are wanted, by another one than a watcher.
  void want(event_kinds kinds, bool are);

  /// Null: there are most_watchers already. Throws std::bad_alloc.
  [[nodiscard]] std::unique_ptr<watcher> add(event_kinds kinds);

  /// What the line says of the key, the session and the value.
  struct subject {
    std::string_view key;
    int session;
    std::size_t value_bytes;
  };
  void fetched(const subject& of, bool found) noexcept;
  /// `end` is that of the entry, if it was stored.
  void stored(const subject& of, std::string_view status, std::string_view command,
              std::uint32_t end) noexcept;
  void erased(const subject& of, std::string_view command) noexcept;
  void evicted(std::string_view key, const cache_entry& entry) noexcept override;

  struct counts {
    std::uint64_t watchers = 0;
    std::uint64_t skipped = 0;  ///< lines, ever
    std::uint64_t sent = 0;
  };
  [[nodiscard]] counts count() const;

 private:
  friend class watcher;

  void choose_wanted() noexcept;
  void remove(watcher& one) noexcept;
  template <class Put>
  void write(event kind, std::string_view type, std::string_view key, Put put_rest) noexcept;

  const second_clock& clock_;
  std::size_t bytes_;
  std::atomic<unsigned> wanted_{0};
  mutable std::mutex mutex_;  // of all below
  event_kinds others_want_;
  std::array<watcher*, most_watchers> watchers_{};
  std::uint64_t lines_ = 0;  // ever
  counts counts_;
};

}  // namespace espalier::memcached
