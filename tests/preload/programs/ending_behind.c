/* A library behind ours that is told how the program ends, as profilers are. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static __attribute__((noreturn)) void end(const char* line, int status) {
  if (write(STDERR_FILENO, line, strlen(line)) < 0) status = 97;
  for (;;) syscall(SYS_exit_group, status);
}
void _exit(int status) { end("behind: _exit\n", status); }
void _Exit(int status) { end("behind: _Exit\n", status); }
