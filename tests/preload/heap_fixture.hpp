#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "preload/heap/thread_heap.hpp"
#include "preload/heap/thread_heaps.hpp"

namespace espalier::preload {

/// Zeroed before the program starts; each test leaves it as it was.
inline address_registry test_registry;

/// Heaps of their own, whose addresses go with the test.
struct heap_fixture : ::testing::Test {
  ~heap_fixture() override { heaps.unmap_all(); }

  static void* allocate(thread_heap& from, std::size_t bytes) {
    void* const block = from.allocate_quickly(bytes);
    return block != nullptr ? block : from.allocate(bytes);
  }
  static void deallocate(thread_heap& by, void* block) {
    if (!by.deallocate_quickly(test_registry, block)) by.deallocate(block);
  }
  /// So many full regions of one heap: a block of each.
  [[nodiscard]] std::vector<void*> one_of_each_full_region(thread_heap& from, std::size_t regions,
                                                           std::size_t bytes) {
    std::vector<void*> first;
    region* last = nullptr;
    const std::size_t before = heaps.count().regions;
    while (heaps.count().regions <= before + regions) {
      void* const block = allocate(from, bytes);
      if (region_of(block) != last) first.push_back(block);
      last = region_of(block);
    }
    first.resize(regions);
    return first;
  }
  static std::size_t usable(void* block) { return usable_bytes(test_registry, block); }

  thread_heaps heaps{test_registry};
  thread_heap& mine = *heaps.adopt();
};

}  // namespace espalier::preload
