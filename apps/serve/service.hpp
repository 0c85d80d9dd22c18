#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/output.hpp"
#include "espalier/cache/byte_cache.hpp"
#include "espalier/hw/cache_line.hpp"

// What all connections of a server share: the cache, its clock, the settings, and what is counted.

namespace espalier::app::serving {

/// The memcached whose protocol this is. Clients conclude from a server's version what it can do, and read it to the end
/// of the line.
inline constexpr std::string_view spoken_version = "1.6.45";

/// How the server was started, as far as commands obey or show it.
struct settings {
  std::string version = "0.0.0";  ///< Espalier's own
  unsigned threads = 4;
  unsigned connections = 1024;
  bool rejects_at_limit = true;  ///< false: connections wait until another one closes
  unsigned requests_per_turn = 20;
  std::size_t replies_at_once = std::size_t{1}
                                << 20U;          ///< bytes, from which on they are sent before more are made
  std::size_t buffers = std::size_t{64} << 20U;  ///< bytes of all connections together, beside -m
  int backlog = 1024;
  unsigned idle_timeout = 0;  ///< seconds; 0: none
  int port = 11211;           ///< 0: none, -1: any free one
  std::string listen;         ///< host[:port],...; empty: all addresses
  std::string unix_path;
  unsigned unix_mask = 0700;
  std::string protocol = "auto-negotiate";
  bool versions = true;  ///< of values, which gets shows and cas compares
  bool flushes = true;
  bool shuts_down = false;
  bool test_clock = false;
  bool detail = false;
  char prefix_end = ':';
  unsigned verbosity = 0;
};

/// The seconds of the cache. They begin with 62, as memcached's do: a minute before the start is in the past, what lies
/// before that is second 1. They follow the machine's monotonic clock, and a second begins when one of the calendar does.
class second_clock {
 public:
  second_clock();

  [[nodiscard]] const std::atomic<std::uint32_t>& seconds() const noexcept { return seconds_; }
  [[nodiscard]] std::uint32_t now() const noexcept {
    return seconds_.load(std::memory_order_relaxed);  // relaxed: seconds order nothing
  }
  /// The calendar's time of second 0.
  [[nodiscard]] std::int64_t origin() const noexcept { return origin_; }
  [[nodiscard]] std::uint32_t uptime() const noexcept { return now() - first; }

  /// Looks at the machine's clock. Returns the microseconds until the next second begins.
  std::uint64_t advance() noexcept;
  /// From now on it is ahead by so many seconds more.
  void move(std::uint32_t seconds) noexcept;
  /// From now on only move() advances it.
  void stand() noexcept { stands_.store(true, std::memory_order_relaxed); }  // relaxed: seconds order nothing

  /// The end of an entry, as the protocol gives it: 0 for never, a negative number for at once, up to 30 days from now,
  /// else a time of the calendar.
  [[nodiscard]] std::uint32_t end_after(std::int64_t given) const noexcept;

 private:
  static constexpr std::uint32_t first = 62;

  std::atomic<std::uint32_t> seconds_{first};
  std::atomic<std::uint32_t> moved_{0};
  std::atomic<bool> stands_{false};
  std::int64_t origin_;
  std::int64_t origin_us_;  // the monotonic clock's at second 0
};

enum class counted : std::uint8_t {
  get_commands,
  get_hits,
  get_misses,
  set_commands,
  touch_commands,
  touch_hits,
  touch_misses,
  meta_commands,
  flush_commands,
  delete_hits,
  delete_misses,
  incr_hits,
  incr_misses,
  decr_hits,
  decr_misses,
  cas_hits,
  cas_misses,
  cas_mismatches,
  too_large,
  out_of_memory,
  bytes_read,
  bytes_written,
  yields,
  idle_kicks,
  accepted,
  rejected,
  accept_pauses,
  paused_us,
  lacking_memory,
  lacking_buffers,
  stored,
  found_expired,
  found_flushed,
  evictions,
  evicted_unfetched,
  evicted_with_end,
  expired,
  expired_unfetched,
  evicting,
  walks,
  walked,
  walked_ended,
};
inline constexpr std::size_t counted_kinds = static_cast<std::size_t>(counted::walked_ended) + 1;
using counts = std::array<std::uint64_t, counted_kinds>;

/// What one thread counts. Others may read it.
class alignas(hw::false_sharing_bytes) counters {
 public:
  void add(counted what, std::uint64_t by = 1) noexcept {
    auto& count = counts_[static_cast<std::size_t>(what)];
    // relaxed: a count with one writer
    count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t of(std::size_t kind) const noexcept {
    return counts_[kind].load(std::memory_order_relaxed);  // relaxed: a count
  }

 private:
  std::array<std::atomic<std::uint64_t>, counted_kinds> counts_{};
};

class service {
 public:
  service(settings chosen, cache_options options);

