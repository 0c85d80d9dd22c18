#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

// The contract that every map of the library keeps. map_facade.hpp documents each operation.
//
//   find(key)                       copy of the value, or nothing
//   at(key)                         the same value; throws std::out_of_range where the key is absent
//   find(key, visitor)              calls visitor(value) where the key is present, and copies nothing
//   contains(key), count(key)       presence
//   find_batch(keys, results)       a find of each
//   lower_bound(key), first()       copy of the first entry at or after the key, of the first entry
//   upper_bound(key)                copy of the first entry after the key
//   scan(visitor)                   ordered visit of all entries
//   scan(from, visitor)             of the keys >= from
//   scan(from, to, visitor)         of those that are smaller than to besides
//   for (auto [key, value] : map)   of all
//   range(from), range(from, to)    the same of the keys >= from, of those that are smaller than to besides
//   cursor(map)                     a position: seek(key), seek_first(), next(), valid(), key(), value()
//   size(), empty()                 estimates while other threads write
//   map == other                    the same values under the same keys; exact while no other thread writes
//   insert(key, value)              adds only where absent; true if it did
//   try_emplace(key, arguments...)  the same, of a value made from the arguments; so is emplace
//   find_or_insert(key, value)      a find, or an insert where absent; the value that the key has, and whether it is new
//   find_or_compute(key, f)         the same of f(), which is called where the key is absent
//   insert_batch(entries)           an insert of each
//   bulk_load(entries, threads)     fills an empty map, which no other thread uses, with entries in order
//   insert_or_assign(key, value)    adds or overwrites; true if the key was absent
//   erase(key)                      removes; true if the key was present
//   erase_batch(keys)               an erase of each
//   erase(from, to), erase_from(from)  an erase of each key >= from and < to, >= from
//   clear()                         erases each key
//
// An exchanging map (map_properties) also has
//
//   exchange(key, value)            adds or overwrites; returns the value before, or nothing
//   extract(key)                    removes; returns the value, or nothing
//   update(key, f)                  one atomic read, f, write; returns the values before and after, or nothing
//   update_present(key, f)          the same, of a key that is present, with a function of its value
//   pop_first()                     removes and returns the first entry
//   erase_if(predicate)             an erase of each entry for which it is true
//
// A map of strings in the order of their bytes, increasing or decreasing, also has
//
//   scan_prefix(prefix, visitor)    ordered visit of the keys that begin with the prefix
//   range_of_prefix(prefix)         the same for loops
//   erase_prefix(prefix)            an erase of each of them
//   longest_match(text)             the entry with the longest key that the text begins with, if the map is bidirectional
//
// ordered_map and ordered_set also have
//
//   ordered_map{{k, v}, ...}        a map with these entries, likewise of two iterators; of equal keys the first one counts
//   map.copy()                      a map with the entries that a scan sees: there is no copy constructor
//
// A bidirectional map also has the mirror images of first and scan
//
//   last()                          copy of the last entry
//   reverse_scan(visitor)           ordered visit of all entries, the greatest key first
//   reverse_scan(from, visitor)     of the keys <= from
//   reverse_scan(from, to, visitor) of those that are larger than to besides
//   reverse_scan_prefix(prefix, visitor)  of the keys that begin with the prefix, if there is scan_prefix
//   rbegin(), rend()                a loop over all entries, the greatest key first
//   previous(), seek_last()         of a cursor
//   pop_last()                      removes and returns the last entry, if the map is exchanging
//
// The operations that read are const. Each operation is linearizable per key. What asks for a neighbour (first, last,
// the bounds, empty) promises what a scan does: the entry was present, and no key that was present throughout lies
// before it. Where other threads insert a key and erase another one meanwhile, the entry may have been the first at no
// moment. A scan visits each key that was present throughout exactly once, in strictly increasing order (a reverse scan
// in decreasing order); keys that come or go meanwhile may or may not be seen. The visitor takes (key, value) and
// returns void, or a bool that says whether to go on; a key that is a string it takes as a std::string_view, which
// ordered_map does not copy, or as a const std::string&. A scan returns the number of visits. Like the end of a range,
// `to` is never visited, in either direction. Loops and cursors promise what scans do. They hold no guard between two
// steps: they read a few dozen entries at once.
//
// No operation sees several keys at one moment, and none copies a map or a part of it as it was at one moment. For that,
// writers would keep former values for as long as such a reader runs, or wait for it.
//
// An operation that returns a value happens after the call that stored it: values may be pointers to objects that their
// writers have prepared. There is no such promise for a key that is seen to be absent.
//
// No key and no value is reserved. Every operation on a key exists twice: with a guard from pin(), which the caller
// holds over many operations, and without, which pins for itself. A guard is of its map's domain and of its thread: builds
// with assertions check that. While it lives, its domain frees nothing that any thread has erased or replaced: a thread that
// works for long renews it (guard.renew()) or lets it end. What adds a key or a value throws std::bad_alloc, and
// what erases one may (a retirement needs room), with the map unchanged. What reads throws only what pinning, the visitor
// or a copy of a value throws.
//
// Keys are ordered by a comparator, like those of std::map. Several threads call it at the same time. A comparator with
// a state is the first argument of the constructor; key_comp() returns it. What a comparator throws leaves the map as it
// was. A map may keep a copy of a key that was erased, to find its way. So a comparator that follows a pointer in a key may
// read the object after the erase: such objects outlive the map. (Where keys are pointers, ordered_map compiles with a
// comparator of its own only if the program says so: keys_outlive_map.)
//
// Most maps copy keys while other threads use them: keys must be trivially copyable there. Where a key may be a
// std::string (ordered_map, locked_map), operations take it as a std::string_view, and what copies entries may
// throw std::bad_alloc, also where it reads.
//
// A value may be of any type that can be copied, and moved and destroyed without an exception (map_value), such as
// std::string and std::shared_ptr. What a copy throws leaves the map as it was: an operation that returns the value that
// it replaces or erases copies it first. A value that was replaced or erased is destroyed later, by an operation of any
// thread, or with the map. Copies and destructors of values may run under locks of the map and of its domain. So they may
// not use the map, nor another map of that domain.
//
// After fork(). A child has one thread, the one that forked. The others are lost: each stopped between two
// instructions. To a map it is as if they had stalled for ever. Their pins, read sections and locks in domains and
// placements are released before fork() returns (hw/fork_recovery). Then in the child
//
// - an operation that is lock-free (map_properties) works, also with keys that lost threads were changing: their
//   operations have taken effect or have not, or the child's operations complete them;
// - memory is reclaimed: pins and read sections of lost threads have ended, those of the thread that forked go on,
//   so a thread may fork inside a guard; placements work; new threads may start;
// - memory that lost threads were working on is leaked: nodes not yet published or not yet retired, bags of retired
//   nodes, up to two batches of free blocks for each lost thread and size. usage() may count it, and differ by a block
//   for each lost thread;
// - a lock that a lost thread held in a map stays locked. An operation that blocks may wait for it for ever. A
//   process whose maps have locks forks while no thread updates them, or its children only call what is lock-free.
//
// None of this holds for children that run no handlers of fork() (vfork, clone, _Fork). Nor does it hold for a fork in
// a signal handler that has interrupted the library, or in code that the library calls under its locks: a destructor
// of a value, a visitor of blocks. Handlers that were registered with pthread_atfork before the library was
// initialised run in the child before the repair, and may not use the library.

