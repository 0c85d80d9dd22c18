/* espalier.h as a C11 program uses it. */

#include <espalier.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                               \
    }                                                                           \
  } while (0)
/* The status is this one. */
#define IS(expected, call)                                                                            \
  do {                                                                                                \
    const espalier_status is = (call);                                                                \
    if (is != (expected)) {                                                                           \
      fprintf(stderr, "%s:%d: %s gives %d (%s), not %s\n", __FILE__, __LINE__, #call, (int)is,        \
              espalier_status_text(is), #expected);                                                   \
      ++failures;                                                                                     \
    }                                                                                                 \
  } while (0)

static espalier_bytes text(const char *t) {
  const espalier_bytes b = {t, strlen(t)};
  return b;
}
static int equals(espalier_bytes b, const char *t) { return b.size == strlen(t) && memcmp(b.data, t, b.size) == 0; }

/* What a scan has seen. */
struct seen {
  uint64_t keys[16];
  char text[256];
  size_t n;
  size_t most;
};
static int see(void *context, uint64_t key, uint64_t value) {
  struct seen *const s = context;
  CHECK(value == key * key);
  s->keys[s->n++] = key;
  return s->n == s->most;
}
static int see_bytes(void *context, espalier_bytes key, espalier_bytes value) {
  struct seen *const s = context;
  strncat(s->text, key.data, key.size);
  strcat(s->text, "=");
  strncat(s->text, value.data, value.size);
  strcat(s->text, " ");
  ++s->n;
  return 0;
}

static int add_one(void *context, const uint64_t *now, uint64_t *next) {
  ++*(int *)context;
  *next = now != NULL ? *now + 1 : 1;
  return ESPALIER_STORE;
}
static int erase_any(void *context, const uint64_t *now, uint64_t *next) {
  (void)context, (void)now, (void)next;
  return ESPALIER_ERASE;
}
static int keep(void *context, const uint64_t *now, uint64_t *next) {
  (void)context, (void)now, (void)next;
  return ESPALIER_KEEP;
}
static int misunderstand(void *context, const uint64_t *now, uint64_t *next) {
  (void)context, (void)now, (void)next;
  return 7;
}

static void numbers(void) {
  espalier_map_u64_u64 *const map = espalier_map_u64_u64_new();
  CHECK(map != NULL);
  uint64_t value = 5;
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_find(map, 7, &value));
  CHECK(value == 5);
  for (uint64_t key = 0; key != 10; ++key) IS(ESPALIER_OK, espalier_map_u64_u64_insert(map, key, key * key));
  IS(ESPALIER_PRESENT, espalier_map_u64_u64_insert(map, 7, 1));
  IS(ESPALIER_OK, espalier_map_u64_u64_find(map, 7, &value));
  CHECK(value == 49);
  IS(ESPALIER_OK, espalier_map_u64_u64_find(map, 7, NULL));
  IS(ESPALIER_PRESENT, espalier_map_u64_u64_assign(map, 7, 48));
  IS(ESPALIER_OK, espalier_map_u64_u64_find(map, 7, &value));
  CHECK(value == 48);
  IS(ESPALIER_PRESENT, espalier_map_u64_u64_assign(map, 7, 49));
  CHECK(espalier_map_u64_u64_size(map) == 10);

  int calls = 0;
  IS(ESPALIER_OK, espalier_map_u64_u64_update(map, 100, add_one, &calls));
  IS(ESPALIER_OK, espalier_map_u64_u64_update(map, 100, add_one, &calls));
  CHECK(calls >= 2);
  IS(ESPALIER_OK, espalier_map_u64_u64_update(map, 100, keep, NULL));
  IS(ESPALIER_OK, espalier_map_u64_u64_find(map, 100, &value));
  CHECK(value == 2);
  IS(ESPALIER_INVALID, espalier_map_u64_u64_update(map, 100, misunderstand, NULL));
  IS(ESPALIER_OK, espalier_map_u64_u64_find(map, 100, &value));
  CHECK(value == 2);
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_update(map, 100, erase_any, NULL));
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_update(map, 100, keep, NULL));

  struct seen all = {.most = 16};
  IS(ESPALIER_OK, espalier_map_u64_u64_scan(map, NULL, NULL, see, &all));
  CHECK(all.n == 10 && all.keys[0] == 0 && all.keys[9] == 9);
  const uint64_t three = 3;
  const uint64_t six = 6;
  struct seen part = {.most = 16};
  IS(ESPALIER_OK, espalier_map_u64_u64_scan(map, &three, &six, see, &part));
  CHECK(part.n == 3 && part.keys[0] == 3 && part.keys[2] == 5);
  struct seen first = {.most = 16};
  IS(ESPALIER_OK, espalier_map_u64_u64_scan(map, NULL, &three, see, &first));
  CHECK(first.n == 3 && first.keys[0] == 0);
  struct seen two = {.most = 2};
  IS(ESPALIER_OK, espalier_map_u64_u64_reverse_scan(map, &six, NULL, see, &two));
  CHECK(two.n == 2 && two.keys[0] == 6 && two.keys[1] == 5);
  struct seen down = {.most = 16};
  IS(ESPALIER_OK, espalier_map_u64_u64_reverse_scan(map, NULL, &six, see, &down));
  CHECK(down.n == 3 && down.keys[0] == 9 && down.keys[2] == 7);
  struct seen none = {.most = 16};
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_scan(map, &six, &three, see, &none));

  const uint64_t keys[] = {3, 33, 7, 3};
  uint64_t values[] = {1, 2, 3, 4};
  espalier_status each[4];
  IS(ESPALIER_OK, espalier_map_u64_u64_find_batch(map, keys, 4, values, each));
  CHECK(each[0] == ESPALIER_OK && each[1] == ESPALIER_ABSENT && each[2] == ESPALIER_OK && each[3] == ESPALIER_OK);
  CHECK(values[0] == 9 && values[1] == 2 && values[2] == 49 && values[3] == 9);
  size_t count = 99;
  IS(ESPALIER_OK, espalier_map_u64_u64_insert_batch(map, keys, values, 4, &count));
  CHECK(count == 1);
  IS(ESPALIER_OK, espalier_map_u64_u64_erase_batch(map, keys, 4, &count));
  CHECK(count == 3);
  IS(ESPALIER_OK, espalier_map_u64_u64_find_batch(map, NULL, 0, NULL, NULL));
  IS(ESPALIER_OK, espalier_map_u64_u64_erase_batch(map, NULL, 0, NULL));

  IS(ESPALIER_OK, espalier_map_u64_u64_erase(map, 9));
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_erase(map, 9));
  espalier_map_u64_u64_cursor *const at = espalier_map_u64_u64_cursor_new(map);
  uint64_t key = 0;
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_cursor_entry(at, &key, &value));
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_seek(at, 7)); /* which is absent */
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_entry(at, &key, &value));
  CHECK(key == 8 && value == 64);
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_cursor_next(at));
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_cursor_previous(at));
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_last(at));
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_previous(at));
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_entry(at, &key, NULL));
  CHECK(key == 6);
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_first(at));
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_entry(at, NULL, &value));
  CHECK(value == 0);
  espalier_map_u64_u64_cursor_free(at);

  IS(ESPALIER_OK, espalier_map_u64_u64_clear(map));
  CHECK(espalier_map_u64_u64_size(map) == 0);
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_scan(map, NULL, NULL, see, &none));
  espalier_map_u64_u64_free(map);
}

