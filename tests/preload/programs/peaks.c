/* peaks HOW: fills its heap, frees it again, and ends with 6. Of what is kept at a peak each function has blocks of its
   own, and of sizes that let a part of a percent show. */

// The heap at its peak, of programs that free it before they end. A snapshot is taken when a 64th of the heap is gone; what
// threads have not told yet comes to that.
// RUN same 6: %peak %p one
// THEN: ls; %tell snapshot.peak
// EXPECT: \Asnapshot\nsnapshot.peak\nfile:
// LINES: taken at: peak | blocks left out: 0
// EXPECT: ^fill_low (?P<blocks>\d+) (?P<bytes>\d+)$
// CHECK: 313600 <= bytes == 40 * blocks <= 320000
// EXPECT: ^all: \d+ blocks, (?P<all>\d+) bytes
// EXPECT: ^allocations recorded: (?P<recorded>\d+)$
// THEN: %tell snapshot
// EXPECT 0: ^fill_low
// LINES: taken at: return from main
// EXPECT: ^most bytes at once: (?P<highest>\d+)$
// CHECK: 318000 <= highest <= 330000 and all >= highest - highest / 50
// No block came after the peak.
// EXPECT: ^allocations recorded: (?P<recorded_at_end>\d+)$
// CHECK: recorded_at_end == recorded

// WITH how function size most others: few fill_low 40 3 none | three fill_high 56 9000 fill_low | moved grow 1000000 1 none | threads work 48 16000 none | another fill_low 40 8000 none | cancelled fill_low 40 8000 none
// RUN same 6: %peak %p %how
// THEN: ls; %tell snapshot.peak
// EXPECT: \Asnapshot\nsnapshot.peak\nfile:
// LINES: taken at: peak | blocks left out: 0
// EXPECT: ^%function (?P<blocks>\d+) (?P<bytes>\d+)$
// CHECK: %most * 49 / 50 <= blocks <= %most and bytes == %size * blocks
// EXPECT 0: ^%others\b

// Of many steps not each can be afforded; the last one recorded adds less than a quarter to the one before it.
// RUN same 6: %peak %p stairs
// THEN: %tell snapshot.peak
// LINES: taken at: peak | blocks left out: 0
// EXPECT: ^all: \d+ blocks, (?P<all>\d+) bytes
// CHECK: all >= 20000 * 56 * 3 / 4
// THEN: %tell snapshot
// EXPECT: ^most bytes at once: (?P<highest>\d+)$
// CHECK: highest >= 1110000

// A block whose end ends the peak is in it, and each is recorded once.
// WITH how: large | large_before
// RUN same 6: %record %p %how
// THEN: %tell snapshot
// EXPECT: ^allocations recorded: (?P<recorded_%how>\d+)$
// WITH how high: large 0 | large_before 1
// RUN same 6: %peak %p %how
// THEN: %tell snapshot.peak
// LINES: taken at: peak | blocks left out: 0 | take_large 1 50000000 | fill_low 100 4000
// EXPECT %high: ^fill_high 1000\b
// EXPECT %high: ^fill_high
// THEN: %tell snapshot
// EXPECT: ^allocations recorded: (?P<recorded>\d+)$
// CHECK: recorded == recorded_%how

// A peak may come at the end.
// RUN same 6: %peak %p end
// THEN: %tell snapshot.peak
// EXPECT 0: ^fill_high
// EXPECT: ^all: \d+ blocks, (?P<all_at_peak>\d+) bytes
// THEN: %tell snapshot
// LINES: fill_high 9000 504000
// EXPECT: ^all: \d+ blocks, (?P<all>\d+) bytes
// CHECK: all_at_peak <= all

// A child has a peak of its own.
// RUN same 6: %peak ESPALIER_INSPECT_FOLLOW=forks %p child
// THEN: ls | wc -l; %tell snapshot.peak
// EXPECT: \A4\n
// EXPECT: ^fill_high (?P<blocks>\d+)\b
// EXPECT 0: ^fill_low
// CHECK: 8820 <= blocks <= 9000
// THEN: %tell snapshot.peak.*
// EXPECT: ^fill_high (?P<blocks>\d+) (?P<bytes>\d+)$
// LINES: fill_low 3000 120000
// CHECK: 272000 <= bytes == 56 * blocks <= 280000
// Peaks of programs that are followed name the process.
// RUN 3: %peak ESPALIER_INSPECT_FOLLOW=all sh -c "%p one; exit 3"
// THEN: %tell snapshot.peak.*
// EXPECT 1: ^fill_low (7[89]|80)\d\d\b
// COUNT files: ^file:
// COUNT named: ^file: snapshot\.peak\.(\d+)\nsubject: .*process \1\b
// CHECK: files == named

// A program that leaves no end leaves its peak.
// WITH how signal: killed SIGKILL | aborted SIGABRT
// RUN %signal: %peak %p %how
// THEN: ls; %tell snapshot.peak
// EXPECT: \Asnapshot.peak\nfile:
// EXPECT: ^fill_low (?P<blocks>\d+)\b
// CHECK: 7840 <= blocks <= 8000
// RUN same 6: %peak ESPALIER_INSPECT_SAMPLE=blocks:10 %p one
// THEN: %tell snapshot.peak
// EXPECT: ^fill_low (?P<blocks>\d+)\b
// CHECK: abs(blocks - 800) <= 120
// WITH variable: "" | ESPALIER_INSPECT_PEAK=0
// RUN same 6: %record %variable %p three
// THEN: ls; %tell snapshot
// EXPECT: \Asnapshot\nfile:
// EXPECT 0: ^most bytes at once:

