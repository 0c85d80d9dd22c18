#pragma once

#include <cstddef>
#include <limits>
#include <new>

#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// A placement as the allocator of a standard container. Copies share the placement, which must outlive
/// them all. Two are equal if they share one placement.
template <class T, placement Placement, memory_role Role = memory_role::node>
class placement_allocator {
 public:
  using value_type = T;

  template <class U>
  struct rebind {  // std::allocator_traits cannot rebind past Role by itself
    using other = placement_allocator<U, Placement, Role>;
  };

  explicit placement_allocator(Placement& source) noexcept : source_(&source) {}
  template <class U>
  placement_allocator(
      const placement_allocator<U, Placement, Role>& other) noexcept  // NOLINT(google-explicit-constructor)
      : source_(&other.source()) {}

  /// Throws std::bad_alloc; std::bad_array_new_length where n objects have no size.
  [[nodiscard]] T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(source_->allocate(request(n), nullptr));
  }
  void deallocate(T* memory, std::size_t n) noexcept { source_->deallocate(memory, request(n)); }

  [[nodiscard]] Placement& source() const noexcept { return *source_; }

  template <class U>
  friend bool operator==(const placement_allocator& a,
                         const placement_allocator<U, Placement, Role>& b) noexcept {
    return &a.source() == &b.source();
  }

 private:
  static constexpr block request(std::size_t n) noexcept { return {n * sizeof(T), alignof(T), Role}; }

  Placement* source_;
};

}  // namespace espalier
