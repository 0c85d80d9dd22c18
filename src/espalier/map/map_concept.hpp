#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

// The contract that every map of the library keeps.
//
//   find(key)                     copy of the value, or nothing
//   contains(key)                 presence
//   insert(key, value)            adds only where absent; true if it did
//   insert_or_assign(key, value)  adds or overwrites; true if the key was absent
//   erase(key)                    removes; true if the key was present
//   scan(from, visitor)           ordered visit of the keys >= from
//
// The first two and scan are const. Each is linearizable per key. A scan visits each key that was present throughout exactly once, in strictly
// increasing order; keys that come or go meanwhile may or may not be seen. The visitor takes (key, value) and
// returns void, or a bool that says whether to go on; scan returns the number of visits.
//
// A find or a scan that returns a value happens after the call that stored it: values may be pointers to what their
// writers have prepared. Nothing is promised of what happens before a key is seen to be absent.
//
// No key and no value is reserved. Every operation exists twice: with a guard from pin(), which the caller
// holds over many operations, and without, pinning for itself. insert and insert_or_assign throw
// std::bad_alloc, and erase may (a retirement needs room), with the map unchanged; find, contains and scan
// throw only what pinning throws, or the visitor.
//
// Keys are ordered by a comparator, as those of std::map, which several threads call at the same time. One that has a
// state is given to the constructor, before what else it takes; key_comp() returns it.
//
// After fork(). A child has one thread, the one that forked. The others are lost: each stopped between two
// instructions. To a map it is as if they had stalled for ever. What they held of domains and placements (pins, read
// sections, locks) is released before fork() returns (hw/fork_recovery). In the child then
//
// - an operation that is lock-free (map_properties) works, with keys that lost threads were changing as well: their
//   operations have taken effect or have not, or are completed by the child's;
// - memory is reclaimed: pins and read sections of lost threads have ended, those of the thread that forked go on,
//   so a thread may fork inside a guard; placements serve; new threads may come;
// - memory that lost threads were working on is leaked: nodes that were not published or not retired
//   yet, bags of retired nodes, up to two batches of free blocks for each lost thread and size. usage() may count it,
//   and differ by a block for each lost thread;
// - a lock that a lost thread held in a map stays locked. An operation that blocks may wait for it for ever. A
//   process whose maps have locks forks while no thread updates them, or its children only call what is lock-free.
//
// None of this holds for children that run no handlers of fork() (vfork, clone, _Fork), for a fork in a signal handler
// that has interrupted the library, or in code that it calls under its locks: a destructor of a value, a visitor of
// blocks. Handlers that were registered with pthread_atfork before the library was initialised run in the child before
// the repair, and may not use it.

namespace espalier {

enum class progress : std::uint8_t { blocking, lock_free, wait_free };
enum class balance : std::uint8_t { none, relaxed, strict };
enum class scan_guarantee : std::uint8_t { per_key, snapshot };

[[nodiscard]] constexpr std::string_view to_string(progress p) noexcept {
  return p == progress::blocking ? "blocking" : p == progress::lock_free ? "lock-free" : "wait-free";
}
[[nodiscard]] constexpr std::string_view to_string(balance b) noexcept {
  return b == balance::none ? "none" : b == balance::relaxed ? "relaxed" : "strict";
}
[[nodiscard]] constexpr std::string_view to_string(scan_guarantee s) noexcept {
  return s == scan_guarantee::per_key ? "per key" : "snapshot";
}

/// What a map promises beyond the contract, and where it comes from.
struct map_properties {
  std::string_view name;
  // Of the algorithm. A placement may wait where it hands out memory (slab takes a lock once a batch).
  progress find_progress;
  progress update_progress;
  balance shape;
  scan_guarantee scan;
  /// Readers reach nodes that others detach: memory is given back through a reclaimer.
  bool region_protection;
  std::string_view paper;
  /// False for a map that only measures what validation costs: find, contains and scan are then right only
  /// while nobody writes.
  bool reads_beside_writers = true;
  /// True where an update may wait for the end of reads that are under way: a reader that stops for good then
  /// stops updates, though it holds no lock.
  bool updates_await_reads = false;
};

/// For visitors of the contract that do not care.
struct ignore_entry {
  template <class Key, class Value>
  void operator()(const Key&, const Value&) const noexcept {}
};

template <class M>
concept concurrent_ordered_map =
    requires(M& map, const M& read, const typename M::key_type& key, const typename M::mapped_type& value,
             typename M::guard_type& guard) {
      { read.pin() } -> std::same_as<typename M::guard_type>;
      { read.find(key) } -> std::same_as<std::optional<typename M::mapped_type>>;
      { read.find(guard, key) } -> std::same_as<std::optional<typename M::mapped_type>>;
      { read.contains(key) } -> std::same_as<bool>;
      { read.contains(guard, key) } -> std::same_as<bool>;
      { map.insert(key, value) } -> std::same_as<bool>;
      { map.insert(guard, key, value) } -> std::same_as<bool>;
      { map.insert_or_assign(key, value) } -> std::same_as<bool>;
      { map.insert_or_assign(guard, key, value) } -> std::same_as<bool>;
      { map.erase(key) } -> std::same_as<bool>;
      { map.erase(guard, key) } -> std::same_as<bool>;
      { read.scan(key, ignore_entry{}) } -> std::same_as<std::size_t>;
      { read.scan(guard, key, ignore_entry{}) } -> std::same_as<std::size_t>;
      { M::properties } -> std::convertible_to<map_properties>;
    };

/// A map that names the same one of other entries, in another order, by other policies.
template <class M>
concept rebindable = requires {
  typename M::template rebind<typename M::key_type, typename M::mapped_type, typename M::key_compare>;
};

}  // namespace espalier
