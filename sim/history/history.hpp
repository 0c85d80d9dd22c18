#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/map/map_concept.hpp"

// The observations of a map: its contents at the start and the operations of all threads, each with the moments of its
// invocation and of its return. Keys and values are 64-bit numbers.
//
// A moment is a position in one order common to all threads: the simulator's count of steps, or natively an atomic
// counter that is advanced before and after each operation. One operation precedes another if it returned at an earlier
// moment than that of the other's invocation; at equal moments they overlap. Therefore the moments of one thread's
// events must increase, or its program order would be lost.
//
// Each thread records into its own lane, which shares nothing. The lanes are added to a history when the threads have
// ended.

namespace espalier::sim {

using moment = std::uint64_t;

/// The moment of return of an operation that did not return.
inline constexpr moment never = std::numeric_limits<moment>::max();

using map_entry = espalier::map_entry<std::uint64_t, std::uint64_t>;

/// Whether its result is a value or nothing. That of a scan is its entries, that of all others a bool.
[[nodiscard]] constexpr bool returns_value(map_operation kind) noexcept {
  return kind == map_operation::find || kind == map_operation::exchange || kind == map_operation::extract ||
         kind == map_operation::update;
}

/// Whether an operation with this result stored a value or erased one. Every recorded update stores a value.
[[nodiscard]] constexpr bool changes_map(map_operation kind, bool result) noexcept {
  const bool changes_always = kind == map_operation::insert_or_assign || kind == map_operation::exchange ||
                              kind == map_operation::update;
  return is_write(kind) && (result || changes_always);
}

/// Whether a scan of this kind visits a before b.
struct visiting_order {
  map_operation scan;

  [[nodiscard]] bool operator()(std::uint64_t a, std::uint64_t b) const noexcept {
    return scan == map_operation::reverse_scan ? b < a : a < b;
  }
};

struct operation {
  moment invoked = 0;
  /// never: the operation is pending. It may or may not have taken effect, at any moment since `invoked`.
  moment returned = never;
  /// A scan of either direction, which "scan" means below too: its start, inclusive.
  std::uint64_t key = 0;
  /// insert, insert_or_assign, exchange: the argument. update: what it adds to the value; it inserts this where the key
  /// is absent. scan: the index of its first entry in the history's pool.
  std::uint64_t value = 0;
  /// find, exchange, extract, update: the value of the key before, if any.
  std::uint64_t returned_value = 0;
  std::uint32_t thread = 0;
  /// scan: how many entries it visited.
  std::uint32_t entries = 0;
  map_operation kind = map_operation::find;
  /// The returned result. find, exchange, extract, update: whether there was a value. scan: whether it reached the end
  /// of the map, a reverse scan the beginning; a stopped scan has covered the keys from `key` to the last one visited.
  bool result = false;

  [[nodiscard]] bool pending() const noexcept { return returned == never; }
};
static_assert(sizeof(operation) <= 56);

/// Records the operations of one thread, in program order. Appending costs a push_back.
class history_lane {
 public:
  /// Reserves space for the expected number of operations.
  explicit history_lane(std::uint32_t thread, std::size_t expected = 0);

  /// Begins an operation. A previous operation that was not ended stays pending, for instance because it threw. Throws
  /// std::invalid_argument if `at` is not after the thread's previous event.
  void begin(map_operation kind, std::uint64_t key, std::uint64_t value, moment at);

  // The most recently begun operation returned. They throw std::invalid_argument if `at` is not after its beginning, or
  // if no operation of that kind is open.

  /// contains, insert, insert_or_assign, erase.
  void end(bool result, moment at);
  /// find, exchange, extract, update.
  void end_with(std::optional<std::uint64_t> before, moment at);
  void end_scan(bool reached_end, moment at);

  /// The open scan visited an entry.
  void visit(std::uint64_t key, std::uint64_t value);

  [[nodiscard]] std::span<const operation> operations() const noexcept { return operations_; }
  /// The entries of the scans; an operation's `value` is an index into it.
  [[nodiscard]] std::span<const map_entry> pool() const noexcept { return pool_; }

 private:
  operation& close(bool fits, moment at);

  std::uint32_t thread_;
  bool open_ = false;
  std::optional<moment> last_;
  std::vector<operation> operations_;
  std::vector<map_entry> pool_;
};

class history {
 public:
  /// Adds an entry that the map holds at the start. Throws std::invalid_argument if `key` was given before.
  void add_initial(std::uint64_t key, std::uint64_t value);

  void add(const history_lane& lane);

  /// Adds any operation but a scan, in any order. Throws std::invalid_argument if it returned before it began.
  void add(const operation& o);
  /// Adds a scan; its `value` and `entries` are set here.
  void add(const operation& scan, std::span<const map_entry> visited);

  /// By key.
  [[nodiscard]] std::span<const map_entry> initial() const noexcept { return initial_; }
  /// In the order of their addition.
  [[nodiscard]] std::span<const operation> operations() const noexcept { return operations_; }
  /// The entries that a scan of this history visited, in its order.
  [[nodiscard]] std::span<const map_entry> entries(const operation& scan) const;

 private:
  std::vector<map_entry> initial_;
  std::vector<operation> operations_;
  std::vector<map_entry> pool_;
};

/// "insert(7, 3) -> true", "find(7) -> absent", "update(7, +3) -> 5", "erase(7) pending",
/// "scan(5) -> 7: 3, 9: 1, end".
[[nodiscard]] std::string describe(const history& observed, const operation& o);

// Histories for people: one line per operation, by invocation, with its interval drawn.
//
//   T0   3..9   [-----]     insert(7, 3) -> true
//   T11  5..14    [-----]   find(7) -> absent
//   T2   8..        [---->  erase(7) pending

struct timeline_line {
  operation drawn;
  std::string text;
};

/// The drawing omits moments without events. In long histories several moments share a column.
void print_timeline(std::ostream& out, std::span<const timeline_line> lines);

/// The whole history.
void print_timeline(std::ostream& out, const history& observed);

}  // namespace espalier::sim
