/* What POSIX says of mutexes and condition variables, and what glibc adds, checked with and without the preload. With
   the argument "plugin FILE" mutexes of a module that comes and goes; with "relock" a mutex that its holder locks again,
   until an alarm ends the program. */

// WITH settings: ESPALIER_ELIDE_POLICY=tts | "" | ESPALIER_ELIDE_RTM=off
// RUN same: LD_PRELOAD=%elide %settings %p
// Attempts that come to nothing end at the mutex.
// RUN same: LD_PRELOAD=%aborting ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tle %p
// THEN: cat counts; %sums%p counts
// EXPECT: : tle:
// EXPECT: ^commits 0 conflicts [1-9]\d* capacity \d+ fallbacks [1-9]
// Of the exclusion alone two mutexes are taken by four threads in 3000 rounds.
// RUN: LD_PRELOAD=%elide ESPALIER_ELIDE_POLICY=tts ESPALIER_ELIDE_STATS=counts GLIBC_TUNABLES=glibc.elision.enable=1 %p
// EXPECT: \Aall is as it should be\n\Z
// THEN: cat counts; %sums%p counts
// EXPECT: \Aespalier elide: process .*: tts:
// EXPECT: ^commits 0 .* taken (?P<taken>\d+) waited [1-9]
// CHECK: taken >= 24000
// What commits is a matter of chance.
// WITH round: 1 | 2 | 3 | 4 | 5
// IF: %tell rtm
// RUN same: LD_PRELOAD=%elide ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tle %p
// THEN: %sums%p counts
// EXPECT: ^commits [1-9]
// By transactions that software carries out: all commit, every other one or so is aborted, hardly any fits the cache.
// WITH how conflicts capacity: "" 0 0 | abort_every=2 [1-9] 0 | abort_every=3,sets=1,ways=9 [1-9] [1-9]
// IF: test -n "%emulated"
// RUN same: LD_PRELOAD=%emulated:%elide ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tle ESPALIER_EMULATED_RTM=%how %fewer %p
// THEN: %sums%p counts
// EXPECT: ^commits [1-9]\d* conflicts %conflicts\d* capacity %capacity

// Mutexes of a module that comes and goes. Where it is loaded three times to one address there is one line, otherwise up to three.
// WITH settings: ESPALIER_ELIDE_POLICY=tts | "" | ESPALIER_ELIDE_RTM=off
// RUN same: LD_PRELOAD=%elide %settings %p plugin %programs/libmutex_plugin.so
// RUN same: LD_PRELOAD=%aborting ESPALIER_ELIDE_POLICY=tle %p plugin %programs/libmutex_plugin.so
// RUN: LD_PRELOAD=%elide ESPALIER_ELIDE_POLICY=tts ESPALIER_ELIDE_STATS=counts %p plugin %programs/libmutex_plugin.so
// THEN: %sums%programs/libmutex_plugin.so counts
// EXPECT: taken (?P<taken>\d+)
// CHECK: taken >= 4000
// IF: test -n "%emulated"
// RUN: LD_PRELOAD=%emulated:%elide ROUNDS_DIVIDED_BY=20 ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tle %p plugin %programs/libmutex_plugin.so
// THEN: %sums%programs/libmutex_plugin.so counts
// EXPECT: ^commits [1-9]
// A normal mutex that its holder locks again is a deadlock, until the alarm.
// WITH settings: ESPALIER_ELIDE_POLICY=tts | ""
// RUN SIGALRM: LD_PRELOAD=%elide %settings %p relock

