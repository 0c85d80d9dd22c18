/* Mutexes whose waiters are interrupted, cancelled or forked away, mutexes of other kinds under condition variables,
   and what else of the C library locks beside them. The same with and without the preload. */

// WITH settings: ESPALIER_ELIDE_POLICY=tts | "" | ESPALIER_ELIDE_RTM=off
// RUN same: LD_PRELOAD=%elide %settings %p
// RUN same: LD_PRELOAD=%aborting ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tle %p
// THEN: cat counts; %sums%p counts
// EXPECT: : tle:
// EXPECT: ^commits 0 conflicts [1-9]\d* capacity \d+ fallbacks [1-9]
// RUN: LD_PRELOAD=%elide GLIBC_TUNABLES=glibc.elision.enable=1 %p
// WITH round: 1 | 2 | 3 | 4 | 5
// IF: %tell rtm
// RUN same: LD_PRELOAD=%elide ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tle %p
// THEN: %sums%p counts
// EXPECT: ^commits [1-9]
// WITH how conflicts capacity: "" 0 0 | abort_every=2 [1-9] 0 | abort_every=3,sets=1,ways=9 [1-9] [1-9]
// IF: test -n "%emulated"
// RUN same: LD_PRELOAD=%emulated:%elide ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tle ESPALIER_EMULATED_RTM=%how %fewer %p
// THEN: %sums%p counts
// EXPECT: ^commits [1-9]\d* conflicts %conflicts\d* capacity %capacity

#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <threads.h>

#include "mutex_program.h"

enum { threads = 4 };
static int rounds;

static atomic_int waiting;

/* Until the thread sleeps, or is about to. */
static void let_it_wait(void) {
  while (!waiting) sched_yield();
  EXPECT(usleep(3000) == 0);
}

/* pthread_mutex_lock() is no cancellation point: who waits in it gets the mutex, and is cancelled behind it. */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static int got_it;
static void* waits_while_cancelled(void* how) {
  const struct timespec far = in_ms(CLOCK_REALTIME, 7200000);
  waiting = 1;
  EXPECT((how == NULL ? pthread_mutex_lock(&held) : pthread_mutex_timedlock(&held, &far)) == 0);
  got_it = 1;
  EXPECT(pthread_mutex_unlock(&held) == 0);
  pthread_testcancel();
  return NULL;
}
static void cancelled_while_waiting(void) {
  for (int how = 0; how < 2; ++how) {
    pthread_t thread;
    void* result = NULL;
    got_it = waiting = 0;
    EXPECT(pthread_mutex_lock(&held) == 0);
    EXPECT(pthread_create(&thread, NULL, waits_while_cancelled, how == 0 ? NULL : &held) == 0);
    let_it_wait();
    EXPECT(pthread_cancel(thread) == 0);
    EXPECT(usleep(3000) == 0);
    EXPECT(!got_it);
    EXPECT(pthread_mutex_unlock(&held) == 0);
    EXPECT(pthread_join(thread, &result) == 0);
    EXPECT(result == PTHREAD_CANCELED && got_it);
    EXPECT(tried_elsewhere(&held) == 0);
  }
}

/* A cancelled wait for a condition, timed or not, has the mutex when it cleans up, whatever kind it is. */
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int timed;
static void deallocate(void* mutex) {
  EXPECT(tried_elsewhere(mutex) == EBUSY && pthread_mutex_unlock(mutex) == 0);
}
static void* waits_for_a_condition(void* mutex) {
  const struct timespec far = in_ms(CLOCK_REALTIME, 7200000);
  EXPECT(pthread_mutex_lock(mutex) == 0);
  pthread_cleanup_push(deallocate, mutex);
  waiting = 1;
  for (;;) timed ? pthread_cond_timedwait(&never, mutex, &far) : pthread_cond_wait(&never, mutex);
  pthread_cleanup_pop(0);
  return NULL;
}
static void cancelled_while_it_waits(void) {
  const int types[] = {PTHREAD_MUTEX_DEFAULT, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_RECURSIVE,
                       PTHREAD_MUTEX_ERRORCHECK};
  for (int i = 0; i < 8; ++i) {
    pthread_mutex_t mutex = of_type(types[i / 2]);
    pthread_t thread;
    void* result = NULL;
    waiting = 0;
    timed = i % 2;
    EXPECT(pthread_create(&thread, NULL, waits_for_a_condition, &mutex) == 0);
    let_it_wait();
    while (tried_elsewhere(&mutex) == EBUSY) sched_yield();
    EXPECT(pthread_cancel(thread) == 0);
    EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    EXPECT(tried_elsewhere(&mutex) == 0);
    EXPECT(pthread_mutex_destroy(&mutex) == 0);
  }
}

