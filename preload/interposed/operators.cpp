// operator new and delete of C++. libstdc++'s call malloc and free, which record. Those of allocator libraries, such
// as jemalloc and tcmalloc, do not call their own malloc. A block that the next definition allocates or frees without
// malloc or free is recorded here. Nothing needs the C++ library: a program without it does not call these.

#include <atomic>
#include <cstddef>

#include "preload/interposed/process.hpp"
#include "preload/interposed/recorded_block.hpp"
#include "preload/next/next_operator.hpp"

namespace {

using espalier::preload::process_recorder;
using espalier::preload::recorded_unless_passed_on;
using espalier::preload::this_thread;

/// The next definition of an operator, looked up by the first call.
template <class Function>
class next_operator {
 public:
  explicit constexpr next_operator(const char* name) noexcept : name_(name) {}

  Function* get() noexcept {
    // relaxed: each thread that looks it up finds the same.
    Function* const known = function_.load(std::memory_order_relaxed);
    return known != nullptr ? known : look_up();
  }

 private:
  __attribute__((noinline)) Function* look_up() noexcept {
    const bool before = this_thread.inside;
    this_thread.inside = true;
    auto* const function = reinterpret_cast<Function*>(espalier::preload::next_operator_named(name_));
    this_thread.inside = before;
    function_.store(function, std::memory_order_relaxed);
    return function;
  }

  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

/// Not noexcept: bad_alloc passes through, and nothing has to be undone then.
template <class Function, class... More>
__attribute__((always_inline)) inline void* taken(next_operator<Function>& next, std::size_t bytes,
                                                  More... more) {
  Function* const function = next.get();
  this_thread.latest_block = nullptr;
  return recorded_unless_passed_on(function(bytes, more...), bytes);
}

template <class Function, class... More>
__attribute__((always_inline)) inline void given_back(next_operator<Function>& next, void* block,
                                                      More... more) {
  Function* const function = next.get();
  if (block != nullptr && process_recorder.listens()) process_recorder.freeing(block);
  this_thread.going_block = block;
  function(block, more...);
  this_thread.going_block = nullptr;
}

// The ABI's forms: std::align_val_t is a number, std::nothrow_t const& an address.
using alignment = std::size_t;
using nothrow = const void*;

}  // namespace

// The names are the mangled ones. Declarations with the compiler's own operators would need the C++ library.
#pragma GCC visibility push(default)
extern "C" {

#define ESPALIER_NEW(label, parameters, ...)                        \
  void* espalier##label parameters asm(#label);                     \
  void* espalier##label parameters {                                \
    static constinit next_operator<void * parameters> next{#label}; \
    return taken(next, __VA_ARGS__);                                \
  }
#define ESPALIER_DELETE(label, parameters, ...)                   \
  void espalier##label parameters asm(#label);                    \
  void espalier##label parameters {                               \
    static constinit next_operator<void parameters> next{#label}; \
    given_back(next, __VA_ARGS__);                                \
  }

ESPALIER_NEW(_Znwm, (std::size_t n), n)
ESPALIER_NEW(_Znam, (std::size_t n), n)
ESPALIER_NEW(_ZnwmRKSt9nothrow_t, (std::size_t n, nothrow t), n, t)
ESPALIER_NEW(_ZnamRKSt9nothrow_t, (std::size_t n, nothrow t), n, t)
ESPALIER_NEW(_ZnwmSt11align_val_t, (std::size_t n, alignment a), n, a)
ESPALIER_NEW(_ZnamSt11align_val_t, (std::size_t n, alignment a), n, a)
ESPALIER_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (std::size_t n, alignment a, nothrow t), n, a, t)
ESPALIER_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (std::size_t n, alignment a, nothrow t), n, a, t)

ESPALIER_DELETE(_ZdlPv, (void* p), p)
ESPALIER_DELETE(_ZdaPv, (void* p), p)
ESPALIER_DELETE(_ZdlPvm, (void* p, std::size_t n), p, n)
ESPALIER_DELETE(_ZdaPvm, (void* p, std::size_t n), p, n)
ESPALIER_DELETE(_ZdlPvRKSt9nothrow_t, (void* p, nothrow t), p, t)
ESPALIER_DELETE(_ZdaPvRKSt9nothrow_t, (void* p, nothrow t), p, t)
ESPALIER_DELETE(_ZdlPvSt11align_val_t, (void* p, alignment a), p, a)
ESPALIER_DELETE(_ZdaPvSt11align_val_t, (void* p, alignment a), p, a)
ESPALIER_DELETE(_ZdlPvmSt11align_val_t, (void* p, std::size_t n, alignment a), p, n, a)
ESPALIER_DELETE(_ZdaPvmSt11align_val_t, (void* p, std::size_t n, alignment a), p, n, a)
ESPALIER_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void* p, alignment a, nothrow t), p, a, t)
ESPALIER_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void* p, alignment a, nothrow t), p, a, t)

#undef ESPALIER_NEW
#undef ESPALIER_DELETE

}  // extern "C"
#pragma GCC visibility pop