// What is wrong is told once, and the program runs.
// WITH settings told: "ESPALIER_ELIDE_POLICY=tle ESPALIER_ELIDE_RTM=auto" "" | "ESPALIER_ELIDE_POLICY=fast ESPALIER_ELIDE_RTM=off" "espalier elide: ESPALIER_ELIDE_POLICY is neither tts nor tle; it is taken for tle\n" | "ESPALIER_ELIDE_STATS=/no/such/folder/file ESPALIER_ELIDE_POLICY=tts" "espalier elide: the counts could not be written where ESPALIER_ELIDE_STATS says\n"
// RUN: LD_PRELOAD=%elide %settings %p plugin %programs/libmutex_plugin.so
// EXPECT: \A%told\Z
// WITH condition told: "! %tell rtm" "espalier elide: this processor has no transactions; mutexes are taken, none is elided\n" | "%tell rtm" ""
// IF: %condition
// RUN: LD_PRELOAD=%elide ESPALIER_ELIDE_POLICY=tle %p plugin %programs/libmutex_plugin.so
// EXPECT: \A%told\Z

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/mman.h>

#include "mutex_program.h"

enum { threads = 4 };
static int rounds;

static pthread_mutex_t static_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t static_adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t all_zero;

static void exclude_one(pthread_mutex_t* mutex) {
  EXPECT(tried_elsewhere(mutex) == 0);
  EXPECT(pthread_mutex_lock(mutex) == 0);
  EXPECT(pthread_mutex_trylock(mutex) == EBUSY);
  EXPECT(tried_elsewhere(mutex) == EBUSY);
  EXPECT(pthread_mutex_unlock(mutex) == 0);
  EXPECT(pthread_mutex_trylock(mutex) == 0);
  EXPECT(tried_elsewhere(mutex) == EBUSY);
  EXPECT(pthread_mutex_unlock(mutex) == 0);
  EXPECT(tried_elsewhere(mutex) == 0);
}

static void kinds(void) {
  pthread_mutex_t mutex;
  exclude_one(&static_mutex);
  exclude_one(&static_adaptive);
  exclude_one(&all_zero);
  memset(&mutex, 0xaa, sizeof mutex);
  EXPECT(pthread_mutex_init(&mutex, NULL) == 0);
  exclude_one(&mutex);
  EXPECT(pthread_mutex_destroy(&mutex) == 0);
  const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_DEFAULT, PTHREAD_MUTEX_ADAPTIVE_NP,
                       PTHREAD_MUTEX_ERRORCHECK};
  for (int i = 0; i < 3; ++i) {
    mutex = of_type(types[i]);
    exclude_one(&mutex);
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    EXPECT(pthread_mutex_destroy(&mutex) == EBUSY);
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
    EXPECT(pthread_mutex_destroy(&mutex) == 0);
    EXPECT(pthread_mutex_lock(&mutex) == EINVAL);
  }
}

struct counted {
  pthread_mutex_t mutex;
  long value;
};
static void* count(void* argument) {
  struct counted* counted = argument;
  for (int i = 0; i < rounds; ++i) {
    errno = 4321;
    if (i % 3 == 0) {
      while (pthread_mutex_trylock(&counted->mutex) != 0) sched_yield();
    } else if (i % 3 == 1) {
      const struct timespec moment = in_ms(CLOCK_MONOTONIC, 100000);
      EXPECT(pthread_mutex_clocklock(&counted->mutex, CLOCK_MONOTONIC, &moment) == 0);
    } else {
      EXPECT(pthread_mutex_lock(&counted->mutex) == 0);
    }
    const long before = counted->value;
    if (i % 64 == 0) sched_yield();
    counted->value = before + 1;
    EXPECT(pthread_mutex_unlock(&counted->mutex) == 0);
    EXPECT(errno == 4321);
  }
  return NULL;
}
static void exclusion(void) {
  const int types[] = {PTHREAD_MUTEX_DEFAULT, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_RECURSIVE,
                       PTHREAD_MUTEX_ERRORCHECK};
  for (int i = 0; i < 4; ++i) {
    pthread_t all[threads];
    struct counted one = {of_type(types[i]), 0};
    start_all(all, threads, count, &one);
    join_all(all, threads);
    EXPECT(one.value == threads * rounds);
    EXPECT(pthread_mutex_destroy(&one.mutex) == 0);
  }
}