/* Batches that are longer than what the library does at once. */
static void long_batches(void) {
  enum { many = 1000, distinct = 700 };
  uint64_t keys[many];
  uint64_t values[many];
  espalier_status each[many];
  for (uint64_t i = 0; i != many; ++i) {
    keys[i] = i % distinct * 2;
    values[i] = i;
  }
  espalier_map_u64_u64 *const map = espalier_map_u64_u64_new();
  size_t count = 0;
  IS(ESPALIER_OK, espalier_map_u64_u64_insert_batch(map, keys, values, many, &count));
  CHECK(count == distinct && espalier_map_u64_u64_size(map) == distinct);
  for (uint64_t i = 0; i != many; ++i) {
    keys[i] = i;
    values[i] = 5;
  }
  IS(ESPALIER_OK, espalier_map_u64_u64_find_batch(map, keys, many, values, each));
  for (uint64_t i = 0; i != many; ++i) {
    CHECK(each[i] == (i % 2 == 0 ? ESPALIER_OK : ESPALIER_ABSENT));
    CHECK(values[i] == (i % 2 == 0 ? i / 2 : 5));
  }
  IS(ESPALIER_OK, espalier_map_u64_u64_erase_batch(map, keys, many, &count));
  CHECK(count == many / 2 && espalier_map_u64_u64_size(map) == distinct - many / 2);
  espalier_map_u64_u64_free(map);
}

