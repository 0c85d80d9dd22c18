#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

// What the adapters of other libraries' maps have in common. An adapter models concurrent_ordered_map, and
// says beyond that:
//
//   supports_erase, supports_scan   false where the library has no such operation that may run beside the
//                                   others; the adapter's operation then throws std::logic_error
//   thread_scope                    each thread that touches the map holds one of these meanwhile
//
// An adapter shall neither flatter nor slow down its library: it calls the operation that a careful user
// would, with the library's own defaults, and allocates from the malloc that is linked, as our maps do.

namespace espalier::peers {

/// For libraries to which a thread need not be made known.
struct no_thread_scope {
  no_thread_scope() noexcept {}  // user-provided, so that an unused variable gives no warning
  no_thread_scope(const no_thread_scope&) = delete;
  no_thread_scope& operator=(const no_thread_scope&) = delete;
};

/// A value that readers copy while others overwrite it. Copies only where the library builds its nodes, when
/// no other thread sees the cell.
class value_cell {
 public:
  value_cell() noexcept = default;
  value_cell(std::uint64_t value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)
  value_cell(const value_cell& other) noexcept : value_(other.value_.load(std::memory_order_relaxed)) {}
  value_cell& operator=(const value_cell&) = delete;

  // order: write (release) -> read (acquire): what the writer did before is seen with its value.
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

}  // namespace espalier::peers
