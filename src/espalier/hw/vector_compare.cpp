#include "espalier/hw/vector_compare.hpp"

namespace espalier::hw {

vector_width widest_vectors() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bw")) return vector_width::avx512;
  if (__builtin_cpu_supports("avx2")) return vector_width::avx2;
#endif
  return vector_width::none;
}

std::atomic<vector_width> detail::vectors_in_use{widest_vectors()};

}  // namespace espalier::hw
