/* Espalier for C and for what calls C: concurrent ordered maps, and a cache with a limit of memory. C11; link espalier-c
 * (pkg-config).
 *
 *     espalier_map_u64_u64 *map = espalier_map_u64_u64_new();
 *     espalier_map_u64_u64_insert(map, 7, 49);
 *     uint64_t value;
 *     if (espalier_map_u64_u64_find(map, 7, &value) == ESPALIER_OK) printf("%" PRIu64 "\n", value);
 *     espalier_map_u64_u64_free(map);
 *
 * Threads. Any thread may call anything at any time, but for new and free of an object, and but for cursors, each of which is of
 * one thread. Every operation on one key takes effect at one moment (linearizable). Finds and gets take no lock.
 *
 * Errors. No C++ exception leaves this library. A function returns a status: 0 or more says what it has found, less than 0
 * says why it has done nothing. Null pointers and the like are ESPALIER_INVALID.
 *
 * Callbacks run inside of an operation: they return normally, neither by longjmp() nor by an exception.
 */
#ifndef ESPALIER_H
#define ESPALIER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ESPALIER_PUBLIC __attribute__((visibility("default")))
#else
#define ESPALIER_PUBLIC
#endif

typedef enum espalier_status {
  ESPALIER_OK = 0,
  ESPALIER_ABSENT = 1,    /* there is no such key, or no further entry */
  ESPALIER_PRESENT = 2,   /* the key was present */
  ESPALIER_TRUNCATED = 3, /* the buffer has the first bytes of the value; its `size` says how many there are */
  ESPALIER_REFUSED = 4,   /* the condition of the call does not hold, or the cache has no room */
  ESPALIER_INVALID = -1,  /* an argument that has no meaning: a bug of the caller */
  ESPALIER_NO_MEMORY = -2,
  ESPALIER_NO_ROOM = -3, /* the entry is larger than the options allow, or the cache has no room */
  ESPALIER_FAILED = -4   /* the system refused something else */
} espalier_status;

/* A sentence for people; never null. */
ESPALIER_PUBLIC const char *espalier_status_text(int status);
/* "0.2.0". */
ESPALIER_PUBLIC const char *espalier_version(void);

/* A string of bytes, which may have any value. Ordered as by memcmp(), a prefix before what it begins. As an argument it need
 * last no longer than the call. `data` may be null where `size` is 0. */
typedef struct espalier_bytes {
  const void *data;
  size_t size;
} espalier_bytes;

/* The caller's memory for a value. */
typedef struct espalier_buffer {
  void *data;
  size_t capacity;
  size_t size; /* set by the call: bytes of the value */
} espalier_buffer;

/* What the callback of an update returns: what becomes of the entry. */
typedef enum espalier_change { ESPALIER_KEEP = 0, ESPALIER_STORE = 1, ESPALIER_ERASE = 2 } espalier_change;

/* Maps ---------------------------------------------------------------------------------------------------------------------
 *
 * Four types: espalier_map_u64_u64, espalier_map_u64_bytes, espalier_map_bytes_u64, espalier_map_bytes_bytes; the key comes
 * first. `KEY` and `VALUE` are uint64_t or espalier_bytes. `OUT`, where a value is copied to, is uint64_t or
 * espalier_buffer. All operations on one key cost O(log n) expected; finds are lock-free, changes lock one or two nodes.
 *
 * TYPE *TYPE_new(void);
 *     An empty map; null if there is no memory.
 * void TYPE_free(TYPE *map);
 *     No thread may use it any longer, and its cursors are freed. null is allowed.
 * espalier_status TYPE_insert(map, key, value);
 *     OK, or PRESENT: then the entry is as it was.
 * espalier_status TYPE_assign(map, key, value);
 *     OK: the key was absent. PRESENT: its value was replaced.
 * espalier_status TYPE_find(map, key, OUT *value);
 *     OK, ABSENT or TRUNCATED. `value` may be null to ask only whether the key is present.
 * espalier_status TYPE_erase(map, key);
 *     OK or ABSENT.
 * espalier_status TYPE_update(map, key, change, context);
 *     One atomic step. change(context, now, &next) sees the value, or null where the key is absent, and says what becomes
 *     of it: ESPALIER_KEEP, ESPALIER_STORE (of `next`, whose bytes must last until the update returns) or
 *     ESPALIER_ERASE. It may be called several times, of which the last counts, and under a lock: it may not use a map. OK:
 *     the key is present after it; ABSENT: it is not.
 * espalier_status TYPE_find_batch(map, keys, n, OUT *values, espalier_status *each);
 *     n finds, which overlap their misses: faster than one by one in a map that is larger than the caches. `each` receives
 *     the status of each; values[i] is set where the key is present.
 * espalier_status TYPE_insert_batch(map, keys, values, n, size_t *inserted);
 * espalier_status TYPE_erase_batch(map, keys, n, size_t *erased);
 *     Each by itself, in their order. The count may be null. After an error the count says how many were done.
 * espalier_status TYPE_scan(map, const KEY *from, const KEY *to, visit, context);
 *     visit(context, key, value) for each entry from `from` on and before `to`, in increasing order; null: from the first,
 *     to the last. It ends early when visit does not return 0. A key that is present throughout is visited once; others may be.
 *     Bytes last until visit returns. visit may use the map. OK, or ABSENT if nothing was visited.
 * espalier_status TYPE_reverse_scan(map, const KEY *from, const KEY *to, visit, context);
 *     The same in decreasing order: from `from` down, above `to`.
 * size_t TYPE_size(map);
 *     Keys: exact while no thread writes. 0 of null.
 * espalier_status TYPE_clear(map);
 *     Erases what is present throughout.
 *
 * A cursor is a position among the entries, also while they change:
 * TYPE_cursor *TYPE_cursor_new(map);  void TYPE_cursor_free(cursor);
 * espalier_status TYPE_cursor_seek(cursor, key);
 *     To the first entry whose key is not smaller.
 * espalier_status TYPE_cursor_first(cursor), TYPE_cursor_last, TYPE_cursor_next, TYPE_cursor_previous;
 *     OK: it is at an entry. ABSENT: at none, where it stays until the next seek.
 * espalier_status TYPE_cursor_entry(cursor, KEY *key, VALUE *value);
 *     Where it is; either may be null. Bytes last until the cursor moves.
 */
