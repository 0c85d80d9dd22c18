#include "sim/runtime/fibers.hpp"

#include <cxxabi.h>

#include <array>
#include <boost/context/fiber.hpp>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "sim/runtime/arena.hpp"

namespace espalier::sim {
namespace {

using boost::context::fiber;

// What the C++ runtime keeps for each thread: the caught exceptions and the number of uncaught ones.
using exception_state = std::array<std::byte, 16>;

call_stack main_calls;

/// Stacks lie in the arena, one after the other. Their tops are staggered, like those of real threads. Otherwise the
/// same variable of all threads would fall into one set of a cache.
struct arena_stack {
  unsigned index;

  [[nodiscard]] boost::context::stack_context allocate() const {
    boost::context::stack_context where;
    const std::size_t stagger = std::size_t{index % 64} * 1088;
    where.size = fibers::stack_bytes - stagger;
    where.sp = reinterpret_cast<void*>(low() + where.size);
    return where;
  }
  static void deallocate(boost::context::stack_context&) noexcept {}
  [[nodiscard]] std::uintptr_t low() const noexcept { return arena::stacks + index * fibers::stack_bytes; }
};

}  // namespace

call_stack* running_calls = &main_calls;

struct fibers::state {
  // Never destroyed: that would unwind a stack which may belong to a failed program.
  union {
    fiber context;
  };
  std::function<void()> body;
  exception_state exceptions{};
  call_stack calls;
  std::uintptr_t stack_low = 0;

  state() { ::new (&context) fiber; }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {}  // NOLINT(modernize-use-equals-default): the union's member stays as it is
};

fibers::fibers() : main_(std::make_unique<state>()) { arena::reserve(); }
fibers::~fibers() = default;

void fibers::clear() {
  states_.clear();
  current_ = previous_ = none;
  stack_low_ = 0;
}

unsigned fibers::add(std::function<void()> body) {
  const unsigned id = count();
  if (id == most) throw std::invalid_argument("a simulated program has at most 1024 threads");
  auto fresh = std::make_unique<state>();
  fresh->body = std::move(body);
  const arena_stack stack{id};
  fresh->stack_low = stack.low();
  ::new (&fresh->context) fiber(std::allocator_arg, stack, [this, id](fiber&& from) {
    (previous_ == none ? *main_ : *states_[previous_]).context = std::move(from);
    arrive(id);
    states_[id]->body();
    const unsigned next = finished_(id);
    previous_ = id;
    return std::move((next == none ? *main_ : *states_[next]).context);
  });
  states_.push_back(std::move(fresh));
  return id;
}

void fibers::arrive(unsigned id) noexcept {
  const state& s = id == none ? *main_ : *states_[id];
  std::memcpy(abi::__cxa_get_globals(), s.exceptions.data(), s.exceptions.size());
  current_ = id;
  stack_low_ = s.stack_low;
  running_calls = id == none ? &main_calls : &states_[id]->calls;
}

void fibers::switch_to(unsigned id) {
  const unsigned me = current_;
  state& mine = me == none ? *main_ : *states_[me];
  state& other = id == none ? *main_ : *states_[id];
  std::memcpy(mine.exceptions.data(), abi::__cxa_get_globals(), mine.exceptions.size());
  previous_ = me;
  fiber from = std::move(other.context).resume();
  // A fiber that has ended has no context to return to.
  if (from) (previous_ == none ? *main_ : *states_[previous_]).context = std::move(from);
  arrive(me);
}

void fibers::run(unsigned first) {
  if (setjmp(signal_exit_) == 0) {
    switch_to(first);
  } else {
    // Main was suspended and left by the jump: its stored context is invalid and must not be unwound.
    ::new (&main_->context) fiber;
    arrive(none);
  }
}

void fibers::leave() {
  switch_to(none);
  std::terminate();  // no fiber switches back
}

void fibers::leave_from_signal() { std::longjmp(signal_exit_, 1); }

}  // namespace espalier::sim
