#include "preload/recording/call_stack.hpp"

#include <type_traits>

// The upper end of the main thread's stack, from the dynamic linker.
extern "C" void* __libc_stack_end;

namespace espalier::preload {
namespace {

static_assert(std::is_trivially_destructible_v<call_stack>);

std::uintptr_t thread_pointer() noexcept {
  std::uintptr_t self = 0;  // NOLINT(misc-const-correctness): the instruction writes it
  asm("mov %%fs:0, %0" : "=r"(self));
  return self;
}

/// A bound for reads of the stack that contains `sp`. glibc keeps a thread's own data at the upper end of its stack.
/// On stacks that the program made itself the bound is loose.
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
  stack_words(std::uintptr_t begin, words_read* read) noexcept
      : begin_(begin), end_(end_of_stack(begin)), read_(read) {}

  // Most programs use that register for other values than frame pointers: its values do not affect the walk until one
  // is used.
  bool read_frame_pointer(std::uintptr_t at, std::uintptr_t& word) noexcept {
    if (!holds(at)) return false;
    word = *reinterpret_cast<const std::uintptr_t*>(at);
    frame_pointer_ = origin::stack;
    frame_pointer_at_ = at;
    return true;
  }
  void lose_frame_pointer() noexcept { frame_pointer_ = origin::known; }
  void use_frame_pointer(std::uintptr_t word) noexcept {
    if (read_ != nullptr && frame_pointer_ == origin::caller) read_->use_frame_pointer();
    if (read_ != nullptr && frame_pointer_ == origin::stack) read_->add(begin_, frame_pointer_at_, word);
    frame_pointer_ = origin::known;
  }
  bool read(std::uintptr_t at, std::uintptr_t& word) noexcept {
    if (!holds(at)) return false;
    word = *reinterpret_cast<const std::uintptr_t*>(at);
    if (read_ != nullptr) read_->add(begin_, at, word);
    return true;
  }

 private:
  [[nodiscard]] bool holds(std::uintptr_t at) const noexcept {
    return at >= begin_ && at <= end_ - sizeof(at) && at % sizeof(at) == 0;
  }

  std::uintptr_t begin_;
  std::uintptr_t end_;
  words_read* read_;
  enum class origin : std::uint8_t { caller, stack, known };
  origin frame_pointer_ = origin::caller;
  std::uintptr_t frame_pointer_at_ = 0;
};

std::uintptr_t plus(std::uintptr_t base, std::int32_t offset) noexcept {
  return base + static_cast<std::uintptr_t>(std::intptr_t{offset});
}

/// Replaces `state` by that of its caller.
bool step(const frame_rule& rule, stack_words& stack, caller_state& state) noexcept {
  std::uintptr_t cfa = 0;
  switch (rule.cfa) {
    case frame_rule::cfa_from::nowhere:
      return false;
    case frame_rule::cfa_from::stack_pointer:
      cfa = plus(state.sp, rule.cfa_offset);
      break;
    case frame_rule::cfa_from::frame_pointer:
      stack.use_frame_pointer(state.fp);
      cfa = plus(state.fp, rule.cfa_offset);
      break;
    case frame_rule::cfa_from::at_stack_pointer:
      if (!stack.read(plus(state.sp, rule.cfa_offset), cfa)) return false;
      break;
    case frame_rule::cfa_from::at_frame_pointer:
      stack.use_frame_pointer(state.fp);
      if (!stack.read(plus(state.fp, rule.cfa_offset), cfa)) return false;
      break;
  }
  // Stacks grow downwards, and the return address belongs to the frame that returns.
  if (cfa <= state.sp || !stack.read(cfa - sizeof(std::uintptr_t), state.pc)) return false;
  switch (rule.fp) {
    case frame_rule::fp_from::unchanged:
      break;
    case frame_rule::fp_from::cfa:
      if (!stack.read_frame_pointer(plus(cfa, rule.fp_offset), state.fp)) return false;
      break;
    case frame_rule::fp_from::at_frame_pointer:
      stack.use_frame_pointer(state.fp);
      if (!stack.read_frame_pointer(plus(state.fp, rule.fp_offset), state.fp)) return false;
      break;
    case frame_rule::fp_from::lost:
      state.fp = 0;
      stack.lose_frame_pointer();
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
    // relaxed: a rule is one word and does not depend on other memory.
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

unsigned call_stack::walk(const caller_state& from, std::uintptr_t* frames, unsigned wanted,
                          words_read* read) noexcept {
  stack_words stack(from.sp, read);
  caller_state state = from;
  unsigned count = 0;
  while (true) {
    if (state.pc - own_begin_ >= own_bytes_) frames[count++] = state.pc;
    if (count == wanted || !step(rule_of(state.pc), stack, state)) break;
  }
  // If all frames are left out, the first one is better than none.
  if (count == 0) frames[count++] = from.pc;
  return count;
}

void call_stack::forget() noexcept {
  for (std::size_t i = 0; i < slots; ++i) slots_[i].rule.store(0, std::memory_order_relaxed);
}

}  // namespace espalier::preload
