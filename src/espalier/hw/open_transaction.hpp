#pragma once

// Transactions that begin and end in two calls, for one kind of caller only: an interposed pthread_mutex_lock and
// pthread_mutex_unlock, between which runs a program that knows nothing of this. Code that can pass the section as a
// body uses `Backend::run` of hw/htm instead.
//
// WARNING. After begin() said "inside", an abort may undo every instruction up to end(): control is then back in
// begin(), in a frame that may have returned long ago, and begin() returns the status. RTM makes that sound by
// restoring registers and all memory. It cannot restore effects outside memory. No other backend could do it, so a
// simulated one cannot have this interface. The caller
//  - begins only where look_for_rtm() has found rtm_support::commits: elsewhere the instructions are illegal;
//  - ends each transaction that it began, once, in the same thread, and records that in memory of the thread's own,
//    which an abort restores with the rest;
//  - bounds its attempts and has a fallback, for any transaction may abort for ever.

#include <concepts>
#include <cstdint>
#include <optional>

#include "espalier/hw/htm.hpp"
#include "espalier/hw/rtm_instructions.hpp"

namespace espalier::hw {

/// begin(): nothing when inside, or why an attempt was aborted. end(): the commit. abort<Code>(): control returns
/// to begin(). If the backend cannot do that, the call returns with the transaction over, and the caller continues as
/// after an abort that begin() reports.
template <class Backend>
concept open_backend = requires {
  { Backend::begin() } noexcept -> std::same_as<std::optional<abort_status>>;
  { Backend::end() } noexcept;
  { Backend::template abort<abort_code::lock_held>() } noexcept;
};

/// Intel RTM. Header only.
class open_rtm {
 public:
  [[nodiscard]] static std::optional<abort_status> begin() noexcept {
    const std::uint32_t word = rtm_instructions::begin();
    if (word == rtm_instructions::started) return std::nullopt;
    return abort_status{word};
  }
  static void end() noexcept { rtm_instructions::end(); }
  template <abort_code Code>
  static void abort() noexcept {
    rtm::abort_with<Code>();
  }
};

/// For tests, under the same cues as hw::scripted: begin() takes a step, and a committing one runs the section as
/// ordinary code, without isolation from other threads. An abort inside returns, and undoes nothing.
class open_scripted {
 public:
  [[nodiscard]] static std::optional<abort_status> begin() noexcept { return scripted::begin(); }
  static void end() noexcept { static_cast<void>(scripted::end(transaction_verdict::commit())); }
  template <abort_code Code>
  static void abort() noexcept {
    static_cast<void>(scripted::end(transaction_verdict::abort(Code)));
  }
};

static_assert(open_backend<open_rtm>);
static_assert(open_backend<open_scripted>);

}  // namespace espalier::hw
