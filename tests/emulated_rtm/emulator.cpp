// libespalier-emulated-rtm.so, for LD_PRELOAD: Intel's RTM on a processor that has none, for tests. The four
// instructions are illegal there, and the kernel says so by a signal; this carries them out.
//
// A transaction is run from breakpoint to breakpoint, of which one is before each write to memory and where code
// branches. What a write will change is kept, so that an abort puts memory and all registers back as they were at
// xbegin; the other threads of the process stand meanwhile. (The processor's trap flag alone would do as well, but
// some virtual machines take ten microseconds to say that it has trapped.) What aborts on the processor aborts here:
// system calls, pauses, vzeroupper, page faults, writes that exceed the first-level cache, and xabort; conflicts, which
// cannot arise while the others stand, come as often as the environment asks (settings.hpp). So the code between xbegin
// and xend, the compiler's and the dynamic linker's part in it included, is what runs on the processor, and all its
// outcomes can be met; what it costs, and how transactions of several cores meet, cannot.
//
// Source of the semantics: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter "Programming
// with Intel Transactional Synchronization Extensions", and volume 2 for the instructions.

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulated_rtm/instruction.hpp"
#include "emulated_rtm/other_threads.hpp"
#include "emulated_rtm/pages.hpp"
#include "emulated_rtm/raw_calls.hpp"
#include "emulated_rtm/settings.hpp"
#include "emulated_rtm/write_set.hpp"
#include "espalier/hw/htm.hpp"

namespace espalier::emulated_rtm {
namespace {

using hw::abort_status;

constexpr greg_t zero_flag = 1 << 6;
constexpr greg_t trap_flag = 1 << 8;
constexpr greg_t arithmetic_flags = 0x8d5;

/// The kernel's part of a context's signal mask is shorter than the C library's.
using kernel_mask = std::uint64_t;
constexpr kernel_mask bit_of(int signal) noexcept {
  return kernel_mask{1} << static_cast<unsigned>(signal - 1);
}
/// Those that an instruction of the transaction itself raises.
constexpr kernel_mask always_let_through = bit_of(SIGTRAP) | bit_of(SIGILL) | bit_of(SIGSEGV) |
                                           bit_of(SIGBUS) | bit_of(SIGFPE) | bit_of(SIGABRT) |
                                           bit_of(SIGKILL) | bit_of(SIGSTOP);

kernel_mask mask_of(const ucontext_t& at) noexcept {
  kernel_mask mask{};
  std::memcpy(&mask, &at.uc_sigmask, sizeof mask);
  return mask;
}
void set_mask(ucontext_t& at, kernel_mask mask) noexcept { std::memcpy(&at.uc_sigmask, &mask, sizeof mask); }

/// Vector and floating-point registers, as a signal's frame holds them.
class vector_registers {
 public:
  /// False where they are of a form or size not known here.
  [[nodiscard]] bool keep(const ucontext_t& at) noexcept {
    const auto* const frame = reinterpret_cast<const unsigned char*>(at.uc_mcontext.fpregs);
    // The kernel's struct _fpx_sw_bytes, in what fxsave leaves to software.
    std::array<std::uint32_t, 2> magic_and_size{};
    std::memcpy(magic_and_size.data(), frame + 464, sizeof magic_and_size);
    if (magic_and_size[0] != 0x4650'5853U || magic_and_size[1] > bytes_.size()) return false;
    size_ = magic_and_size[1];
    std::memcpy(bytes_.data(), frame, size_);
    return true;
  }
  void put_back(ucontext_t& at) const noexcept { std::memcpy(at.uc_mcontext.fpregs, bytes_.data(), size_); }

 private:
  alignas(64) std::array<unsigned char, 16384> bytes_{};
  std::size_t size_ = 0;
};

/// Stacks for the handler of a thread that is in a transaction: on the thread's own it would write over what an abort
/// has to put back, of frames that have returned since xbegin.
class handler_stacks {
 public:
  /// One that no other living thread was given; none where there are too many threads.
  [[nodiscard]] bool give(stack_t& stack) noexcept {
    const int self = this_thread();
    auto* owner = std::ranges::find(owners_, self);
    if (owner == owners_.end()) owner = std::ranges::find_if(owners_, is_free);
    if (owner == owners_.end()) return false;
    *owner = self;
    auto& memory = stacks_[static_cast<std::size_t>(owner - owners_.begin())];
    stack = {memory.data(), 0, memory.size()};
    return true;
  }

 private:
  /// The handler of the thread that had it last may still be about to return: only its end frees it.
  static bool is_free(int owner) noexcept {
    return owner == 0 || raw_call(SYS_tgkill, this_process(), owner, 0) != 0;
  }