/* A map that a scan changes, through the callback. */
struct changed_map {
  espalier_map_u64_u64 *map;
  uint64_t visited;
};
static int move_away(void *context, uint64_t key, uint64_t value) {
  struct changed_map *const c = context;
  IS(ESPALIER_OK, espalier_map_u64_u64_erase(c->map, key));
  IS(ESPALIER_OK, espalier_map_u64_u64_insert(c->map, key + 10000, value));
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_scan(c->map, &key, &key, move_away, c));
  ++c->visited;
  return 0;
}
static void changes_within(void) {
  struct changed_map c = {espalier_map_u64_u64_new(), 0};
  for (uint64_t key = 0; key != 2000; ++key) IS(ESPALIER_OK, espalier_map_u64_u64_insert(c.map, key, key));
  const uint64_t to = 10000;
  IS(ESPALIER_OK, espalier_map_u64_u64_scan(c.map, NULL, &to, move_away, &c));
  CHECK(c.visited == 2000 && espalier_map_u64_u64_size(c.map) == 2000);
  /* A cursor has its entry also when that is erased. */
  espalier_map_u64_u64_cursor *const at = espalier_map_u64_u64_cursor_new(c.map);
  uint64_t key = 0;
  uint64_t value = 0;
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_first(at));
  IS(ESPALIER_OK, espalier_map_u64_u64_erase(c.map, 10000));
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_entry(at, &key, &value));
  CHECK(key == 10000 && value == 0);
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_next(at));
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_entry(at, &key, NULL));
  CHECK(key == 10001);
  IS(ESPALIER_OK, espalier_map_u64_u64_cursor_last(at));
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_cursor_next(at));
  IS(ESPALIER_ABSENT, espalier_map_u64_u64_cursor_entry(at, &key, NULL));
  espalier_map_u64_u64_cursor_free(at);
  espalier_map_u64_u64_free(c.map);
}

static void long_strings(void) {
  enum { longest = 1 << 18 };
  char *const all = malloc(longest);
  char *const room = malloc(longest);
  memset(all, 'k', longest);
  espalier_map_bytes_bytes *const map = espalier_map_bytes_bytes_new();
  for (size_t size = 1; size <= longest; size *= 2) {
    const espalier_bytes key = {all, size};
    IS(ESPALIER_OK, espalier_map_bytes_bytes_insert(map, key, key));
  }
  for (size_t size = 1; size <= longest; size *= 2) {
    const espalier_bytes key = {all, size};
    const espalier_bytes absent = {all, size + size / 4};
    espalier_buffer out = {room, longest, 0};
    IS(ESPALIER_OK, espalier_map_bytes_bytes_find(map, key, &out));
    CHECK(out.size == size && memcmp(room, all, size) == 0);
    if (size > 3 && size != longest) IS(ESPALIER_ABSENT, espalier_map_bytes_bytes_find(map, absent, &out));
  }
  CHECK(espalier_map_bytes_bytes_size(map) == 19);
  espalier_map_bytes_bytes_free(map);
  free(all);
  free(room);
}

