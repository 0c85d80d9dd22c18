#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::test {

/// The system calls that can be made to fail or to take long (kernel_faults.cpp has the grammar).
enum class kernel_call : std::uint8_t { mmap, munmap, mremap, madvise, futex, tgkill };
inline constexpr std::size_t kernel_call_kinds = 6;

/// Replaces all rules, and counts calls from zero. Returns null, or the error in the text; then there are no rules. Not
/// concurrent with threads that make such calls. Null or empty text: no rules.
const char* set_kernel_faults(const char* rules) noexcept;

/// Calls of a kind since the rules were set, including those that failed by a rule.
[[nodiscard]] std::uint64_t kernel_calls(kernel_call kind) noexcept;

/// The window before or after a call. The calls that a hook makes itself are neither counted nor changed.
struct kernel_window {
  kernel_call kind;
  bool behind;  ///< the call is complete and succeeded
  void* pages;  ///< the first argument
  std::size_t bytes;
};
using kernel_hook = void (*)(const kernel_window&, void* context);
/// Called in each window, in the thread that makes the call. Null: no hook.
void set_kernel_hook(kernel_hook hook, void* context) noexcept;

/// Sets rules and a hook for a scope.
class kernel_faults {
 public:
  explicit kernel_faults(const char* rules) noexcept : wrong_(set_kernel_faults(rules)) {}
  kernel_faults(kernel_hook hook, void* context) noexcept : kernel_faults(nullptr) {
    set_kernel_hook(hook, context);
  }
  ~kernel_faults() {
    set_kernel_hook(nullptr, nullptr);
    set_kernel_faults(nullptr);
  }
  kernel_faults(const kernel_faults&) = delete;
  kernel_faults& operator=(const kernel_faults&) = delete;

  [[nodiscard]] const char* wrong() const noexcept { return wrong_; }

 private:
  const char* wrong_;
};

}  // namespace espalier::test
