#include "espalier/hw/asymmetric_fence.hpp"

#include <cstdlib>
#include <string_view>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace espalier::hw {
namespace {

#if defined(__linux__) && defined(SYS_membarrier)

bool register_process() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool expedited_barrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

#else

bool register_process() noexcept { return false; }
bool expedited_barrier() noexcept { return false; }

#endif

bool choose() noexcept {
  const char* wish = std::getenv("ESPALIER_FENCE");
  if (wish != nullptr && std::string_view(wish) == "fence") return false;
  return register_process() && expedited_barrier();
}

}  // namespace

namespace detail {
// Zero-initialised before any dynamic initialiser runs. A pin that comes earlier uses real fences, and
// fence_heavy() always ends with one, so the early mix is safe too.
const bool membarrier_works = choose();
}  // namespace detail

void fence_heavy() noexcept {
  if (detail::membarrier_works && !expedited_barrier()) {
    // A child of a fork without exec may have lost the registration. Light fences are already in use, so
    // real ones are no longer possible: register again, or stop before memory is corrupted.
    if (!register_process() || !expedited_barrier()) std::abort();
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // order (1): fence_heavy, seq_cst
}

const char* asymmetric_fence_kind() noexcept { return detail::membarrier_works ? "membarrier" : "fence"; }

}  // namespace espalier::hw
