// dlopen() without RTLD_DEEPBIND. A library opened with that flag finds the C library's free() before this one's, and
// would pass it blocks of this heap.

#include <dlfcn.h>

#include <atomic>

#include "preload/next/later_definition.hpp"

static_assert(RTLD_DEEPBIND == 8, "the number stands in the assembly below");

extern "C" {

/// The C library's dlopen. relaxed: each thread that reads null looks it up.
__attribute__((visibility("hidden"))) constinit std::atomic<void*> espalier_next_dlopen{nullptr};

__attribute__((visibility("hidden"))) void* espalier_find_dlopen() noexcept {
  void* const found = espalier::preload::later_definition("dlopen");
  espalier_next_dlopen.store(found, std::memory_order_relaxed);
  return found;
}
}

// A jump, not a call: the directories in which the C library searches for the file depend on the caller, which it
// identifies by the return address.
__asm__(R"(
  .text
  .globl dlopen
  .type dlopen, @function
dlopen:
  .cfi_startproc
  andl $~8, %esi
  movq espalier_next_dlopen(%rip), %rax
  testq %rax, %rax
  jnz 1f
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call espalier_find_dlopen
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jz 2f
1:
  jmp *%rax
2:
  ret
  .cfi_endproc
  .size dlopen, . - dlopen
)");
