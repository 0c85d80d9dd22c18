#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier::workload {

/// "jemalloc" if the process uses it, else "libc".
[[nodiscard]] std::string_view malloc_name() noexcept;

/// Bytes that the process has allocated from malloc and not freed, counted in the sizes that malloc holds.
[[nodiscard]] std::optional<std::uint64_t> heap_bytes_in_use() noexcept;

}  // namespace espalier::workload
