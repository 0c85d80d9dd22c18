/* What the programs of these tests check of themselves: with the preload and without it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(what)                                                   \
  do {                                                                 \
    if (!(what)) {                                                     \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      exit(99);                                                        \
    }                                                                  \
  } while (0)

#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif
