#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/kernel/pages.hpp"
#include "preload/recording/block_table.hpp"
#include "preload/recording/call_stack.hpp"
#include "preload/recording/modules.hpp"
#include "preload/recording/peak_watch.hpp"
#include "preload/recording/settings.hpp"
#include "preload/recording/site_table.hpp"
#include "preload/recording/thread_records.hpp"

namespace espalier::preload {

/// What is recorded of a process, and figures about it. The recorder fills it, and a writer of snapshots reads it.
class recording {
 public:
  constexpr recording() noexcept = default;
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;

  /// Between these two no thread's blocks enter or leave the record. The caller holds the snapshot lock.
  void hold_blocks() noexcept;
  void let_blocks_go() noexcept;
  /// Visits the blocks of the record, young ones included, while held.
  template <class Visitor>
  void visit_blocks(Visitor&& visitor) noexcept {
    blocks_.visit(visitor);
    threads_.for_each([&](thread_record& each) { each.young.visit(visitor); });
  }
  /// An upper bound for the number of blocks. While held.
  [[nodiscard]] std::size_t most_blocks() noexcept;
  /// Blocks ever entered. While held.
  [[nodiscard]] std::uint64_t entered() noexcept;

  /// Blocks that the program got and the sample left out.
  [[nodiscard]] std::uint64_t passed_over() noexcept;
  /// The most requested bytes at once; an estimate, and 0 where it is not watched.
  [[nodiscard]] std::uint64_t most_bytes() const noexcept {
    return static_cast<std::uint64_t>(watch_.highest());
  }
  /// Blocks allocated or freed while the thread was inside the library: those of a signal handler, and the library's
  /// own.
  [[nodiscard]] std::uint64_t unseen() const noexcept { return unseen_.load(std::memory_order_relaxed); }
  /// Why blocks are no longer inserted; null while they are.
  [[nodiscard]] const char* stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

  /// The file name of the module with a malloc before this library's; empty where there is none.
  [[nodiscard]] const char* passed_by() const noexcept { return passed_by_.data(); }
  /// The path by which the program was started; empty where it is unknown.
  [[nodiscard]] const char* program() const noexcept { return program_.data(); }

  [[nodiscard]] std::uint64_t recorded_ms() const noexcept { return now_ms() - started_ms_; }
  [[nodiscard]] const settings& how() const noexcept { return settings_; }
  [[nodiscard]] site_table& sites() noexcept { return sites_; }
  [[nodiscard]] const module_list& modules() const noexcept { return modules_; }
  [[nodiscard]] const call_stack& stacks() const noexcept { return stacks_; }
  [[nodiscard]] const memory_budget& budget() const noexcept { return budget_; }

 protected:
  [[nodiscard]] static std::uint64_t now_ms() noexcept;

  memory_budget budget_;
  settings settings_;
  block_table blocks_{budget_};
  call_stack stacks_{budget_};
  module_list modules_{budget_};
  site_table sites_{budget_, modules_};
  thread_records threads_{budget_};
  peak_watch watch_;

  std::atomic<const char*> stopped_{nullptr};
  std::atomic<std::uint64_t> passed_over_{0};
  std::atomic<std::uint64_t> unseen_{0};
  std::uint64_t started_ms_ = 0;
  std::array<char, 72> passed_by_{};
  std::array<char, 4096> program_{};
};

}  // namespace espalier::preload
