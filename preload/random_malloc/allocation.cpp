// The malloc family, which requests slightly more from the next allocator than the program asks for. Requests that do
// not use the malloc family's names, such as operator new of jemalloc, get what they ask for.

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "espalier/measure/random.hpp"
#include "preload/endings/process_ends.hpp"
#include "preload/environment/output.hpp"
#include "preload/kernel/saved_errno.hpp"
#include "preload/next/bootstrap.hpp"
#include "preload/next/next_malloc.hpp"
#include "preload/random_malloc/padding.hpp"

namespace {

using namespace espalier::preload;

constinit random_settings settings;
constinit last_words last_words;
constinit said_once counts_at_end;

enum class beginning : std::uint8_t { before, under_way, done };
constinit std::atomic<beginning> begun{beginning::before};

struct counts {
  std::atomic<std::uint64_t> blocks{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> added{0};

  /// For a child of fork(), which reports its own counts. relaxed: the child has one thread.
  void clear() noexcept {
    for (auto* const count : {&blocks, &bytes, &added}) count->store(0, std::memory_order_relaxed);
  }
};
constinit counts totals;

/// Threads are numbered in the order of their first allocation: a program that starts them in one order repeats itself.
constinit std::atomic<std::uint64_t> threads{0};

struct thread_random {
  bool started = false;
  espalier::measure::random_generator generator{0};
};
thread_local constinit thread_random random_of_thread;

__attribute__((noinline)) void begin(char** environment) noexcept {
  auto expected = beginning::before;
  if (!begun.compare_exchange_strong(expected, beginning::under_way)) return;
  const saved_errno keep;
  if (const char* const wrong = read_random_settings(environment, settings))
    complain("blocks are padded as without variables: ", wrong);
  if (settings.stats) {
    last_words.keep();
    counts_at_end.begin();
    pthread_atfork(nullptr, nullptr, [] {
      totals.clear();
      counts_at_end.begin();
    });
  }
  // order: begin (release) -> requested (acquire)
  begun.store(beginning::done, std::memory_order_release);
}

/// The size to request. Until the C library has its environment, that is the program's own.
std::size_t requested(std::size_t bytes, std::size_t align = 1) noexcept {
  if (begun.load(std::memory_order_acquire) != beginning::done) [[unlikely]] {
    if (environ != nullptr) begin(environ);
    if (begun.load(std::memory_order_acquire) != beginning::done) return bytes;
  }
  if (!random_of_thread.started) [[unlikely]] {
    // relaxed: the numbers only have to differ.
    const std::uint64_t number = threads.fetch_add(1, std::memory_order_relaxed);
    random_of_thread = {true, espalier::measure::random_generator(settings.seed, number)};
  }
  const std::size_t wanted = padded(bytes, align, settings.largest, random_of_thread.generator);
  if (settings.stats) [[unlikely]] {
    totals.blocks.fetch_add(1, std::memory_order_relaxed);
    totals.bytes.fetch_add(bytes, std::memory_order_relaxed);
    totals.added.fetch_add(wanted - bytes, std::memory_order_relaxed);
  }
  return wanted;
}

void* resized(void* old, std::size_t bytes) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr && old == nullptr) return from_bootstrap(bytes);
  if (old != nullptr && bootstrap.contains(old))
    return moved_from_bootstrap(to, old, to == nullptr ? bytes : requested(bytes));
  if (to == nullptr) return out_of_memory();
  // realloc to zero bytes frees the block.
  return to->realloc(old, old != nullptr && bytes == 0 ? 0 : requested(bytes));
}

void* obtained(const next_malloc&, void* block, std::size_t) noexcept { return block; }
void freeing(void*) noexcept {}

__attribute__((constructor)) void begin_with_library(int, char**, char** environment) { begin(environment); }

void say_counts() noexcept {
  if (!settings.stats || !counts_at_end.is_due()) return;
  const std::uint64_t bytes = totals.bytes.load(std::memory_order_relaxed);
  const std::uint64_t added = totals.added.load(std::memory_order_relaxed);
  char line[256];
  text words(line, sizeof line);
  words << "espalier: random, process " << static_cast<std::uint64_t>(getpid()) << ": "
        << totals.blocks.load(std::memory_order_relaxed) << " blocks, " << bytes << " bytes asked for, "
        << added << " added (" << (bytes == 0 ? 0 : added * 100 / bytes) << " %)\n";
  last_words.say(words.c_str(), words.size());
}

__attribute__((destructor)) void end_with_library() { say_counts(); }

}  // namespace

namespace espalier::preload {

/// A child that was made for another program and did not become it has counted nothing, and reports nothing.
void process_ends(const char*) noexcept {
  if (totals.blocks.load(std::memory_order_relaxed) != 0) say_counts();
}

}  // namespace espalier::preload

#include "preload/next/passing_functions.hpp"

#pragma GCC visibility push(default)
extern "C" {

void* calloc(std::size_t count, std::size_t size) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return array_from_bootstrap(count, size);
  std::size_t bytes = 0;
  // The result of a failure is left to the next allocator.
  if (__builtin_mul_overflow(count, size, &bytes)) return to->calloc(count, size);
  return to->calloc(1, requested(bytes));
}

void* realloc(void* old, std::size_t bytes) noexcept { return resized(old, bytes); }

void* reallocarray(void* old, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(count, size, &bytes) ? out_of_memory() : resized(old, bytes);
}

// The next allocator was asked for other sizes than these functions of C23 and jemalloc would pass on.

void free_sized(void* block, std::size_t) noexcept { free(block); }
void free_aligned_sized(void* block, std::size_t, std::size_t) noexcept { free(block); }
void sdallocx(void* block, std::size_t, int) noexcept { free(block); }

}  // extern "C"
#pragma GCC visibility pop
