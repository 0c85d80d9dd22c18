/* Its constructor runs before that of a preloaded library. */
#include <stdlib.h>

#include "expect.h"

static void* volatile first;
APART static void* in_library(void) { return malloc(750); }
__attribute__((constructor)) static void begin(void) { first = in_library(); }
int early_library(void) { return first != NULL; }
