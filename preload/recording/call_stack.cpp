#include "preload/recording/call_stack.hpp"

#include <type_traits>

// The upper end of the main thread's stack, from the dynamic linker.
extern "C" void* __libc_stack_end;

namespace espalier::preload {
namespace {

static_assert(std::is_trivially_destructible_v<call_stack>);

std::uintptr_t thread_pointer() noexcept {
  std::uintptr_t self = 0;
  asm("mov %%fs:0, %0" : "=r"(self));
  return self;
}

/// A bound for what may be read of the stack that `sp` points into. glibc keeps a thread's own data at the
/// upper end of its stack; on stacks of the program's own making the bound is loose.
std::uintptr_t end_of_stack(std::uintptr_t sp) noexcept {
  constexpr std::uintptr_t unknown_stack = std::uintptr_t{1} << 16U;
  constexpr std::uintptr_t plausible = std::uintptr_t{1} << 30U;
  const std::uintptr_t self = thread_pointer();
  if (sp < self && self - sp < plausible) return self;
  const auto main_end = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  if (sp < main_end && main_end - sp < plausible) return main_end;
  return sp + unknown_stack;
}

class stack_words {
 public:
  explicit stack_words(std::uintptr_t begin) noexcept : begin_(begin), end_(end_of_stack(begin)) {}

  bool read(std::uintptr_t at, std::uintptr_t& word) const noexcept {
    if (at < begin_ || at > end_ - sizeof(word) || at % sizeof(word) != 0) return false;
    word = *reinterpret_cast<const std::uintptr_t*>(at);
    return true;
  }

 private:
  std::uintptr_t begin_;
  std::uintptr_t end_;
};

std::uintptr_t plus(std::uintptr_t base, std::int32_t offset) noexcept {
  return base + static_cast<std::uintptr_t>(std::intptr_t{offset});
}

/// Makes `state` that of its caller.
bool step(const frame_rule& rule, const stack_words& stack, caller_state& state) noexcept {
  std::uintptr_t cfa = 0;
  switch (rule.cfa) {
    case frame_rule::cfa_from::nowhere:
      return false;
    case frame_rule::cfa_from::stack_pointer:
      cfa = plus(state.sp, rule.cfa_offset);
      break;
    case frame_rule::cfa_from::frame_pointer:
      cfa = plus(state.fp, rule.cfa_offset);
      break;
    case frame_rule::cfa_from::at_stack_pointer:
      if (!stack.read(plus(state.sp, rule.cfa_offset), cfa)) return false;
      break;
    case frame_rule::cfa_from::at_frame_pointer:
      if (!stack.read(plus(state.fp, rule.cfa_offset), cfa)) return false;
      break;
  }
  // Stacks grow downwards; the return address is part of the frame that returns.
  if (cfa <= state.sp || !stack.read(cfa - sizeof(std::uintptr_t), state.pc)) return false;
  switch (rule.fp) {
    case frame_rule::fp_from::unchanged:
      break;
    case frame_rule::fp_from::cfa:
      if (!stack.read(plus(cfa, rule.fp_offset), state.fp)) return false;
      break;
    case frame_rule::fp_from::at_frame_pointer:
      if (!stack.read(plus(state.fp, rule.fp_offset), state.fp)) return false;
      break;
    case frame_rule::fp_from::lost:
      state.fp = 0;
      break;
  }
  state.sp = cfa;
  return state.pc != 0;
}

}  // namespace

bool call_stack::start() noexcept {
  slots_ = budget_.map_array<slot>(slots);
  return slots_ != nullptr;
}

frame_rule call_stack::rule_of(std::uintptr_t return_address) noexcept {
  std::size_t at = (return_address * 0x9e37'79b9'7f4a'7c15U) >> (64U - slot_bits);
  for (;; at = (at + 1) % slots) {
    slot& here = slots_[at];
    // relaxed: a rule is one word, and valid wherever it is seen.
    std::uintptr_t address = here.address.load(std::memory_order_relaxed);
    if (address == 0) {
      if (used_.load(std::memory_order_relaxed) >= most_rules) return frame_rule_at(return_address);
      if (here.address.compare_exchange_strong(address, return_address, std::memory_order_relaxed)) {
        used_.fetch_add(1, std::memory_order_relaxed);
        address = return_address;
      }
    }
    if (address != return_address) continue;
    const std::uint64_t known = here.rule.load(std::memory_order_relaxed);
    if (known != 0) return unpacked_frame_rule(known);
    const frame_rule found = frame_rule_at(return_address);
    here.rule.store(packed(found), std::memory_order_relaxed);
    return found;
  }
}

unsigned call_stack::walk(const caller_state& from, std::uintptr_t* frames, unsigned wanted) noexcept {
  const stack_words stack(from.sp);
  caller_state state = from;
  unsigned count = 0;
  while (count < wanted) {
    frames[count++] = state.pc;
    if (count == wanted || !step(rule_of(state.pc), stack, state)) break;
  }
  return count;
}

void call_stack::forget() noexcept {
  for (std::size_t i = 0; i < slots; ++i) slots_[i].rule.store(0, std::memory_order_relaxed);
}

}  // namespace espalier::preload
