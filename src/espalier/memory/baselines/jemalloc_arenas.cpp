#include "espalier/memory/baselines/jemalloc_arenas.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <new>
#include <stdexcept>

#include "espalier/hw/pages.hpp"
#include "espalier/hw/thread_slot.hpp"

// relaxed throughout: only its owner writes a thread's flags, and the numbers in them order nothing: jemalloc orders
// what is in its arenas. Sums are exact at quiescence, and the destructor and recover_in_child() run alone.

// jemalloc's own functions, if the program is linked or preloaded with it.
extern "C" {
__attribute__((weak)) void* mallocx(size_t bytes, int flags);
__attribute__((weak)) void dallocx(void* memory, int flags);
__attribute__((weak)) size_t sallocx(const void* memory, int flags);
__attribute__((weak)) int mallctl(const char* name, void* old_value, size_t* old_bytes, void* new_value,
                                  size_t new_bytes);
}

namespace espalier {
namespace {

// The flags of mallocx, as jemalloc.h packs them: log2 of the alignment in 6 bits, the cache plus 2 in 12
// bits from the 8th, the arena plus 1 in the 12 highest. Its macros are not used, since its header may be missing.
constexpr unsigned cache_shift = 8;
constexpr unsigned cache_mask = 0xFFFU << cache_shift;
constexpr unsigned arena_shift = 20;
constexpr unsigned no_cache = 1U << cache_shift;

constexpr unsigned with_arena(unsigned arena) { return (arena + 1) << arena_shift; }
constexpr unsigned with_cache(unsigned cache) { return (cache + 2) << cache_shift; }
constexpr unsigned arena_of(unsigned flags) { return (flags >> arena_shift) - 1; }
constexpr unsigned cache_of(unsigned flags) { return ((flags & cache_mask) >> cache_shift) - 2; }
/// Whether the flags say how blocks go through a cache. They do not after a fork has lost the slot's thread: the
/// successor uses its arena, but its cache may be half written.
constexpr bool has_way(unsigned flags) { return (flags & cache_mask) != 0; }

/// False if jemalloc has no more of them.
bool create(const char* what, unsigned& index) noexcept {
  std::size_t bytes = sizeof index;
  return mallctl(what, &index, &bytes, nullptr, 0) == 0;
}

void destroy_cache(unsigned cache) noexcept {
  mallctl("tcache.destroy", nullptr, nullptr, &cache, sizeof cache);
}

void destroy_arena(unsigned arena) noexcept {
  char what[40];
  std::snprintf(what, sizeof what, "arena.%u.destroy", arena);
  mallctl(what, nullptr, nullptr, nullptr, 0);
}

/// 0 if jemalloc was built without statistics.
std::uint64_t active_bytes(unsigned arena) noexcept {
  char what[40];
  std::snprintf(what, sizeof what, "stats.arenas.%u.pactive", arena);
  std::size_t pages = 0;
  std::size_t bytes = sizeof pages;
  return mallctl(what, &pages, &bytes, nullptr, 0) == 0 ? pages * hw::page_size() : 0;
}

}  // namespace

bool jemalloc_arenas::available() noexcept {
  return mallocx != nullptr && dallocx != nullptr && sallocx != nullptr && mallctl != nullptr;
}

std::string jemalloc_arenas::why_not() {
  if (available()) return {};
  return "jemalloc_arenas needs a program that runs on jemalloc 5; start it with "
         "LD_PRELOAD=libjemalloc.so.2, "
         "or link it with -ljemalloc";
}

jemalloc_arenas::jemalloc_arenas() {
  if (!available()) throw std::runtime_error(why_not());
}

template <class Visitor>
void jemalloc_arenas::for_each_arena(Visitor&& visit) const {
  threads_.for_each([&](std::uint32_t, const flags_of_roles& roles) {
    for (std::size_t role = 0; role < memory_role_count; ++role) {
      const unsigned flags = roles[role].load(std::memory_order_relaxed);
      // Several threads may share the first arena of a role.
      if (flags != 0 && arena_of(flags) != arena_of(first_[role].load(std::memory_order_relaxed)))
        visit(arena_of(flags));
    }
  });
  for (const std::atomic<unsigned>& f : first_) {
    const unsigned flags = f.load(std::memory_order_relaxed);
    if (flags != 0) visit(arena_of(flags));
  }
}

jemalloc_arenas::~jemalloc_arenas() {
  // All caches first: they hold blocks of any of the arenas.
  threads_.for_each([](std::uint32_t, const flags_of_roles& roles) {
    for (const std::atomic<unsigned>& r : roles) {
      const unsigned flags = r.load(std::memory_order_relaxed);
      if (has_way(flags) && (flags & cache_mask) != no_cache) destroy_cache(cache_of(flags));
    }
  });
  for_each_arena(destroy_arena);
}

unsigned jemalloc_arenas::make(std::size_t role, std::atomic<unsigned>& mine) {
  unsigned index = 0;
  unsigned flags = mine.load(std::memory_order_relaxed);
  if (flags != 0) {
    // The arena of a lost thread, which this thread goes on using.
  } else if (create("arenas.create", index)) {
    flags = with_arena(index);
    unsigned none = 0;
    first_[role].compare_exchange_strong(none, flags, std::memory_order_relaxed);
  } else {
    flags = first_[role].load(std::memory_order_relaxed);
    if (flags == 0) throw std::bad_alloc();
  }
  flags |= create("tcache.create", index) ? with_cache(index) : no_cache;
  mine.store(flags, std::memory_order_relaxed);
  return flags;
}

void jemalloc_arenas::recover_in_child(const hw::fork_survivor& survivor) noexcept {
  threads_.for_each([&](std::uint32_t slot, flags_of_roles& roles) {
    if (!survivor.lost(slot)) return;
    for (std::atomic<unsigned>& r : roles)
      r.store(r.load(std::memory_order_relaxed) & ~cache_mask, std::memory_order_relaxed);
  });
}

void* jemalloc_arenas::allocate(const block& b, const void*) {
  blocks_.reserve();  // before the block exists
  bytes_.reserve();
  const auto role = static_cast<std::size_t>(b.role);
  std::atomic<unsigned>& mine = threads_.local()[role];
  unsigned flags = mine.load(std::memory_order_relaxed);
  if (!has_way(flags)) [[unlikely]]
    flags = make(role, mine);
  flags |= static_cast<unsigned>(std::countr_zero(b.align));
  // jemalloc's behaviour is undefined for 0 bytes.
  void* const memory = mallocx(std::max(b.bytes, std::size_t{1}), static_cast<int>(flags));
  if (memory == nullptr) throw std::bad_alloc();
  blocks_.add(1);
  bytes_.add(static_cast<std::int64_t>(sallocx(memory, 0)));
  return memory;
}

void jemalloc_arenas::deallocate(void* memory, const block& b) noexcept {
  blocks_.add(-1);
  bytes_.add(-static_cast<std::int64_t>(sallocx(memory, 0)));
  const flags_of_roles* const mine = threads_.at(hw::try_thread_slot());
  const unsigned flags =
      mine == nullptr ? 0 : (*mine)[static_cast<std::size_t>(b.role)].load(std::memory_order_relaxed);
  dallocx(memory, static_cast<int>(has_way(flags) ? flags & cache_mask : no_cache));
}

std::size_t jemalloc_arenas::bytes_held(const void* memory, const block&) noexcept {
  return sallocx(memory, 0);
}

memory_usage jemalloc_arenas::usage() const noexcept {
  memory_usage sum;
  sum.blocks = static_cast<std::uint64_t>(blocks_.read());
  sum.bytes_in_use = static_cast<std::uint64_t>(bytes_.read());
  std::uint64_t now = 1;  // any write updates the statistics
  mallctl("epoch", nullptr, nullptr, &now, sizeof now);
  for_each_arena([&](unsigned arena) { sum.bytes_reserved += active_bytes(arena); });
  sum.bytes_reserved = std::max(sum.bytes_reserved, sum.bytes_in_use);
  return sum;
}

}  // namespace espalier
