#include "espalier/hw/vector_compare.hpp"

namespace espalier::hw {

bool has_vectors(vector_width width) noexcept {
  if (width == vector_width::none) return true;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (width == vector_width::avx512) return __builtin_cpu_supports("avx512bw") != 0;
  return width == vector_width::avx2 && __builtin_cpu_supports("avx2") != 0;
#elif defined(__AARCH64EL__)
  return width == vector_width::neon;  // part of AArch64
#else
  return false;
#endif
}

vector_width widest_vectors() noexcept {
  for (const vector_width width : {vector_width::avx512, vector_width::avx2, vector_width::neon})
    if (has_vectors(width)) return width;
  return vector_width::none;
}

std::atomic<vector_width> detail::vectors_in_use{widest_vectors()};

}  // namespace espalier::hw