static void strings(void) {
  espalier_map_bytes_bytes *const map = espalier_map_bytes_bytes_new();
  /* Zero bytes and empty keys are bytes. */
  const espalier_bytes zero = {"a\0b", 3};
  const espalier_bytes empty = {NULL, 0};
  IS(ESPALIER_OK, espalier_map_bytes_bytes_insert(map, zero, text("nought")));
  IS(ESPALIER_OK, espalier_map_bytes_bytes_insert(map, text("a"), empty));
  IS(ESPALIER_OK, espalier_map_bytes_bytes_insert(map, empty, text("nothing")));
  const espalier_bytes other = {"a\0c", 3};
  IS(ESPALIER_ABSENT, espalier_map_bytes_bytes_find(map, other, NULL));
  char room[6];
  espalier_buffer out = {room, sizeof(room), 99};
  IS(ESPALIER_OK, espalier_map_bytes_bytes_find(map, zero, &out));
  CHECK(out.size == 6 && memcmp(room, "nought", 6) == 0);
  IS(ESPALIER_TRUNCATED, espalier_map_bytes_bytes_find(map, empty, &out));
  CHECK(out.size == 7 && memcmp(room, "nothin", 6) == 0);
  espalier_buffer no_room = {NULL, 0, 99};
  IS(ESPALIER_TRUNCATED, espalier_map_bytes_bytes_find(map, zero, &no_room));
  CHECK(no_room.size == 6);
  IS(ESPALIER_OK, espalier_map_bytes_bytes_find(map, text("a"), &no_room));
  CHECK(no_room.size == 0);

  IS(ESPALIER_OK, espalier_map_bytes_bytes_erase(map, zero));
  IS(ESPALIER_OK, espalier_map_bytes_bytes_insert(map, text("bb"), text("2")));
  IS(ESPALIER_OK, espalier_map_bytes_bytes_insert(map, text("b"), text("1")));
  struct seen all = {.n = 0};
  IS(ESPALIER_OK, espalier_map_bytes_bytes_scan(map, NULL, NULL, see_bytes, &all));
  CHECK(strcmp(all.text, "=nothing a= b=1 bb=2 ") == 0);
  struct seen down = {.n = 0};
  const espalier_bytes a = text("a");
  IS(ESPALIER_OK, espalier_map_bytes_bytes_reverse_scan(map, NULL, &a, see_bytes, &down));
  CHECK(strcmp(down.text, "bb=2 b=1 ") == 0);
  espalier_map_bytes_bytes_cursor *const at = espalier_map_bytes_bytes_cursor_new(map);
  espalier_bytes key;
  espalier_bytes value;
  IS(ESPALIER_OK, espalier_map_bytes_bytes_cursor_seek(at, text("b")));
  IS(ESPALIER_OK, espalier_map_bytes_bytes_cursor_next(at));
  IS(ESPALIER_OK, espalier_map_bytes_bytes_cursor_entry(at, &key, &value));
  CHECK(equals(key, "bb") && equals(value, "2"));
  espalier_map_bytes_bytes_cursor_free(at);
  espalier_map_bytes_bytes_free(map);

  espalier_map_u64_bytes *const names = espalier_map_u64_bytes_new();
  const uint64_t keys[] = {1, 2};
  const espalier_bytes values[] = {text("one"), text("two")};
  size_t count = 0;
  IS(ESPALIER_OK, espalier_map_u64_bytes_insert_batch(names, keys, values, 2, &count));
  CHECK(count == 2);
  char first[8];
  char second[2];
  espalier_buffer buffers[] = {{first, sizeof(first), 0}, {second, sizeof(second), 0}};
  espalier_status each[2];
  IS(ESPALIER_OK, espalier_map_u64_bytes_find_batch(names, keys, 2, buffers, each));
  CHECK(each[0] == ESPALIER_OK && each[1] == ESPALIER_TRUNCATED && buffers[1].size == 3);
  espalier_map_u64_bytes_free(names);

  espalier_map_bytes_u64 *const lengths = espalier_map_bytes_u64_new();
  IS(ESPALIER_OK, espalier_map_bytes_u64_insert(lengths, text("four"), 4));
  uint64_t length = 0;
  IS(ESPALIER_OK, espalier_map_bytes_u64_find(lengths, text("four"), &length));
  CHECK(length == 4);
  espalier_map_bytes_u64_free(lengths);
}

