#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "espalier/cache/byte_cache.hpp"
#include "espalier/memcached/clock.hpp"
#include "espalier/memcached/output.hpp"
#include "espalier/memcached/settings.hpp"
#include "espalier/memcached/statistics.hpp"
#include "espalier/memcached/users.hpp"
#include "espalier/memcached/watch.hpp"

namespace espalier::memcached {

/// What all sessions share: the cache, its clock, the settings, and what is counted. Any thread may call anything.
class service {
 public:
  /// Throws as the constructor of byte_cache. The clock and the observer that `options` name are replaced.
  service(settings chosen, cache_options options)
      : settings_(std::move(chosen)), log_(clock_, settings_.watcher_bytes), cache_(completed(options)) {
    set_verbosity(settings_.verbosity);
    set_detail(settings_.detail);
  }

  [[nodiscard]] const settings& chosen() const noexcept { return settings_; }
  [[nodiscard]] byte_cache& cache() noexcept { return cache_; }
  [[nodiscard]] second_clock& clock() noexcept { return clock_; }
  [[nodiscard]] statistics& stats() noexcept { return statistics_; }
  [[nodiscard]] watch_log& watched() noexcept { return log_; }

  /// Advances the clock, and does what is due. Returns the microseconds until the next second begins, when the transport
  /// calls it again.
  std::uint64_t tick() noexcept {
    const std::uint64_t left = clock_.advance();
    // relaxed: the cache orders its flush
    std::uint32_t due = flush_due_.load(std::memory_order_relaxed);
    if (due != 0 && due <= clock_.now() &&
        flush_due_.compare_exchange_strong(due, 0, std::memory_order_relaxed))
      cache_.flush();
    // A minute for a gigabyte, and at most 16 MiB of memory to walk at once.
    cache_.reclaim_ended(64);
    keep_limit(std::size_t{256} << 20U);
    return left;
  }
  /// Forgets all entries, a second before the time that second_clock::end_after has for this: now for 0, for negative
  /// numbers, and where that second has begun; never, if it lies before the start. The last flush replaces one to come.
  void flush(std::int64_t delay) noexcept {
    const std::uint32_t now = clock_.now();
    const std::uint32_t due = delay > 0 ? clock_.end_after(delay) - 1 : now;
    flush_due_.store(due > now ? due : 0, std::memory_order_relaxed);  // relaxed: the cache orders its flush
    if (due != 0 && due <= now) cache_.flush();
  }
  /// The second of the flush that is to come; 0 if there is none. For the service that goes on where this one ends.
  [[nodiscard]] std::uint32_t flush_due() const noexcept {
    return flush_due_.load(std::memory_order_relaxed);  // relaxed: the cache orders its flush
  }
  /// Forgets all entries that were stored before this second, when tick() comes to it.
  void flush_at(std::uint32_t second) noexcept {
    flush_due_.store(second, std::memory_order_relaxed);  // relaxed: the cache orders its flush
  }

  // The settings that commands change.
  /// False: there is no such limit, as byte_cache::limit_memory(). What is above it goes now if it is little, else by tick().
  [[nodiscard]] bool limit_memory(std::size_t bytes) {
    if (!cache_.limit_memory(bytes)) return false;
    keep_limit(std::size_t{16} << 20U);
    return true;
  }
  [[nodiscard]] unsigned verbosity() const noexcept {
    return verbosity_.load(std::memory_order_relaxed);  // relaxed: a setting
  }
  void set_verbosity(unsigned level) {
    verbosity_.store(level, std::memory_order_relaxed);
    log_.want(event::command, level > 1);
  }
  [[nodiscard]] bool detail() const noexcept {
    return detail_.load(std::memory_order_relaxed);  // relaxed: a setting
  }
  void set_detail(bool on) {
    detail_.store(on, std::memory_order_relaxed);
    log_.want(event::prefix, on);
  }

  /// From now on a connection has to log in as one of these before it gives commands. One that has done so stays.
  void set_users(users allowed) {
    const std::lock_guard held(users_mutex_);
    users_ = std::move(allowed);
    asks_for_user_.store(true, std::memory_order_relaxed);  // relaxed: a setting
  }
  [[nodiscard]] bool asks_for_user() const noexcept {
    return asks_for_user_.load(std::memory_order_relaxed);  // relaxed: a setting
  }
  [[nodiscard]] bool has_user(std::string_view name, std::string_view password) const {
    const std::lock_guard held(users_mutex_);
    return users_ && users_->have(name, password);
  }

  // Set by the transport before commands run, if it has them.
  std::function<void()> stop;           ///< what the command shutdown does
  std::function<void()> stop_and_keep;  ///< what shutdown graceful does, if it is there
  /// Reads again what the server was given in files. Throws std::exception that says what is wrong; nothing has changed then.
  std::function<void()> reload;
  std::function<void(output&)> list_connections;
  /// Called with each command at a verbosity of 2: the number of its session, and its line.
  std::function<void(int, std::string_view)> log;
  // Shown by statistics.
  std::atomic<std::uint64_t> connections{0};
  std::atomic<bool> accepting{true};
  std::atomic<std::uint32_t> certificates_read{0};  // the clock's second
  std::atomic<std::size_t> buffered{0};             // bytes of the buffers of connections

 private:
  void keep_limit(std::size_t bytes) noexcept {
    try {
      static_cast<void>(cache_.keep_limit(bytes));
    } catch (const std::bad_alloc&) {  // the next second goes on
    }
  }
  [[nodiscard]] cache_options completed(cache_options options) noexcept {
    options.clock = &clock_.seconds();
    options.observer = &log_;
    return options;
  }

  settings settings_;
  second_clock clock_;
  watch_log log_;
  byte_cache cache_;
  statistics statistics_{cache_};
  std::atomic<unsigned> verbosity_{0};
  std::atomic<bool> detail_{false};
  std::atomic<std::uint32_t> flush_due_{0};  // 0: none is
  std::atomic<bool> asks_for_user_{false};
  mutable std::mutex users_mutex_;
  std::optional<users> users_;
};

}  // namespace espalier::memcached
