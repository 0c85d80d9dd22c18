/* Memory that is locked stays locked while other blocks come and go: a small block, a large one beside one that is freed,
   and the one that may get the freed one's pages. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

enum { mebibyte = 1 << 20 };

/* Bytes of a block that lie in locked mappings. */
static size_t locked_bytes(const char* block, size_t bytes) {
  FILE* const maps = fopen("/proc/self/smaps", "r");
  EXPECT(maps != NULL);
  char line[512];
  size_t begin = 0;
  size_t end = 0;
  size_t locked = 0;
  const size_t first = (size_t)block;
  while (fgets(line, sizeof line, maps) != NULL) {
    size_t from = 0;
    size_t to = 0;
    char access[8];
    if (sscanf(line, "%zx-%zx %7s", &from, &to, access) == 3) {
      begin = from < first ? first : from;
      end = to > first + bytes ? first + bytes : to;
    }
    if (strncmp(line, "VmFlags:", 8) == 0 && begin < end && strstr(line, " lo") != NULL) locked += end - begin;
  }
  fclose(maps);
  return locked;
}

static char* touched(size_t bytes) {
  char* const block = malloc(bytes);
  EXPECT(block != NULL);
  memset(block, 1, bytes);
  return block;
}

int main(void) {
  /* Without the right to lock there is nothing to keep. */
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return puts("kept") < 0;
  char* const key = touched(32);
  char* const live = touched(3 * mebibyte);
  char* const gone = touched(3 * mebibyte);
  char* const behind = touched(3 * mebibyte);
  free(gone);
  char* const larger = touched(5 * mebibyte);
  EXPECT(locked_bytes(key, 32) == 32);
  EXPECT(locked_bytes(live, 3 * mebibyte) == 3 * mebibyte);
  EXPECT(locked_bytes(behind, 3 * mebibyte) == 3 * mebibyte);
  EXPECT(locked_bytes(larger, 5 * mebibyte) == 5 * mebibyte);
  puts("kept");
  return 0;
}
