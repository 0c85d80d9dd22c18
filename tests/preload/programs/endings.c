/* endings HOW: takes a mutex 100 times, keeps 900 bytes and ends; what runs behind the end gives them back. */

// Ways to end after which the malloc's figures are told, once, with the status that comes of each; also with the mutexes' library.
// WITH how status: return 11 | exit 12 | _exit 13 | _Exit 14 | quick_exit 15 | error 16 | thread 17 | handler 18 | exit_then_at_once 18 | vfork 21 | exec 12
// WITH libraries: %malloc | %elide:%malloc | %malloc:%elide
// RUN %status: LD_PRELOAD=%libraries ESPALIER_MALLOC_STATS=1 %p %how
// EXPECT 1: espalier: heap of process \d
// EXPECT: heaps of threads
// WITH how signal: abort SIGABRT | terminated SIGTERM
// RUN %signal: LD_PRELOAD=%malloc ESPALIER_MALLOC_STATS=1 %p %how
// EXPECT 0: espalier: heap of process

// A library that is preloaded after ours is told the end, too.
// WITH how status: _exit 13 | _Exit 14
// WITH library: %malloc | %elide | %random
// RUN %status: LD_PRELOAD=%library:%programs/libbehind.so %p %how
// EXPECT: ^behind: %how$

// Padding is told once.
// WITH how status: return 11 | exit 12 | _exit 13 | _Exit 14 | quick_exit 15 | handler 18 | vfork 21 | idle_copy 23
// RUN %status: LD_PRELOAD=%random ESPALIER_RANDOM_STATS=1 %p %how
// EXPECT 1: espalier: random, process

// Mutexes are counted until the end, and a copy that took none tells nothing.
// WITH how status taken: exit 12 100 | _exit 13 100 | _Exit 14 100 | quick_exit 15 100 | handler 18 100 | vfork 21 111 | idle_copy 23 100 | exit_then_at_once 18 100
// RUN %status: LD_PRELOAD=%elide ESPALIER_ELIDE_STATS=counts ESPALIER_ELIDE_POLICY=tts %p %how
// EXPECT: \A%how\n\Z
// THEN: ls; %sums%p counts
// EXPECT: \Acounts\ncommits.* taken %taken waited

// Blocks are recorded before handlers free them.
// WITH how status moment: return 11 "return from main" | exit 12 exit | _exit 13 _exit | _Exit 14 _exit | quick_exit 15 quick_exit | thread 17 exit
// RUN same %status: %record %p %how
// THEN: %tell snapshot
// EXPECT: ^taken at: %moment$
// EXPECT: ^subject: .*%p
// EXPECT: ^keep 1 900$
// The C library ends it, when handlers have run.
// RUN same 16: %record %p error
// THEN: %tell snapshot
// EXPECT: ^taken at: end$
// EXPECT 0: ^keep
// A signal that ends it leaves no snapshot, as the manual says.
// WITH how signal: abort SIGABRT | terminated SIGTERM
// RUN %signal: %record %p %how
// THEN: ls
// EXPECT: \A\Z
// WITH follow: none | forks | all
// RUN same 12: %record ESPALIER_INSPECT_FOLLOW=%follow %p exec
// THEN: %tell snapshot
// EXPECT: ^keep 1\b
// The environment shows the recording only where other programs are to be recorded.
// RUN same: %record %p environment
// EXPECT: ^PATH=
// RUN: %record ESPALIER_INSPECT_FOLLOW=all %p environment
// EXPECT: ^LD_PRELOAD=
// EXPECT: ^ESPALIER_INSPECT_FOLLOW=all$
// RUN 12: %record ESPALIER_INSPECT_SAMPLE=some %p exit
// EXPECT: \Aespalier: the program is not recorded: .*SAMPLE.*\nexit\n\Z
// THEN: ls
// EXPECT: \A\Z
// RUN 12: %record ESPALIER_INSPECT_FILE=%folder/no/such/folder/file %p exit
// EXPECT: \Aexit\n\Z
// RUN 12: mkfifo pipe; %record ESPALIER_INSPECT_FILE=%folder/pipe %p exit
// THEN: test -p pipe

#define _GNU_SOURCE
#include <error.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

extern char** environ;
static void* kept;
static void deallocate(void) { free(kept); }
APART static void keep(void) { kept = malloc(900); }

static pthread_t first;
static void* end_behind_first(void* unused) {
  EXPECT(pthread_join(first, NULL) == 0);
  exit(17);
  return unused;
}
static void end_first_thread(void) {
  pthread_t last;
  first = pthread_self();
  EXPECT(pthread_create(&last, NULL, end_behind_first, NULL) == 0);
  pthread_exit(NULL);
}

static void end_in_handler(int number) {
  (void)number;
  _exit(18);
}
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void take(int times) {
  for (int i = 0; i < times; ++i) {
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
  }
}

/* Shares our memory, and is not the end of us. */
static pid_t vfork_and_end(void) {
  const pid_t child = vfork();
  if (child == 0) _exit(20);
  return child;
}
static int status_of(pid_t child) {
  int status = 0;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int main(int count, char** arguments) {
  const char* how = count > 1 ? arguments[1] : "";
  take(100);
  keep();
  atexit(deallocate);
  at_quick_exit(deallocate);
  puts(how);
  fflush(stdout);
  if (strcmp(how, "return") == 0) return 11;
  if (strcmp(how, "exit") == 0) exit(12);
  if (strcmp(how, "_exit") == 0) _exit(13);
  if (strcmp(how, "_Exit") == 0) _Exit(14);
  if (strcmp(how, "quick_exit") == 0) quick_exit(15);
  if (strcmp(how, "error") == 0) error(16, 0, "ends inside the C library");
  if (strcmp(how, "thread") == 0) end_first_thread();
  if (strcmp(how, "handler") == 0) {
    signal(SIGUSR1, end_in_handler);
    raise(SIGUSR1);
  }
  if (strcmp(how, "exit_then_at_once") == 0) {
    atexit((void (*)(void))end_in_handler);
    exit(19);
  }
  if (strcmp(how, "vfork") == 0) {
    EXPECT(status_of(vfork_and_end()) == 20);
    take(11);
    _exit(21);
  }
  if (strcmp(how, "idle_copy") == 0) {
    const pid_t copy = fork();
    if (copy == 0) _exit(22);
    EXPECT(status_of(copy) == 22);
    return 23;
  }
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "terminated") == 0) raise(SIGTERM);
  if (strcmp(how, "exec") == 0) execv(arguments[0], (char*[]){arguments[0], "exit", NULL});
  if (strcmp(how, "environment") == 0) {
    for (char** variable = environ; *variable != NULL; ++variable) puts(*variable);
  }
  return 0;
}
