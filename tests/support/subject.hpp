#pragma once

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
#include <vector>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/memory/placement_concept.hpp"

// A map as the suites see it: behind virtual functions, so that a test body is compiled once and not once for each of
// dozens of map types. Keys and values are 64-bit here, in ascending order; a codec (subject_of.hpp) translates for
// maps of other types.

namespace espalier::test {

template <class Signature>
class function_ref;

/// A reference to a callable of the caller, for the length of one call. Unlike std::function it never allocates, so
/// that it can be used in a region where allocations are made to fail.
template <class Result, class... Arguments>
class function_ref<Result(Arguments...)> {
 public:
  template <class Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, function_ref> &&
             std::is_invocable_r_v<Result, Callable&, Arguments...>)
  function_ref(Callable&& callable) noexcept  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(
              std::forward<Arguments>(arguments)...);
        }) {}

  Result operator()(Arguments... arguments) const {
    return call_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* object_;
  Result (*call_)(void*, Arguments...);
};

using key = std::uint64_t;
using value = std::uint64_t;

using entry_pair = std::pair<key, value>;

/// The contract in one of its two forms: every call pins by itself, or all share one guard.
class operations {
 public:
  virtual std::optional<value> find(key k) = 0;
  virtual bool contains(key k) = 0;
  virtual std::size_t find_batch(std::span<const key> keys, std::span<std::optional<value>> results) = 0;
  virtual std::optional<entry_pair> lower_bound(key k) = 0;
  virtual std::optional<entry_pair> first() = 0;
  virtual bool insert(key k, value v) = 0;
  virtual bool try_emplace(key k, value v) = 0;
  virtual bool insert_or_assign(key k, value v) = 0;
  virtual bool erase(key k) = 0;
  virtual std::size_t scan(key from, function_ref<bool(key, value)> visit) = 0;
  virtual std::size_t scan(key from, key to, function_ref<bool(key, value)> visit) = 0;
  /// The map receives a visitor that returns void.
  virtual std::size_t scan_to_end(key from, function_ref<void(key, value)> visit) = 0;

  // The same in both forms: they pin by themselves.
  /// A range-for over the map, which is left where visit returns false.
  virtual void for_each(function_ref<bool(key, value)> visit) = 0;
  virtual std::size_t size() = 0;
  virtual bool empty() = 0;
  virtual void clear() = 0;

  /// Says whether the map has the following operations, which otherwise throw std::logic_error.
  [[nodiscard]] virtual const map_properties& properties() const = 0;
  virtual std::optional<entry_pair> last() = 0;
  virtual std::size_t reverse_scan(key from, function_ref<bool(key, value)> visit) = 0;
  virtual std::size_t reverse_scan(key from, key to, function_ref<bool(key, value)> visit) = 0;
  virtual std::optional<value> exchange(key k, value v) = 0;
  virtual std::optional<value> extract(key k) = 0;
  virtual std::optional<value> update(key k, function_ref<std::optional<value>(std::optional<value>)> f) = 0;

 protected:
  ~operations() = default;
};

/// A cursor of a map.
class position {
 public:
  virtual void seek(key k) = 0;
  virtual void seek_first() = 0;
  virtual void next() = 0;
  /// Nothing where the cursor is at no entry.
  virtual std::optional<entry_pair> entry() = 0;

  // Of bidirectional maps.
  virtual void seek_last() = 0;
  virtual void previous() = 0;

 protected:
  ~position() = default;
};

/// A recent state of a reclaimer; exact at quiescence.
struct reclaimer_figures {
  std::uint64_t retired;
  std::uint64_t reclaimed;
  /// hw::thread_slot() of the pinned thread that is furthest behind; nullopt if none is pinned.
  std::optional<std::uint32_t> oldest_slot;
  /// Attempts to advance that failed since the last one that succeeded.
  std::uint64_t refusals;
};

/// One map of some type.
class subject {
 public:
  subject() = default;
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;
  virtual ~subject() = default;

  [[nodiscard]] virtual operations& plain() = 0;
  /// Calls body with the operations of one guard, which lives for that call.
  virtual void with_guard(function_ref<void(operations&)> body) = 0;

  /// Calls body with a cursor at no entry.
  virtual void with_cursor(function_ref<void(position&)> body) = 0;
  /// A loop over the range from a key on, up to another one if there is one.
  virtual void for_each_in(key from, std::optional<key> to, function_ref<void(key, value)> visit) = 0;

  // Quiescent only.
  virtual void bulk_load(std::span<const entry_pair> entries, unsigned threads) = 0;
  virtual void visit_blocks(function_ref<void(const void*, std::size_t, memory_role)> visit) = 0;
  [[nodiscard]] virtual const char* check_invariants() = 0;
  [[nodiscard]] virtual memory_usage usage() = 0;
  /// Reclaims what was retired; returns the number of entries that still wait.
  virtual std::size_t collect() = 0;

  /// The reclaimer's description of its state; callable at any time.
  [[nodiscard]] virtual std::string reclaimer_state() = 0;
  /// The same in figures; nullopt if it keeps none.
  [[nodiscard]] virtual std::optional<reclaimer_figures> reclaimed() = 0;
};

/// A type of map, and how to make one.
struct subject_type {
  std::string name;
  /// The one suite that takes it; empty for all that may.
  std::string_view only_in;
  std::string_view algorithm;
  std::string_view variant;
  /// Empty for the catalogue's own keys and values.
  std::string_view codec;
  map_properties properties;
  key largest_key;
  /// Retired memory is reclaimed (the reclaimer is not leaky).
  bool reclaims;
  std::string_view placement;
  /// Its blocks come directly from malloc.
  bool from_heap;
  std::string_view layout;
  /// Its threads queue for a lock, which is handed to the next one, whether that runs or not.
  bool queues = false;
  std::optional<std::size_t> node_bytes;
  /// In one node, at most; 0: unknown. Where there are several, few operations create or retire a block.
  unsigned node_entries = 1;
  std::vector<node_type> node_types;

  /// With a domain from make_domain(), or null for a map with a reclaimer of its own.
  std::function<std::unique_ptr<subject>(const std::shared_ptr<void>& domain)> make;
  /// A reclaimer that maps of this type can share; null if they cannot.
  std::shared_ptr<void> (*make_domain)();
  /// Constructs and destroys a map in place and allocates nothing else, for the fault suite.
  std::function<void()> construct_only;
};

/// Whether the suites perform the operation on maps of this type. A reverse scan is the scan of a mirrored one.
[[nodiscard]] inline bool has(const subject_type& type, map_operation what) noexcept {
  return what != map_operation::reverse_scan && offers(type.properties, what);
}

inline constexpr std::string_view mirrored_suffix = "+mirrored";

/// The same maps in a mirror: their key k is `largest_key - k` here. What the suites check of first, lower_bound, scan
/// and the range-for thereby holds for last and reverse_scan.
[[nodiscard]] subject_type mirrored(subject_type type);

}  // namespace espalier::test