#define ESPALIER_DECLARE_MAP(TYPE, KEY, VALUE, OUT)                                                                       \
  typedef struct TYPE TYPE;                                                                                               \
  typedef struct TYPE##_cursor TYPE##_cursor;                                                                             \
  typedef int (*TYPE##_visit)(void *context, KEY key, VALUE value);                                                       \
  typedef int (*TYPE##_change)(void *context, const VALUE *now, VALUE *next);                                             \
  ESPALIER_PUBLIC TYPE *TYPE##_new(void);                                                                                 \
  ESPALIER_PUBLIC void TYPE##_free(TYPE *map);                                                                            \
  ESPALIER_PUBLIC espalier_status TYPE##_insert(TYPE *map, KEY key, VALUE value);                                         \
  ESPALIER_PUBLIC espalier_status TYPE##_assign(TYPE *map, KEY key, VALUE value);                                         \
  ESPALIER_PUBLIC espalier_status TYPE##_find(const TYPE *map, KEY key, OUT *value);                                      \
  ESPALIER_PUBLIC espalier_status TYPE##_erase(TYPE *map, KEY key);                                                       \
  ESPALIER_PUBLIC espalier_status TYPE##_update(TYPE *map, KEY key, TYPE##_change change, void *context);                 \
  ESPALIER_PUBLIC espalier_status TYPE##_find_batch(const TYPE *map, const KEY *keys, size_t n, OUT *values,              \
                                                    espalier_status *each);                                              \
  ESPALIER_PUBLIC espalier_status TYPE##_insert_batch(TYPE *map, const KEY *keys, const VALUE *values, size_t n,          \
                                                      size_t *inserted);                                                 \
  ESPALIER_PUBLIC espalier_status TYPE##_erase_batch(TYPE *map, const KEY *keys, size_t n, size_t *erased);               \
  ESPALIER_PUBLIC espalier_status TYPE##_scan(const TYPE *map, const KEY *from, const KEY *to, TYPE##_visit visit,        \
                                              void *context);                                                            \
  ESPALIER_PUBLIC espalier_status TYPE##_reverse_scan(const TYPE *map, const KEY *from, const KEY *to,                    \
                                                      TYPE##_visit visit, void *context);                                 \
  ESPALIER_PUBLIC size_t TYPE##_size(const TYPE *map);                                                                    \
  ESPALIER_PUBLIC espalier_status TYPE##_clear(TYPE *map);                                                                \
  ESPALIER_PUBLIC TYPE##_cursor *TYPE##_cursor_new(const TYPE *map);                                                      \
  ESPALIER_PUBLIC void TYPE##_cursor_free(TYPE##_cursor *cursor);                                                         \
  ESPALIER_PUBLIC espalier_status TYPE##_cursor_seek(TYPE##_cursor *cursor, KEY key);                                     \
  ESPALIER_PUBLIC espalier_status TYPE##_cursor_first(TYPE##_cursor *cursor);                                             \
  ESPALIER_PUBLIC espalier_status TYPE##_cursor_last(TYPE##_cursor *cursor);                                              \
  ESPALIER_PUBLIC espalier_status TYPE##_cursor_next(TYPE##_cursor *cursor);                                              \
  ESPALIER_PUBLIC espalier_status TYPE##_cursor_previous(TYPE##_cursor *cursor);                                          \
  ESPALIER_PUBLIC espalier_status TYPE##_cursor_entry(const TYPE##_cursor *cursor, KEY *key, VALUE *value)

