#pragma once

#include <memory_resource>

#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// Takes blocks from any std::pmr::memory_resource that several threads may call at once (such as
/// std::pmr::synchronized_pool_resource; not monotonic_buffer_resource). The resource must outlive the map.
class pmr_placement {
 public:
  static constexpr bool releases_on_destruction = false;
  static constexpr std::string_view name = "pmr";

  explicit pmr_placement(std::pmr::memory_resource* resource = std::pmr::get_default_resource()) noexcept
      : resource_(resource) {}

  [[nodiscard]] void* allocate(const block& b, const void* /*near*/ = nullptr) {
    blocks_.reserve();  // before the block exists
    bytes_.reserve();
    void* const memory = resource_->allocate(b.bytes, b.align);
    blocks_.add(1);
    bytes_.add(static_cast<std::int64_t>(b.bytes));
    return memory;
  }

  void deallocate(void* memory, const block& b) noexcept {
    blocks_.add(-1);
    bytes_.add(-static_cast<std::int64_t>(b.bytes));
    resource_->deallocate(memory, b.bytes, b.align);
  }

  [[nodiscard]] memory_usage usage() const noexcept {
    const auto bytes = static_cast<std::uint64_t>(bytes_.read());
    return {static_cast<std::uint64_t>(blocks_.read()), bytes, bytes};
  }

 private:
  std::pmr::memory_resource* resource_;
  striped_counter blocks_;
  striped_counter bytes_;
};

static_assert(placement<pmr_placement>);

}  // namespace espalier
