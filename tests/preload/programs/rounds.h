/* How often the programs of these tests do what they do. Where software carries out transactions, fewer times do: the
   environment may name divisors, one for most of it and one for what is no matter of chance. */
#pragma once

#include <stdlib.h>

static inline int divided(int times, const char* by) {
  const char* const divisor = getenv(by);
  return divisor == NULL ? times : times / atoi(divisor);
}
static inline int rounds_of(int rounds) { return divided(rounds, "ROUNDS_DIVIDED_BY"); }
static inline int times_of(int times) { return divided(times, "TIMES_DIVIDED_BY"); }