  [[nodiscard]] const settings& chosen() const noexcept { return settings_; }
  [[nodiscard]] byte_cache& cache() noexcept { return cache_; }
  [[nodiscard]] second_clock& clock() noexcept { return clock_; }

  /// Counters for one more thread, for as long as the service lives. Before commands run.
  [[nodiscard]] counters& add_thread();

  /// Advances the clock, and does what is due. Returns the microseconds until the next second.
  std::uint64_t tick() noexcept;
  /// Forgets all entries, a second before the time that second_clock::end_after has for this: now for 0, for negative
  /// numbers, and where that second has begun; never, if it lies before the start. The last flush replaces one to come.
  void flush(std::int64_t delay) noexcept;

  // The settings that commands change.
  [[nodiscard]] unsigned verbosity() const noexcept {
    return verbosity_.load(std::memory_order_relaxed);  // relaxed: a setting
  }
  void set_verbosity(unsigned level) noexcept { verbosity_.store(level, std::memory_order_relaxed); }
  [[nodiscard]] bool detail() const noexcept {
    return detail_.load(std::memory_order_relaxed);  // relaxed: a setting
  }
  void set_detail(bool on) noexcept { detail_.store(on, std::memory_order_relaxed); }

  /// Counts an operation by the prefix of its key.
  enum class prefix_count : std::uint8_t { get, hit, set, erase };
  void count_prefix(std::string_view key, prefix_count what);

  // Statistics, as lines of the protocol with their end.
  void show_general(output& out);
  void show_settings(output& out);
  void show_items(output& out);
  void show_slabs(output& out);
  void show_prefixes(output& out);
  void show_keys(output& out, std::uint64_t most);
  enum class dump : std::uint8_t { properties, commands };  ///< as lines of metadump, or of mgdump
  /// The next entries of a dump, not many: what a client does not read does not pile up. `place` is 0 at first. False: it
  /// has ended, and the line that says so was written.
  bool show_entries(output& out, dump as, std::size_t& place);
  void show_connections(output& out);
  void reset_statistics();

  // From the server.
  /// Ends it. Called from any thread.
  std::function<void()> stop;
  std::function<void(output&)> list_connections;
  std::atomic<std::uint64_t> connections{0};
  std::atomic<bool> accepting{true};
  std::atomic<std::size_t> buffered{0};  // bytes of the buffers of connections

 private:
  static void put_command(output& out, std::string_view key);
  void put_properties(output& out, std::string_view key, const cache_entry& e) const;
  [[nodiscard]] counts all_counts();
  [[nodiscard]] counts counts_since_reset();

  settings settings_;
  second_clock clock_;
  byte_cache cache_;
  std::atomic<unsigned> verbosity_;
  std::atomic<bool> detail_;
  std::atomic<std::uint32_t> flush_due_{0};  // 0: none is

  std::mutex mutex_;  // of all below
  std::vector<std::unique_ptr<counters>> threads_;
  counts at_reset_{};
  std::map<std::string, std::array<std::uint64_t, 4>, std::less<>> prefixes_;
};

}  // namespace espalier::app::serving
