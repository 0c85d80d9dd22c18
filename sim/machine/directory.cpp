#include "sim/machine/directory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace espalier::sim {

void directory::releaser::operator()(directory_entry* p) const noexcept { std::free(p); }

directory::chunk directory::make_chunk() {
  constexpr std::size_t bytes = chunk_lines * sizeof(directory_entry);
  static_assert(bytes == 2u << 20, "a chunk is one huge page");
  void* const memory = std::aligned_alloc(bytes, bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  // Optional: entries are visited at random, and most of the cost is the host's TLB misses.
  madvise(memory, bytes, MADV_HUGEPAGE);
  auto* const entries = static_cast<directory_entry*>(memory);
  std::uninitialized_value_construct_n(entries, chunk_lines);
  return chunk(entries);
}

}  // namespace espalier::sim
