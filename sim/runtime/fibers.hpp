#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace espalier::sim {

/// The maximal number of recorded frames of a call stack.
inline constexpr std::size_t most_frames = 256;

/// Threads of a simulated program: fibers on a single operating-system thread, which runs exactly one of them, or
/// main(), at a time. The callers decide which one runs next.
class fibers {
 public:
  static constexpr unsigned none = ~0U;
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10U;
  static constexpr unsigned most = 1024;

  fibers();
  fibers(const fibers&) = delete;
  fibers& operator=(const fibers&) = delete;
  ~fibers();

  /// Adds a fiber that will run the body. When the body ends, finished(id) returns the next fiber to run; none means
  /// main. Bodies must not let an exception escape.
  unsigned add(std::function<void()> body);
  void when_finished(std::function<unsigned(unsigned)> finished) { finished_ = std::move(finished); }

  /// From main: runs the fiber, until leave() or the end of the last. A signal handler may call leave_from_signal().
  void run(unsigned first);
  /// From a fiber: continues another one. Returns when a fiber switches back.
  void switch_to(unsigned id);
  /// From a fiber: returns to main for good. Fibers that have not ended are dropped without unwinding: their stacks
  /// hold the objects of the failed program.
  [[noreturn]] void leave();
  [[noreturn]] void leave_from_signal();

  /// Drops all fibers, so that others can be added.
  void clear();

  [[nodiscard]] unsigned current() const noexcept { return current_; }
  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(states_.size()); }
  /// Whether an address lies on the running fiber's own stack.
  [[nodiscard]] bool on_own_stack(std::uintptr_t address) const noexcept {
    return address - stack_low_ < stack_bytes;
  }

 private:
  struct state;

  void arrive(unsigned id) noexcept;

  std::vector<std::unique_ptr<state>> states_;
  std::function<unsigned(unsigned)> finished_;
  std::unique_ptr<state> main_;
  unsigned current_ = none;
  unsigned previous_ = none;
  std::uintptr_t stack_low_ = 0;
  std::jmp_buf signal_exit_;
};

/// The active calls of the running fiber (or main), innermost last: return addresses of their callers.
struct call_stack {
  std::size_t depth = 0;
  const void* callers[most_frames];

  void enter(const void* caller) noexcept {
    if (depth < most_frames) callers[depth] = caller;
    ++depth;
  }
  void leave() noexcept {
    if (depth != 0) --depth;
  }
};

/// The call stack of the running fiber or main. The instrumentation's entry and exit callbacks maintain it.
extern call_stack* running_calls;

}  // namespace espalier::sim
