// Words and how often each comes, counted from C.
//
// Prints:
//   a 1
//   b 2
//   c: there is no such key

#include <espalier.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static espalier_bytes bytes(const char *text) {
  const espalier_bytes all = {text, strlen(text)};
  return all;
}

static int one_more(void *context, const uint64_t *now, uint64_t *next) {
  (void)context;
  *next = now != NULL ? *now + 1 : 1;
  return ESPALIER_STORE;
}

static int print(void *context, espalier_bytes word, uint64_t visits) {
  (void)context;
  printf("%.*s %" PRIu64 "\n", (int)word.size, (const char *)word.data, visits);
  return 0;  // go on
}

int main(void) {
  espalier_map_bytes_u64 *const visits = espalier_map_bytes_u64_new();
  const char *const words[] = {"b", "a", "b"};
  for (int i = 0; i != 3; ++i) {
    const espalier_status status = espalier_map_bytes_u64_update(visits, bytes(words[i]), one_more, NULL);
    if (status < 0) {  // there is no memory, also where the map could not be made
      fprintf(stderr, "%s: %s\n", words[i], espalier_status_text(status));
      return 1;
    }
  }
  espalier_map_bytes_u64_scan(visits, NULL, NULL, print, NULL);
  printf("c: %s\n", espalier_status_text(espalier_map_bytes_u64_find(visits, bytes("c"), NULL)));
  espalier_map_bytes_u64_free(visits);
  return 0;
}