static int store_nowhere(void *context, const espalier_bytes *now, espalier_bytes *next) {
  (void)context, (void)now;
  next->data = NULL;
  next->size = 3;
  return ESPALIER_STORE;
}

static void misuse(void) {
  espalier_map_u64_u64 *const map = espalier_map_u64_u64_new();
  uint64_t value = 0;
  IS(ESPALIER_INVALID, espalier_map_u64_u64_insert(NULL, 1, 1));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_assign(NULL, 1, 1));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_find(NULL, 1, &value));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_erase(NULL, 1));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_update(map, 1, NULL, NULL));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_scan(map, NULL, NULL, NULL, NULL));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_find_batch(map, NULL, 1, &value, NULL));
  const uint64_t one = 1;
  IS(ESPALIER_INVALID, espalier_map_u64_u64_find_batch(map, &one, 1, &value, NULL));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_insert_batch(map, &one, NULL, 1, NULL));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_clear(NULL));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_cursor_next(NULL));
  IS(ESPALIER_INVALID, espalier_map_u64_u64_cursor_entry(NULL, NULL, NULL));
  CHECK(espalier_map_u64_u64_cursor_new(NULL) == NULL);
  CHECK(espalier_map_u64_u64_size(NULL) == 0);
  espalier_map_u64_u64_cursor_free(NULL);
  espalier_map_u64_u64_free(NULL);
  espalier_map_u64_u64_free(map);

  espalier_map_bytes_bytes *const strings_map = espalier_map_bytes_bytes_new();
  const espalier_bytes nowhere = {NULL, 3};
  espalier_buffer no_memory = {NULL, 3, 0};
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_insert(strings_map, nowhere, text("")));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_insert(strings_map, text("k"), nowhere));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_find(strings_map, text("k"), &no_memory));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_scan(strings_map, &nowhere, NULL, see_bytes, NULL));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_scan(strings_map, NULL, &nowhere, see_bytes, NULL));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_reverse_scan(strings_map, NULL, NULL, NULL, NULL));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_assign(strings_map, text("k"), nowhere));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_erase(strings_map, nowhere));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_update(strings_map, text("k"), store_nowhere, NULL));
  const espalier_bytes k = text("k");
  espalier_status each = ESPALIER_OK;
  size_t count = 99;
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_find_batch(strings_map, &k, 1, &no_memory, &each));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_find_batch(strings_map, &nowhere, 1, &no_memory, &each));
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_insert_batch(strings_map, &k, &nowhere, 1, &count));
  CHECK(count == 0);
  count = 99;
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_erase_batch(strings_map, &nowhere, 1, &count));
  CHECK(count == 0);
  espalier_map_bytes_bytes_cursor *const at = espalier_map_bytes_bytes_cursor_new(strings_map);
  IS(ESPALIER_INVALID, espalier_map_bytes_bytes_cursor_seek(at, nowhere));
  espalier_map_bytes_bytes_cursor_free(at);
  CHECK(espalier_map_bytes_bytes_size(strings_map) == 0);
  espalier_map_bytes_bytes_free(strings_map);
  CHECK(strlen(espalier_status_text(77)) != 0);
  CHECK(strlen(espalier_version()) != 0);
}

