/* What may be locked, or mapped, is limited to so many KiB more than there are: "locked 1024" has all memory of the future
   locked, "addresses 1024" limits addresses. The malloc must find room for a few blocks. With "kept" all memory is
   locked, and stays so while other blocks come and go: a small block, a large one beside one that is freed, and the one
   that may get the freed one's pages. */

// WITH what: locked | addresses
// WITH kibibytes: 1024 | 2048 | 4096 | 20000 | 60000
// RUN same: LD_PRELOAD=%malloc %p %what %kibibytes
// EXPECT: \Alocked\n\Z
// RUN same: LD_PRELOAD=%malloc %p kept

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "expect.h"

/* Root may lock what it likes, until it has dropped that. */
static void drop_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  EXPECT(syscall(SYS_capset, &header, none) == 0);
}

static size_t mapped_bytes(void) {
  size_t pages = 0;
  char text[64] = {0};
  /* By hand: a FILE would allocate. */
  const int file = open("/proc/self/statm", O_RDONLY);
  EXPECT(file >= 0 && read(file, text, sizeof text - 1) > 0);
  close(file);
  for (const char* at = text; *at >= '0' && *at <= '9'; ++at) pages = pages * 10 + (size_t)(*at - '0');
  return pages * 4096;
}

static void use(size_t bytes) {
  unsigned char* block = malloc(bytes);
  EXPECT(block != NULL);
  memset(block, 1, bytes);
  unsigned char* zeroed = calloc(1, bytes);
  EXPECT(zeroed != NULL);
  for (size_t i = 0; i < bytes; ++i) EXPECT(zeroed[i] == 0);
  block = realloc(block, bytes * 2);
  EXPECT(block != NULL && block[bytes - 1] == 1);
  free(zeroed);
  free(block);
}

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
    if (strncmp(line, "VmFlags:", 8) == 0 && begin < end && strstr(line, " lo") != NULL)
      locked += end - begin;
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

static void expect_kept(void) {
  /* Without the right to lock there is nothing to keep. */
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return;
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
}

int main(int count, char** arguments) {
  EXPECT(count > 1);
  if (strcmp(arguments[1], "kept") == 0) {
    expect_kept();
    puts("kept");
    return 0;
  }
  EXPECT(count == 3);
  const size_t limit = (size_t)atoi(arguments[2]) << 10;
  if (strcmp(arguments[1], "locked") == 0) {
    const struct rlimit to = {limit, limit};
    if (setrlimit(RLIMIT_MEMLOCK, &to) != 0) {
      /* It is less already, for root too, and will not become more. */
      EXPECT(errno == EPERM);
      puts("locked");
      return 0;
    }
    drop_capabilities();
    EXPECT(mlockall(MCL_FUTURE) == 0);
  } else {
    const struct rlimit to = {mapped_bytes() + limit, RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_AS, &to) == 0);
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t bytes = 16; bytes <= 20000; bytes = bytes * 3 / 2) use(bytes);
  }
  if (limit >= (size_t)4 << 20) use(300000);
  if (limit >= (size_t)19 << 20) use((size_t)5 << 20);
  if (limit >= (size_t)58 << 20) {
    /* Larger than what a unit of the registry holds. */
    unsigned char* block = malloc((size_t)40 << 20);
    EXPECT(block != NULL);
    block[0] = block[((size_t)40 << 20) - 1] = 1;
    free(block);
  }
  /* What fails says so. */
  errno = 0;
  EXPECT(malloc((size_t)100 << 20) == NULL && errno == ENOMEM);
  puts("locked");
  return 0;
}
