#pragma once

// What the next instruction of a thread will do to memory, said before it does it.

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace espalier::emulated_rtm {

enum class instruction_kind : unsigned char {
  ordinary,
  begin,    ///< xbegin
  end,      ///< xend
  test,     ///< xtest
  abort,    ///< xabort
  refused,  ///< aborts every transaction: what enters the kernel, waits, or is not understood here
};

struct memory_access {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool writes = false;
};

/// Where a thread goes from an instruction.
struct successors {
  std::array<std::uintptr_t, 2> addresses{};
  std::size_t count = 0;
};

/// The one at a thread's instruction pointer, with that thread's registers.
class instruction {
 public:
  explicit instruction(const ucontext_t& at) noexcept;

  [[nodiscard]] instruction_kind kind() const noexcept { return kind_; }
  [[nodiscard]] std::size_t length() const noexcept { return length_; }
  /// Of an ordinary one, all rounds of a repeated one included.
  [[nodiscard]] std::span<const memory_access> accesses() const noexcept {
    return {accesses_.data(), count_};
  }
  /// Of an ordinary one: the possible ones, of which there is one or there are two.
  [[nodiscard]] const successors& next() const noexcept { return next_; }
  /// Of xbegin: where an abort goes, from the end of the instruction. Of xabort: its code.
  [[nodiscard]] std::int64_t constant() const noexcept { return constant_; }

 private:
  instruction_kind kind_ = instruction_kind::refused;
  std::size_t length_ = 0;
  std::array<memory_access, 4> accesses_{};
  std::size_t count_ = 0;
  successors next_;
  std::int64_t constant_ = 0;
};

/// From there on the first instruction that writes to memory, has more than one successor or is not an ordinary one.
/// Those before it need nobody's attention: whoever is at `address` comes to it.
[[nodiscard]] std::uintptr_t first_of_note(std::uintptr_t address) noexcept;

/// Before is_of_c_library() is asked: it answers no until then.
void find_c_library() noexcept;

/// Whether the C library's own instructions are there. It copies, compares and searches by other ones where the
/// processor has transactions than where it has none; those of this processor are forgiven what the others avoid.
[[nodiscard]] bool is_of_c_library(std::uintptr_t address) noexcept;

}  // namespace espalier::emulated_rtm
