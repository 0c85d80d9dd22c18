// The malloc family. Each function calls the next definition of its own name with its own arguments, so the allocator
// decides where a block lies and how a failure looks.
//
// operator new and delete of C++: libstdc++'s call malloc and free, which record. Those of allocator libraries, such as
// jemalloc and tcmalloc, do not call their own malloc, and a program's own may call anything. A block that the next
// definition allocates or frees without malloc or free is recorded here. Nothing needs the C++ library: a program
// without it does not call these.

#include <stdlib.h>

#include <atomic>
#include <cstddef>

#include "preload/interposed/process.hpp"
#include "preload/next/bootstrap.hpp"
#include "preload/next/next_malloc.hpp"
#include "preload/next/next_operator.hpp"
#include "preload/recording/call_stack.hpp"

namespace espalier::preload {
namespace {

/// Records a block that the program gets.
__attribute__((noinline)) void record_block(const next_malloc& of, void* block, std::size_t asked,
                                            const caller_state& by) noexcept {
  // operator new may have called malloc before the next allocator was known.
  if (bootstrap.contains(block)) return;
  std::size_t held = asked;
  if (of.malloc_usable_size != nullptr) {
    // tcmalloc's malloc_usable_size allocates.
    const inside_scope scope;
    held = of.malloc_usable_size(block);
  }
  process_recorder.allocated(block, asked, held, by);
  this_thread.latest_block = block;
}

// What the functions that pass requests on call.

inline std::size_t requested(std::size_t bytes, std::size_t) noexcept { return bytes; }

/// Records the block that an allocating function got, for the caller of the function that contains this call.
__attribute__((always_inline)) inline void* obtained(const next_malloc& of, void* block,
                                                     std::size_t asked) noexcept {
  if (block != nullptr && recorder_listens()) record_block(of, block, asked, caller_of_this());
  return block;
}

/// operator delete has removed the block from the record already.
inline void freeing(void* block) noexcept {
  if (block != this_thread.going_block && process_recorder.listens()) process_recorder.freeing(block);
}

/// As obtained(), where the block may come through malloc, which then has recorded it.
__attribute__((always_inline)) inline void* recorded_unless_passed_on(void* block,
                                                                      std::size_t asked) noexcept {
  if (block == this_thread.latest_block) return block;
  const next_malloc* const of = next();
  return of == nullptr ? block : obtained(*of, block, asked);
}

/// `call` is the next function that resizes the block.
template <class Call>
__attribute__((always_inline)) inline void* resized(void* old, std::size_t bytes, Call&& call) noexcept {
  block_record before;  // NOLINT: freeing() fills it where it says so
  const bool known = old != nullptr && process_recorder.listens() && process_recorder.freeing(old, &before);
  this_thread.latest_block = nullptr;
  void* const block = call();
  // reallocarray may have called realloc.
  if (block != nullptr) return recorded_unless_passed_on(block, bytes);
  // realloc to zero bytes freed the old block; after a failure it is unchanged.
  if (known && bytes != 0) process_recorder.still_there(before);
  return nullptr;
}

__attribute__((always_inline)) inline void* resized_by_realloc(const next_malloc* to, void* old,
                                                               std::size_t bytes) noexcept {
  if (old != nullptr && bootstrap.contains(old)) {
    void* const block = moved_from_bootstrap(to, old, bytes);
    return to == nullptr ? block : obtained(*to, block, bytes);
  }
  if (to == nullptr) return from_bootstrap(bytes);
  return resized(old, bytes, [=] { return to->realloc(old, bytes); });
}

/// The next definition of an operator, looked up by the first call.
template <class Function>
class next_operator {
 public:
  explicit constexpr next_operator(const char* name) noexcept : name_(name) {}

  /// Not noexcept: bad_alloc passes through, and nothing has to be undone then.
  template <class... More>
  __attribute__((always_inline)) void* allocate(std::size_t bytes, More... more) {
    Function* const function = get();
    this_thread.latest_block = nullptr;
    return recorded_unless_passed_on(function(bytes, more...), bytes);
  }
  template <class... More>
  __attribute__((always_inline)) void deallocate(void* block, More... more) {
    Function* const function = get();
    if (block != nullptr && process_recorder.listens()) process_recorder.freeing(block);
    this_thread.going_block = block;
    function(block, more...);
    this_thread.going_block = nullptr;
  }

 private:
  Function* get() noexcept {
    // relaxed: each thread that looks it up finds the same.
    Function* const known = function_.load(std::memory_order_relaxed);
    return known != nullptr ? known : look_up();
  }
  __attribute__((noinline)) Function* look_up() noexcept {
    const bool before = this_thread.inside;
    this_thread.inside = true;
    auto* const function = reinterpret_cast<Function*>(next_operator_named(name_));
    this_thread.inside = before;
    function_.store(function, std::memory_order_relaxed);
    return function;
  }

  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

}  // namespace
}  // namespace espalier::preload

#include "preload/next/passing_functions.hpp"

using namespace espalier::preload;

#pragma GCC visibility push(default)
extern "C" {

void* calloc(std::size_t count, std::size_t size) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return array_from_bootstrap(count, size);
  return obtained(*to, to->calloc(count, size), count * size);
}

void* realloc(void* old, std::size_t bytes) noexcept { return resized_by_realloc(next(), old, bytes); }

void* reallocarray(void* old, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  const next_malloc* const to = next();
  if (__builtin_mul_overflow(count, size, &bytes)) return out_of_memory();
  if (to == nullptr || to->reallocarray == nullptr || (old != nullptr && bootstrap.contains(old)))
    return resized_by_realloc(to, old, bytes);
  return resized(old, bytes, [=] { return to->reallocarray(old, count, size); });
}

#define ESPALIER_NEW(label, parameters, arguments)                  \
  void* espalier##label parameters asm(#label);                     \
  void* espalier##label parameters {                                \
    static constinit next_operator<void * parameters> next{#label}; \
    return next.allocate arguments;                                 \
  }
#define ESPALIER_DELETE(label, parameters, arguments)             \
  void espalier##label parameters asm(#label);                    \
  void espalier##label parameters {                               \
    static constinit next_operator<void parameters> next{#label}; \
    next.deallocate arguments;                                    \
  }

ESPALIER_OPERATORS(ESPALIER_NEW, ESPALIER_DELETE)

#undef ESPALIER_NEW
#undef ESPALIER_DELETE

}  // extern "C"
#pragma GCC visibility pop
