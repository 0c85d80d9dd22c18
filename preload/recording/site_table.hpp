#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/kernel/futex_lock.hpp"
#include "preload/kernel/pages.hpp"
#include "preload/recording/call_stack.hpp"
#include "preload/recording/modules.hpp"

namespace espalier::preload {

/// A frame in terms of its module's file.
struct site_frame {
  std::uint32_t module;   ///< index in the list of modules, or module_list::none
  std::uint64_t address;  ///< return address in the module's file; in the process where there is no module
};

/// The call stacks that allocate, numbered from 1. The modules of a stack's frames are found when the stack is first
/// seen, so that it stays valid when a module is unloaded.
///
/// Any thread, signal handlers of other threads included. For a known stack: lock-free, one hash table hit.
/// Constant-initialised, never destroyed.
class site_table {
 public:
  /// Means "no site": the memory for another one was refused.
  static constexpr std::uint32_t unknown = 0;
  static constexpr std::uint32_t most = (std::uint32_t{1} << 24U) - 1;

  constexpr site_table(memory_budget& budget, module_list& modules) noexcept
      : budget_(budget), modules_(modules) {}
  site_table(const site_table&) = delete;
  site_table& operator=(const site_table&) = delete;

  /// The number of a stack of 1 to most_frames return addresses.
  [[nodiscard]] std::uint32_t intern(const std::uintptr_t* frames, unsigned depth) noexcept;

  /// The number of sites; their numbers are 1 to size().
  [[nodiscard]] std::uint32_t size() const noexcept { return count_.load(std::memory_order_acquire); }
  [[nodiscard]] unsigned depth(std::uint32_t site) const noexcept;
  [[nodiscard]] site_frame frame(std::uint32_t site, unsigned i) const noexcept;

  /// Called when modules may have been unloaded; true where one was. Stacks seen afterwards get numbers of their own.
  bool modules_changed() noexcept;

  /// Held while fork() copies the process and while the modules are read.
  futex_lock& lock() noexcept { return lock_; }

 private:
  struct stored_site {
    std::uint64_t hash;
    std::uint32_t depth;
    std::array<std::uint16_t, most_frames> modules;
    std::array<std::uintptr_t, most_frames> frames;
  };
  /// The header of a hash table of site numbers, which follow it.
  struct index {
    std::size_t capacity;
    std::atomic<std::uint32_t>* numbers() noexcept {
      return reinterpret_cast<std::atomic<std::uint32_t>*>(this + 1);
    }
  };
  static constexpr std::size_t sites_a_part = 1024;
  static constexpr std::size_t parts = (std::size_t{most} + 1) / sites_a_part;
  static constexpr std::size_t first_capacity = 8192;

  [[nodiscard]] const stored_site& stored(std::uint32_t site) const noexcept {
    return parts_[site / sites_a_part].load(std::memory_order_acquire)[site % sites_a_part];
  }
  std::uint32_t find(index* in, std::uint64_t hash, const std::uintptr_t* frames,
                     unsigned depth) const noexcept;
  std::uint32_t add(std::uint64_t hash, const std::uintptr_t* frames, unsigned depth) noexcept;
  bool make_room() noexcept;
  void enter(index* in, std::uint32_t site) noexcept;

  memory_budget& budget_;
  module_list& modules_;
  futex_lock lock_;
  std::atomic<std::uint32_t> count_{0};
  std::uint32_t indexed_ = 0;  // sites entered in index_
  std::atomic<index*> index_{nullptr};
  std::array<std::atomic<stored_site*>, parts> parts_{};
};

}  // namespace espalier::preload
