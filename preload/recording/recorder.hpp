#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "preload/recording/block_table.hpp"
#include "preload/recording/call_stack.hpp"
#include "preload/recording/futex_lock.hpp"
#include "preload/recording/memory_budget.hpp"
#include "preload/recording/modules.hpp"
#include "preload/recording/settings.hpp"
#include "preload/recording/site_table.hpp"
#include "preload/recording/thread_state.hpp"

namespace espalier::preload {

/// Remembers the blocks of a process and where they were allocated.
///
/// Any thread may call any member at any time. allocated(): constant expected time; a call
/// stack that is new costs a few microseconds. errno is kept. Where memory for the record is refused it stops
/// taking blocks in, and goes on taking blocks out, so that what it holds stays true.
///
/// Constant-initialised and never destroyed.
class recorder {
 public:
  constexpr recorder() noexcept = default;
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  /// Begins to record. Once.
  void start(const settings& how) noexcept;

  /// True where this thread's blocks concern the record.
  [[nodiscard]] bool listens() noexcept {
    // order: listens (acquire) -> start (release)
    if (state_.load(std::memory_order_acquire) == state::off) return false;
    if (!this_thread.inside) return true;
    count(unseen_);
    return false;
  }

  /// After the program was given a block. Only where listens().
  void allocated(void* block, std::size_t asked, std::size_t held, const caller_state& by) noexcept;
  /// Before a block is given back: another thread may be given it at once. True where it was in the record;
  /// `*removed`, if not null, is then what was known. Only where listens().
  bool freeing(void* block, block_record* removed = nullptr) noexcept;
  /// A block that was not given back after all.
  void still_there(const block_record& block) noexcept;

  /// After a module was unloaded.
  void modules_changed() noexcept;

  /// Writes a snapshot; `moment` says when it is taken. Nothing where the process is not the recorded one, or
  /// the thread is in our code already. Writes to no stream of the program's; a snapshot that cannot be
  /// written is left out.
  void take_snapshot(const char* moment) noexcept;
  /// The last snapshot, after which nothing is recorded. At once in the first call, nothing in others.
  void finish(const char* moment) noexcept;
  /// From a signal handler: a snapshot now, or where that must not be or the thread is in our code, with the
  /// next block that any thread is given.
  void signalled(bool now) noexcept;

  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

  /// Blocks that the program was given and the sample left out.
  [[nodiscard]] std::uint64_t passed_over() const noexcept {
    return passed_over_.load(std::memory_order_relaxed);
  }
  /// Blocks given or taken while the thread was in our code: those of a signal handler, and our own.
  [[nodiscard]] std::uint64_t unseen() const noexcept { return unseen_.load(std::memory_order_relaxed); }
  /// Why blocks are no longer taken in; null while they are.
  [[nodiscard]] const char* stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

  [[nodiscard]] const settings& how() const noexcept { return settings_; }
  [[nodiscard]] block_table& blocks() noexcept { return blocks_; }
  [[nodiscard]] site_table& sites() noexcept { return sites_; }
  [[nodiscard]] const module_list& modules() const noexcept { return modules_; }
  [[nodiscard]] const call_stack& stacks() const noexcept { return stacks_; }
  [[nodiscard]] memory_budget& budget() noexcept { return budget_; }

 private:
  enum class state : std::uint8_t {
    off,
    draining,  ///< blocks are taken out only
    on,
  };
  static void count(std::atomic<std::uint64_t>& what) noexcept {
    what.fetch_add(1, std::memory_order_relaxed);  // relaxed: figures that guard no data
  }
  std::uint64_t random() noexcept;
  void enter(void* block, std::size_t asked, std::size_t held, const caller_state& by) noexcept;
  void stop(const char* why) noexcept;
  void take_due_snapshots() noexcept;
  void write_snapshot(const char* moment) noexcept;

  memory_budget budget_;
  settings settings_;
  block_table blocks_{budget_};
  call_stack stacks_{budget_};
  module_list modules_{budget_};
  site_table sites_{budget_, modules_};

  std::atomic<state> state_{state::off};
  std::atomic<const char*> stopped_{nullptr};
  std::atomic<bool> requested_{false};
  std::atomic<bool> finished_{false};
  std::atomic<std::uint64_t> due_ms_{0};
  std::atomic<std::uint64_t> threads_{0};
  std::atomic<std::uint64_t> passed_over_{0};
  std::atomic<std::uint64_t> unseen_{0};
  std::atomic<std::uint32_t> snapshots_{0};
  futex_lock snapshot_lock_;
  long process_ = 0;
  bool of_child_ = false;
};

static_assert(std::is_trivially_destructible_v<recorder>);

}  // namespace espalier::preload
