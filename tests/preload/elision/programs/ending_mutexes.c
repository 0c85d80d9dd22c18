/* Ends as its argument says, after sections of its own; before that, copies of it end in other ways. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>

#include "mutex_program.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void take(int times) {
  for (int i = 0; i < times; ++i) {
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
  }
}

static void end_in_handler(int number) {
  (void)number;
  _exit(11);
}

static int status_of(pid_t child) {
  int status = 0;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

/* Shares our memory, and must not end what we count. */
static pid_t vfork_and_end(void) {
  const pid_t child = vfork();
  if (child == 0) _exit(8);
  return child;
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  const char* how = arguments[1];
  take(100);
  if (strcmp(how, "vfork") == 0) {
    EXPECT(status_of(vfork_and_end()) == 8);
    take(11);
    return 12;
  }
  if (strcmp(how, "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      take(7);
      _exit(9);
    }
    EXPECT(status_of(child) == 9);
    const pid_t idle = fork();
    if (idle == 0) _exit(10);
    EXPECT(status_of(idle) == 10);
    _exit(13);
  }
  if (strcmp(how, "_exit") == 0) _exit(14);
  if (strcmp(how, "_Exit") == 0) _Exit(15);
  if (strcmp(how, "quick_exit") == 0) quick_exit(16);
  if (strcmp(how, "exit") == 0) exit(17);
  if (strcmp(how, "handler") == 0) {
    signal(SIGUSR1, end_in_handler);
    raise(SIGUSR1);
  }
  if (strcmp(how, "exit_then_exit_at_once") == 0) {
    atexit((void (*)(void))end_in_handler);
    exit(18);
  }
  return 0;
}
