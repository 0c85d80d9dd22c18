#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <type_traits>

#include "arguments.hpp"

namespace espalier::bench {

/// `count` zeroed elements that do not come from malloc and are never freed. Ends the program if there is no memory.
template <class T>
  requires std::is_trivially_destructible_v<T>
[[nodiscard]] std::span<T> outside_malloc(std::size_t count) noexcept {
  void* const pages =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) refuse("no memory for what is not from", "malloc");
  return {static_cast<T*>(pages), count};
}

}  // namespace espalier::bench
