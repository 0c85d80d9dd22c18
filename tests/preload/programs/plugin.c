#include <stdlib.h>

#include "expect.h"

APART void* KEEP(void) { return malloc(BYTES); }
