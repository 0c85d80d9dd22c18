#pragma once

// Where the caller's frame lies, seen from a return address: what the unwinding information of x86-64 code
// says, boiled down to what following a call stack needs.
//
// Sources: DWARF 5, section 6.4; System V ABI, AMD64 supplement, section 4.2.4; Linux Standard Base 5.0,
// sections 10.6 (.eh_frame) and 10.6.2 (.eh_frame_hdr).

#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// With CFA for the value that the stack pointer has after the frame returned: the return address lies at
/// CFA - 8, and the frame pointer's earlier value where the rule says. Exact for every frame that it is given
/// for: those whose CFA is at a fixed distance from a register, or is stored at one as in functions that
/// realign their stack.
struct frame_rule {
  enum class cfa_from : std::uint8_t {
    nowhere,           ///< the outermost frame, or one that such a rule cannot describe
    stack_pointer,     ///< CFA = sp + offset
    frame_pointer,     ///< CFA = fp + offset
    at_stack_pointer,  ///< CFA = word at sp + offset
    at_frame_pointer,  ///< CFA = word at fp + offset
  };
  enum class fp_from : std::uint8_t {
    unchanged,         ///< not yet saved: the register still holds it
    cfa,               ///< in the word at CFA + fp_offset
    at_frame_pointer,  ///< in the word at fp + fp_offset
    lost,
  };

  cfa_from cfa = cfa_from::nowhere;
  fp_from fp = fp_from::lost;
  std::int32_t cfa_offset = 0;
  std::int32_t fp_offset = 0;

  friend bool operator==(const frame_rule&, const frame_rule&) = default;
};

/// Rule of the frame that a call returns to at `return_address`, by the unwinding information of the module
/// that lies there. Linear in the function's entry; takes no lock, allocates nothing, may run in a signal
/// handler. `nowhere` where there is no module or no information, and for signal frames.
[[nodiscard]] frame_rule frame_rule_at(std::uintptr_t return_address) noexcept;

/// The same for an .eh_frame_hdr in memory, and the .eh_frame that it points to.
[[nodiscard]] frame_rule frame_rule_in(const std::byte* eh_frame_header,
                                       std::uintptr_t return_address) noexcept;

/// In one word that is never 0, and back. Offsets of frame_rule_in() have at most 24 bits.
[[nodiscard]] std::uint64_t packed(const frame_rule& rule) noexcept;
[[nodiscard]] frame_rule unpacked_frame_rule(std::uint64_t word) noexcept;

}  // namespace espalier::preload
