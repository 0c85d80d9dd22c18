#include "espalier/hw/htm.hpp"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace espalier::hw {
namespace {

std::string describe(abort_code code) {
  switch (code) {
    case abort_code::validation:
      return "validation";
    case abort_code::user_1:
      return "user 1";
    case abort_code::user_2:
      return "user 2";
    case abort_code::lock_held:
      return "lock held";
  }
  return "code " + std::to_string(static_cast<unsigned>(code));
}

/// The state of one thread under `scripted`.
struct script_state {
  scripted::cue* cue = nullptr;
  unsigned depth = 0;
  /// The abort that the transaction in progress must end with.
  std::optional<abort_status> doom;
};

thread_local constinit script_state script;

}  // namespace

std::string_view to_string(abort_cause cause) noexcept {
  constexpr std::array<std::string_view, 6> names{"conflict", "capacity", "explicit",
                                                  "debug",    "nested",   "other"};
  const auto place = static_cast<std::size_t>(cause);
  return place < names.size() ? names[place] : "unknown";
}

std::string to_string(abort_status status) {
  std::string text;
  const auto add = [&text](std::string_view word) {
    if (!text.empty()) text += ", ";
    text += word;
  };
  if (const auto code = status.code()) add("explicit (" + describe(*code) + ")");
  if (status.is_conflict()) add("conflict");
  if (status.is_capacity()) add("capacity");
  if (status.is_debug()) add("debug");
  if (text.empty() && !status.is_nested()) add("other");
  if (status.is_nested()) add("nested");
  if (status.may_retry()) add("may retry");
  return text;
}

rtm_support rtm::find_out() noexcept {
  const rtm_support mine = look_for_rtm();
  rtm_support first = rtm_support::unknown;
  // The first of several threads decides for all, so that the answer never changes. relaxed: the word is all.
  return known.compare_exchange_strong(first, mine, std::memory_order_relaxed) ? mine : first;
}

void rtm::map_code() noexcept {
#if defined(MADV_POPULATE_READ)
  constexpr std::uintptr_t page = 4096;
  constexpr std::size_t bytes = 4 * page;
  const int before = errno;
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  // Fails, without harm, on kernels before 5.14, and where the code ends in between.
  static_cast<void>(madvise(reinterpret_cast<void*>(caller / page * page), bytes, MADV_POPULATE_READ));
  errno = before;
#endif
}

rtm_availability rtm::probe() {
  const bool yes = available();
  // relaxed: available() in this thread has read or written the word.
  switch (known.load(std::memory_order_relaxed)) {
    case rtm_support::commits:
      return {yes, rtm_is_emulated() ? "transactions are emulated by a library for tests"
                                     : "a trial transaction committed"};
    case rtm_support::not_announced:
      return {yes, "the processor does not announce RTM (CPUID leaf 7)"};
    case rtm_support::always_aborts:
      return {yes, "the microcode aborts every transaction (RTM_ALWAYS_ABORT)"};
    case rtm_support::never_commits:
      return {yes, "announced, but none of " + std::to_string(rtm_trials) + " trial transactions committed"};
    case rtm_support::unknown:
    case rtm_support::no_x86:
      break;
  }
  return {yes, "RTM is an x86-64 feature and this processor is of another kind"};
}

scripted::cue::cue(std::vector<step> steps, step then) noexcept
    : steps_(std::move(steps)), then_(then), enclosing_(std::exchange(script.cue, this)) {}

scripted::cue::~cue() { script.cue = enclosing_; }

std::size_t scripted::cue::remaining() const noexcept {
  return transactions_ < steps_.size() ? steps_.size() - transactions_ : 0;
}

bool scripted::active() noexcept { return script.depth != 0; }

scripted::step scripted::begin() noexcept {
  if (script.depth != 0) {
    if (script.doom) return script.doom;
  } else if (cue* const current = script.cue) {
    const std::size_t turn = current->transactions_++;
    if (const step abort = turn < current->steps_.size() ? current->steps_[turn] : current->then_)
      return abort;
  }
  ++script.depth;
  return commit;
}

transaction_outcome scripted::end(transaction_verdict verdict) noexcept {
  --script.depth;
  if (const auto code = verdict.wants_abort(); code && !script.doom) {
    const abort_status asked = abort_status::asked_for(*code);
    script.doom = script.depth == 0 ? asked : abort_status{asked.word() | abort_status::nested_bit};
  }
  const std::optional<abort_status> doom = script.doom;
  if (script.depth == 0) script.doom.reset();
  return {!doom, doom.value_or(abort_status{})};
}

}  // namespace espalier::hw
