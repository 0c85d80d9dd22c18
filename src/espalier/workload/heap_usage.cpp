#include "espalier/workload/heap_usage.hpp"

#include <malloc.h>

#include <cstddef>

// jemalloc's own function, if the program is linked or preloaded with it.
extern "C" __attribute__((weak)) int mallctl(const char* name, void* old_value, size_t* old_bytes,
                                             void* new_value, size_t new_bytes);

namespace espalier::workload {

std::string_view malloc_name() noexcept { return mallctl != nullptr ? "jemalloc" : "libc"; }

std::optional<std::uint64_t> heap_bytes_in_use() noexcept {
  if (mallctl != nullptr) {
    std::uint64_t epoch = 1;  // any write makes jemalloc refresh its statistics
    std::size_t bytes = 0;
    std::size_t size = sizeof bytes;
    if (mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch) != 0) return std::nullopt;
    if (mallctl("stats.allocated", &bytes, &size, nullptr, 0) != 0) return std::nullopt;
    return bytes;
  }
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return std::nullopt;
#endif
}

}  // namespace espalier::workload
