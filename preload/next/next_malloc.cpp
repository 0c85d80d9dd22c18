#include "preload/next/next_malloc.hpp"

#include <dlfcn.h>

#include <atomic>

namespace espalier::preload {
namespace {

constinit std::atomic<bool> begun{false};
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

constinit std::atomic<const next_malloc*> known_next{nullptr};

void* next_definition(const char* name) noexcept { return dlsym(RTLD_NEXT, name); }

const next_malloc* look_up_next() noexcept {
  if (begun.exchange(true)) return known_next.load(std::memory_order_acquire);
  look_up();
  known_next.store(&functions, std::memory_order_release);
  return &functions;
}

}  // namespace espalier::preload
