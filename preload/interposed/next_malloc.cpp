#include "preload/interposed/next_malloc.hpp"

#include <dlfcn.h>

#include <atomic>

#include "preload/recording/thread_state.hpp"

namespace espalier::preload {
namespace {

enum class lookup { not_begun, under_way, done };

constinit std::atomic<lookup> progress{lookup::not_begun};
constinit next_malloc functions{};

template <class Function>
void find(const char* name, Function*& to) noexcept {
  to = reinterpret_cast<Function*>(next_definition(name));
}

void look_up() noexcept {
  find("malloc", functions.malloc);
  find("calloc", functions.calloc);
  find("realloc", functions.realloc);
  find("reallocarray", functions.reallocarray);
  find("free", functions.free);
  find("posix_memalign", functions.posix_memalign);
  find("aligned_alloc", functions.aligned_alloc);
  find("memalign", functions.memalign);
  find("valloc", functions.valloc);
  find("pvalloc", functions.pvalloc);
  find("malloc_usable_size", functions.malloc_usable_size);
}

}  // namespace

void* next_definition(const char* name) noexcept { return dlsym(RTLD_NEXT, name); }

const next_malloc* next() noexcept {
  // order: next (acquire) -> next (release)
  if (progress.load(std::memory_order_acquire) == lookup::done) return &functions;
  lookup expected = lookup::not_begun;
  if (!progress.compare_exchange_strong(expected, lookup::under_way, std::memory_order_relaxed))
    return progress.load(std::memory_order_acquire) == lookup::done ? &functions : nullptr;
  look_up();
  progress.store(lookup::done, std::memory_order_release);
  return &functions;
}

}  // namespace espalier::preload
