/* mutex_copies N TIMES: takes 200 mutexes, and begins a row of N processes, each the copy of the one before, of which the
   last is the first to end. Each copy takes a mutex so often. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { many = 200 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t others[many];

static void take(pthread_mutex_t* one) {
  EXPECT(pthread_mutex_lock(one) == 0);
  EXPECT(pthread_mutex_unlock(one) == 0);
}

int main(int count, char** arguments) {
  EXPECT(count == 3);
  for (int i = 0; i < many; ++i) EXPECT(pthread_mutex_init(&others[i], NULL) == 0);
  for (int i = 0; i < many; ++i) take(&others[i]);
  for (int left = atoi(arguments[1]); left > 0; --left) {
    const pid_t copy = fork();
    EXPECT(copy >= 0);
    if (copy != 0) {
      int status = 0;
      EXPECT(waitpid(copy, &status, 0) == copy && WIFEXITED(status));
      _exit(WEXITSTATUS(status));
    }
    for (int i = atoi(arguments[2]); i > 0; --i) take(&mutex);
  }
  _exit(5);
}
