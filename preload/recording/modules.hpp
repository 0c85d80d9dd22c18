#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "preload/recording/memory_budget.hpp"

namespace espalier::preload {

/// An executable or shared library that a program's code came from.
struct code_module {
  std::uintptr_t begin;  ///< of its mapping
  std::uintptr_t end;
  std::uintptr_t bias;  ///< what its addresses differ by from those in its file
  bool loaded;
  std::uint8_t build_id_bytes;  ///< 0 where it has none
  std::array<std::uint8_t, 32> build_id;
  std::array<char, 471> path;  ///< null-terminated
};

/// The modules seen so far, found when code in them allocates: without a lock of the dynamic linker, which a
/// thread that waits for the allocating one may hold. Not thread-safe. Constant-initialised, never destroyed.
class module_list {
 public:
  static constexpr std::size_t most = 4096;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  explicit constexpr module_list(memory_budget& budget) noexcept : budget_(budget) {}
  module_list(const module_list&) = delete;
  module_list& operator=(const module_list&) = delete;

  /// Index of the module whose code a call from `return_address` is in; `none` for code that was made at run
  /// time, and where memory is refused or more than `most` modules came. Linear in the modules known. May run
  /// in a signal handler; errno is kept.
  [[nodiscard]] std::uint32_t find(std::uintptr_t return_address) noexcept;

  /// Looks which modules are still there; those that are gone are found no more. True where one went.
  bool refresh() noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] const code_module& operator[](std::size_t index) const noexcept { return modules_[index]; }

 private:
  memory_budget& budget_;
  code_module* modules_ = nullptr;
  std::size_t count_ = 0;
  std::uint32_t latest_ = none;
};

}  // namespace espalier::preload
