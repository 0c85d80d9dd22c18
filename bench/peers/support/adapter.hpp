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
#include "espalier/reclaim/no_guard.hpp"

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

/// supports_erase and supports_scan are false if the adapter lacks the operation, which then throws std::logic_error.
template <class Adapter>
class peer_map : public map_facade<peer_map<Adapter>, std::uint64_t, std::uint64_t, std::less<>> {
  using facade = map_facade<peer_map, std::uint64_t, std::uint64_t, std::less<>>;

 public:
  using key_type = std::uint64_t;
  using mapped_type = std::uint64_t;
  using guard_type = no_guard;
  using thread_scope = typename Adapter::thread_scope;

  static constexpr map_properties properties = Adapter::properties;
  static constexpr bool supports_erase = requires(Adapter& a, key_type key) { a.erase(key); };
  static constexpr bool supports_scan =
      requires(Adapter& a, key_type key, ignore_entry visitor) { a.scan(key, visitor); };

  peer_map() = default;

  using facade::contains;
  using facade::erase;
  using facade::find;
  using facade::insert;
  using facade::insert_or_assign;
  using facade::scan;

  [[nodiscard]] guard_type pin() const noexcept { return {}; }

  [[nodiscard]] std::optional<mapped_type> find(guard_type&, const key_type& key) const {
    return adapter_.find(key);
  }

  [[nodiscard]] bool contains(guard_type&, const key_type& key) const { return adapter_.contains(key); }

  bool insert(guard_type&, const key_type& key, const mapped_type& value) {
    return adapter_.insert(key, value);
  }

  bool insert_or_assign(guard_type&, const key_type& key, const mapped_type& value) {
    return adapter_.insert_or_assign(key, value);
  }

  bool erase(guard_type&, const key_type& key) {
    if constexpr (supports_erase)
      return adapter_.erase(key);
    else
      refuse(properties.name, "erase");
  }

  template <class Visitor>
  std::size_t scan(guard_type&, const key_type& from, Visitor&& visitor) const {
    if constexpr (supports_scan)
      return adapter_.scan(from, visitor);
    else
      refuse(properties.name, "scan");
  }

 private:
  mutable Adapter adapter_;  // mutable because its reads are not const
};

}  // namespace espalier::peers
