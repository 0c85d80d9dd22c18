#include "preload/elision/thread_sections.hpp"

#include <unistd.h>

namespace espalier::preload {

thread_local constinit thread_sections sections_of_thread;

int thread_sections::ask_id() noexcept { return id_ = static_cast<int>(gettid()); }

unsigned thread_sections::ask_stripe() noexcept {
  static constinit std::atomic<unsigned> given{0};
  // relaxed: any number will do.
  return stripe_ = given.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace espalier::preload
