#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string_view>

#include "espalier/hw/thread_slot.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"

// jemalloc's own functions, if the program is linked or preloaded with it.
extern "C" {
[[gnu::weak]] void* mallocx(std::size_t bytes, int flags);
[[gnu::weak]] void dallocx(void* memory, int flags);
[[gnu::weak]] std::size_t sallocx(const void* memory, int flags);
[[gnu::weak]] int mallctl(const char* name, void* old_value, std::size_t* old_bytes, void* new_value,
                          std::size_t new_bytes);
}

namespace espalier {

/// Several instances of jemalloc, one for each role, as the ATC 2018 study separates a tree's nodes, its descriptors and the rest
/// (section 4.1): each thread has an arena and a thread cache of each instance. The thread cache that malloc uses would mix
/// the arenas. A block that another thread frees goes to that thread's cache of the same role.
///
/// To compare with, in programs that run on jemalloc 5, linked or preloaded. jemalloc has some 4000 arenas and as many caches;
/// without another one allocate() throws. At its end the placement frees all of its arenas, with the blocks in use.
class jemalloc_arenas {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "jemalloc_arenas";

  /// Whether this process runs on jemalloc. There is no object otherwise.
  [[nodiscard]] static bool available() noexcept {
    return mallocx != nullptr && dallocx != nullptr && sallocx != nullptr && mallctl != nullptr;
  }

  jemalloc_arenas() = default;
  jemalloc_arenas(const jemalloc_arenas&) = delete;
  jemalloc_arenas& operator=(const jemalloc_arenas&) = delete;
  ~jemalloc_arenas() {
    // The caches first: each may hold blocks of any thread's arena.
    for_each_instance([](const instance& i) {
      unsigned cache = i.cache;
      if (i.has_cache) mallctl("tcache.destroy", nullptr, nullptr, &cache, sizeof cache);
    });
    for_each_instance([](const instance& i) {
      std::array<char, 40> what{};
      std::snprintf(what.data(), what.size(), "arena.%u.destroy", i.arena);
      if (i.has_arena) mallctl(what.data(), nullptr, nullptr, nullptr, 0);
    });
  }

  [[nodiscard]] void* allocate(const block& b, const void* = nullptr) {
    instance& mine = parts_.local().by_role[static_cast<std::size_t>(b.role)];
    mine.make();
    // jemalloc's behaviour is undefined for 0 bytes.
    void* const memory =
        mallocx(std::max(b.bytes, std::size_t{1}),
                static_cast<int>(mine.flags() | static_cast<unsigned>(std::countr_zero(b.align))));
    if (memory == nullptr) throw std::bad_alloc();
    count_.add(1);
    bytes_.add(static_cast<std::int64_t>(sallocx(memory, 0)));
    return memory;
  }

  void deallocate(void* memory, const block& b) noexcept {
    count_.add(-1);
    bytes_.add(-static_cast<std::int64_t>(sallocx(memory, 0)));
    const part* const mine = parts_.if_made();
    const bool cached = mine != nullptr && mine->by_role[static_cast<std::size_t>(b.role)].has_cache;
    dallocx(memory, static_cast<int>(cached ? mine->by_role[static_cast<std::size_t>(b.role)].cache_flags()
                                            : no_cache));
  }

  /// What jemalloc has beyond the blocks in use is not counted.
  [[nodiscard]] memory_usage usage() const noexcept {
    const auto bytes = static_cast<std::uint64_t>(bytes_.read());
    return {
        .blocks = static_cast<std::uint64_t>(count_.read()), .bytes_in_use = bytes, .bytes_reserved = bytes};
  }

  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& /*asked*/) const noexcept {
    return sallocx(memory, 0);
  }

 private:
  // The flags of mallocx, as jemalloc.h packs them: log2 of the alignment in the lowest bits, the cache plus 2 from the 8th, the
  // arena plus 1 from the 20th. The header may be missing where the library is built.
  static constexpr unsigned no_cache = 1U << 8U;

  /// A thread's part of a role's instance.
  struct instance {
    unsigned arena = 0;
    unsigned cache = 0;
    bool has_arena = false;
    bool has_cache = false;

    [[nodiscard]] unsigned cache_flags() const noexcept { return (cache + 2) << 8U; }
    [[nodiscard]] unsigned flags() const noexcept { return (arena + 1) << 20U | cache_flags(); }
    void make() {
      if (!has_arena) has_arena = create("arenas.create", arena);
      if (!has_cache) has_cache = create("tcache.create", cache);
    }
    static bool create(const char* what, unsigned& number) {
      std::size_t bytes = sizeof number;
      if (mallctl(what, &number, &bytes, nullptr, 0) != 0) throw std::bad_alloc();
      return true;
    }
  };
  struct part {
    std::array<instance, memory_role_count> by_role;

    /// In a child of fork(), where the thread may have stopped in the middle of its caches: it takes new ones.
    void recover_in_child(bool lost) noexcept {
      for (instance& i : by_role) i.has_cache = i.has_cache && !lost;
    }
  };

  template <class Visit>
  void for_each_instance(Visit visit) {
    parts_.for_each([&](std::uint32_t, const part& of) {
      for (const instance& i : of.by_role) visit(i);
    });
  }

  per_thread<part> parts_;
  striped_counter count_;
  striped_counter bytes_;
};

static_assert(placement<jemalloc_arenas>);

}  // namespace espalier
