#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

// Common parts of the adapters for other libraries' maps. An adapter is a class with
//
//   properties        as in map_concept.hpp
//   thread_scope      a thread holds one of these while it uses the map
//   find, contains, insert, insert_or_assign
//   erase, scan       unless the library has no such operation that may run beside the others
//
// with the semantics of concurrent_ordered_map and no guard: either there is nothing to protect, or the library
// protects each operation by itself. peer_map turns it into a concurrent_ordered_map.
//
// A map of strings gets its keys as views.
//
// An adapter must neither flatter nor slow down its library: it calls the operation that a careful user would, with the
// library's own defaults, and allocates from the linked malloc, as Espalier's maps do.

namespace espalier::peers {

/// For libraries that need not be told of a thread.
struct no_thread_scope {
  no_thread_scope() noexcept {}  // user-provided, so that an unused variable gives no warning
  no_thread_scope(const no_thread_scope&) = delete;
  no_thread_scope& operator=(const no_thread_scope&) = delete;
};

/// A value that readers copy while others overwrite it. It is copied only while the library builds a node, when no
/// other thread sees the cell.
class value_cell {
 public:
  value_cell() noexcept = default;
  value_cell(std::uint64_t value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)
  value_cell(const value_cell& other) noexcept : value_(other.value_.load(std::memory_order_relaxed)) {}
  value_cell& operator=(const value_cell&) = delete;

  // order: write (release) -> read (acquire): the writer's earlier actions are visible with its value.
  [[nodiscard]] std::uint64_t read() const noexcept { return value_.load(std::memory_order_acquire); }
  void write(std::uint64_t value) noexcept { value_.store(value, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

[[noreturn]] inline void refuse(std::string_view map, std::string_view operation) {
  throw std::logic_error(std::string(map)
                             .append(" has no concurrent ")
                             .append(operation)
                             .append(": ask supports_")
                             .append(operation)
                             .append(" first"));
}

/// A supports_ constant is false if the adapter lacks the operation, which then throws std::logic_error. first(),
/// lower_bound(), empty() and the range-for are scans.
template <class Adapter, class Key = std::uint64_t>
class peer_map
    : public map_facade<peer_map<Adapter, Key>, Key, std::uint64_t, std::less<>, no_guard, uncounted_size> {
  using facade = map_facade<peer_map, Key, std::uint64_t, std::less<>, no_guard, uncounted_size>;
  friend facade;

 public:
  using typename facade::guard_type;
  using typename facade::key_type;
  using typename facade::key_view;
  using typename facade::mapped_type;
  using thread_scope = typename Adapter::thread_scope;

  static constexpr map_properties properties = Adapter::properties;
  static constexpr bool supports_erase = requires(Adapter& a, key_view key) { a.erase(key); };
  static constexpr bool supports_scan =
      requires(Adapter& a, key_view key, ignore_entry visitor) { a.scan(key, visitor); };
  /// No library counts its keys beside updates as Espalier's maps do, and a count here would slow its updates down.
  static constexpr bool supports_size = false;

  peer_map() = default;

  [[nodiscard]] guard_type pin() const noexcept { return {}; }

 private:
  std::optional<mapped_type> do_find(guard_type&, key_view key) const { return adapter_.find(key); }

  bool do_contains(guard_type&, key_view key) const { return adapter_.contains(key); }

  bool do_insert(guard_type&, key_view key, const mapped_type& value) { return adapter_.insert(key, value); }

  bool do_assign(guard_type&, key_view key, const mapped_type& value) {
    return adapter_.insert_or_assign(key, value);
  }

  bool do_erase(guard_type&, key_view key) {
    if constexpr (supports_erase)
      return adapter_.erase(key);
    else
      refuse(properties.name, "erase");
  }

  template <class Visit>
  void do_scan(guard_type&, const scan_bound<key_type, std::less<>>& bound, Visit&& visit) const {
    if constexpr (supports_scan) {
      const key_type least{};
      const key_view from = bound.key() ? key_view(*bound.key()) : key_view(least);
      if (bound.excludes_key())
        adapter_.scan(
            from, [&](key_view key, mapped_type value) { return !bound.admits(key) || visit(key, value); });
      else
        adapter_.scan(from, visit);
    } else {
      refuse(properties.name, "scan");
    }
  }

  [[nodiscard]] std::size_t do_size() const { refuse(properties.name, "size"); }

  mutable Adapter adapter_;  // mutable because its reads are not const
};

}  // namespace espalier::peers
