#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

// The heap of a simulated program, at addresses that are the same in every run. It serves the program's operator new,
// its map_pages and, through shadow_heap, its maps' blocks.

namespace espalier::sim {

/// A thread's action on a block, and its place in the program, for reports.
struct block_event {
  static constexpr std::size_t frames = 8;
  std::uint64_t step = 0;
  unsigned fiber = 0;
  bool happened = false;
  std::array<const void*, frames> callers{};  // innermost first, null-terminated

  /// Records the running fiber's call stack.
  static block_event now(unsigned fiber, std::uint64_t step) noexcept;
};

enum class block_state : std::uint8_t { live, retired, freed };

/// One allocation, kept after its end.
struct block_record {
  std::uintptr_t address;
  std::size_t bytes;
  block_state state;
  block_event allocated;
  block_event retired;
  block_event freed;
};

/// It allocates nothing from itself; the simulator's own data live elsewhere.
class heap {
 public:
  enum class policy : std::uint8_t {
    /// A freed block is never reused: every later access is detected.
    quarantine,
    /// A freed block is the next of its size to be handed out: detects faults that need an address to recur.
    reuse,
    /// As reuse, but without records, and blocks lie end to end by size class: for machine runs.
    plain,
  };

  heap();
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;

  /// Drops all records: all addresses are free again.
  void reset(policy p);

  /// Null if the arena is full. Alignment is a power of two.
  void* allocate(std::size_t bytes, std::size_t align, const block_event& by);

  /// Frees a block. Returns what is wrong with freeing this address; null if it was freed.
  const char* deallocate(void* memory, const block_event& by);

  /// The usable bytes of a block of this heap.
  [[nodiscard]] std::size_t usable_bytes(const void* memory) noexcept;

  /// Zeroed pages, as from the system.
  void* map(std::size_t bytes, std::size_t align);
  void unmap(void* memory, std::size_t bytes) noexcept;

  /// The block that contains an address of the heap; null if the address is outside every block ever allocated. Only
  /// with a policy that keeps records.
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
  // By rounded size and alignment; plain: by thread and class. Accessed by key, never iterated.
  std::unordered_map<std::uint64_t, free_list> free_;
  std::unordered_map<std::uintptr_t, std::uint64_t> plain_large_;
  std::vector<std::uint8_t> page_class_;  // plain: the class of a 4 KiB page
};

}  // namespace espalier::sim
