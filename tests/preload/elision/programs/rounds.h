/* How often the programs of these tests do what they do, a divisor of which the environment may name: where software
   carries out transactions, fewer rounds do. */
#pragma once

#include <stdlib.h>

static inline int rounds_of(int rounds) {
  const char* const divisor = getenv("ROUNDS_DIVIDED_BY");
  return divisor == NULL ? rounds : rounds / atoi(divisor);
}