static void lifetimes(void) {
  espalier_cache *cache = NULL;
  const espalier_cache_options small = {.memory_limit = 1U << 20U, .largest_entry = 100};
  IS(ESPALIER_OK, espalier_cache_new(&small, &cache));
  uint64_t version = 0;
  IS(ESPALIER_OK, espalier_cache_set(cache, text("a"), text("long value"), ESPALIER_FOREVER));
  IS(ESPALIER_OK, espalier_cache_get(cache, text("a"), NULL, &version));
  char few[4];
  espalier_buffer out = {few, sizeof(few), 0};
  IS(ESPALIER_TRUNCATED, espalier_cache_get(cache, text("a"), &out, &version));
  CHECK(out.size == 10 && memcmp(few, "long", 4) == 0);
  IS(ESPALIER_OK, espalier_cache_compare_and_swap(cache, text("a"), version, text("v"), 20));
  IS(ESPALIER_OK, espalier_cache_add(cache, text("b"), text("v"), 20));
  IS(ESPALIER_OK, espalier_cache_set(cache, text("c"), text("v"), ESPALIER_FOREVER));
  IS(ESPALIER_OK, espalier_cache_replace(cache, text("c"), text("v"), 20));
  IS(ESPALIER_OK, espalier_cache_set(cache, text("d"), text("v"), ESPALIER_FOREVER));
  /* When the last one has ended, those before have. */
  IS(ESPALIER_OK, espalier_cache_set(cache, text("e"), text("v"), 20));
  while (espalier_cache_get(cache, text("e"), NULL, NULL) == ESPALIER_OK) continue;
  IS(ESPALIER_ABSENT, espalier_cache_get(cache, text("a"), NULL, NULL));
  IS(ESPALIER_ABSENT, espalier_cache_get(cache, text("b"), NULL, NULL));
  IS(ESPALIER_ABSENT, espalier_cache_get(cache, text("c"), NULL, NULL));
  IS(ESPALIER_OK, espalier_cache_get(cache, text("d"), NULL, NULL));
  char value[101] = {0};
  IS(ESPALIER_NO_ROOM, espalier_cache_set(cache, text("d"), (espalier_bytes){value, sizeof(value)}, ESPALIER_FOREVER));
  /* Entries that are evicted have not ended. */
  espalier_cache_statistics now = {0};
  for (uint64_t key = 0; key != 100000 && now.evictions == 0; ++key) {
    IS(ESPALIER_OK, espalier_cache_set(cache, (espalier_bytes){&key, sizeof(key)}, (espalier_bytes){value, 90}, ESPALIER_FOREVER));
    IS(ESPALIER_OK, espalier_cache_get_statistics(cache, &now));
  }
  CHECK(now.evictions > 4 && now.expired <= 4);
  espalier_cache_free(cache);
}