// A peak that cannot be written harms nothing.
// RUN same 6: %peak ESPALIER_INSPECT_FILE=no/such/folder/file %p three
// EXPECT: \A\Z
// THEN: ls
// EXPECT: \A\Z
// Files of 64 KiB at most: the first peak fits, the second does not, nor does its signal end the program.
// WITH blocks: 128 | 1
// RUN 6: ulimit -f %blocks; %peak ESPALIER_INSPECT_FOLLOW=all exec %p three
// THEN: ls
// EXPECT 0: part
// THEN: ls | xargs -r %tell
// EXPECT 0: ^fill_high\b

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { most = 20000, threads = 4 };
static void* volatile low[most];
static void* volatile high[most];

APART static void fill_low(int count) {
  for (int i = 0; i < count; ++i) EXPECT((low[i] = malloc(40)) != NULL);
}
APART static void fill_high(int count) {
  for (int i = 0; i < count; ++i) EXPECT((high[i] = malloc(56)) != NULL);
}
static void empty(void* volatile* blocks, int count) {
  for (int i = 0; i < count; ++i) free(blocks[i]);
}
static void one(int count) {
  fill_low(count);
  empty(low, count);
}
/* The second is larger, and then the third is smaller. */
static void three(void) {
  one(5000);
  fill_high(9000);
  empty(high, 9000);
  one(6000);
}
/* Each is so little higher than the one before that not every one can be recorded. */
static void stairs(void) {
  for (int count = 5000; count <= most; count += count / 20) {
    fill_high(count);
    empty(high, count);
  }
  fill_high(most);
  empty(high, most);
}
/* A block alone is nearly all: the one that came last, or one that many came after. */
APART static void* take_large(void) { return malloc(50000000); }
static void large(int behind) {
  fill_low(100);
  void* block = take_large();
  fill_high(behind);
  free(block);
  empty(high, behind);
  empty(low, 100);
}
/* It falls to a half for a moment each time that it grows; the peak is before the last block goes. */
APART static void* grow(void* block, size_t bytes) { return realloc(block, bytes); }
static void moved(void) {
  void* block = NULL;
  for (size_t bytes = 1000; bytes <= 1000000; bytes += 1000) EXPECT((block = grow(block, bytes)) != NULL);
  free(block);
}

/* One frees after the other: while one writes a snapshot the others would go on. */
static pthread_barrier_t together;
APART static void* work(void* number) {
  enum { count = 4000 };
  void* blocks[count];
  for (int i = 0; i < count; ++i) EXPECT((blocks[i] = malloc(48)) != NULL);
  for (size_t turn = 0; turn < threads; ++turn) {
    pthread_barrier_wait(&together);
    if (turn != (size_t)number) continue;
    for (int i = 0; i < count; ++i) free(blocks[i]);
  }
  return NULL;
}
static void by_threads(void) {
  pthread_t all[threads];
  pthread_barrier_init(&together, NULL, threads);
  for (int i = 0; i < threads; ++i) EXPECT(pthread_create(&all[i], NULL, work, (void*)(size_t)i) == 0);
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
}
/* What one thread fills another empties. */
static void* empty_low(void* unused) {
  empty(low, 8000);
  return unused;
}
static void by_another(void) {
  pthread_t other;
  fill_low(8000);
  EXPECT(pthread_create(&other, NULL, empty_low, NULL) == 0);
  pthread_join(other, NULL);
}
/* A thread that is to end frees: free() is no place for it to end at. */
static void* cancelled(void* unused) {
  EXPECT(pthread_cancel(pthread_self()) == 0);
  empty(low, 8000);
  return unused;
}
static void by_cancelled(void) {
  pthread_t other;
  void* result = NULL;
  fill_low(8000);
  EXPECT(pthread_create(&other, NULL, cancelled, NULL) == 0);
  EXPECT(pthread_join(other, &result) == 0 && result == NULL);
}

/* After a peak of its parent's that it does not reach. */
static void by_child(void) {
  fill_high(9000);
  empty(high, 9000);
  fill_low(3000);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    fill_high(5000);
    empty(high, 5000);
    empty(low, 3000);
    _exit(5);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
  empty(low, 3000);
}

int main(int count, char** arguments) {
  const char* how = count > 1 ? arguments[1] : "";
  if (strcmp(how, "one") == 0) one(8000);
  if (strcmp(how, "few") == 0) one(3);
  if (strcmp(how, "three") == 0) three();
  if (strcmp(how, "stairs") == 0) stairs();
  if (strcmp(how, "large") == 0) large(0);
  if (strcmp(how, "large_before") == 0) large(1000);
  if (strcmp(how, "moved") == 0) moved();
  if (strcmp(how, "threads") == 0) by_threads();
  if (strcmp(how, "another") == 0) by_another();
  if (strcmp(how, "cancelled") == 0) by_cancelled();
  if (strcmp(how, "child") == 0) by_child();
  if (strcmp(how, "end") == 0) {
    one(1000);
    fill_high(9000);
  }
  if (strcmp(how, "killed") == 0) {
    one(8000);
    raise(SIGKILL);
  }
  if (strcmp(how, "aborted") == 0) {
    one(8000);
    abort();
  }
  return 6;
}