/* A bounded buffer: each number comes out once. */
enum { places = 4, produced = 1000 };
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t not_full, not_empty;
  int buffer[places];
  int used, taken;
  long sum;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0, 0};

static void* produce(void* unused) {
  (void)unused;
  for (int i = 1; i <= produced; ++i) {
    pthread_mutex_lock(&queue.mutex);
    while (queue.used == places) EXPECT(pthread_cond_wait(&queue.not_full, &queue.mutex) == 0);
    queue.buffer[queue.used++] = i;
    EXPECT(pthread_cond_signal(&queue.not_empty) == 0);
    pthread_mutex_unlock(&queue.mutex);
  }
  return NULL;
}
static void* consume(void* unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&queue.mutex);
    while (queue.used == 0 && queue.taken < threads * produced) {
      const struct timespec moment = in_ms(CLOCK_REALTIME, 20);
      const int failed = queue.taken % 2 == 0
                             ? pthread_cond_wait(&queue.not_empty, &queue.mutex)
                             : pthread_cond_timedwait(&queue.not_empty, &queue.mutex, &moment);
      EXPECT(failed == 0 || failed == ETIMEDOUT);
    }
    const int more = queue.used != 0;
    if (more) {
      queue.sum += queue.buffer[--queue.used];
      if (++queue.taken == threads * produced) pthread_cond_broadcast(&queue.not_empty);
      pthread_cond_signal(&queue.not_full);
    }
    pthread_mutex_unlock(&queue.mutex);
    if (!more) return NULL;
  }
}
static void producers_and_consumers(void) {
  pthread_t all[2 * threads];
  start_all(all, threads, produce, NULL);
  start_all(all + threads, threads, consume, NULL);
  join_all(all, 2 * threads);
  EXPECT(queue.taken == threads * produced);
  EXPECT(queue.sum == (long)threads * produced * (produced + 1) / 2);
  EXPECT(pthread_mutex_destroy(&queue.mutex) == 0);
}

static void waiting_for_a_condition_ends(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  const struct timespec moment = in_ms(CLOCK_REALTIME, 20);
  const struct timespec monotonic = in_ms(CLOCK_MONOTONIC, 20);
  const struct timespec before_all = {-1, 0};
  const struct timespec no_moment = {0, 1000000000};
  EXPECT(pthread_mutex_lock(&mutex) == 0);
  EXPECT(pthread_cond_timedwait(&condition, &mutex, &moment) == ETIMEDOUT);
  EXPECT(is_past(CLOCK_REALTIME, moment));
  EXPECT(tried_elsewhere(&mutex) == EBUSY);
  EXPECT(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &monotonic) == ETIMEDOUT);
  EXPECT(is_past(CLOCK_MONOTONIC, monotonic));
  EXPECT(pthread_cond_timedwait(&condition, &mutex, &before_all) == ETIMEDOUT);
  EXPECT(tried_elsewhere(&mutex) == EBUSY);
  EXPECT(pthread_cond_timedwait(&condition, &mutex, &no_moment) == EINVAL);
  EXPECT(tried_elsewhere(&mutex) == EBUSY);
  EXPECT(pthread_mutex_unlock(&mutex) == 0);
  EXPECT(tried_elsewhere(&mutex) == 0);
  EXPECT(pthread_mutex_destroy(&mutex) == 0);
}

