#pragma once

// Hardware transactions: what an abort says, how a transaction is entered, and three backends.
//
// A backend is a type with static members only, so that locks and maps take it as a policy:
//   rtm          Intel's restricted transactional memory
//   unavailable  begins no transaction; every caller is on its fallback path
//   scripted     aborts on cue, so that tests reach every fallback on any processor
// A simulator adds its own with the same members. At the end of this file, open_rtm and open_scripted are two of them
// for transactions that no single call encloses.
//
// A transaction is one call, `Backend::run(body)`. The body runs inside it and says at its end whether to
// commit. The rules for every body:
//  - It writes no local of the enclosing frames but its result, and the caller reads that result only after a
//    commit. The processor restores registers and stack at an abort; other backends cannot restore a frame,
//    of which the compiler may hold any part in registers.
//  - It aborts by returning a verdict, never by leaving frames in between: only RTM could leave them.
//  - It is noexcept: no exception can carry anything out of a transaction. Under RTM a throw inside ends as an
//    abort of cause `other`, since termination needs the system; elsewhere it terminates.
//  - It makes no system call, touches no page for the first time and calls no cpu_relax(): RTM aborts at each.
//  - It executes no vzeroupper: RTM aborts at that too. The compiler puts one at the end of each function that uses
//    registers of 256 bits: compile for AVX (-mavx, -march=native) only with -mno-vzeroupper.
// Any transaction may abort for ever, so every caller bounds its attempts and has a fallback.

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "espalier/hw/rtm_instructions.hpp"

namespace espalier::hw {

/// Why a body gave up, carried in eight bits of the abort status. A status may hold other values, from
/// transactions that are not ours; a verdict holds only those listed.
enum class abort_code : std::uint8_t {
  validation = 1,    ///< what the body read no longer allows its change
  user_1 = 2,        ///< for the caller to define
  user_2 = 3,        ///< for the caller to define
  lock_held = 0xff,  ///< the fallback lock was found taken; retry when it is free
};

enum class abort_cause : std::uint8_t {
  conflict,        ///< another core touched a line of this transaction, or seemed to
  capacity,        ///< the lines touched do not fit
  explicit_abort,  ///< requested, see abort_status::code()
  debug,           ///< a breakpoint
  nested,          ///< inside an inner transaction, no reason given
  other,           ///< page fault, interrupt, system call, unsupported instruction
};

[[nodiscard]] std::string_view to_string(abort_cause cause) noexcept;

/// Why a transaction aborted: the processor's 32-bit word.
class abort_status {
 public:
  static constexpr std::uint32_t explicit_bit = 1U << 0;
  static constexpr std::uint32_t retry_bit = 1U << 1;
  static constexpr std::uint32_t conflict_bit = 1U << 2;
  static constexpr std::uint32_t capacity_bit = 1U << 3;
  static constexpr std::uint32_t debug_bit = 1U << 4;
  static constexpr std::uint32_t nested_bit = 1U << 5;
  static constexpr unsigned code_shift = 24;

  constexpr abort_status() = default;
  constexpr explicit abort_status(std::uint32_t word) noexcept : word_(word) {}

  /// The status of an abort that the body requested. The processor never adds the retry bit to it.
  [[nodiscard]] static constexpr abort_status asked_for(abort_code code) noexcept {
    return abort_status{explicit_bit | static_cast<std::uint32_t>(code) << code_shift};
  }

  [[nodiscard]] constexpr std::uint32_t word() const noexcept { return word_; }
  [[nodiscard]] constexpr bool is_explicit() const noexcept { return has(explicit_bit); }
  /// The processor's guess that another attempt may commit. It may be wrong both ways: a transaction that never
  /// fits may always have the bit.
  [[nodiscard]] constexpr bool may_retry() const noexcept { return has(retry_bit); }
  [[nodiscard]] constexpr bool is_conflict() const noexcept { return has(conflict_bit); }
  [[nodiscard]] constexpr bool is_capacity() const noexcept { return has(capacity_bit); }
  [[nodiscard]] constexpr bool is_debug() const noexcept { return has(debug_bit); }
  [[nodiscard]] constexpr bool is_nested() const noexcept { return has(nested_bit); }

  /// The code of an explicit abort; none for any other, where bits 31:24 mean nothing.
  [[nodiscard]] constexpr std::optional<abort_code> code() const noexcept {
    if (!is_explicit()) return std::nullopt;
    return static_cast<abort_code>(word_ >> code_shift);
  }

