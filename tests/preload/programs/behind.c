/* A library behind ours that is told how the program ends, as profilers are, and that has an allocator's functions that
   free with a size, which nobody is to call. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static __attribute__((noreturn)) void end(const char* line, int status) {
  if (write(STDERR_FILENO, line, strlen(line)) < 0) status = 97;
  for (;;) syscall(SYS_exit_group, status);
}
void _exit(int status) { end("behind: _exit\n", status); }
void _Exit(int status) { end("behind: _Exit\n", status); }

void free_sized(void* block, size_t bytes) {
  (void)block, (void)bytes;
  _exit(98);
}
void free_aligned_sized(void* block, size_t align, size_t bytes) {
  (void)align;
  free_sized(block, bytes);
}
void sdallocx(void* block, size_t bytes, int flags) {
  (void)flags;
  free_sized(block, bytes);
}
