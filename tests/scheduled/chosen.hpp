#pragma once

#include <cstdint>
#include <type_traits>

// What a mutated text asks (switches.py).

namespace espalier::mutants {

/// Without instrumentation: to ask is no step of a schedule.
[[nodiscard]] bool is_chosen(std::uint32_t mutant) noexcept;

/// Whether the program runs as this mutant.
[[nodiscard, gnu::always_inline]] constexpr bool chosen(std::uint32_t mutant) noexcept {
  return !std::is_constant_evaluated() && is_chosen(mutant);
}

}  // namespace espalier::mutants
