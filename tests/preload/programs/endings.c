/* endings HOW: takes a mutex 100 times, keeps 900 bytes and ends; what runs behind the end gives them back. */
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
