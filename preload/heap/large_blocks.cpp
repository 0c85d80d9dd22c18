#include "preload/heap/large_blocks.hpp"

#include <cstdint>
#include <limits>

#include "espalier/memory/index_colour.hpp"
#include "preload/heap/misuse.hpp"
#include "preload/kernel/page_bytes.hpp"

namespace espalier::preload {
namespace {

constexpr std::size_t unit = address_registry::unit_bytes;

/// The line in front of a huge block.
struct huge_front {
  std::uint64_t magic;
  std::byte* base;       // of its addresses
  std::size_t reserved;  // of these, from the base
  std::size_t bytes;     // that the block may use
};
static_assert(sizeof(huge_front) <= index_class::line);
constexpr std::uint64_t magic = 0x65737061'6c696572;

std::uintptr_t address(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

huge_front& front_of(void* block) noexcept {
  auto& front = *reinterpret_cast<huge_front*>(static_cast<std::byte*>(block) - index_class::line);
  if ((address(block) & (index_class::line - 1)) != 0 || front.magic != magic)
    misused("free(): invalid pointer", block);
  return front;
}

/// The pages that a block and its front touch.
struct page_range {
  std::byte* begin;
  std::size_t bytes;
};
page_range pages_of(void* block, std::size_t bytes) noexcept {
  const std::uintptr_t begin = (address(block) - index_class::line) & ~(page_bytes - 1);
  return {reinterpret_cast<std::byte*>(begin), rounded_up(address(block) + bytes, page_bytes) - begin};
}

/// To the end of the last page of a block that begins at such an address.
std::size_t usable_from(std::uintptr_t begin, std::size_t bytes) noexcept {
  return rounded_up(begin + bytes, page_bytes) - begin;
}

std::size_t regions_for(std::size_t bytes) noexcept { return (bytes + region_bytes - 1) / region_bytes; }

}  // namespace

void* large_blocks::allocate(std::size_t bytes, std::size_t align, bool& zeroed) noexcept {
  const std::size_t offset = index_colour::of_large(number_.fetch_add(1, std::memory_order_relaxed)).offset();
  if (bytes > most_in_span || align > most_in_span / 4) {
    zeroed = true;
    return allocate_huge(bytes, align, offset);
  }
  // Alignments up to a region's are found in its first one, others between regions.
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

void large_blocks::give_back(region& of) noexcept {
  of.use = region_use::unused;
  spans_.give_back(span::of(&of)->slot(of.run), of.run_regions);
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
  // The front is a line of its own.
  std::size_t begin = rounded_up(offset + index_class::line, align < unit ? align : index_class::line);
  if (align >= unit) begin = align;
  if (begin > most - 2 * unit || bytes > most - 2 * unit - begin) return nullptr;
  const std::size_t reserved = rounded_up(begin + bytes, unit);
  auto* const base = static_cast<std::byte*>(pages_.reserve(reserved, align > unit ? align : unit));
  if (base == nullptr) return nullptr;
  std::byte* const block = base + begin;
  const page_range used = pages_of(block, bytes);
  if (!pages_.make_usable(used.begin, used.bytes)) {
    pages_.unmap(base, reserved);
    return nullptr;
  }
  const std::size_t usable = usable_from(address(block), bytes);
  *reinterpret_cast<huge_front*>(block - index_class::line) = {magic, base, reserved, usable};
  registry_.enter(base, reserved, address_registry::huge);
  huge_count_.fetch_add(1, std::memory_order_relaxed);
  huge_bytes_.fetch_add(usable, std::memory_order_relaxed);
  return block;
}

void large_blocks::give_back_huge(void* block) noexcept {
  const huge_front front = front_of(block);
  huge_count_.fetch_sub(1, std::memory_order_relaxed);
  huge_bytes_.fetch_sub(front.bytes, std::memory_order_relaxed);
  // Before they are unmapped: others may then map something there.
  registry_.enter(front.base, front.reserved, address_registry::foreign);
  pages_.unmap(front.base, front.reserved);
}

std::size_t large_blocks::usable_bytes_huge(void* block) noexcept { return front_of(block).bytes; }

void* large_blocks::resize_huge(void* block, std::size_t bytes) noexcept {
  huge_front& front = front_of(block);
  const page_range before = pages_of(block, front.bytes);
  const auto begin = static_cast<std::size_t>(static_cast<std::byte*>(block) - front.base);
  if (bytes <= most_in_span || bytes > std::numeric_limits<std::ptrdiff_t>::max() - 2 * unit - begin)
    return nullptr;
  const std::size_t usable = usable_from(address(block), bytes);
  const page_range after = pages_of(block, bytes);
  const std::size_t old_usable = front.bytes;
  if (after.bytes <= before.bytes) {
    page_source::discard(after.begin + after.bytes, before.bytes - after.bytes);
  } else if (begin + usable <= front.reserved) {
    if (!pages_.make_usable(before.begin + before.bytes, after.bytes - before.bytes)) return nullptr;
  } else {
    const huge_front old = front;
    const std::size_t reserved = rounded_up(begin + bytes, unit);
    auto* const base = static_cast<std::byte*>(pages_.reserve(reserved, unit));
    if (base == nullptr) return nullptr;
    const std::size_t lead = static_cast<std::size_t>(before.begin - old.base);
    if (!pages_.move(before.begin, before.bytes, base + lead, after.bytes)) {
      pages_.unmap(base, reserved);
      return nullptr;
    }
    registry_.enter(base, reserved, address_registry::huge);
    registry_.enter(old.base, old.reserved, address_registry::foreign);
    pages_.unmap(old.base, old.reserved);
    block = base + begin;
    front_of(block).base = base;
    front_of(block).reserved = reserved;
  }
  front_of(block).bytes = usable;
  huge_bytes_.fetch_add(usable - old_usable, std::memory_order_relaxed);
  return block;
}

}  // namespace espalier::preload