  std::array<std::array<unsigned char, 65536>, 64> stacks_{};
  std::array<int, 64> owners_{};
};

class abort_lottery {
 public:
  void set(const settings& s) noexcept { every_ = s.abort_every; }
  /// How many steps the next transaction gets, short ones as often as long ones.
  [[nodiscard]] std::uint32_t draw(std::uint32_t most) noexcept {
    if (every_ == 0 || ++transactions_ % every_ != 0) return most;
    const std::uint64_t magnitude = next() % 12;
    const auto drawn = static_cast<std::uint32_t>(next() % (std::uint64_t{1} << magnitude));
    return drawn < most ? drawn : most;
  }
  /// What others do to a transaction, and what the processor says of it.
  [[nodiscard]] abort_status reason() noexcept {
    constexpr std::array reasons{abort_status{abort_status::conflict_bit | abort_status::retry_bit},
                                 abort_status{abort_status::conflict_bit | abort_status::retry_bit},
                                 abort_status{}, abort_status{abort_status::retry_bit}};
    return reasons[next() % reasons.size()];
  }

 private:
  std::uint64_t next() noexcept {
    random_ ^= random_ << 13U;
    random_ ^= random_ >> 7U;
    random_ ^= random_ << 17U;
    return random_;
  }

  std::uint32_t every_ = 0;
  std::uint32_t transactions_ = 0;
  std::uint64_t random_ = 0x9e37'79b9'7f4a'7c16U;
};

/// Writes and branches, after which a transaction ends as by an interrupt.
constexpr std::uint32_t most_steps = 100'000;

/// The process's one transaction at a time.
class machine {
 public:
  void set(const settings& s) noexcept {
    written_.set_cache(s.sets, s.ways);
    lottery_.set(s);
  }

  /// At an xbegin outside.
  void begin(ucontext_t& at, const instruction& xbegin) noexcept {
    const greg_t behind = at.uc_mcontext.gregs[REG_RIP] + static_cast<greg_t>(xbegin.length());
    const greg_t fallback = behind + xbegin.constant();
    other_threads::wait_for_turn();
    stack_t stack{};
    if (!handler_stacks_.give(stack) || !vectors_.keep(at) || !other_threads::stop()) {
      other_threads::pass_turn();
      at.uc_mcontext.gregs[REG_RIP] = fallback;
      at.uc_mcontext.gregs[REG_RAX] = abort_status::retry_bit;
      return;
    }
    registers_ = at.uc_mcontext;
    mask_ = mask_of(at);
    stack_ = at.uc_stack;
    fallback_ = fallback;
    depth_ = 1;
    left_ = lottery_.draw(most_steps);
    breakpoints_.begin();
    inside = true;
    at.uc_stack = stack;
    set_mask(at, ~always_let_through);
    at.uc_mcontext.gregs[REG_RIP] = behind;
    go_on(at);
  }

  /// Whether the calling thread is in a transaction.
  [[nodiscard]] static bool is_inside() noexcept { return inside; }

  /// At a breakpoint of the thread that is in a transaction.
  void arrive(ucontext_t& at) noexcept {
    breakpoints_.remove();
    greg_t& flags = at.uc_mcontext.gregs[REG_EFL];
    if ((flags & trap_flag) != 0) {
      flags &= ~trap_flag;
      return go_on(at);
    }
    greg_t& behind_breakpoint = at.uc_mcontext.gregs[REG_RIP];
    if (!breakpoints_.had(static_cast<std::uintptr_t>(behind_breakpoint) - 1))
      return abort(at, abort_status{abort_status::debug_bit});  // the program's own
    --behind_breakpoint;
    go_on(at);
  }

 private:
  /// Lets what is next come to pass, or carries it out.
  void go_on(ucontext_t& at) noexcept {
    for (;;) {
      const instruction next(at);
      greg_t& at_instruction = at.uc_mcontext.gregs[REG_RIP];
      if (left_ == 0) return abort(at, lottery_.reason());
      --left_;
      switch (next.kind()) {
        case instruction_kind::begin:
          ++depth_;
          break;
        case instruction_kind::end:
          if (--depth_ == 0) {
            at_instruction += static_cast<greg_t>(next.length());
            return commit(at);
          }
          break;
        case instruction_kind::test:
          at.uc_mcontext.gregs[REG_EFL] &= ~arithmetic_flags;
          break;
        case instruction_kind::abort:
          return abort(at, explicit_abort(next, depth_ > 1));
        case instruction_kind::refused:
          return abort(at, abort_status{});
        case instruction_kind::ordinary:
          return pass(at, next);
      }
      at_instruction += static_cast<greg_t>(next.length());
    }
  }

