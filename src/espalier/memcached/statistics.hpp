#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/cache/byte_cache.hpp"
#include "espalier/memcached/counters.hpp"

namespace espalier::memcached {

class output;
class service;

/// The counters of all threads, and operations by the prefixes of their keys.
class statistics {
 public:
  explicit statistics(const byte_cache& of) noexcept : cache_(of) {}

  /// Counters for one more thread, for as long as this lives.
  [[nodiscard]] counters& add_thread();

  struct totals {
    counts own{};
    cache_statistics cached;
  };
  [[nodiscard]] totals since_reset();
  /// Counts begin with 0 again, and prefixes are forgotten.
  void reset();

  /// Counts an operation by the prefix of its key, which ends before `prefix_end`.
  enum class prefix_count : std::uint8_t { get, hit, set, erase };
  void count_prefix(std::string_view key, char prefix_end, prefix_count what);
  void show_prefixes(output& out);

 private:
  [[nodiscard]] totals since_start() const;

  const byte_cache& cache_;
  std::mutex mutex_;  // of all below
  std::vector<std::unique_ptr<counters>> threads_;
  totals at_reset_;
  std::map<std::string, std::array<std::uint64_t, 4>, std::less<>> prefixes_;
};

// Rows of the command stats, with their end.
void show_general(service& of, output& out);
void show_settings(service& of, output& out);
void show_items(service& of, output& out);
void show_slabs(service& of, output& out);

}  // namespace espalier::memcached
