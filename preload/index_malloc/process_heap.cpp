// The process's heap from its first block to its last: its threads and its forked copies.

#include "preload/index_malloc/process_heap.hpp"

#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "preload/endings/process_ends.hpp"
#include "preload/environment/output.hpp"
#include "preload/heap/heap_settings.hpp"
#include "preload/kernel/futex_lock.hpp"
#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {

constinit address_registry process_registry{};
constinit thread_heaps process_heaps(process_registry);
constinit thread_heap no_heap(process_heaps.commons());
thread_local constinit thread_heap* this_heap = &no_heap;

namespace {

/// State of a thread that ends.
thread_local constinit unsigned rounds_of_destructors = 0;
thread_local constinit bool ended = false;

constinit futex_lock start_lock;
constinit std::atomic<bool> started{false};
constinit bool key_made = false;
constinit pthread_key_t key = 0;
constexpr std::size_t most_of_figures = 640;  // characters
constinit heap_settings settings;
constinit last_words words_at_end;
constinit said_once figures_at_end;

/// Destructors of other keys allocate, in any order: the thread leaves its heap in the last round of destructors.
void thread_ends(void* heap) {
  if (++rounds_of_destructors < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(key, heap);
    return;
  }
  ended = true;
  this_heap = &no_heap;
  process_heaps.leave(*static_cast<thread_heap*>(heap));
}

/// Called with the first block for which an environment exists, and by the constructor, which gets the environment.
void start(char* const* environment) noexcept {
  if (started.load(std::memory_order_acquire)) return;
  const futex_guard guard(start_lock);
  if (!key_made) key_made = pthread_key_create(&key, thread_ends) == 0;
  if (started.load(std::memory_order_relaxed) || environment == nullptr) return;
  const saved_errno keep;
  read_heap_settings(environment, settings, [](const char* line) { complain("", line); });
  if (settings.stats) {
    words_at_end.keep();
    figures_at_end.begin();
  }
  heap_commons& commons = process_heaps.commons();
  commons.prefault = settings.prefault;
  commons.spans.set_huge(settings.huge);
  commons.spans.set_keep(settings.keep);
  commons.spans.set_period(settings.decay);
  started.store(true, std::memory_order_release);
}

/// This constructor runs before those of all other libraries (-z initfirst). So the handlers that they register for
/// fork() run while this library does not hold its locks, and may allocate.
__attribute__((constructor)) void begin_with_library(int, char**, char** environment) {
  start(environment);
  pthread_atfork([] { process_heaps.before_fork(); }, [] { process_heaps.after_fork_in_parent(); },
                 [] {
                   process_heaps.after_fork_in_child(this_heap);
                   if (settings.stats) figures_at_end.begin();
                 });
}

text& put_heading(text& out) noexcept {
  return out << "espalier: heap of process " << static_cast<std::uint64_t>(getpid());
}

void put_figures(text& out, const thread_heaps::figures& f) noexcept {
  put_heading(out) << "\n"
                   << "  blocks in use      " << f.used_blocks << "\n"
                   << "  bytes in use       " << f.used_bytes << "\n"
                   << "  large blocks       " << f.large_blocks << "\n"
                   << "  bytes of these     " << f.large_bytes << "\n"
                   << "  regions of blocks  " << f.regions << "\n"
                   << "  bytes kept empty   " << f.empty_bytes << "\n"
                   << "  bytes of addresses " << f.mapped_bytes << "\n"
                   << "  heaps of threads   " << f.heaps << "\n";
}

void say_figures() noexcept {
  if (!settings.stats || !figures_at_end.is_due()) return;
  char whole[most_of_figures];
  text out(whole, sizeof whole);
  thread_heaps::figures f;
  if (process_heaps.count_soon(f)) {
    put_figures(out, f);
  } else {
    put_heading(out) << ": no figures, it was just changing\n";
  }
  words_at_end.say(out.c_str(), out.size());
}

__attribute__((destructor)) void end_with_library() { say_figures(); }

}  // namespace

void process_ends(const char*) noexcept { say_figures(); }

thread_heap* begin_thread() noexcept {
  if (ended) return nullptr;
  start(environ);
  thread_heap* const mine = process_heaps.adopt();
  if (mine == nullptr) return nullptr;
  this_heap = mine;
  // After the first keys, libc allocates memory for the value, from the heap that the thread now has.
  if (key_made) pthread_setspecific(key, mine);
  return mine;
}

void* allocate_slowly(std::size_t bytes) noexcept {
  return block_of_heap([=](thread_heap& heap) { return heap.allocate(bytes); });
}

bool return_empty_memory() noexcept {
  return process_heaps.trim(this_heap == &no_heap ? nullptr : this_heap);
}

void write_figures(int to) noexcept {
  char whole[most_of_figures];
  text out(whole, sizeof whole);
  put_figures(out, process_heaps.count());
  const saved_errno keep;
  // Where the file is closed the figures are lost.
  static_cast<void>(!write(to, out.c_str(), out.size()));
}

}  // namespace espalier::preload
