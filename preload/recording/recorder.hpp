#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "espalier/measure/random.hpp"
#include "preload/kernel/futex_lock.hpp"
#include "preload/recording/call_stack.hpp"
#include "preload/recording/peak_watch.hpp"
#include "preload/recording/recording.hpp"
#include "preload/recording/site_table.hpp"
#include "preload/recording/thread_records.hpp"

namespace espalier::preload {

struct thread_record;

/// A thread's state between its calls. It has no constructor and no destructor, so it exists from the thread's first
/// instruction to its last.
struct thread_state {
  /// The thread is inside the library, or in a function that it called: its blocks are not the program's, and it may
  /// hold locks of the library.
  bool inside = false;
  /// The thread is copying the process, and holds the library's locks meanwhile.
  bool forking = false;
  bool random_started = false;
  /// The thread ends and has released its record.
  bool ended = false;
  std::uint32_t calls = 0;
  thread_record* record = nullptr;
  /// The last block that the thread got. By it operator new sees whether malloc was called.
  const void* latest_block = nullptr;
  /// The block that operator delete is freeing, already removed from the record.
  const void* going_block = nullptr;
  measure::splitmix64 random{0};
};

extern thread_local constinit thread_state this_thread;

/// Marks the thread as inside during its life. Only where it is not inside yet.
class inside_scope {
 public:
  inside_scope() noexcept { this_thread.inside = true; }
  ~inside_scope() { this_thread.inside = false; }
  inside_scope(const inside_scope&) = delete;
  inside_scope& operator=(const inside_scope&) = delete;
};

/// Records the blocks of a process and where they were allocated.
///
/// Any thread may call any member at any time. allocated(): constant expected time, without a locked instruction for
/// a block that its own thread frees before it gets many others; a new call stack costs a few microseconds. errno is
/// preserved. Where memory for the record is refused, it stops inserting blocks but continues to remove them, so that
/// its contents stay true.
///
/// Where the peak is watched, a thread that is about to free a block may write a snapshot first.
///
/// Constant-initialised and never destroyed.
class recorder : public recording {
 public:
  constexpr recorder() noexcept = default;
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  /// Starts the recording. Called once. `thread_ended` is called in each thread that ends, and must pass its argument
  /// to thread_ends(). Frames of the code between `own_begin` and `own_end` are left out of call stacks.
  void start(const settings& how, void (*thread_ended)(void*), std::uintptr_t own_begin,
             std::uintptr_t own_end) noexcept;
  void thread_ends(thread_record& record) noexcept;
  /// A module's malloc comes before this library's, so nothing can be recorded; its file name is copied.
  void passed_by(const char* module) noexcept;

  /// True where this thread's blocks are recorded.
  [[nodiscard]] bool listens() noexcept {
    // order: listens (acquire) <- start (release)
    if (state_.load(std::memory_order_acquire) == state::off) return false;
    if (!this_thread.inside) return true;
    count(unseen_);
    return false;
  }

  /// Called after the program got a block. Only where listens().
  void allocated(void* block, std::size_t asked, std::size_t held, const caller_state& by) noexcept {
    thread_record* const mine = this_thread.record;
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    // A stack in the cache was recorded while the recording was in order, and a young block that dies young concerns
    // no other thread. So relaxed suffices.
    if (mine != nullptr && quick_.load(std::memory_order_relaxed)) [[likely]] {
      const inside_scope scope;
      // order: allocated (acquire) <- modules_changed (release)
      const std::uint32_t site = mine->stacks.find(by, generation_.load(std::memory_order_acquire));
      if (site != site_table::unknown) [[likely]] {
        if (mine->no_young.load(std::memory_order_relaxed) != 0 || !mine->young.has_room(address))
            [[unlikely]]
          return enter(*mine, address, asked, held, site);
        {
          const thread_records::working in_use(threads_, *mine);
          mine->young.put({address, asked, held, site});
        }
        return grown(mine, static_cast<std::int64_t>(asked));
      }
    }
    allocated_slowly(block, asked, held, by);
  }
  /// Called before a block is freed: another thread may get it at once. True where it was in the record; `*removed`,
  /// if not null, then gets its entry, and another block is about to replace it. Only where listens().
  bool freeing(void* block, block_record* removed = nullptr) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    if (thread_record* const mine = this_thread.record) {
      const inside_scope scope;
      if (mine->young.holds(address)) {
        const bool near = mine->drift.shrink(static_cast<std::int64_t>(mine->young.asked_for(address)));
        if (!near && removed == nullptr) [[unlikely]]
          before_fall(*mine);
        const thread_records::working in_use(threads_, *mine);
        mine->young.take_held(address, removed);
        return true;
      }
    }
    return freeing_old(address, removed);
  }
  /// For a block that was not freed after all.
  void still_there(const block_record& block) noexcept;

