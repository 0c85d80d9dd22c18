#pragma once

#include <rocksdb/version.h>

#include <cstddef>
#include <type_traits>

// What RocksDB keeps for each prefix of keys on behalf of a memtable: a word that only the memtable knows, null at first.

namespace espalier::memtable {

/// What a hint leads to: the entry that came last with its prefix. A newer one of its user key goes to the map's word at once,
/// without an insert that would find the key there.
struct last_of_prefix {
  const char* entry = nullptr;

  [[nodiscard]] last_of_prefix* ours() noexcept { return this; }
};

/// Before 9.2 a memtable has the same hints for entries and for range deletions, and the latter are in RocksDB's skip list
/// whatever the factory.
inline constexpr bool hints_are_shared = ROCKSDB_MAJOR < 9 || (ROCKSDB_MAJOR == 9 && ROCKSDB_MINOR < 2);

/// So a hint begins as one of a skip list does that was not used: a height of 0, and where the nodes before and behind a key
/// will be noted, level by level. The skip list may use it as its own; the layout is that of all versions from 6.29 to 9.1.
struct shared_hint {
  static constexpr std::size_t most_levels = 32;

  int height = 0;
  void** before = nodes_before;
  void** behind = nodes_behind;
  last_of_prefix last;  // where a skip list's own has its nodes
  void* nodes_before[most_levels + 1];
  void* nodes_behind[most_levels + 1];

  /// Null if the skip list has made it.
  [[nodiscard]] last_of_prefix* ours() noexcept { return before == nodes_before ? &last : nullptr; }
};

using hint = std::conditional_t<hints_are_shared, shared_hint, last_of_prefix>;

}  // namespace espalier::memtable
