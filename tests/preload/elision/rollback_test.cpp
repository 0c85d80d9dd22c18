// Sections that abort in their middle, on any processor: a transaction is a copy of the process. The copy runs the
// section, and an abort ends it; the process that waited is then where the transaction began, with memory and registers
// as they were, in a function that has long returned in the copy. A commit makes the copy the process.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "espalier/hw/htm.hpp"
#include "preload/elision/mutex_engine.hpp"
#include "preload/kernel/pages.hpp"
#include "support/abort_statuses.hpp"
#include "support/reexecute.hpp"
#include "support/sanitizers.hpp"

namespace espalier::preload {
namespace {

using hw::abort_code;
using hw::abort_status;
using namespace test::abort_statuses;

class process_copies {
 public:
  static std::optional<abort_status> begin() noexcept {
    const pid_t copy = fork();
    if (copy == 0) {
      ++*attempts;
      inside = true;
      return std::nullopt;
    }
    int status = 0;
    waitpid(copy, &status, 0);
    const auto ended = static_cast<std::size_t>(WEXITSTATUS(status));
    if (!WIFEXITED(status) || ended < first_abort) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 63);
    return aborts[ended - first_abort];
  }
  static void end() noexcept { inside = false; }
  template <abort_code Code>
  static void abort() noexcept {
    abort_inside(abort_status::asked_for(Code));
  }

  /// What the program does in a section; nothing outside transactions.
  static void abort_inside(abort_status status) noexcept {
    if (!inside) return;
    for (std::size_t i = 0; i < aborts.size(); ++i) {
      if (aborts[i] == status) _exit(static_cast<int>(first_abort + i));
    }
    _exit(62);
  }

  static inline bool inside = false;
  /// Transactions begun, in memory that no abort puts back.
  static inline int* attempts = nullptr;

 private:
  static constexpr std::size_t first_abort = 64;
  static constexpr std::array aborts{no_reason, conflict, held, abort_status::asked_for(inner_lock_held),
                                     abort_status::asked_for(not_elidable)};
};
static_assert(hw::open_backend<process_copies>);

struct rolled_back_sections : ::testing::Test {
  /// Runs the scene in a process of its own, whose last copy answers 0 if it got to the end.
  template <class Scene>
  void play(Scene&& scene) {
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    process_copies::attempts = new (page) int{0};
    EXPECT_EQ(test::in_forked_child([&] {
                scene();
                return failed_line;
              }),
              0)
        << "the line that does not hold";
    munmap(page, 4096);
  }
  void check(bool condition, int line) {
    if (!condition && failed_line == 0) failed_line = line;
  }

  [[nodiscard]] elision_counts counted() const {
    elision_counts sums;
    counts.for_each([&](const counted_section& one) {
      for (std::size_t e = 0; e < elision_events; ++e) sums.of_event[e] += one.elided.of_event[e];
    });
    return sums;
  }
  void start() {
    check(counts.start(), 61);
    engine->start_eliding(
        {.budgets = {.conflict = 3, .capacity = 0, .lock_held = 2, .other = 1}, .even_alone = true});
  }