  /// Called after a module was unloaded.
  void modules_changed() noexcept;

  /// Writes a snapshot; `moment` says when it is taken. Does nothing where the process is not the recorded one, or
  /// the thread is inside the library already. Writes to no stream of the program's. A snapshot that cannot be
  /// written is left out.
  void take_snapshot(const char* moment) noexcept;
  /// Takes the last snapshot, after which nothing is recorded. Only the first call has an effect, at once.
  void finish(const char* moment) noexcept;
  /// Called from a signal handler: takes a snapshot now. Where that is not allowed, or the thread is inside the
  /// library, it is taken with the next block that any thread gets.
  void signalled(bool now) noexcept;

  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

  /// Whether a program that this process becomes is to be recorded, and does not inherit the environment for that.
  [[nodiscard]] bool must_be_passed_on() const noexcept;

 private:
  enum class state : std::uint8_t {
    off,
    draining,  ///< blocks are only removed
    on,
  };
  static void count(std::atomic<std::uint64_t>& what) noexcept {
    what.fetch_add(1, std::memory_order_relaxed);  // relaxed: figures that guard no data
  }
  std::uint64_t random() noexcept;
  void pass_over() noexcept;
  void allocated_slowly(void* block, std::size_t asked, std::size_t held, const caller_state& by) noexcept;
  bool freeing_old(std::uintptr_t address, block_record* removed) noexcept;
  void judge_quick() noexcept;
  thread_record* record_of_this_thread() noexcept;
  void enter_by_stack(void* block, std::size_t asked, std::size_t held, const caller_state& by) noexcept;
  void enter(thread_record& mine, std::uintptr_t address, std::size_t asked, std::size_t held,
             std::uint32_t site) noexcept;
  void insert(const block_record& block) noexcept;
  void replaced(std::uint64_t bytes) noexcept;
  void grown(thread_record* mine, std::int64_t bytes) noexcept {
    if (mine == nullptr) {
      watch_.change(bytes);
    } else if (!mine->drift.grow(bytes)) [[unlikely]] {
      watch_.tell(mine->drift);
    }
  }
  void before_fall(thread_record& mine) noexcept;
  void fell_by(const block_record& gone, bool moves) noexcept;
  bool erase(std::uintptr_t address, block_record* removed) noexcept;
  void stop(const char* why) noexcept;
  void take_due_snapshots() noexcept;
  void write_snapshot(const char* moment) noexcept;
  void write_peak() noexcept;
  void take_peak(peak_watch::verdict judged) noexcept;

  std::atomic<state> state_{state::off};
  std::atomic<bool> requested_{false};
  std::atomic<bool> finished_{false};
  std::atomic<std::uint64_t> due_ms_{0};
  std::atomic<std::uint64_t> random_threads_{0};
  std::atomic<std::uint32_t> generation_{0};  // of the rules and sites
  /// Every block is recorded, and no snapshot can be due.
  std::atomic<bool> quick_{false};
  std::atomic<std::uint32_t> snapshots_{0};
  futex_lock snapshot_lock_;
  long process_ = 0;
  bool of_child_ = false;
};

static_assert(std::is_trivially_destructible_v<recorder>);

}  // namespace espalier::preload
