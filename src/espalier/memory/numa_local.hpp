#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "espalier/hw/affinity.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/memory/parts/made_once.hpp"
#include "espalier/memory/parts/page_blocks.hpp"
#include "espalier/memory/parts/size_class.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// Each block lies in pages bound to the NUMA node on which the requesting thread runs at that moment, and never
/// moves to another node: only threads of its own node use it again after a thread elsewhere frees it. Until then
/// up to 128 blocks of a size wait in each foreign thread that frees them, which hands them on by the batch
/// (memory/parts/block_cache). Within a node blocks lie as in segregated.
///
/// With one node, or where the system forbids binding, everything else is the same, and binding() says so.
///
/// Allocation is O(1), beside asking for the processor. With several nodes deallocation is O(log blocks), times the
/// nodes if the block belongs to another one. Blocks above 2 MiB are system calls. All memory returns to the OS
/// with the placement.
class numa_local {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "numa_local";

  /// The processor on which the caller runs; nothing stands for any processor of the first node. Must not throw.
  using cpu_function = std::function<std::optional<unsigned>()>;

  /// This machine. Throws std::runtime_error if hwloc cannot describe it.
  numa_local() : numa_local(hw::topology::system()) {}
  /// The nodes and processors of a description. Pages are bound if it describes this machine.
  explicit numa_local(const hw::topology& machine, cpu_function current_cpu = hw::current_cpu);
  numa_local(const numa_local&) = delete;
  numa_local& operator=(const numa_local&) = delete;

  enum class page_binding : std::uint8_t {
    bound,      ///< pages are bound to their nodes
    one_node,   ///< there is nothing to choose
    forbidden,  ///< the system does not let this process bind pages to all of its nodes
    elsewhere   ///< the description is of another machine
  };

  /// The constructor finds it out with a page for each node.
  [[nodiscard]] page_binding binding() const noexcept { return binding_; }
  [[nodiscard]] bool binds_pages() const noexcept { return binding_ == page_binding::bound; }

  /// Throws std::bad_alloc with nothing changed.
  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr);
  void deallocate(void* memory, const block& b) noexcept;
  [[nodiscard]] memory_usage usage() const noexcept;
  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept;

  /// The operating system's index of the node to which a block belongs, whether or not its pages are bound.
  [[nodiscard]] unsigned numa_node_of(const void* memory, const block& b) const noexcept;

 private:
  struct node_memory {
    node_memory(unsigned numa_node, std::optional<unsigned> bind_to)
        : os_index(numa_node), bound_to(bind_to), large(front_align, bind_to) {}

    const unsigned os_index;
    const std::optional<unsigned> bound_to;
    std::array<std::array<made_once<slab>, size_class::count>, memory_role_count> slabs{};
    page_blocks large;
  };

  static constexpr std::size_t front_align = 2 * size_class::largest;

  // Indices into nodes_.
  [[nodiscard]] std::size_t current_node() const noexcept;
  [[nodiscard]] std::size_t home_of(const void* memory, const block& b) const noexcept;
  /// For a block that has a size class.
  [[nodiscard]] static auto& slab_in(auto& node, const block& b) noexcept {
    const std::size_t index = size_class::index_of(size_class::bytes_for(b.bytes, b.align));
    return node.slabs[static_cast<std::size_t>(b.role)][index];
  }

  cpu_function current_cpu_;
  std::vector<std::uint32_t> node_of_cpu_;  // by the processor's number, an index into nodes_
  std::deque<node_memory> nodes_;
  page_binding binding_ = page_binding::one_node;
};

static_assert(placement<numa_local>);

[[nodiscard]] constexpr std::string_view to_string(numa_local::page_binding binding) noexcept {
  switch (binding) {
    case numa_local::page_binding::bound:
      return "bound";
    case numa_local::page_binding::one_node:
      return "one node";
    case numa_local::page_binding::forbidden:
      return "forbidden";
    case numa_local::page_binding::elsewhere:
      break;
  }
  return "not this machine";
}

}  // namespace espalier