  static abort_status explicit_abort(const instruction& xabort, bool nested) noexcept {
    const auto code = static_cast<std::uint32_t>(xabort.constant()) << abort_status::code_shift;
    return abort_status{abort_status::explicit_bit | code | (nested ? abort_status::nested_bit : 0)};
  }

  void pass(ucontext_t& at, const instruction& one) noexcept {
    for (const memory_access& access : one.accesses())
      if (!pages_.hold(access.address, access.bytes, access.writes)) return abort(at, abort_status{});
    for (const memory_access& access : one.accesses())
      if (access.writes && !written_.add(access.address, access.bytes))
        return abort(at, abort_status{abort_status::capacity_bit});
    stop_behind(at, one);
  }

  void stop_behind(ucontext_t& at, const instruction& one) noexcept {
    const auto here = static_cast<std::uintptr_t>(at.uc_mcontext.gregs[REG_RIP]);
    std::array<std::uintptr_t, 2> stops{};
    for (std::size_t i = 0; i < one.next().count; ++i) {
      stops[i] = first_of_note(one.next().addresses[i]);
      // It would keep the instruction itself from being carried out: a return to where another is the next of note.
      if (stops[i] == here) {
        at.uc_mcontext.gregs[REG_EFL] |= trap_flag;
        return;
      }
    }
    if (!breakpoints_.place(stops.data(), one.next().count)) abort(at, abort_status{});
  }

  void abort(ucontext_t& at, abort_status status) noexcept {
    written_.undo();
    auto* const vectors = at.uc_mcontext.fpregs;
    at.uc_mcontext = registers_;
    at.uc_mcontext.fpregs = vectors;
    vectors_.put_back(at);
    at.uc_mcontext.gregs[REG_RIP] = fallback_;
    at.uc_mcontext.gregs[REG_RAX] = static_cast<greg_t>(status.word());
    leave(at);
  }

  void commit(ucontext_t& at) noexcept {
    written_.clear();
    leave(at);
  }

  void leave(ucontext_t& at) noexcept {
    set_mask(at, mask_);
    at.uc_stack = stack_;
    pages_.forget();
    inside = false;
    other_threads::resume();
    other_threads::pass_turn();
  }

  static inline thread_local constinit bool inside = false;

  breakpoints breakpoints_;
  write_set written_;
  resident_pages pages_;
  abort_lottery lottery_;
  vector_registers vectors_;
  handler_stacks handler_stacks_;

  mcontext_t registers_{};
  kernel_mask mask_ = 0;
  stack_t stack_{};
  greg_t fallback_ = 0;
  unsigned depth_ = 0;
  std::uint32_t left_ = 0;
};

constinit machine the_machine;

void on_illegal_instruction(int signal, siginfo_t*, void* context) noexcept {
  auto& at = *static_cast<ucontext_t*>(context);
  const instruction here(at);
  switch (here.kind()) {
    case instruction_kind::begin:
      return the_machine.begin(at, here);
    case instruction_kind::test:
      at.uc_mcontext.gregs[REG_EFL] = (at.uc_mcontext.gregs[REG_EFL] & ~arithmetic_flags) | zero_flag;
      break;
    case instruction_kind::abort:
      break;
    default:
      return leave_to_the_program(signal);
  }
  at.uc_mcontext.gregs[REG_RIP] += static_cast<greg_t>(here.length());
}

void on_trap(int signal, siginfo_t*, void* context) noexcept {
  auto& at = *static_cast<ucontext_t*>(context);
  machine::is_inside() ? the_machine.arrive(at) : leave_to_the_program(signal);
}

void handle_by(int signal, void (*handler)(int, siginfo_t*, void*)) noexcept {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  // A handler of the program's may begin a transaction of its own, and does so before this or after. To stand is
  // possible while waiting for a turn.
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, stop_signal);
  handle(signal, action);
}

void install() noexcept {
  the_machine.set(settings::from_environment());
  find_c_library();
  // The kernel begins a fork anew when a signal comes; in turn there is none.
  pthread_atfork(other_threads::wait_for_turn, other_threads::pass_turn, other_threads::forget);
  other_threads::listen();
  handle_by(SIGTRAP, on_trap);
  handle_by(SIGILL, on_illegal_instruction);
}

}  // namespace
}  // namespace espalier::emulated_rtm

/// Asked before the first xbegin, by constructors that may be earlier than ours.
extern "C" bool espalier_emulates_rtm() noexcept {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, espalier::emulated_rtm::install);
  return true;
}
