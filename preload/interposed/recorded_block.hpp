#pragma once

#include <cstddef>

#include "preload/interposed/process.hpp"
#include "preload/next/next_malloc.hpp"
#include "preload/recording/call_stack.hpp"

namespace espalier::preload {

/// Records a block that the program gets.
__attribute__((noinline)) void record_block(const next_malloc& of, void* block, std::size_t asked,
                                            const caller_state& by) noexcept;

/// Records the block that an allocating function got, for the caller of the function that contains this call.
__attribute__((always_inline)) inline void* recorded(const next_malloc& of, void* block,
                                                     std::size_t asked) noexcept {
  if (block != nullptr && recorder_listens()) record_block(of, block, asked, caller_of_this());
  return block;
}

/// The same where the block may come through malloc, which then has recorded it.
__attribute__((always_inline)) inline void* recorded_unless_passed_on(void* block,
                                                                      std::size_t asked) noexcept {
  if (block == this_thread.latest_block) return block;
  const next_malloc* const of = next();
  return of == nullptr ? block : recorded(*of, block, asked);
}

}  // namespace espalier::preload