static void cache(void) {
  espalier_cache *cache = NULL;
  const espalier_cache_options tiny = {.memory_limit = 1};
  IS(ESPALIER_INVALID, espalier_cache_new(&tiny, &cache));
  CHECK(cache == NULL);
  IS(ESPALIER_INVALID, espalier_cache_new(NULL, NULL));
  const espalier_cache_options small = {.memory_limit = 1U << 20U};
  IS(ESPALIER_OK, espalier_cache_new(&small, &cache));

  char room[16];
  espalier_buffer out = {room, sizeof(room), 0};
  IS(ESPALIER_ABSENT, espalier_cache_get(cache, text("k"), &out, NULL));
  IS(ESPALIER_OK, espalier_cache_set(cache, text("k"), text("v"), ESPALIER_FOREVER));
  uint64_t version = 0;
  IS(ESPALIER_OK, espalier_cache_get(cache, text("k"), &out, &version));
  CHECK(out.size == 1 && room[0] == 'v' && version != 0);
  IS(ESPALIER_REFUSED, espalier_cache_add(cache, text("k"), text("w"), ESPALIER_FOREVER));
  IS(ESPALIER_REFUSED, espalier_cache_replace(cache, text("l"), text("w"), ESPALIER_FOREVER));
  IS(ESPALIER_OK, espalier_cache_compare_and_swap(cache, text("k"), version, text("new"), 3600000));
  IS(ESPALIER_REFUSED, espalier_cache_compare_and_swap(cache, text("k"), version, text("old"), ESPALIER_FOREVER));
  IS(ESPALIER_OK, espalier_cache_get(cache, text("k"), &out, NULL));
  CHECK(out.size == 3 && memcmp(room, "new", 3) == 0);
  IS(ESPALIER_OK, espalier_cache_touch(cache, text("k"), UINT64_MAX));
  IS(ESPALIER_OK, espalier_cache_get(cache, text("k"), NULL, &version));
  IS(ESPALIER_OK, espalier_cache_set(cache, text("k"), text("new"), UINT64_MAX - 1));
  IS(ESPALIER_OK, espalier_cache_get(cache, text("k"), NULL, NULL));
  IS(ESPALIER_REFUSED, espalier_cache_touch(cache, text("l"), 1));
  IS(ESPALIER_OK, espalier_cache_add(cache, text("l"), text("w"), ESPALIER_FOREVER));
  espalier_cache_statistics now;
  IS(ESPALIER_OK, espalier_cache_get_statistics(cache, &now));
  CHECK(now.entries == 2 && now.used_bytes <= small.memory_limit);
  IS(ESPALIER_OK, espalier_cache_erase(cache, text("l")));
  IS(ESPALIER_ABSENT, espalier_cache_erase(cache, text("l")));

  const size_t large = 1U << 20U;
  char *const block = calloc(1, large);
  const espalier_bytes too_large = {block, large};
  IS(ESPALIER_NO_ROOM, espalier_cache_set(cache, text("k"), too_large, ESPALIER_FOREVER));
  IS(ESPALIER_ABSENT, espalier_cache_get(cache, text("k"), NULL, NULL)); /* never the value before */
  free(block);
  IS(ESPALIER_OK, espalier_cache_set(cache, text("k"), text("v"), ESPALIER_FOREVER));
  IS(ESPALIER_OK, espalier_cache_clear(cache));
  IS(ESPALIER_ABSENT, espalier_cache_get(cache, text("k"), &out, &version));
  IS(ESPALIER_INVALID, espalier_cache_get(NULL, text("k"), &out, NULL));
  IS(ESPALIER_INVALID, espalier_cache_set(cache, (espalier_bytes){NULL, 1}, text("v"), ESPALIER_FOREVER));
  IS(ESPALIER_INVALID, espalier_cache_clear(NULL));
  IS(ESPALIER_INVALID, espalier_cache_get_statistics(cache, NULL));
  espalier_cache_free(cache);
  espalier_cache_free(NULL);

  /* One that keeps all has no room in the end, and has what it took. */
  const espalier_cache_options keeps = {.memory_limit = 1U << 20U, .keeps_all = 1};
  IS(ESPALIER_OK, espalier_cache_new(&keeps, &cache));
  char value[1000] = {0};
  uint64_t stored = 0;
  const espalier_bytes key = {&stored, sizeof(stored)};
  while (espalier_cache_set(cache, key, (espalier_bytes){value, sizeof(value)}, ESPALIER_FOREVER) == ESPALIER_OK &&
         stored != 2000)
    ++stored;
  CHECK(stored < 2000);
  IS(ESPALIER_OK, espalier_cache_get_statistics(cache, &now));
  CHECK(now.evictions == 0 && now.entries == stored);
  while (stored-- != 0) IS(ESPALIER_OK, espalier_cache_get(cache, key, NULL, NULL));
  espalier_cache_free(cache);
}

/* Threads that add to common counters lose nothing. */
enum { threads = 4, rounds = 2000, counters = 8 };
static void *count(void *context) {
  espalier_map_u64_u64 *const map = context;
  int calls = 0;
  for (uint64_t i = 0; i != rounds; ++i) IS(ESPALIER_OK, espalier_map_u64_u64_update(map, i % counters, add_one, &calls));
  return NULL;
}
static void together(void) {
  espalier_map_u64_u64 *const map = espalier_map_u64_u64_new();
  pthread_t all[threads];
  for (int i = 0; i != threads; ++i) pthread_create(&all[i], NULL, count, map);
  for (int i = 0; i != threads; ++i) pthread_join(all[i], NULL);
  for (uint64_t key = 0; key != counters; ++key) {
    uint64_t value = 0;
    IS(ESPALIER_OK, espalier_map_u64_u64_find(map, key, &value));
    CHECK(value == threads * rounds / counters);
  }
  espalier_map_u64_u64_free(map);
}

int main(void) {
  numbers();
  long_batches();
  changes_within();
  strings();
  long_strings();
  misuse();
  cache();
  lifetimes();
  together();
  if (failures == 0) puts("espalier.h does what it says");
  return failures == 0 ? 0 : 1;
}
