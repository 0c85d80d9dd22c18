#include "espalier/hw/vector_compare.hpp"

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)

namespace {
[[gnu::target("avx512f")]] inline __m512i all(std::uint64_t n) noexcept {
  return _mm512_set1_epi64(static_cast<long long>(n));
}
}  // namespace

[[gnu::target("avx512f,popcnt")]] gathered_pairs gather_pairs(const void* lines,
                                                              std::span<const std::uint64_t> except,
                                                              std::uint64_t first, std::uint64_t range,
                                                              std::uint64_t* firsts,
                                                              std::uint64_t* numbers) noexcept {
  constexpr std::size_t line_bytes = 64;
  constexpr unsigned firsts_of_line = 0x55;
  const auto begin = reinterpret_cast<std::uintptr_t>(lines);
  const __m512i from = all(first);
  const __m512i distance = all(range);
  __m512i number = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
  __m512i smallest = all(~std::uint64_t{0});
  __m512i largest = all(0);
  std::size_t count = 0;
  for (std::size_t i = 0; i < except.size(); ++i) {
    __m512i line;
    __asm__ __volatile__(
        "vmovdqa64 %[at], %[line]"
        : [line] "=v"(line)
        : [at] "m"(vector_detail::at<line_bytes>(reinterpret_cast<const void*>(begin + i * line_bytes)))
        : "memory");
    const __mmask8 there = _mm512_mask_cmpneq_epu64_mask(
        _mm512_mask_cmple_epu64_mask(firsts_of_line, _mm512_sub_epi64(line, from), distance), line,
        all(except[i]));
    // Compressed in a register: compressed stores take hundreds of cycles on some processors.
    _mm512_storeu_si512(firsts + count, _mm512_maskz_compress_epi64(there, line));
    _mm512_storeu_si512(numbers + count, _mm512_maskz_compress_epi64(there, number));
    smallest = _mm512_mask_min_epu64(smallest, there, smallest, line);
    largest = _mm512_mask_max_epu64(largest, there, largest, line);
    number = _mm512_add_epi64(number, all(4));
    count += static_cast<std::size_t>(_mm_popcnt_u32(there));
  }
  // Without this GCC 12 has both in the arrays already, and loads and stores them for each line.
  __asm__("" : "+v"(smallest), "+v"(largest));
  std::array<std::uint64_t, 8> smallest_of_lane;
  std::array<std::uint64_t, 8> largest_of_lane;
  _mm512_storeu_si512(smallest_of_lane.data(), smallest);
  _mm512_storeu_si512(largest_of_lane.data(), largest);
  return {count, *std::min_element(smallest_of_lane.begin(), smallest_of_lane.end()),
          *std::max_element(largest_of_lane.begin(), largest_of_lane.end())};
}

#endif

}  // namespace espalier::hw