  /// The one cause under which to count an abort. Of several bits, the more persistent cause decides: capacity
  /// before conflict, and nested, which says where and not why, last.
  [[nodiscard]] constexpr abort_cause cause() const noexcept {
    if (is_explicit()) return abort_cause::explicit_abort;
    if (is_capacity()) return abort_cause::capacity;
    if (is_conflict()) return abort_cause::conflict;
    if (is_debug()) return abort_cause::debug;
    if (is_nested()) return abort_cause::nested;
    return abort_cause::other;
  }

  friend constexpr bool operator==(abort_status, abort_status) = default;

 private:
  [[nodiscard]] constexpr bool has(std::uint32_t bit) const noexcept { return (word_ & bit) != 0; }

  std::uint32_t word_ = 0;
};

/// Every bit that is set, in words: "conflict, may retry", "explicit (lock held), nested", "other".
[[nodiscard]] std::string to_string(abort_status status);

struct transaction_outcome {
  bool committed = false;
  /// Why it aborted; means nothing after a commit.
  abort_status status;

  friend constexpr bool operator==(transaction_outcome, transaction_outcome) = default;
};

/// The decision of a body at its end.
class transaction_verdict {
 public:
  [[nodiscard]] static constexpr transaction_verdict commit() noexcept { return transaction_verdict{}; }
  /// Undoes the body's writes, where the backend can. `code` is one of the enumerators.
  [[nodiscard]] static constexpr transaction_verdict abort(abort_code code) noexcept {
    return transaction_verdict{code};
  }

  /// The requested abort, none for a commit.
  [[nodiscard]] constexpr std::optional<abort_code> wants_abort() const noexcept { return code_; }

  friend constexpr bool operator==(transaction_verdict, transaction_verdict) = default;

 private:
  constexpr transaction_verdict() = default;
  constexpr explicit transaction_verdict(abort_code code) noexcept : code_(code) {}

  std::optional<abort_code> code_;
};

/// Returns void, to commit, or a transaction_verdict.
template <class Body>
concept transaction_body =
    std::is_nothrow_invocable_v<Body&> && (std::is_void_v<std::invoke_result_t<Body&>> ||
                                           std::same_as<std::invoke_result_t<Body&>, transaction_verdict>);

/// Runs a body of either kind.
template <transaction_body Body>
[[nodiscard]] transaction_verdict verdict_of(Body& body) noexcept {
  if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
    body();
    return transaction_verdict::commit();
  } else {
    return body();
  }
}

/// A way to run transactions:
///  - available(): whether a transaction can ever commit. Constant during a process.
///  - active(): whether the caller is inside a transaction.
///  - run(body): one attempt. It may abort before the body runs, in its middle or at its end. Inside a
///    transaction the inner one joins the outer one: a commit takes effect with the outer commit, and an abort
///    aborts the outermost, with `nested` in its status.
template <class Backend>
concept transactional_backend =
    requires(void (&plain)() noexcept, transaction_verdict (&judging)() noexcept) {
      { Backend::available() } noexcept -> std::same_as<bool>;
      { Backend::active() } noexcept -> std::same_as<bool>;
      { Backend::run(plain) } -> std::same_as<transaction_outcome>;
      { Backend::run(judging) } -> std::same_as<transaction_outcome>;
    };

/// Whether RTM works, with one line that says why, for results and for messages.
struct rtm_availability {
  bool available;
  std::string reason;
};

/// Intel RTM. Compiles everywhere; if it is not available, run() aborts with status 0 and the body never
/// runs.
class rtm {
 public:
  /// True where CPUID announces RTM and a trial transaction has committed: many processors announce it while
  /// their microcode aborts every transaction. The first call decides, in microseconds; later calls are a load.
  [[nodiscard]] static bool available() noexcept {
    // relaxed: the word itself is all that is passed on.
    const rtm_support now = known.load(std::memory_order_relaxed);
    return (now == rtm_support::unknown ? find_out() : now) == rtm_support::commits;
  }

  /// The result of available(), and the reason.
  [[nodiscard]] static rtm_availability probe();

  /// True also inside a transaction that other code began, such as glibc's own lock elision.
  [[nodiscard]] static bool active() noexcept { return available() && rtm_instructions::inside(); }

  template <transaction_body Body>
  [[nodiscard]] static transaction_outcome run(Body&& body) noexcept {
    if (!available()) return {false, abort_status{}};
    if (const std::uint32_t word = rtm_instructions::begin(); word != rtm_instructions::started) {
      if (word == 0) map_code();
      return {false, abort_status{word}};
    }
    if (const auto code = verdict_of(body).wants_abort()) {
      abort(*code);
      // Not reached: the processor has gone back to begin().
      return {false, abort_status::asked_for(*code)};
    }
    rtm_instructions::end();
    return {true, abort_status{}};
  }

