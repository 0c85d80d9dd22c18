// A soak of whatever malloc the program has, ESPALIER_SOAK_OPERATIONS long. Says how much was done, and what was wrong.
// With the argument "bounded" it is wrong too if memory is not as libespalier-malloc.so has it by default; with "refused"
// it is short, there may be no memory now and then, which must be said by ENOMEM, and all of it must come back.

// The soak runs on the C library's malloc, too. ESPALIER_SOAK_OPERATIONS lengthens the first run alone.
// RUN: LD_PRELOAD=%malloc %p bounded
// WITH variables: "" | "LD_PRELOAD=%malloc ESPALIER_MALLOC_PREFAULT=1" | "LD_PRELOAD=%malloc ESPALIER_MALLOC_HUGE=1" | "LD_PRELOAD=%malloc ESPALIER_MALLOC_KEEP=0" | LD_PRELOAD=%random | LD_PRELOAD=%random:%malloc | LD_PRELOAD=%elide:%malloc
// RUN: %variables ESPALIER_SOAK_OPERATIONS=1000000 %p
// RUN: LD_PRELOAD=%inspect ESPALIER_SOAK_OPERATIONS=300000 %p

#include "../malloc_soak.hpp"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

namespace {

using espalier::test::malloc_soak;
using espalier::test::soak_figures;
using espalier::test::soak_options;

/// What is no block must be no memory.
void* said_by_errno(void* block) {
  if (block == nullptr && errno != ENOMEM) {
    std::printf("wrong: there is no block, and errno is %d\n", errno);
    std::fflush(stdout);
    _exit(1);
  }
  return block;
}

struct programs_malloc {
  static void* allocate(std::size_t bytes) { return said_by_errno(malloc(bytes)); }
  static void* allocate_zeroed(std::size_t bytes) { return said_by_errno(calloc(1, bytes)); }
  static void* allocate_aligned(std::size_t bytes, std::size_t align) {
    void* block = nullptr;
    errno = posix_memalign(&block, align, bytes);
    return said_by_errno(block);
  }
  static void* resize(void* block, std::size_t bytes) { return said_by_errno(realloc(block, bytes)); }
  static void deallocate(void* block) { free(block); }
  static std::size_t usable(void* block) { return malloc_usable_size(block); }
};

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;

std::uint64_t in_use() {
  const struct mallinfo2 told = mallinfo2();
  return told.uordblks + told.hblkhd;
}
std::uint64_t resident() { return espalier::hw::resident_bytes().value_or(0); }
unsigned long long number(std::uint64_t n) { return n; }

}  // namespace

int main(int count, char** arguments) {
  const bool bounded = count > 1 && std::string_view(arguments[1]) == "bounded";
  soak_options options;
  const bool refused = count > 1 && std::string_view(arguments[1]) == "refused";
  options.operations = refused ? 6'000 : 4'000'000;
  if (refused) {
    options.may_be_refused = true;
    options.places = 60;
    options.of_one_thread = 500;
    options.huge_every = 15;
  }
  if (const char* const operations = getenv("ESPALIER_SOAK_OPERATIONS"))
    options.operations = strtoull(operations, nullptr, 10);
  std::uint64_t in_first_half = 0;
  std::uint64_t in_second_half = 0;
  const std::uint64_t in_use_before = in_use();
  const std::uint64_t resident_before = resident();
  const auto look = [&](const soak_figures& f) -> std::string {
    std::uint64_t& most = f.operations < options.operations / 2 ? in_first_half : in_second_half;
    most = std::max(most, f.resident_bytes);
    if (refused) malloc_trim(0);
    return "";
  };
  const auto [wrong, f] = malloc_soak([] { return programs_malloc{}; }, options).run(look);
  malloc_trim(0);
  const std::uint64_t in_use_behind = in_use();
  const std::uint64_t resident_behind = resident();
  std::printf(
      "%llu operations, %llu threads; live %llu MiB at most; resident %llu MiB before, %llu and %llu at most "
      "in "
      "the halves, %llu behind; in use %llu bytes before, %llu behind\n",
      number(f.operations), number(f.threads), number(f.most_live_bytes / mebibyte),
      number(resident_before / mebibyte), number(in_first_half / mebibyte), number(in_second_half / mebibyte),
      number(resident_behind / mebibyte), number(in_use_before), number(in_use_behind));
  const auto told = [](const std::string& what) {
    if (!what.empty()) std::printf("wrong: %s\n", what.c_str());
    return what.empty() ? 0 : 1;
  };
  if (!wrong.empty() || !(bounded || refused)) return told(wrong);
  if (refused) {
    // Nothing of what was refused, moved or kept is in use, or still has memory.
    std::printf("refused %llu times\n", number(f.refused));
    if (in_use_behind > in_use_before + mebibyte / 16) return told("blocks were given back that are in use");
    if (resident_behind > resident_before + 8 * mebibyte)
      return told("memory is resident that no block uses");
    return 0;
  }
  // Of each class a region for each thread, of which a few are ending while others begin; what is kept empty; and
  // of what is live, as much again for regions that are partly used.
  constexpr std::uint64_t classes_and_threads = 65 * 8;
  constexpr std::uint64_t kept = 32 * mebibyte;
  constexpr std::uint64_t by_chance = 32 * mebibyte;
  const std::uint64_t most =
      resident_before + classes_and_threads * mebibyte / 4 + kept + 2 * f.most_live_bytes;
  if (std::max(in_first_half, in_second_half) > most)
    return told("more than " + std::to_string(most / mebibyte) + " MiB were resident");
  // A short run still grows in its second half.
  if (options.operations >= 100'000'000 && in_second_half > in_first_half + by_chance)
    return told("memory grows with time");
  if (in_use_behind > in_use_before + mebibyte / 16) return told("blocks were given back that are in use");
  if (resident_behind > resident_before + by_chance / 2) return told("memory is resident that nobody uses");
  return 0;
}
