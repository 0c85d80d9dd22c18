#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::sim {

/// A program's access to memory, as reported by the compiler's instrumentation. A failed compare-exchange counts as
/// `modify` too: processors take the line for writing before they compare.
enum class access_kind : std::uint8_t { read, write, atomic_load, atomic_store, modify };

[[nodiscard]] constexpr bool is_write(access_kind kind) noexcept {
  return kind == access_kind::write || kind == access_kind::atomic_store || kind == access_kind::modify;
}
[[nodiscard]] constexpr bool is_atomic(access_kind kind) noexcept { return kind >= access_kind::atomic_load; }

struct access {
  std::uintptr_t address;
  std::uint32_t bytes;
  access_kind kind;
  /// Where in the program: the return address of the callback.
  const void* where;
};

}  // namespace espalier::sim