 private:
  friend class open_rtm;

  static inline constinit std::atomic<rtm_support> known{rtm_support::unknown};

  static rtm_support find_out() noexcept;

  /// Maps the pages of code around the caller. The kernel maps code where it is executed first, and a transaction that
  /// would execute it first aborts, each time again. For aborts that report no cause. Leaves errno as it is. Not declared
  /// cold: the call would lie in another section, far from the transaction.
  [[gnu::noinline]] static void map_code() noexcept;

  template <abort_code Code>
  static void abort_with() noexcept {
    rtm_instructions::abort<static_cast<std::uint8_t>(Code)>();
  }

  static void abort(abort_code code) noexcept {
    switch (code) {
      case abort_code::validation:
        return abort_with<abort_code::validation>();
      case abort_code::user_1:
        return abort_with<abort_code::user_1>();
      case abort_code::user_2:
        return abort_with<abort_code::user_2>();
      case abort_code::lock_held:
        return abort_with<abort_code::lock_held>();
    }
    rtm_instructions::abort<0>();
  }
};

/// Begins nothing: every run() aborts with status 0, as on a processor without transactions.
class unavailable {
 public:
  [[nodiscard]] static constexpr bool available() noexcept { return false; }
  [[nodiscard]] static constexpr bool active() noexcept { return false; }

  template <transaction_body Body>
  [[nodiscard]] static constexpr transaction_outcome run(Body&&) noexcept {
    return {false, abort_status{}};
  }
};

/// For tests: each outermost transaction of this thread takes the next step of the thread's innermost cue; a
/// thread without a cue commits all.
///
/// A committing step runs the body as ordinary code: nothing isolates it from other threads, and nothing undoes
/// its writes if its own verdict is an abort. Tests therefore keep other threads away from the data, and a
/// body decides on an abort before it writes. After the abort of an inner transaction the outer body runs to
/// its end, which no processor would let it do, and the outermost run() then reports that abort; inner
/// transactions until then do not run their bodies.
class scripted {
 public:
  /// Abort with this status before the body runs, or (without one) run it and follow its verdict.
  using step = std::optional<abort_status>;
  static constexpr step commit{};

  /// The script of the thread that makes it, until it is destroyed there; cues nest like scopes.
  class cue {
   public:
    /// `then` is the step of every transaction after the last of `steps`.
    explicit cue(std::vector<step> steps, step then = commit) noexcept;
    ~cue();
    cue(const cue&) = delete;
    cue& operator=(const cue&) = delete;

    /// Steps that no transaction has taken yet.
    [[nodiscard]] std::size_t remaining() const noexcept;
    /// Outermost transactions begun under this cue, those after its last step included.
    [[nodiscard]] std::size_t transactions() const noexcept { return transactions_; }

   private:
    friend class scripted;

    std::vector<step> steps_;
    step then_;
    std::size_t transactions_ = 0;
    cue* enclosing_;
  };

  [[nodiscard]] static constexpr bool available() noexcept { return true; }
  [[nodiscard]] static bool active() noexcept;

  template <transaction_body Body>
  [[nodiscard]] static transaction_outcome run(Body&& body) noexcept {
    if (const step refused = begin()) return {false, *refused};
    return end(verdict_of(body));
  }

 private:
  friend class open_scripted;

  static step begin() noexcept;
  static transaction_outcome end(transaction_verdict verdict) noexcept;
};

static_assert(transactional_backend<rtm>);
static_assert(transactional_backend<unavailable>);
static_assert(transactional_backend<scripted>);

// Transactions that begin and end in two calls, for one kind of caller only: an interposed pthread_mutex_lock and
// pthread_mutex_unlock, between which runs a program that knows nothing of this. Code that can pass the section as a
// body uses `Backend::run` instead.
//
// WARNING. After begin() said "inside", an abort may undo every instruction up to end(): control is then back in
// begin(), in a frame that may have returned long ago, and begin() returns the status. RTM makes that sound by
// restoring registers and all memory. It cannot restore effects outside memory. No other backend could do it, so a
// simulated one cannot have this interface. The caller
//  - begins only where look_for_rtm() has found rtm_support::commits: elsewhere the instructions are illegal;
//  - ends each transaction that it began, once, in the same thread, and records that in memory of the thread's own,
//    which an abort restores with the rest;
//  - bounds its attempts and has a fallback, for any transaction may abort for ever.

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