ESPALIER_DECLARE_MAP(espalier_map_u64_u64, uint64_t, uint64_t, uint64_t);
ESPALIER_DECLARE_MAP(espalier_map_u64_bytes, uint64_t, espalier_bytes, espalier_buffer);
ESPALIER_DECLARE_MAP(espalier_map_bytes_u64, espalier_bytes, uint64_t, uint64_t);
ESPALIER_DECLARE_MAP(espalier_map_bytes_bytes, espalier_bytes, espalier_bytes, espalier_buffer);

/* The cache ----------------------------------------------------------------------------------------------------------------
 *
 * Unlike a map it may forget: what no get asked for makes room for what is new.
 */
typedef struct espalier_cache espalier_cache;

/* 0 means the default. */
typedef struct espalier_cache_options {
  size_t memory_limit;  /* bytes of everything: at least 1 MiB; 64 MiB */
  size_t largest_entry; /* bytes of a key and its value: at most half of the limit; 1 MiB */
  int keeps_all;        /* not 0: nothing is evicted, and what has no room is refused */
} espalier_cache_options;

typedef struct espalier_cache_statistics {
  uint64_t entries;
  uint64_t entry_bytes;
  uint64_t used_bytes; /* of everything */
  uint64_t stored;     /* entries, ever */
  uint64_t evictions;
  uint64_t expired;
} espalier_cache_statistics;

/* A lifetime that does not end. Others are in milliseconds: no entry ends before, and it is gone at most a sixteenth of a
 * second after. */
#define ESPALIER_FOREVER 0

/* `options` may be null. OK, INVALID for options that do not fit, or NO_MEMORY. */
ESPALIER_PUBLIC espalier_status espalier_cache_new(const espalier_cache_options *options, espalier_cache **cache);
/* No thread may use it any longer. null is allowed. */
ESPALIER_PUBLIC void espalier_cache_free(espalier_cache *cache);
/* OK, ABSENT or TRUNCATED. `value` may be null, and so may `version`, of the entry, for compare_and_swap. Expected constant
 * time; lock-free. */
ESPALIER_PUBLIC espalier_status espalier_cache_get(espalier_cache *cache, espalier_bytes key, espalier_buffer *value,
                                                   uint64_t *version);
/* OK or NO_ROOM; then the key has no entry, never the value before. */
ESPALIER_PUBLIC espalier_status espalier_cache_set(espalier_cache *cache, espalier_bytes key, espalier_bytes value,
                                                   uint64_t lifetime_ms);
/* Only where there is no entry: OK or REFUSED. */
ESPALIER_PUBLIC espalier_status espalier_cache_add(espalier_cache *cache, espalier_bytes key, espalier_bytes value,
                                                   uint64_t lifetime_ms);
/* Only where there is one: OK or REFUSED. */
ESPALIER_PUBLIC espalier_status espalier_cache_replace(espalier_cache *cache, espalier_bytes key, espalier_bytes value,
                                                       uint64_t lifetime_ms);
/* Only where the entry is still that of the version: OK or REFUSED. */
ESPALIER_PUBLIC espalier_status espalier_cache_compare_and_swap(espalier_cache *cache, espalier_bytes key, uint64_t version,
                                                                espalier_bytes value, uint64_t lifetime_ms);
/* OK or ABSENT. */
ESPALIER_PUBLIC espalier_status espalier_cache_erase(espalier_cache *cache, espalier_bytes key);
/* Gives the entry another end: OK, or REFUSED: it is not there, or there is no room for an end where it had none. */
ESPALIER_PUBLIC espalier_status espalier_cache_touch(espalier_cache *cache, espalier_bytes key, uint64_t lifetime_ms);
/* Forgets all that was stored before, at one moment. */
ESPALIER_PUBLIC espalier_status espalier_cache_clear(espalier_cache *cache);
ESPALIER_PUBLIC espalier_status espalier_cache_get_statistics(const espalier_cache *cache, espalier_cache_statistics *statistics);

#ifdef __cplusplus
}
#endif

#endif
