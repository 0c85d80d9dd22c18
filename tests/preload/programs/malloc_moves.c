/* One thread has blocks grow by moving while another maps, writes, reads and unmaps memory of its own. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

enum { mebibyte = 1 << 20, mapped = 12 * mebibyte };
static int done;

static void* map_and_unmap(void* unused) {
  (void)unused;
  for (int round = 0; !__atomic_load_n(&done, __ATOMIC_ACQUIRE); ++round) {
    unsigned char* pages = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED);
    for (int i = 0; i < mapped; i += 65536) pages[i] = (unsigned char)(round + i / 65536);
    for (int i = 0; i < mapped; i += 65536) EXPECT(pages[i] == (unsigned char)(round + i / 65536));
    EXPECT(munmap(pages, mapped) == 0);
  }
  return NULL;
}

int main(void) {
  pthread_t other;
  EXPECT(pthread_create(&other, NULL, map_and_unmap, NULL) == 0);
  for (int round = 0; round < 3; ++round) {
    size_t bytes = (size_t)17 * mebibyte;
    unsigned char* block = malloc(bytes);
    EXPECT(block != NULL);
    memset(block, round + 1, mebibyte);
    for (size_t more = (size_t)40 * mebibyte; more <= (size_t)400 * mebibyte; more += (size_t)90 * mebibyte) {
      block[bytes - 1] = (unsigned char)round;
      unsigned char* moved = realloc(block, more);
      EXPECT(moved != NULL);
      EXPECT(moved[0] == round + 1 && moved[mebibyte - 1] == round + 1 && moved[bytes - 1] == round);
      block = moved;
      bytes = more;
    }
    free(block);
  }
  __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
  pthread_join(other, NULL);
  puts("moves");
  return 0;
}