static void* holds_a_while(void* mutex) {
  EXPECT(pthread_mutex_lock(mutex) == 0);
  EXPECT(usleep(30000) == 0);
  EXPECT(pthread_mutex_unlock(mutex) == 0);
  return NULL;
}
static void* waits_for_moments(void* mutex) {
  const struct timespec moment = in_ms(CLOCK_REALTIME, 20);
  const struct timespec monotonic = in_ms(CLOCK_MONOTONIC, 20);
  const struct timespec past = in_ms(CLOCK_REALTIME, -1000);
  const struct timespec wrong[] = {{0, 1000000000}, {0, -1}};
  const struct timespec before_all = {-1, 0};
  errno = 4321;
  EXPECT(pthread_mutex_timedlock(mutex, &moment) == ETIMEDOUT);
  EXPECT(is_past(CLOCK_REALTIME, moment));
  EXPECT(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &monotonic) == ETIMEDOUT);
  EXPECT(is_past(CLOCK_MONOTONIC, monotonic));
  EXPECT(pthread_mutex_clocklock(mutex, CLOCK_REALTIME, &past) == ETIMEDOUT);
  EXPECT(pthread_mutex_timedlock(mutex, &before_all) == ETIMEDOUT);
  for (int i = 0; i < 2; ++i) {
    EXPECT(pthread_mutex_timedlock(mutex, &wrong[i]) == EINVAL);
    EXPECT(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &wrong[i]) == EINVAL);
  }
  EXPECT(errno == 4321);
  return NULL;
}
static void moments(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const struct timespec past = {1, 0};
  const struct timespec far = in_ms(CLOCK_REALTIME, 7200000);
  pthread_t holder;
  EXPECT(pthread_mutex_lock(&mutex) == 0);
  on_thread(waits_for_moments, &mutex);
  EXPECT(pthread_mutex_unlock(&mutex) == 0);
  EXPECT(tried_elsewhere(&mutex) == 0);
  /* What is free is had, however late. */
  EXPECT(pthread_mutex_timedlock(&mutex, &past) == 0);
  EXPECT(pthread_mutex_unlock(&mutex) == 0);
  EXPECT(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &far) == EINVAL);
  EXPECT(tried_elsewhere(&mutex) == 0);
  EXPECT(pthread_create(&holder, NULL, holds_a_while, &mutex) == 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT(usleep(10000) == 0);
    EXPECT(pthread_mutex_timedlock(&mutex, &far) == 0);
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
  }
  EXPECT(pthread_join(holder, NULL) == 0);
  EXPECT(pthread_mutex_destroy(&mutex) == 0);
}

