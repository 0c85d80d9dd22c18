#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace espalier {

/// What a get sees, and what a change begins from. Valid while the visitor or the decision runs.
struct cache_entry {
  /// An entry without an end.
  static constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

  std::string_view value;
  /// Each change of the value gives a new one, which is greater than that of the entry before; never 0. The cache repeats none within
  /// 2^34 changes. A change may name its own.
  std::uint64_t version = 0;
  std::uint32_t flags = 0;
  /// The first tick of the cache's clock at which it is gone.
  std::uint32_t expires = never;
  /// The tick of the last get, to sixty; of the change that stored it, if none came.
  std::uint32_t accessed = 0;
  bool fetched = false;  ///< a get has seen it
  bool stale = false;    ///< marks of the user
  bool claimed = false;
};

/// An entry with what evictions know of it, on its way from one cache to the next.
struct kept_entry {
  std::string_view key;
  cache_entry seen;
  std::uint64_t order = 0;  ///< the cache's own version: seen.version, if no change has named one
  unsigned frequency = 0;   ///< of gets, up to 3
  bool is_proven = false;   ///< evicted after those that are not
};

/// What becomes of a key.
struct cache_change {
  enum class kind : std::uint8_t {
    keep,   ///< nothing
    erase,  ///< there is no entry any more
    amend,  ///< the value stays; expires, stale and claimed are replaced, and the version if it is not 0
    store,  ///< an entry with a new value
  };
  kind what = kind::keep;
  std::size_t value_bytes = 0;
  std::uint32_t flags = 0;
  std::uint32_t expires = cache_entry::never;
  /// 0: the cache's next one.
  std::uint64_t version = 0;
  bool stale = false;
  bool claimed = false;
};

enum class cache_outcome : std::uint8_t {
  done,           ///< as decided
  too_large,      ///< the entry would take more than options allow. Nothing has changed
  out_of_memory,  ///< no room, and nothing to evict. Nothing has changed
};

struct cache_changed {
  cache_outcome outcome = cache_outcome::done;
  cache_change::kind what = cache_change::kind::keep;
  /// Of the entry after the change; 0 if there is none.
  std::uint64_t version = 0;
};

}  // namespace espalier
