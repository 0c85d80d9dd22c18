#pragma once

// The position of a caller's frame, relative to a return address: the unwinding information of x86-64 code, reduced
// to what a stack walk needs.
//
// Sources: DWARF 5, section 6.4; System V ABI, AMD64 supplement, section 4.2.4; Linux Standard Base 5.0, sections
// 10.6 (.eh_frame) and 10.6.2 (.eh_frame_hdr).

#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// CFA is the value of the stack pointer after the frame has returned. The return address lies at CFA - 8, and the
/// rule says where the earlier frame pointer is. Exact for every frame that has a rule: those with a CFA at a fixed
/// distance from a register, or stored at one, as in functions that realign their stack.
struct frame_rule {
  enum class cfa_from : std::uint8_t {
    nowhere,           ///< the outermost frame, or one that no such rule can describe
    stack_pointer,     ///< CFA = sp + offset
    frame_pointer,     ///< CFA = fp + offset
    at_stack_pointer,  ///< CFA = word at sp + offset
    at_frame_pointer,  ///< CFA = word at fp + offset
  };
  enum class fp_from : std::uint8_t {
    unchanged,         ///< not saved yet: the register still holds it
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

/// The rule of the frame to which a call returns at `return_address`, by the unwinding information of the module
/// there. Linear in the function's entry. Takes no lock, allocates nothing, may run in a signal handler. `nowhere`
/// where there is no module or no information, and for signal frames.
[[nodiscard]] frame_rule frame_rule_at(std::uintptr_t return_address) noexcept;

/// The same for an .eh_frame_hdr in memory, and the .eh_frame that it points to.
[[nodiscard]] frame_rule frame_rule_in(const std::byte* eh_frame_header,
                                       std::uintptr_t return_address) noexcept;

/// Packs a rule into one word that is never 0, and unpacks it. Offsets of frame_rule_in() have at most 24 bits.
[[nodiscard]] std::uint64_t packed(const frame_rule& rule) noexcept;
[[nodiscard]] frame_rule unpacked_frame_rule(std::uint64_t word) noexcept;

}  // namespace espalier::preload