static void* unlocks(void* mutex) { return (void*)(intptr_t)pthread_mutex_unlock(mutex); }
static void other_types(void) {
  pthread_mutex_t recursive = of_type(PTHREAD_MUTEX_RECURSIVE);
  for (int i = 0; i < 3; ++i) EXPECT(pthread_mutex_lock(&recursive) == 0);
  EXPECT(pthread_mutex_trylock(&recursive) == 0);
  EXPECT(tried_elsewhere(&recursive) == EBUSY);
  EXPECT((intptr_t)on_thread(unlocks, &recursive) == EPERM);
  for (int i = 0; i < 4; ++i) EXPECT(pthread_mutex_unlock(&recursive) == 0);
  EXPECT(tried_elsewhere(&recursive) == 0);
  EXPECT(pthread_mutex_destroy(&recursive) == 0);

  pthread_mutex_t checked = of_type(PTHREAD_MUTEX_ERRORCHECK);
  EXPECT(pthread_mutex_unlock(&checked) == EPERM);
  EXPECT(pthread_mutex_lock(&checked) == 0);
  EXPECT(pthread_mutex_lock(&checked) == EDEADLK);
  EXPECT((intptr_t)on_thread(unlocks, &checked) == EPERM);
  EXPECT(pthread_mutex_unlock(&checked) == 0);
  EXPECT(pthread_mutex_destroy(&checked) == 0);

  pthread_mutexattr_t attributes;
  pthread_mutex_t inheriting;
  EXPECT(pthread_mutexattr_init(&attributes) == 0);
  EXPECT(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
  EXPECT(pthread_mutex_init(&inheriting, &attributes) == 0);
  EXPECT(pthread_mutex_lock(&inheriting) == 0);
  EXPECT(tried_elsewhere(&inheriting) == EBUSY);
  EXPECT(pthread_mutex_unlock(&inheriting) == 0);
  EXPECT(pthread_mutex_destroy(&inheriting) == 0);
}

static struct counted* counter;
static void count_in_child(void) { count(counter); }
static void shared_between_processes(void) {
  counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attributes;
  pthread_t beside;
  EXPECT(counter != MAP_FAILED);
  EXPECT(pthread_mutexattr_init(&attributes) == 0);
  EXPECT(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
  EXPECT(pthread_mutex_init(&counter->mutex, &attributes) == 0);
  EXPECT(pthread_create(&beside, NULL, count, counter) == 0);
  in_child_process(count_in_child);
  EXPECT(pthread_join(beside, NULL) == 0);
  EXPECT(counter->value == 2 * rounds);
  EXPECT(pthread_mutex_destroy(&counter->mutex) == 0);
  EXPECT(munmap(counter, sizeof *counter) == 0);
}

/* More mutexes at once than one transaction elides, given back in another order than they were taken. */
enum { nested = 12 };
static pthread_mutex_t nest[nested];
static long nest_value[nested];
static void* nests(void* unused) {
  (void)unused;
  for (int i = 0; i < rounds / 6; ++i) {
    for (int m = 0; m < nested; ++m) {
      EXPECT(pthread_mutex_lock(&nest[m]) == 0);
      ++nest_value[m];
    }
    EXPECT(pthread_mutex_trylock(&nest[i % nested]) == EBUSY);
    for (int m = 0; m < nested; ++m) EXPECT(pthread_mutex_unlock(&nest[(m + i) % nested]) == 0);
    /* Hand over hand. */
    EXPECT(pthread_mutex_lock(&nest[0]) == 0);
    for (int m = 1; m < nested; ++m) {
      EXPECT(pthread_mutex_lock(&nest[m]) == 0);
      ++nest_value[m - 1];
      EXPECT(pthread_mutex_unlock(&nest[m - 1]) == 0);
    }
    ++nest_value[nested - 1];
    EXPECT(pthread_mutex_unlock(&nest[nested - 1]) == 0);
  }
  return NULL;
}
static void nesting(void) {
  pthread_t all[threads];
  start_all(all, threads, nests, NULL);
  join_all(all, threads);
  for (int m = 0; m < nested; ++m) {
    EXPECT(nest_value[m] == 2 * threads * (rounds / 6));
    EXPECT(pthread_mutex_destroy(&nest[m]) == 0);
  }
}

static void with_plugin(const char* file) {
  for (int i = 0; i < 3; ++i) {
    void* const plugin = dlopen(file, RTLD_NOW);
    EXPECT(plugin != NULL);
    void* (*work)(void*) = (void* (*)(void*))dlsym(plugin, "count_in_plugin");
    long (*counted)(void) = (long (*)(void))dlsym(plugin, "counted_in_plugin");
    EXPECT(work != NULL && counted != NULL);
    pthread_t all[threads];
    start_all(all, threads, work, NULL);
    join_all(all, threads);
    EXPECT(counted() == threads * rounds_of(1000));
    if (i < 2) EXPECT(dlclose(plugin) == 0);
  }
}

int main(int count_of_arguments, char** arguments) {
  rounds = rounds_of(3000);
  if (count_of_arguments == 3 && strcmp(arguments[1], "plugin") == 0) {
    with_plugin(arguments[2]);
    return 0;
  }
  if (count_of_arguments == 2 && strcmp(arguments[1], "relock") == 0) {
    pthread_mutex_t normal = of_type(PTHREAD_MUTEX_NORMAL);
    pthread_mutex_lock(&normal);
    ualarm(50000, 0);
    pthread_mutex_lock(&normal);
    return 1;
  }
  kinds();
  exclusion();
  producers_and_consumers();
  waiting_for_a_condition_ends();
  moments();
  other_types();
  shared_between_processes();
  nesting();
  puts("all is as it should be");
  return 0;
}