namespace espalier {

enum class progress : std::uint8_t { blocking, lock_free };
enum class balance : std::uint8_t { none, relaxed, strict };

[[nodiscard]] constexpr std::string_view to_string(progress p) noexcept {
  return p == progress::blocking ? "blocking" : "lock-free";
}
[[nodiscard]] constexpr std::string_view to_string(balance b) noexcept {
  return b == balance::none ? "none" : b == balance::relaxed ? "relaxed" : "strict";
}

/// What a map promises beyond the contract, and its source.
struct map_properties {
  std::string_view name;
  // Of the algorithm. A placement may wait when it allocates (slab takes a lock once a batch).
  progress find_progress;
  progress update_progress;
  balance shape;
  /// Readers reach nodes that other threads detach, so nodes are freed through a reclaimer.
  bool region_protection;
  std::string_view paper;
  /// False for a map that only measures what validation costs: its find, contains and scan are right only while no
  /// thread writes.
  bool reads_beside_writers = true;
  /// True where an update may wait for the end of reads in progress: a reader that stops for ever then stops updates,
  /// though it holds no lock.
  bool updates_await_reads = false;
  /// True for a map that has exchange, extract and update.
  bool exchanges = false;
  /// True for a map that has last and reverse_scan.
  bool bidirectional = false;
  /// True for a map whose first, last, lower_bound, upper_bound, empty and size ask several maps, one after the other, each at
  /// another moment.
  bool asks_partitions = false;
  /// True for a list: the time of an operation grows with the number of keys, as the whole way to its key.
  bool linear = false;
};

/// A map with exchange, extract and update; a map with last and reverse_scan. (As concepts, because clang 14 looks at the
/// condition of a member that is no template before the map is complete.)
template <class Map>
concept exchanging = bool{Map::properties.exchanges};
template <class Map>
concept bidirectional = bool{Map::properties.bidirectional};

/// How an operation is given a key: a string as a view, any other key by reference.
template <class Key>
using key_view_of = std::conditional_t<std::is_same_v<Key, std::string>, std::string_view, const Key&>;

/// The order of keys where no other is chosen. That of strings compares views too.
template <class Key>
using default_order = std::conditional_t<std::is_same_v<Key, std::string>, std::less<>, std::less<Key>>;

/// Whether a comparator orders the keys, as a const object. That of the library is asked for the operator that it calls: it
/// claims to compare all types.
template <class Compare, class Key>
concept orders = std::predicate<const Compare&, key_view_of<Key>, key_view_of<Key>> &&
                 (!(std::is_same_v<Compare, std::less<Key>> || std::is_same_v<Compare, std::less<>>) ||
                  requires(const Key& a) { bool(a < a); }) &&
                 (!(std::is_same_v<Compare, std::greater<Key>> || std::is_same_v<Compare, std::greater<>>) ||
                  requires(const Key& a) { bool(a > a); });

/// Whether strings lie in the order of their bytes, increasing or decreasing, so that those with one prefix are neighbours.
template <class Key, class Compare>
concept ordered_by_bytes = std::same_as<Key, std::string> &&
                           (std::same_as<Compare, std::less<>> || std::same_as<Compare, std::greater<>>);

/// What a value may be. Its copy constructor may throw.
template <class Value>
concept map_value = std::is_object_v<Value> && std::is_copy_constructible_v<Value> &&
                    std::is_nothrow_move_constructible_v<Value> && std::is_nothrow_destructible_v<Value>;

/// What every map needs of its entries and its comparator, for sizeof: it says in words what is missing.
template <class Key, class Value, class Compare>
struct entry_requirements {
  static_assert(map_value<Value>,
                "values are copied, and move where no exception may come between: a value must have a copy "
                "constructor, and a move constructor and a destructor that do not throw; std::unique_ptr has "
                "no copies, std::shared_ptr has");
  static_assert(
      orders<Compare, Key>,
      "the comparator does not compare two const keys, as a const object: a struct needs an operator<, or a "
      "comparator of its own; an order of strings compares std::string_view, as std::less<> does and "
      "std::less<std::string> does not");
};

/// Puts a value in the place of another. It cannot fail, which an assignment may, and the type needs none.
template <map_value Value>
void replace(Value& place, std::type_identity_t<Value> by) noexcept {
  std::destroy_at(&place);
  std::construct_at(&place, std::move(by));
}

/// A copy of an entry.
template <class Key, class Value>
struct map_entry {
  Key key;
  Value value;
  friend bool operator==(const map_entry&, const map_entry&) = default;
};

/// A visitor that ignores what it is given.
struct ignore_entry {
  template <class Key, class Value>
  void operator()(const Key&, const Value&) const noexcept {}
};

template <class M>
concept concurrent_ordered_map =
    requires(M& map, const M& read, const typename M::key_view& key, const typename M::mapped_type& value,
             typename M::guard_type& guard, std::span<const std::remove_cvref_t<typename M::key_view>> keys,
             std::span<std::optional<typename M::mapped_type>> results) {
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
      { read.scan(key, key, ignore_entry{}) } -> std::same_as<std::size_t>;
      { read.scan(guard, key, key, ignore_entry{}) } -> std::same_as<std::size_t>;
      { read.find_batch(keys, results) } -> std::same_as<std::size_t>;
      { read.find_batch(guard, keys, results) } -> std::same_as<std::size_t>;
      { read.lower_bound(key) } -> std::same_as<std::optional<typename M::value_type>>;
      { read.lower_bound(guard, key) } -> std::same_as<std::optional<typename M::value_type>>;
      { read.first() } -> std::same_as<std::optional<typename M::value_type>>;
      { read.first(guard) } -> std::same_as<std::optional<typename M::value_type>>;
      { read.begin() == read.end() } -> std::same_as<bool>;
      { read.range(key, key).begin() == read.range(key).end() } -> std::same_as<bool>;
      { typename M::cursor(read).valid() } -> std::same_as<bool>;
      { read.size() } -> std::same_as<std::size_t>;
      { read.empty() } -> std::same_as<bool>;
      { read.key_comp() } -> std::same_as<const typename M::key_compare&>;
      map.clear();
      { M::properties } -> std::convertible_to<map_properties>;
    };

template <class M>
concept bidirectional_ordered_map =
    concurrent_ordered_map<M> &&
    requires(const M& read, const typename M::key_view& key, typename M::guard_type& guard) {
      { read.last() } -> std::same_as<std::optional<typename M::value_type>>;
      { read.last(guard) } -> std::same_as<std::optional<typename M::value_type>>;
      { read.reverse_scan(key, ignore_entry{}) } -> std::same_as<std::size_t>;
      { read.reverse_scan(guard, key, ignore_entry{}) } -> std::same_as<std::size_t>;
      { read.reverse_scan(key, key, ignore_entry{}) } -> std::same_as<std::size_t>;
      { read.reverse_scan(guard, key, key, ignore_entry{}) } -> std::same_as<std::size_t>;
    };

/// A function of update() that changes nothing.
struct same_value {
  template <class Value>
  std::optional<Value> operator()(const std::optional<Value>& value) const noexcept {
    return value;
  }
};

template <class M>
concept exchanging_ordered_map =
    concurrent_ordered_map<M> &&
    requires(M& map, const typename M::key_view& key, const typename M::mapped_type& value,
             typename M::guard_type& guard) {
      { map.exchange(key, value) } -> std::same_as<std::optional<typename M::mapped_type>>;
      { map.exchange(guard, key, value) } -> std::same_as<std::optional<typename M::mapped_type>>;
      { map.extract(key) } -> std::same_as<std::optional<typename M::mapped_type>>;
      { map.extract(guard, key) } -> std::same_as<std::optional<typename M::mapped_type>>;
      { map.update(key, same_value{}).after } -> std::same_as<std::optional<typename M::mapped_type>&&>;
      {
        map.update(guard, key, same_value{}).before
      } -> std::same_as<std::optional<typename M::mapped_type>&&>;
    };

struct elision_counts;  // sync/elision.hpp

/// A map that counts the outcomes of its transactions, by region: a section of its code that it elides.
/// transactions(region) sums over all threads; exact when no operation runs.
template <class M>
concept counts_transactions = requires(const M& read, std::size_t region) {
  std::span<const std::string_view>(M::transaction_regions);
  { read.transactions(region) } -> std::same_as<elision_counts>;
};

/// A map that names the same map with other entries, another order or other policies.
template <class M>
concept rebindable = requires {
  typename M::template rebind<typename M::key_type, typename M::mapped_type, typename M::key_compare>;
};

/// The operations of a map that a workload draws, a trace holds, a history records and a test performs.
enum class map_operation : std::uint8_t {
  find,
  contains,
  insert,
  insert_or_assign,
  erase,
  exchange,
  extract,
  update,
  scan,
  reverse_scan
};

inline constexpr std::array map_operations{
    map_operation::find,  map_operation::contains,    map_operation::insert,  map_operation::insert_or_assign,
    map_operation::erase, map_operation::exchange,    map_operation::extract, map_operation::update,
    map_operation::scan,  map_operation::reverse_scan};

[[nodiscard]] constexpr std::string_view to_string(map_operation op) noexcept {
  constexpr std::array<std::string_view, map_operations.size()> names{
      "find",    "contains", "insert", "insert_or_assign", "erase", "exchange",
      "extract", "update",   "scan",   "reverse_scan"};
  return names[static_cast<std::size_t>(op)];
}

[[nodiscard]] constexpr bool is_scan(map_operation op) noexcept {
  return op == map_operation::scan || op == map_operation::reverse_scan;
}

/// Whether it can change a map.
[[nodiscard]] constexpr bool is_write(map_operation op) noexcept {
  return op != map_operation::find && op != map_operation::contains && !is_scan(op);
}

/// Whether maps with these properties have the operation.
[[nodiscard]] constexpr bool offers(const map_properties& properties, map_operation op) noexcept {
  switch (op) {
    case map_operation::exchange:
    case map_operation::extract:
    case map_operation::update:
      return properties.exchanges;
    case map_operation::reverse_scan:
      return properties.bidirectional;
    default:
      return true;
  }
}

}  // namespace espalier
