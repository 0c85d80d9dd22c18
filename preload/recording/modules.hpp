#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "preload/kernel/pages.hpp"

namespace espalier::preload {

/// An executable or shared library with code of the program.
struct code_module {
  std::uintptr_t begin;  ///< of its mapping
  std::uintptr_t end;
  std::uintptr_t bias;  ///< the difference between an address in memory and in the file
  bool loaded;
  std::uint8_t build_id_bytes;  ///< 0 where it has none
  std::array<std::uint8_t, 32> build_id;
  std::array<char, 471> path;  ///< null-terminated
};

/// The modules seen so far. A module is found when its code allocates, without a lock of the dynamic linker: a thread
/// that waits for the allocating one may hold that. Not thread-safe. Constant-initialised, never destroyed.
class module_list {
 public:
  static constexpr std::size_t most = 4096;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  explicit constexpr module_list(memory_budget& budget) noexcept : budget_(budget) {}
  module_list(const module_list&) = delete;
  module_list& operator=(const module_list&) = delete;

  /// The index of the module whose code calls from `return_address`. `none` for code made at run time, and where
  /// memory is refused or there were more than `most` modules. Linear in the known modules. May run in a signal
  /// handler; errno is preserved.
  [[nodiscard]] std::uint32_t find(std::uintptr_t return_address) noexcept;

  /// Checks which modules are still loaded; find() ignores the others. True where one was unloaded.
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