/* Asynchronously cancelled threads that hold no mutex leave none behind. */
static void* runs_for_ever(void* unused) {
  (void)unused;
  EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
  waiting = 1;
  for (;;) __asm__ volatile("");
  return NULL;
}
static void cancelled_anywhere(void) {
  pthread_t thread;
  waiting = 0;
  EXPECT(pthread_create(&thread, NULL, runs_for_ever, NULL) == 0);
  while (!waiting) sched_yield();
  EXPECT(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
  EXPECT(tried_elsewhere(&held) == 0);
}

/* Signals end no wait, neither for a mutex nor for its moment, and handlers may lock what the thread does not hold. */
static pthread_mutex_t of_handler = PTHREAD_MUTEX_INITIALIZER;
static atomic_int handled, over;
static void handle(int number) {
  (void)number;
  const int kept = errno;
  EXPECT(pthread_mutex_lock(&of_handler) == 0);
  ++handled;
  EXPECT(pthread_mutex_unlock(&of_handler) == 0);
  errno = kept;
}
static void* waits_through_signals(void* how) {
  const struct timespec soon = in_ms(CLOCK_MONOTONIC, 60);
  errno = 4321;
  waiting = 1;
  if (how == NULL) {
    EXPECT(pthread_mutex_lock(&held) == 0);
    EXPECT(pthread_mutex_unlock(&held) == 0);
  } else {
    EXPECT(pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    EXPECT(is_past(CLOCK_MONOTONIC, soon));
  }
  EXPECT(errno == 4321);
  over = 1;
  return NULL;
}
static void signalled_while_waiting(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handle;
  EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int how = 0; how < 2; ++how) {
    pthread_t thread;
    handled = waiting = over = 0;
    EXPECT(pthread_mutex_lock(&held) == 0);
    EXPECT(pthread_create(&thread, NULL, waits_through_signals, how == 0 ? NULL : &held) == 0);
    let_it_wait();
    for (int i = 0; i < 10 && !over; ++i) {
      const int before = handled;
      pthread_kill(thread, SIGUSR1);
      while (handled == before && !over) sched_yield();
    }
    if (how == 0) EXPECT(pthread_mutex_unlock(&held) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    if (how != 0) EXPECT(pthread_mutex_unlock(&held) == 0);
    /* The moment may come before the last of them. */
    EXPECT(handled == 10 || how != 0);
  }
}

/* Sections that are interrupted all the time, by handlers with sections of their own. */
static atomic_long sections;
static void* counts_under_fire(void* value) {
  for (int i = 0; i < 20 * rounds; ++i) {
    ++sections;
    EXPECT(pthread_mutex_lock(&held) == 0);
    ++*(long*)value;
    EXPECT(pthread_mutex_unlock(&held) == 0);
  }
  ++waiting;
  return NULL;
}
static void signalled_in_sections(void) {
  pthread_t all[threads];
  long value = 0;
  handled = waiting = 0;
  sections = 0;
  start_all(all, threads, counts_under_fire, &value);
  long seen = -1;
  while (waiting != threads) {
    /* Where sections take longer than signals, there would be signals alone. */
    if (sections != seen) {
      seen = sections;
      for (int i = 0; i < threads; ++i) pthread_kill(all[i], SIGUSR1);
    }
    sched_yield();
  }
  join_all(all, threads);
  EXPECT(value == (long)threads * 20 * rounds);
  EXPECT(tried_elsewhere(&held) == 0 && tried_elsewhere(&of_handler) == 0);
}

/* A mutex goes with its memory as soon as the last one who had it has given it back. */
struct object {
  pthread_mutex_t mutex;
  int users;
};
static void* leaves(void* argument) {
  struct object* object = argument;
  EXPECT(pthread_mutex_lock(&object->mutex) == 0);
  const int last = --object->users == 0;
  EXPECT(pthread_mutex_unlock(&object->mutex) == 0);
  if (last) {
    EXPECT(pthread_mutex_destroy(&object->mutex) == 0);
    EXPECT(munmap(object, sizeof *object) == 0);
  }
  return NULL;
}
static void destroyed_by_the_last(void) {
  for (int i = 0; i < times_of(200); ++i) {
    struct object* object =
        mmap(NULL, sizeof *object, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t all[threads];
    EXPECT(object != MAP_FAILED && pthread_mutex_init(&object->mutex, NULL) == 0);
    object->users = threads;
    start_all(all, threads, leaves, object);
    join_all(all, threads);
  }
}

/* Handlers of fork() that hold a mutex over it, as libraries do; in the copy it is given back by its one thread. */
static pthread_mutex_t over_fork = PTHREAD_MUTEX_INITIALIZER;
static long over_fork_value;
static atomic_int stop;
static void lock_over_fork(void) { EXPECT(pthread_mutex_lock(&over_fork) == 0); }
static void unlock_over_fork(void) {
  EXPECT(pthread_mutex_trylock(&over_fork) == EBUSY);
  EXPECT(pthread_mutex_unlock(&over_fork) == 0);
}
static void* counts_over_fork(void* unused) {
  (void)unused;
  while (!stop) {
    EXPECT(pthread_mutex_lock(&over_fork) == 0);
    ++over_fork_value;
    EXPECT(pthread_mutex_unlock(&over_fork) == 0);
  }
  return NULL;
}
static void goes_on_after_fork(void) {
  pthread_t all[threads];
  EXPECT(tried_elsewhere(&over_fork) == 0);
  stop = 0;
  start_all(all, threads, counts_over_fork, NULL);
  EXPECT(usleep(500) == 0);
  stop = 1;
  join_all(all, threads);
  in_child_process(lock_over_fork);
  EXPECT(pthread_mutex_destroy(&over_fork) == 0);
}
static void held_over_fork(void) {
  pthread_t all[threads];
  EXPECT(pthread_atfork(lock_over_fork, unlock_over_fork, unlock_over_fork) == 0);
  stop = 0;
  start_all(all, threads, counts_over_fork, NULL);
  for (int i = 0; i < times_of(20); ++i) in_child_process(goes_on_after_fork);
  stop = 1;
  join_all(all, threads);
  EXPECT(tried_elsewhere(&over_fork) == 0);
}

/* Whose holder dies: a thread, or a process, in memory that others share. */
static pthread_mutex_t* shared_robust;
static void die_with_it(void) { EXPECT(pthread_mutex_lock(shared_robust) == 0); }
static void* thread_dies_with_it(void* unused) {
  die_with_it();
  return unused;
}
static void robust(void) {
  pthread_mutexattr_t attributes;
  shared_robust =
      mmap(NULL, sizeof *shared_robust, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared_robust != MAP_FAILED);
  EXPECT(pthread_mutexattr_init(&attributes) == 0);
  EXPECT(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
  EXPECT(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
  EXPECT(pthread_mutex_init(shared_robust, &attributes) == 0);
  on_thread(thread_dies_with_it, NULL);
  EXPECT(pthread_mutex_lock(shared_robust) == EOWNERDEAD);
  EXPECT(pthread_mutex_consistent(shared_robust) == 0);
  EXPECT(pthread_mutex_unlock(shared_robust) == 0);
  on_thread(thread_dies_with_it, NULL);
  EXPECT(pthread_mutex_trylock(shared_robust) == EOWNERDEAD);
  EXPECT(pthread_mutex_consistent(shared_robust) == 0);
  EXPECT(pthread_mutex_unlock(shared_robust) == 0);
  in_child_process(die_with_it);
  const struct timespec soon = in_ms(CLOCK_REALTIME, 1000);
  EXPECT(pthread_mutex_timedlock(shared_robust, &soon) == EOWNERDEAD);
  EXPECT(pthread_mutex_consistent(shared_robust) == 0);
  EXPECT(pthread_mutex_unlock(shared_robust) == 0);
  in_child_process(die_with_it);
  EXPECT(pthread_mutex_clocklock(shared_robust, CLOCK_MONOTONIC, &soon) == EOWNERDEAD);
  EXPECT(pthread_mutex_unlock(shared_robust) == 0);
  EXPECT(pthread_mutex_lock(shared_robust) == ENOTRECOVERABLE);
  EXPECT(pthread_mutex_trylock(shared_robust) == ENOTRECOVERABLE);
  EXPECT(pthread_mutex_destroy(shared_robust) == 0);
}

/* With a ceiling; what the system allows of it is told, for it must be the same. */
static void with_a_ceiling(void) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  int ceiling = 0;
  EXPECT(pthread_mutexattr_init(&attributes) == 0);
  EXPECT(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT) == 0);
  EXPECT(pthread_mutexattr_setprioceiling(&attributes, sched_get_priority_min(SCHED_FIFO)) == 0);
  EXPECT(pthread_mutex_init(&mutex, &attributes) == 0);
  EXPECT(pthread_mutex_getprioceiling(&mutex, &ceiling) == 0);
  const int locked = pthread_mutex_lock(&mutex);
  printf("ceiling %d, locked %d", ceiling, locked);
  if (locked == 0) printf(", tried %d, unlocked %d", tried_elsewhere(&mutex), pthread_mutex_unlock(&mutex));
  printf(", raised %d", pthread_mutex_setprioceiling(&mutex, ceiling + 1, &ceiling));
  printf(", destroyed %d\n", pthread_mutex_destroy(&mutex));
}

/* Recursive and inheriting mutexes under a condition variable. */
struct turns {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int turn;
};
static void* takes_every_other_turn(void* argument) {
  struct turns* all = argument;
  for (int i = 0; i < times_of(300); ++i) {
    EXPECT(pthread_mutex_lock(&all->mutex) == 0);
    while (all->turn % 2 == 0) EXPECT(pthread_cond_wait(&all->changed, &all->mutex) == 0);
    ++all->turn;
    EXPECT(pthread_cond_broadcast(&all->changed) == 0);
    EXPECT(pthread_mutex_unlock(&all->mutex) == 0);
  }
  return NULL;
}
static void turns_of(struct turns* all) {
  pthread_t other;
  EXPECT(pthread_create(&other, NULL, takes_every_other_turn, all) == 0);
  for (int i = 0; i < times_of(300); ++i) {
    EXPECT(pthread_mutex_lock(&all->mutex) == 0);
    while (all->turn % 2 == 1) EXPECT(pthread_cond_wait(&all->changed, &all->mutex) == 0);
    ++all->turn;
    EXPECT(pthread_cond_signal(&all->changed) == 0);
    EXPECT(pthread_mutex_unlock(&all->mutex) == 0);
  }
  EXPECT(pthread_join(other, NULL) == 0);
  EXPECT(all->turn == 2 * times_of(300));
  EXPECT(pthread_cond_destroy(&all->changed) == 0);
  EXPECT(pthread_mutex_destroy(&all->mutex) == 0);
}
static void conditions_of_other_kinds(void) {
  const int types[] = {PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP,
                       PTHREAD_MUTEX_NORMAL};
  for (int i = 0; i < 4; ++i) {
    struct turns all = {of_type(types[i]), PTHREAD_COND_INITIALIZER, 0};
    turns_of(&all);
  }
  pthread_mutexattr_t attributes;
  EXPECT(pthread_mutexattr_init(&attributes) == 0);
  EXPECT(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
  struct turns inheriting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
  EXPECT(pthread_mutex_init(&inheriting.mutex, &attributes) == 0);
  turns_of(&inheriting);
}

/* C11's mutexes and conditions beside pthread's, in sections of each other. */
static mtx_t of_c11;
static cnd_t changed_c11;
static int of_both;
static int counts_in_both(void* unused) {
  (void)unused;
  for (int i = 0; i < rounds; ++i) {
    EXPECT(mtx_lock(&of_c11) == thrd_success);
    EXPECT(pthread_mutex_lock(&held) == 0);
    ++of_both;
    EXPECT(mtx_unlock(&of_c11) == thrd_success);
    EXPECT(pthread_mutex_unlock(&held) == 0);
    EXPECT(pthread_mutex_lock(&held) == 0);
    const int tried = mtx_trylock(&of_c11);
    EXPECT(tried == thrd_success || tried == thrd_busy);
    if (tried == thrd_success) EXPECT(mtx_unlock(&of_c11) == thrd_success);
    EXPECT(pthread_mutex_unlock(&held) == 0);
  }
  return 5;
}
static int waits_in_c11(void* unused) {
  (void)unused;
  EXPECT(mtx_lock(&of_c11) == thrd_success);
  while (of_both != -1) EXPECT(cnd_wait(&changed_c11, &of_c11) == thrd_success);
  EXPECT(mtx_unlock(&of_c11) == thrd_success);
  return 6;
}
static void beside_c11(void) {
  thrd_t all[threads];
  int result = 0;
  EXPECT(mtx_init(&of_c11, mtx_timed) == thrd_success && cnd_init(&changed_c11) == thrd_success);
  for (int i = 0; i < threads; ++i) EXPECT(thrd_create(&all[i], counts_in_both, NULL) == thrd_success);
  for (int i = 0; i < threads; ++i) EXPECT(thrd_join(all[i], &result) == thrd_success && result == 5);
  EXPECT(of_both == threads * rounds);
  EXPECT(thrd_create(&all[0], waits_in_c11, NULL) == thrd_success);
  EXPECT(mtx_lock(&of_c11) == thrd_success);
  of_both = -1;
  EXPECT(cnd_broadcast(&changed_c11) == thrd_success && mtx_unlock(&of_c11) == thrd_success);
  EXPECT(thrd_join(all[0], &result) == thrd_success && result == 6);
  const struct timespec soon = in_ms(CLOCK_REALTIME, 5);
  EXPECT(mtx_lock(&of_c11) == thrd_success);
  EXPECT(cnd_timedwait(&changed_c11, &of_c11, &soon) == thrd_timedout);
  EXPECT(mtx_unlock(&of_c11) == thrd_success);
  mtx_destroy(&of_c11);
  cnd_destroy(&changed_c11);
}

/* The first thread may end before others do. */
static void* first_thread_of(void* first) {
  EXPECT(pthread_join(*(pthread_t*)first, NULL) == 0);
  EXPECT(pthread_mutex_lock(&held) == 0);
  EXPECT(pthread_mutex_unlock(&held) == 0);
  puts("all is as it should be");
  exit(0);
}

int main(void) {
  rounds = rounds_of(2000);
  cancelled_while_waiting();
  cancelled_while_it_waits();
  cancelled_anywhere();
  signalled_while_waiting();
  signalled_in_sections();
  destroyed_by_the_last();
  held_over_fork();
  robust();
  with_a_ceiling();
  conditions_of_other_kinds();
  beside_c11();
  static pthread_t first;
  pthread_t last;
  first = pthread_self();
  EXPECT(pthread_create(&last, NULL, first_thread_of, &first) == 0);
  pthread_exit(NULL);
}