  static constexpr std::uintptr_t site = 0x1234;
  int failed_line = 0;  // of the scene; below 62, to be told from what copies end with
  memory_budget budget;
  section_counts counts{budget};
  std::unique_ptr<mutex_engine<process_copies>> engine =
      std::make_unique<mutex_engine<process_copies>>(counts);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
};

TEST_F(rolled_back_sections, what_commits_has_happened_once) {
  play([&] {
    start();
    int value = 0;
    engine->lock(mutex, site);
    ++value;
    check(process_copies::inside, 1);
    engine->unlock(mutex);
    check(value == 1 && !process_copies::inside, 2);
    check(*process_copies::attempts == 1, 3);
    check(counted().of(elision_event::commit) == 1, 4);
  });
}

TEST_F(rolled_back_sections, a_system_call_undoes_the_section_and_the_mutex_is_taken) {
  play([&] {
    start();
    int value = 0;
    engine->lock(mutex, site);
    ++value;
    process_copies::abort_inside(no_reason);
    check(!process_copies::inside && !mutex_words(mutex).looks_free(), 1);
    ++value;
    engine->unlock(mutex);
    check(value == 2, 2);
    check(*process_copies::attempts == 2, 3);
    check(mutex_words(mutex).looks_free() && mutex.__data.__nusers == 0, 4);
    check(counted().of(elision_event::other) == 2 && counted().of(elision_event::fallback) == 1, 5);
    check(counted().of(elision_event::commit) == 0, 6);
  });
}

TEST_F(rolled_back_sections, conflicts_are_retried_until_one_commits) {
  play([&] {
    start();
    int value = 0;
    engine->lock(mutex, site);
    ++value;
    if (*process_copies::attempts < 3) process_copies::abort_inside(conflict);
    engine->unlock(mutex);
    check(value == 1, 1);
    check(*process_copies::attempts == 3, 2);
    check(counted().of(elision_event::conflict) == 2 && counted().of(elision_event::commit) == 1, 3);
  });
}

TEST_F(rolled_back_sections, an_abort_in_an_inner_section_goes_back_to_the_outermost) {
  play([&] {
    start();
    int outer = 0;
    int inner = 0;
    engine->lock(mutex, site);
    ++outer;
    engine->lock(other, site);
    ++inner;
    if (*process_copies::attempts == 1) process_copies::abort_inside(conflict);
    engine->unlock(mutex);
    ++inner;
    if (*process_copies::attempts == 2) process_copies::abort_inside(conflict);
    engine->unlock(other);
    check(outer == 1 && inner == 2, 1);
    check(*process_copies::attempts == 3, 2);
    check(!process_copies::inside && !sections_of_thread.eliding(), 3);
  });
}

TEST_F(rolled_back_sections, a_mutex_locked_inside_by_a_condition_variable_is_never_committed) {
  play([&] {
    start();
    int value = 0;
    engine->lock(mutex, site);
    ++value;
    // What glibc does for a wait whose moment has passed, without a system call.
    mutex_words(mutex).lock_word().exchange(mutex_free);
    mutex_words(mutex).lock_word().exchange(mutex_awaited);
    engine->unlock(mutex);
    check(value == 1 && !process_copies::inside, 1);
    check(*process_copies::attempts == 1, 2);
    check(mutex_words(mutex).looks_free() && mutex.__data.__owner == 0 && mutex.__data.__nusers == 0, 3);
  });
}

TEST_F(rolled_back_sections, glibcs_condition_variables_wait_in_elided_sections) {
  if (test::thread_sanitizer)
    GTEST_SKIP() << "thread_sanitizer takes mutexes that are locked by their words for free";
  play([&] {
    start();
    int value = 0;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    engine->lock(mutex, site);
    ++value;
    // The system call of a wait that sleeps; of one before all time there is none.
    const timespec moments[] = {{1, 0}, {-1, 0}};
    for (const timespec& moment : moments) {
      if (moment.tv_sec > 0) process_copies::abort_inside(no_reason);
      check(pthread_cond_timedwait(&condition, &mutex, &moment) == ETIMEDOUT, 1);
      check(!mutex_words(mutex).looks_free(), 2);
    }
    engine->unlock(mutex);
    check(value == 1, 3);
    check(mutex_words(mutex).looks_free() && mutex.__data.__nusers == 0, 4);
    engine->lock(other, site);
    check(pthread_cond_timedwait(&condition, &other, &moments[1]) == ETIMEDOUT, 5);
    engine->unlock(other);
    check(!process_copies::inside && mutex_words(other).looks_free() && other.__data.__nusers == 0, 6);
    check(*process_copies::attempts == 3, 7);
  });
}

TEST_F(rolled_back_sections, a_mutex_that_is_held_cannot_be_destroyed) {
  play([&] {
    start();
    engine->lock(mutex, site);
    engine->before_destroy(mutex);
    check(pthread_mutex_destroy(&mutex) == EBUSY, 1);
    engine->unlock(mutex);
    check(pthread_mutex_destroy(&mutex) == 0, 2);
    check(*process_copies::attempts == 1, 3);
  });
}

TEST_F(rolled_back_sections, an_inner_mutex_that_is_held_is_waited_for_without_a_transaction) {
  play([&] {
    start();
    int value = 0;
    acquire(mutex_words(other), 1);
    engine->lock(mutex, site);
    ++value;
    check(engine->clocklock(other, CLOCK_REALTIME, {1, 0}, site) == ETIMEDOUT, 1);
    check(!process_copies::inside && !mutex_words(mutex).looks_free(), 2);
    engine->unlock(mutex);
    check(value == 1, 3);
    check(*process_copies::attempts == 3, 4);
    check(counted().of(elision_event::lock_held) == 3, 5);
  });
}

}  // namespace
}  // namespace espalier::preload
