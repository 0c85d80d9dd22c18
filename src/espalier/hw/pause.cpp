#include "espalier/hw/pause.hpp"

#include <sched.h>

namespace espalier::hw {

void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

void park() noexcept { sched_yield(); }

}  // namespace espalier::hw
