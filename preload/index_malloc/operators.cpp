// operator new and delete of C++, on the same heap as malloc, also in programs whose allocator library has its own
// operators. Without memory, new-handlers and exceptions are the C++ library's task: its operator is called, which
// calls malloc again. Nothing here needs that library: a program without it does not call these.

#include <cstddef>

#include "preload/index_malloc/process_heap.hpp"
#include "preload/next/next_operator.hpp"

namespace {

using espalier::preload::allocate;
using espalier::preload::block_of_heap;
using espalier::preload::give_back;
using espalier::preload::next_operator_named;
using espalier::preload::thread_heap;

void* taken_aligned(std::size_t bytes, std::size_t align) noexcept {
  return block_of_heap([=](thread_heap& heap) { return heap.allocate_aligned(bytes, align); });
}

// The ABI's forms: std::align_val_t is a number, std::nothrow_t const& an address.
using alignment = std::size_t;
using nothrow = const void*;

}  // namespace

// The names are the mangled ones. Declarations with the compiler's own operators would need the C++ library.
#pragma GCC visibility push(default)
extern "C" {

// Not noexcept: bad_alloc passes through.
#define ESPALIER_NEW(label, parameters, arguments, got)                                 \
  void* espalier##label parameters asm(#label);                                         \
  void* espalier##label parameters {                                                    \
    if (void* const block = got) [[likely]]                                             \
      return block;                                                                     \
    return reinterpret_cast<void*(*)parameters>(next_operator_named(#label)) arguments; \
  }
#define ESPALIER_DELETE(label, parameters)     \
  void espalier##label parameters asm(#label); \
  void espalier##label parameters { give_back(p); }

ESPALIER_NEW(_Znwm, (std::size_t n), (n), allocate(n))
ESPALIER_NEW(_Znam, (std::size_t n), (n), allocate(n))
ESPALIER_NEW(_ZnwmRKSt9nothrow_t, (std::size_t n, nothrow t), (n, t), allocate(n))
ESPALIER_NEW(_ZnamRKSt9nothrow_t, (std::size_t n, nothrow t), (n, t), allocate(n))
ESPALIER_NEW(_ZnwmSt11align_val_t, (std::size_t n, alignment a), (n, a), taken_aligned(n, a))
ESPALIER_NEW(_ZnamSt11align_val_t, (std::size_t n, alignment a), (n, a), taken_aligned(n, a))
ESPALIER_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (std::size_t n, alignment a, nothrow t), (n, a, t),
             taken_aligned(n, a))
ESPALIER_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (std::size_t n, alignment a, nothrow t), (n, a, t),
             taken_aligned(n, a))

ESPALIER_DELETE(_ZdlPv, (void* p))
ESPALIER_DELETE(_ZdaPv, (void* p))
ESPALIER_DELETE(_ZdlPvm, (void* p, std::size_t))
ESPALIER_DELETE(_ZdaPvm, (void* p, std::size_t))
ESPALIER_DELETE(_ZdlPvRKSt9nothrow_t, (void* p, nothrow))
ESPALIER_DELETE(_ZdaPvRKSt9nothrow_t, (void* p, nothrow))
ESPALIER_DELETE(_ZdlPvSt11align_val_t, (void* p, alignment))
ESPALIER_DELETE(_ZdaPvSt11align_val_t, (void* p, alignment))
ESPALIER_DELETE(_ZdlPvmSt11align_val_t, (void* p, std::size_t, alignment))
ESPALIER_DELETE(_ZdaPvmSt11align_val_t, (void* p, std::size_t, alignment))
ESPALIER_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void* p, alignment, nothrow))
ESPALIER_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void* p, alignment, nothrow))

#undef ESPALIER_NEW
#undef ESPALIER_DELETE

}  // extern "C"
#pragma GCC visibility pop
