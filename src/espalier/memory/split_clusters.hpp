#pragma once

#include <bit>
#include <cstddef>
#include <string_view>

#include "espalier/hw/cache_line.hpp"
#include "espalier/memory/cluster_slab.hpp"
#include "espalier/memory/made_once.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/split_block.hpp"

namespace espalier {

/// As clustered, for nodes of which a seek reads the first Front bytes only. A request is for these bytes, which
/// lie beside the node's parent, two or more to a line. Each node has Rest bytes more, elsewhere, at rest_of(front).
/// Blocks of other sizes or roles lie as in segregated.
///
/// A block takes Front + Rest bytes, without the rounding of a whole node to its size class.
template <std::size_t Front, std::size_t Rest>
class split_clusters {
  static_assert(std::has_single_bit(Front) && Front >= hw::cache_line_bytes / 4 &&
                    Front < hw::cache_line_bytes,
                "two or four fronts fill a line");
  static_assert(Rest % alignof(void*) == 0, "the rest of a block is a multiple of 8 bytes");
  static constexpr split_block shape{Front, Rest};

 public:
  static constexpr bool releases_on_destruction(std::size_t bytes) noexcept {
    return segregated::releases_on_destruction(bytes);
  }
  static constexpr std::string_view name = "split_clusters";
  static constexpr std::size_t front_bytes = Front;
  static constexpr std::size_t rest_bytes = Rest;

  split_clusters() = default;
  split_clusters(const split_clusters&) = delete;
  split_clusters& operator=(const split_clusters&) = delete;

  [[nodiscard]] static void* rest_of(const void* front) noexcept { return shape.rest_of(front); }

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    if (!splits(b)) return others_.allocate(b, near);
    return nodes_.get_or_make(shape, static_cast<unsigned>(hw::cache_line_bytes / Front)).allocate(near);
  }

  void deallocate(void* memory, const block& b) noexcept {
    if (!splits(b)) return others_.deallocate(memory, b);
    nodes_.get()->deallocate(memory);
  }

  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum = others_.usage();
    if (const cluster_slab* const one = nodes_.get()) sum += one->usage();
    return sum;
  }
  [[nodiscard]] static std::size_t bytes_held(const void* memory, const block& b) noexcept {
    return splits(b) ? Front + Rest : segregated::bytes_held(memory, b);
  }

 private:
  static constexpr bool splits(const block& b) noexcept {
    return b.role == memory_role::node && b.bytes == Front && b.align <= Front;
  }

  made_once<cluster_slab> nodes_;
  segregated others_;
};

static_assert(placement<split_clusters<32, 24>>);

}  // namespace espalier
