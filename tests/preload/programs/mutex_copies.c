/* mutex_copies N TIMES: takes 200 mutexes, and begins a row of N processes, each the copy of the one before, of which the
   last is the first to end. Each copy takes a mutex so often. */

// Each copy tells what it counted itself, and nothing if it counted nothing.
// RUN 5: LD_PRELOAD=%elide ESPALIER_ELIDE_POLICY=tts ESPALIER_ELIDE_STATS=%%p %p 3 7
// THEN: wc -l *; cat *
// EXPECT 3: ^ +3 \d+$
// EXPECT 1: ^ +202 \d+$
// EXPECT 3: : tts: 1 mutexes and sites, 0 sections elided, 7 taken, of which 0 waited$
// EXPECT 1: : tts: 200 mutexes and sites, 0 sections elided, 200 taken, of which 0 waited$
// RUN 5: LD_PRELOAD=%elide ESPALIER_ELIDE_POLICY=tts ESPALIER_ELIDE_STATS=%%p %p 3 0
// THEN: ls
// EXPECT: \A\d+\n\Z

// A copy pays nothing for its parent's counts: two million instructions, if it cleared a table by hand. The difference of two
// rows has neither the program's beginning nor its end in it; the last process tells of all before it.
// WITH copies counts variable: 2 plain "" | 6 plain "" | 2 counted ESPALIER_ELIDE_STATS=counts | 6 counted ESPALIER_ELIDE_STATS=counts
// IF: test -n "%callgrind"
// RUN 5: LD_PRELOAD=%elide ESPALIER_ELIDE_POLICY=tts %variable %callgrind %p %copies 0
// EXPECT: refs: +(?P<%counts%copies>[\d,]+)
// CHECK: "%counts%copies" != "counted6" or 400 < plain6 - plain2 and counted6 - counted2 < 2 * (plain6 - plain2)

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
