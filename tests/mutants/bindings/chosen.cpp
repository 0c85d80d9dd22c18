// What a mutated text asks, in a library whose tests know of no mutants: ESPALIER_MUTANT has the number of one, and the file
// ESPALIER_MUTANT_REACHED is made when its code runs.

#include "scheduled/chosen.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace espalier::mutants {
namespace {

std::uint32_t number_in_environment() noexcept {
  const char* const text = std::getenv("ESPALIER_MUTANT");
  return text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : 0;
}
bool is_told() noexcept {
  if (const char* const file = std::getenv("ESPALIER_MUTANT_REACHED"); file != nullptr)
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  return true;
}

}  // namespace

bool is_chosen(std::uint32_t mutant) noexcept {
  static const std::uint32_t wanted = number_in_environment();
  if (mutant != wanted) return false;
  [[maybe_unused]] static const bool told = is_told();
  // Many times as often as tests that end do: it is an endless loop.
  constexpr std::uint64_t most_questions = 100'000'000;
  static std::atomic<std::uint64_t> questions{0};
  // relaxed: a count.
  if (questions.fetch_add(1, std::memory_order_relaxed) > most_questions) std::raise(SIGPROF);
  return true;
}

}  // namespace espalier::mutants
