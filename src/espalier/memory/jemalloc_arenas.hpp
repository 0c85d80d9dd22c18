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
#include "espalier/sync/striped_counter.hpp"

namespace espalier {

/// jemalloc's arenas as the segregation of ATC 2018, section 4.3: each thread has an arena and a thread
/// cache of jemalloc's for each role. Without a cache of its own an arena's blocks would mix in the thread's
/// default one, whose size classes know no arenas. Thread caches are not thread-safe: each is used by the
/// thread of one slot (hw/thread_slot), and passes to the next with it. A block that another thread frees
/// goes to that thread's cache for the role, or back to its arena where it has none.
///
/// jemalloc has about 4,000 arenas. Where they are used up, threads share the first one of a role; caches
/// likewise, without which a thread does without.
///
/// For programs that run on jemalloc 5, linked or preloaded; the library itself does not need it. An
/// operation costs what jemalloc's does. All memory goes back with the placement, blocks in use included.
class jemalloc_arenas {
 public:
  static constexpr bool releases_on_destruction(std::size_t) noexcept { return true; }
  static constexpr std::string_view name = "jemalloc_arenas";

  /// Whether this process runs on jemalloc.
  [[nodiscard]] static bool available() noexcept;
  /// One line on what to do about it where it does not; empty where it does.
  [[nodiscard]] static std::string why_not();

  /// Throws std::runtime_error, saying why_not(), where this process does not run on jemalloc.
  jemalloc_arenas();
  jemalloc_arenas(const jemalloc_arenas&) = delete;
  jemalloc_arenas& operator=(const jemalloc_arenas&) = delete;
  ~jemalloc_arenas();

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr);
  void deallocate(void* memory, const block& b) noexcept;

  /// bytes_reserved: the pages that jemalloc has handed to these arenas and that hold blocks; asks jemalloc
  /// to bring its statistics up to date, which takes a lock of every arena.
  [[nodiscard]] memory_usage usage() const noexcept;
  /// As jemalloc says.
  [[nodiscard]] static std::size_t bytes_held(const void* memory, const block& b) noexcept;

 private:
  // For each role, the arena and the cache as the flags that jemalloc takes; 0 until they are made. Owner
  // writes, usage() reads.
  using flags_of_roles = std::array<std::atomic<unsigned>, memory_role_count>;

  /// Calls visit(arena) for each that is made, once.
  template <class Visitor>
  void for_each_arena(Visitor&& visit) const;
  unsigned make(std::size_t role, std::atomic<unsigned>& mine);
  void recover_in_child(const hw::fork_survivor& survivor) noexcept;

  per_thread<flags_of_roles> threads_;
  flags_of_roles first_{};  // the arena of each role that serves where no more can be made
  striped_counter blocks_;
  striped_counter bytes_;
  hw::fork_link after_fork_{this, [](void* one, const hw::fork_survivor& survivor) noexcept {
                              static_cast<jemalloc_arenas*>(one)->recover_in_child(survivor);
                            }};
};

static_assert(placement<jemalloc_arenas>);

}  // namespace espalier
