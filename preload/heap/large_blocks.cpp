#include "preload/heap/large_blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "espalier/memory/parts/index_class.hpp"
#include "preload/heap/misuse.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {
namespace {

constexpr std::size_t unit = address_registry::unit_bytes;

/// The cache line in front of a huge block.
struct huge_front {
  std::uint64_t magic;
  std::byte* base;     // first byte of the mapping
  std::size_t mapped;  // bytes from `base` to the end of the last page
  std::size_t bytes;   // usable bytes of the block
};
static_assert(sizeof(huge_front) <= index_class::line);
constexpr std::uint64_t magic = 0x65737061'6c696572;

huge_front& front_of(void* block) noexcept {
  auto& front = *reinterpret_cast<huge_front*>(static_cast<std::byte*>(block) - index_class::line);
  if ((address(block) & (index_class::line - 1)) != 0 || front.magic != magic)
    misused("free(): invalid pointer", block);
  return front;
}

/// Usable bytes of a block: from its start to the end of its last page.
std::size_t usable_from(std::uintptr_t begin, std::size_t bytes) noexcept {
  return rounded_up(begin + bytes, page_bytes) - begin;
}

/// Bytes to map for a block that begins `begin` bytes after the base: as few as suffice, but the whole unit in which
/// the block begins. A partly mapped unit is not in the registry, for it may contain foreign mappings.
std::size_t mapped_for(std::size_t begin, std::size_t bytes) noexcept {
  return std::max(rounded_up(begin + bytes, page_bytes), rounded_up(begin + 1, unit));
}

std::size_t regions_for(std::size_t bytes) noexcept { return (bytes + region_bytes - 1) / region_bytes; }

}  // namespace

void* large_blocks::allocate(std::size_t bytes, std::size_t align, bool& zeroed) noexcept {
  // relaxed throughout: the counters are those of large_blocks.hpp. A region's owner fields are set before
  // the program has the block's address, and reach other threads with it.
  const std::size_t offset = index_colour::of_large(number_.fetch_add(1, std::memory_order_relaxed)).offset();
  if (bytes > most_in_span - (align > region_bytes ? most_align_in_span : 0) || align > most_align_in_span) {
    zeroed = true;
    return allocate_huge(bytes, align, offset);
  }
  // Alignments up to region_bytes are met within the first region, larger ones between regions.
  const std::size_t before = align <= region_bytes ? rounded_up(offset, align) : align;
  const std::size_t regions = regions_for(before + bytes);
  region* const row = spans_.take(regions, zeroed);
  if (row == nullptr) return nullptr;
  const std::size_t number = span::number_of(*row);
  std::byte* const memory = span::of(row)->memory(number);
  std::byte* const block =
      align <= region_bytes ? memory + before : memory + (-address(memory) & (align - 1));
  region& of = *region_of(block);
  of.quick_owner.store(nullptr, std::memory_order_relaxed);
  of.owner.store(nullptr, std::memory_order_relaxed);
  of.first = block;
  of.bytes = usable_from(address(block), bytes);
  of.run = static_cast<std::uint32_t>(number);
  of.run_regions = static_cast<std::uint32_t>(regions);
  of.use = region_use::large;
  return block;
}

void large_blocks::deallocate(region& of) noexcept {
  of.use = region_use::unused;
  spans_.release(span::of(&of)->slot(of.run), of.run_regions);
}

bool large_blocks::resize(region& of, std::size_t bytes) noexcept {
  if (bytes > most_in_span) return false;
  const std::byte* const memory = span::of(&of)->memory(of.run);
  const std::size_t regions = regions_for(static_cast<std::size_t>(of.first - memory) + bytes);
  if (regions < of.run_regions) return false;
  if (regions > of.run_regions) {
    if (!spans_.extend(span::of(&of)->slot(of.run), of.run_regions, regions - of.run_regions)) return false;
    of.run_regions = static_cast<std::uint32_t>(regions);
  }
  of.bytes = usable_from(address(of.first), bytes);
  return true;
}

void* large_blocks::allocate_huge(std::size_t bytes, std::size_t align, std::size_t offset) noexcept {
  constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();
  // The front has a cache line of its own.
  std::size_t begin = rounded_up(offset + index_class::line, align < unit ? align : index_class::line);
  if (align >= unit) begin = align;
  if (begin > most - 2 * unit || bytes > most - 2 * unit - begin) return nullptr;
  const std::size_t mapped = mapped_for(begin, bytes);
  auto* const base = static_cast<std::byte*>(pages_.map(mapped, align > unit ? align : unit));
  if (base == nullptr) return nullptr;
  std::byte* const block = base + begin;
  const std::size_t usable = usable_from(address(block), bytes);
  *reinterpret_cast<huge_front*>(block - index_class::line) = {magic, base, mapped, usable};
  registry_.enter(base, mapped, address_registry::huge);
  huge_count_.fetch_add(1, std::memory_order_relaxed);
  huge_bytes_.fetch_add(usable, std::memory_order_relaxed);
  return block;
}

void large_blocks::deallocate_huge(void* block) noexcept {
  const huge_front front = front_of(block);
  huge_count_.fetch_sub(1, std::memory_order_relaxed);
  huge_bytes_.fetch_sub(front.bytes, std::memory_order_relaxed);
  // Before they are unmapped: another thread may then map something there.
  registry_.enter(front.base, front.mapped, address_registry::foreign);
  // Where the kernel refuses to unmap them, the addresses stay mapped, without memory.
  if (!pages_.unmap(front.base, front.mapped))
    static_cast<void>(page_source::discard(front.base, front.mapped));
}

std::size_t large_blocks::usable_bytes_huge(void* block) noexcept { return front_of(block).bytes; }

void* large_blocks::resize_huge(void* block, std::size_t bytes) noexcept {
  const huge_front old = front_of(block);
  const auto begin = static_cast<std::size_t>(static_cast<std::byte*>(block) - old.base);
  if (bytes <= most_in_span || bytes > std::numeric_limits<std::ptrdiff_t>::max() - 2 * unit - begin)
    return nullptr;
  const std::size_t mapped = mapped_for(begin, bytes);
  std::byte* base = old.base;
  if (mapped < old.mapped) {
    // As in deallocate_huge(). Where the pages stay mapped, the block keeps them.
    const std::size_t whole = mapped & ~(unit - 1);
    registry_.enter(old.base + whole, old.mapped - whole, address_registry::foreign);
    if (!pages_.unmap(old.base + mapped, old.mapped - mapped)) {
      registry_.enter(old.base, old.mapped, address_registry::huge);
      static_cast<void>(page_source::discard(old.base + mapped, old.mapped - mapped));
      return block;
    }
  } else if (mapped > old.mapped && pages_.grow(old.base, old.mapped, mapped)) {
    registry_.enter(old.base, mapped, address_registry::huge);
  } else if (mapped > old.mapped) {
    base = static_cast<std::byte*>(pages_.map(mapped, unit));
    if (base == nullptr) return nullptr;
    // Before they are moved away: anything may then be mapped there, this heap's next span too.
    registry_.enter(old.base, old.mapped, address_registry::foreign);
    if (!pages_.move(old.base, old.mapped, base, mapped)) {
      registry_.enter(old.base, old.mapped, address_registry::huge);
      return nullptr;
    }
    registry_.enter(base, mapped, address_registry::huge);
    block = base + begin;
  }
  const std::size_t usable = usable_from(address(block), bytes);
  front_of(block) = {magic, base, mapped, usable};
  huge_bytes_.fetch_add(usable - old.bytes, std::memory_order_relaxed);
  return block;
}

}  // namespace espalier::preload
