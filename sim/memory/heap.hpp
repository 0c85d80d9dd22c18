#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

// The heap of a simulated program, at addresses that are the same in every run: what its operator new, its
// map_pages and, through shadow_heap, its maps' blocks come from.

namespace espalier::sim {

/// Who did something to a block, and where: for reports.
struct block_event {
  static constexpr std::size_t frames = 8;
  std::uint64_t step = 0;
  unsigned fiber = 0;
  bool happened = false;
  std::array<const void*, frames> callers{};  // innermost first, null-terminated

  /// Takes the running fiber's call stack.
  static block_event now(unsigned fiber, std::uint64_t step) noexcept;
};

enum class block_state : std::uint8_t { live, retired, freed };

/// One allocation, remembered after its end.
struct block_record {
  std::uintptr_t address;
  std::size_t bytes;
  block_state state;
  block_event allocated;
  block_event retired;
  block_event freed;
};

/// Allocates nothing from itself; the simulator's own data live elsewhere.
class heap {
 public:
  enum class policy : std::uint8_t {
    /// A freed block is never used again: whoever still touches it is caught.
    quarantine,
    /// A freed block is the next of its size to be handed out: what reuse of addresses breaks is found.
    reuse,
    /// As reuse, nothing is remembered and blocks lie end to end by size class: for machine runs.
    plain,
  };

  heap();
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;

  /// Forgets everything: all addresses are free again.
  void reset(policy p);

  /// Null where the arena is full. Alignment is a power of two.
  void* allocate(std::size_t bytes, std::size_t align, const block_event& by);

  /// What is wrong with freeing this address, or null; then it is freed.
  const char* deallocate(void* memory, const block_event& by);

  /// Bytes that a block of ours has room for.
  [[nodiscard]] std::size_t usable_bytes(const void* memory) noexcept;

  /// Zeroed pages, as from the system.
  void* map(std::size_t bytes, std::size_t align);
  void unmap(void* memory, std::size_t bytes) noexcept;

  /// The block in which an address of the heap lies, or null: outside every block ever allocated. Only with
  /// a policy that remembers.
  [[nodiscard]] block_record* find(std::uintptr_t address) noexcept {
    const std::size_t granule = (address - first()) / granule_bytes;
    if (granule >= owner_.size() || owner_[granule] == 0) return nullptr;
    return &blocks_[owner_[granule] - 1];
  }
  [[nodiscard]] bool remembers() const noexcept { return policy_ != policy::plain; }

  /// Blocks allocated and not freed. Quarantine and reuse only.
  [[nodiscard]] std::vector<const block_record*> live() const;

 private:
  static constexpr std::size_t granule_bytes = 16;
  static constexpr std::size_t red_zone_bytes = 16;

  static std::uintptr_t first() noexcept;
  void* carve(std::size_t bytes, std::size_t align, std::size_t gap);
  void remember(void* memory, std::size_t bytes, const block_event& by);
  static std::size_t class_of(std::size_t bytes) noexcept;

  policy policy_ = policy::quarantine;
  std::uintptr_t next_ = 0;
  std::uintptr_t next_page_ = 0;
  std::uintptr_t dirty_page_end_ = 0;
  std::vector<std::uint32_t> owner_;  // by granule: 1 + index of the block, or 0
  std::vector<block_record> blocks_;
  struct free_list {
    std::vector<void*> blocks;
    std::uintptr_t run_next = 0;
    std::uintptr_t run_end = 0;
  };
  // By rounded size and alignment; plain: by thread and class. Looked up, never iterated.
  std::unordered_map<std::uint64_t, free_list> free_;
  std::unordered_map<std::uintptr_t, std::uint64_t> plain_large_;
  std::vector<std::uint8_t> page_class_;  // plain: which class a 4 KiB page serves
};

}  // namespace espalier::sim
