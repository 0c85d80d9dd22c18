#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "espalier/hw/fork_recovery.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// jemalloc's arenas as the segregation of ATC 2018, section 4.3: each thread has an arena and a thread
/// cache of jemalloc's for each role. Without a cache of its own an arena's blocks would mix in the thread's
/// default one, which does not keep arenas apart. Thread caches are not thread-safe: the thread of one slot
/// (hw/thread_slot) uses each, and it passes to the next thread with the slot. A block that another thread frees
/// goes to that thread's cache for the role, or to the arena if that thread has no cache.
///
/// jemalloc has about 4,000 arenas. When they are used up, threads share the first one of a role. When the caches are
/// used up, a thread works without one.
///
/// For programs that run on jemalloc 5, linked or preloaded; the library itself does not need it. An
/// operation costs what jemalloc's does. The placement frees all memory at its end, blocks in use included.
class jemalloc_arenas {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "jemalloc_arenas";

  /// Whether this process runs on jemalloc.
  [[nodiscard]] static bool available() noexcept;
  /// One line that says what to do if it does not; empty if it does.
  [[nodiscard]] static std::string why_not();

  /// Throws std::runtime_error with why_not() if this process does not run on jemalloc.
  jemalloc_arenas();
  jemalloc_arenas(const jemalloc_arenas&) = delete;
  jemalloc_arenas& operator=(const jemalloc_arenas&) = delete;
  ~jemalloc_arenas();

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr);
  void deallocate(void* memory, const block& b) noexcept;

  /// bytes_reserved: the pages of these arenas that hold blocks. Asks jemalloc to update its statistics, which takes a
  /// lock of every arena.
  [[nodiscard]] memory_usage usage() const noexcept;
  /// As jemalloc says.
  [[nodiscard]] static std::size_t bytes_held(const void* memory, const block& b) noexcept;

 private:
  // For each role, the arena and the cache as the flags that jemalloc takes; 0 until they are made. The owner
  // writes them, usage() reads them.
  using flags_of_roles = std::array<std::atomic<unsigned>, memory_role_count>;

  /// Calls visit(arena) once for each existing arena.
  template <class Visitor>
  void for_each_arena(Visitor&& visit) const;
  unsigned make(std::size_t role, std::atomic<unsigned>& mine);
  void recover_in_child(const hw::fork_survivor& survivor) noexcept;

  per_thread<flags_of_roles> threads_;
  flags_of_roles first_{};  // for each role, the arena that threads share when no more can be made
  striped_counter blocks_;
  striped_counter bytes_;
  hw::fork_link after_fork_{this, [](void* one, const hw::fork_survivor& survivor) noexcept {
                              static_cast<jemalloc_arenas*>(one)->recover_in_child(survivor);
                            }};
};

static_assert(placement<jemalloc_arenas>);

}  // namespace espalier
