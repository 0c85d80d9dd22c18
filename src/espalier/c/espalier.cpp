#include "espalier/c/espalier.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "espalier/cache/cache.hpp"
#include "espalier/ordered_map.hpp"

// espalier.h over ordered_map and cache. Each function checks its arguments, and turns exceptions into a status.

namespace espalier {
namespace {

// What C has, and what C++ has instead ---------------------------------------------------------------------------------

bool valid(std::uint64_t) noexcept { return true; }
bool valid(const espalier_bytes& b) noexcept { return b.data != nullptr || b.size == 0; }
bool valid(const espalier_buffer& b) noexcept { return b.data != nullptr || b.capacity == 0; }
/// Of an array: there, and each of its elements.
template <class T>
bool all_valid(const T* all, std::size_t n) noexcept {
  return n == 0 || (all != nullptr && std::all_of(all, all + n, [](const T& one) { return valid(one); }));
}
template <class T>
bool valid_or_null(const T* one) noexcept {
  return one == nullptr || valid(*one);
}

std::uint64_t from_c(std::uint64_t number) noexcept { return number; }
std::string_view from_c(const espalier_bytes& b) noexcept {
  return b.size == 0 ? std::string_view{} : std::string_view(static_cast<const char*>(b.data), b.size);
}
std::uint64_t to_c(std::uint64_t number) noexcept { return number; }
espalier_bytes to_c(std::string_view bytes) noexcept { return {bytes.data(), bytes.size()}; }

/// What a map owns of a value that it is given.
std::uint64_t owned(std::uint64_t number) noexcept { return number; }
std::string owned(const espalier_bytes& b) { return std::string(from_c(b)); }

espalier_status copy_out(std::uint64_t value, std::uint64_t* to) noexcept {
  if (to != nullptr) *to = value;
  return ESPALIER_OK;
}
espalier_status copy_out(std::string_view value, espalier_buffer* to) noexcept {
  if (to == nullptr) return ESPALIER_OK;
  to->size = value.size();
  const std::size_t room = std::min(value.size(), to->capacity);
  if (room != 0) std::memcpy(to->data, value.data(), room);
  return room == value.size() ? ESPALIER_OK : ESPALIER_TRUNCATED;
}

/// f(), whose exceptions become a status.
template <class F>
espalier_status guarded(F&& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return ESPALIER_NO_MEMORY;
  } catch (...) {
    return ESPALIER_FAILED;
  }
}
template <class Made>
Made* made(auto&& make) noexcept {
  try {
    return make();
  } catch (...) {
    return nullptr;
  }
}

/// Of a function that says whether the key was absent, or present.
espalier_status unless(bool holds, espalier_status other) noexcept { return holds ? ESPALIER_OK : other; }

}  // namespace
}  // namespace espalier

using namespace espalier;

// Maps -----------------------------------------------------------------------------------------------------------------

namespace {

/// What tail_find() of a map of numbers returns.
struct number_found {
  [[gnu::always_inline]] static espalier_status found(std::uint64_t* to, std::uint64_t value) noexcept {
    return copy_out(value, to);
  }
  [[gnu::always_inline]] static espalier_status absent(std::uint64_t* /*to*/) noexcept {
    return ESPALIER_ABSENT;
  }
  template <class Map>
  [[gnu::noinline, gnu::cold]] static espalier_status slowly(const Map* map, std::uint64_t key,
                                                             std::uint64_t* to) noexcept {
    return guarded([&] {
      const auto there = map->find(key);
      return there ? copy_out(*there, to) : ESPALIER_ABSENT;
    });
  }
};

template <class Map, class Key, class Value, class Out>
struct map_calls {
  using key_view = typename Map::key_view;
  using mapped = typename Map::mapped_type;

  static espalier_status insert(Map* map, Key key, Value value) noexcept {
    if (map == nullptr || !valid(key) || !valid(value)) return ESPALIER_INVALID;
    return guarded([&] { return unless(map->insert(from_c(key), owned(value)), ESPALIER_PRESENT); });
  }
  static espalier_status assign(Map* map, Key key, Value value) noexcept {
    if (map == nullptr || !valid(key) || !valid(value)) return ESPALIER_INVALID;
    return guarded(
        [&] { return unless(map->insert_or_assign(from_c(key), owned(value)), ESPALIER_PRESENT); });
  }
  static espalier_status find(const Map* map, Key key, Out* value) noexcept {
    if constexpr (requires { map->template tail_find<number_found>(key, value); }) {
      if (map == nullptr) [[unlikely]]
        return ESPALIER_INVALID;
      return map->template tail_find<number_found>(key, value);
    } else {
      if (map == nullptr || !valid(key) || !valid_or_null(value)) return ESPALIER_INVALID;
      return guarded([&] {
        espalier_status found = ESPALIER_ABSENT;
        map->find(from_c(key), [&](const mapped& there) { found = copy_out(there, value); });
        return found;
      });
    }
  }
  static espalier_status erase(Map* map, Key key) noexcept {
    if (map == nullptr || !valid(key)) return ESPALIER_INVALID;
    return guarded([&] { return unless(map->erase(from_c(key)), ESPALIER_ABSENT); });
  }
  static espalier_status update(Map* map, Key key, auto change, void* context) noexcept {
    if (map == nullptr || !valid(key) || change == nullptr) return ESPALIER_INVALID;
    return guarded([&] {
      bool understood = true;
      const auto result =
          map->update(from_c(key), [&](const std::optional<mapped>& before) -> std::optional<mapped> {
            Value next{};
            std::optional<Value> now;
            if (before) now = to_c(*before);
            const int what = change(context, now ? &*now : nullptr, &next);
            understood =
                what == ESPALIER_KEEP || what == ESPALIER_ERASE || (what == ESPALIER_STORE && valid(next));
            if (!understood || what == ESPALIER_KEEP) return before;
            if (what == ESPALIER_ERASE) return std::nullopt;
            return owned(next);
          });
      return !understood ? ESPALIER_INVALID : unless(result.after.has_value(), ESPALIER_ABSENT);
    });
  }

  static espalier_status find_batch(const Map* map, const Key* keys, std::size_t n, Out* values,
                                    espalier_status* each) noexcept {
    if (map == nullptr || !all_valid(keys, n) || !all_valid(values, n) || (each == nullptr && n != 0))
      return ESPALIER_INVALID;
    return guarded([&] {
      // A few at a time, so that nothing is allocated but copies of bytes.
      std::array<std::remove_cvref_t<key_view>, 64> asked;
      std::array<std::optional<mapped>, asked.size()> found;
      for (std::size_t done = 0; done != n;) {
        const std::size_t now = std::min(n - done, asked.size());
        for (std::size_t i = 0; i != now; ++i) asked[i] = from_c(keys[done + i]);
        map->find_batch(std::span(asked).first(now), std::span(found).first(now));
        for (std::size_t i = 0; i != now; ++i, ++done)
          each[done] = found[i] ? copy_out(*found[i], &values[done]) : ESPALIER_ABSENT;
      }
      return ESPALIER_OK;
    });
  }
  static espalier_status insert_batch(Map* map, const Key* keys, const Value* values, std::size_t n,
                                      std::size_t* inserted) noexcept {
    if (inserted != nullptr) *inserted = 0;
    if (map == nullptr || !all_valid(keys, n) || !all_valid(values, n)) return ESPALIER_INVALID;
    return each_of(*map, n, inserted, [&](auto& guard, std::size_t i) {
      return map->insert(guard, from_c(keys[i]), owned(values[i]));
    });
  }
  static espalier_status erase_batch(Map* map, const Key* keys, std::size_t n, std::size_t* erased) noexcept {
    if (erased != nullptr) *erased = 0;
    if (map == nullptr || !all_valid(keys, n)) return ESPALIER_INVALID;
    return each_of(*map, n, erased,
                   [&](auto& guard, std::size_t i) { return map->erase(guard, from_c(keys[i])); });
  }

  static espalier_status scan(const Map* map, const Key* from, const Key* to, auto visit,
                              void* context) noexcept {
    return scanned(map, from, to, visit, context, std::less<>(),
                   [](const Map& m, const auto&... of) { m.scan(of...); });
  }
  static espalier_status reverse_scan(const Map* map, const Key* from, const Key* to, auto visit,
                                      void* context) noexcept {
    return scanned(map, from, to, visit, context, std::greater<>(),
                   [](const Map& m, const auto&... of) { m.reverse_scan(of...); });
  }

  static std::size_t size(const Map* map) noexcept {
    std::size_t n = 0;
    if (map != nullptr) {
      static_cast<void>(guarded([&] {
        n = map->size();
        return ESPALIER_OK;
      }));
    }
    return n;
  }
  static espalier_status clear(Map* map) noexcept {
    if (map == nullptr) return ESPALIER_INVALID;
    return guarded([&] {
      map->clear();
      return ESPALIER_OK;
    });
  }

  template <class Cursor>
  static espalier_status moved(Cursor* cursor, auto&& move) noexcept {
    if (cursor == nullptr) return ESPALIER_INVALID;
    return guarded([&] {
      move(*cursor);
      return unless(cursor->valid(), ESPALIER_ABSENT);
    });
  }
  template <class Cursor>
  static espalier_status entry(const Cursor* cursor, Key* key, Value* value) noexcept {
    if (cursor == nullptr) return ESPALIER_INVALID;
    if (!cursor->valid()) return ESPALIER_ABSENT;
    if (key != nullptr) *key = to_c(cursor->key());
    if (value != nullptr) *value = to_c(cursor->value());
    return ESPALIER_OK;
  }

 private:
  /// operation(guard, i) for each; counts those that are true.
  static espalier_status each_of(Map& map, std::size_t n, std::size_t* count, auto&& operation) noexcept {
    return guarded([&] {
      constexpr std::size_t under_one_guard = 256;
      for (std::size_t done = 0; done != n;) {
        auto guard = map.pin();
        for (const std::size_t end = std::min(n, done + under_one_guard); done != end; ++done)
          if (operation(guard, done) && count != nullptr) ++*count;
      }
      return ESPALIER_OK;
    });
  }
  static espalier_status scanned(const Map* map, const Key* from, const Key* to, auto visit, void* context,
                                 auto is_before, auto&& go) noexcept {
    if (map == nullptr || visit == nullptr || !valid_or_null(from) || !valid_or_null(to))
      return ESPALIER_INVALID;
    return guarded([&] {
      espalier_status found = ESPALIER_ABSENT;
      const auto each = [&](const auto& key, const mapped& value) {
        if (to != nullptr && !is_before(key, from_c(*to))) return false;
        found = ESPALIER_OK;
        return visit(context, to_c(key), to_c(value)) == 0;
      };
      if (from == nullptr)
        go(*map, each);
      else
        go(*map, from_c(*from), each);
      return found;
    });
  }
};

}  // namespace

/// The functions of a type.
#define ESPALIER_DEFINE_MAP(TYPE, KEY, VALUE, OUT, CPP_KEY, CPP_VALUE)                                     \
  struct TYPE : espalier::ordered_map<CPP_KEY, CPP_VALUE> {};                                              \
  struct TYPE##_cursor : TYPE::cursor {                                                                    \
    using TYPE::cursor::cursor;                                                                            \
  };                                                                                                       \
  using TYPE##_calls = map_calls<TYPE, KEY, VALUE, OUT>;                                                   \
  TYPE* TYPE##_new() {                                                                                     \
    return made<TYPE>([] { return new TYPE; });                                                            \
  }                                                                                                        \
  void TYPE##_free(TYPE* map) { delete map; }                                                              \
  espalier_status TYPE##_insert(TYPE* map, KEY key, VALUE value) {                                         \
    return TYPE##_calls::insert(map, key, value);                                                          \
  }                                                                                                        \
  espalier_status TYPE##_assign(TYPE* map, KEY key, VALUE value) {                                         \
    return TYPE##_calls::assign(map, key, value);                                                          \
  }                                                                                                        \
  espalier_status TYPE##_find(const TYPE* map, KEY key, OUT* value) {                                      \
    return TYPE##_calls::find(map, key, value);                                                            \
  }                                                                                                        \
  espalier_status TYPE##_erase(TYPE* map, KEY key) { return TYPE##_calls::erase(map, key); }               \
  espalier_status TYPE##_update(TYPE* map, KEY key, TYPE##_change change, void* context) {                 \
    return TYPE##_calls::update(map, key, change, context);                                                \
  }                                                                                                        \
  espalier_status TYPE##_find_batch(const TYPE* map, const KEY* keys, size_t n, OUT* values,               \
                                    espalier_status* each) {                                               \
    return TYPE##_calls::find_batch(map, keys, n, values, each);                                           \
  }                                                                                                        \
  espalier_status TYPE##_insert_batch(TYPE* map, const KEY* keys, const VALUE* values, size_t n,           \
                                      size_t* inserted) {                                                  \
    return TYPE##_calls::insert_batch(map, keys, values, n, inserted);                                     \
  }                                                                                                        \
  espalier_status TYPE##_erase_batch(TYPE* map, const KEY* keys, size_t n, size_t* erased) {               \
    return TYPE##_calls::erase_batch(map, keys, n, erased);                                                \
  }                                                                                                        \
  espalier_status TYPE##_scan(const TYPE* map, const KEY* from, const KEY* to, TYPE##_visit visit,         \
                              void* context) {                                                             \
    return TYPE##_calls::scan(map, from, to, visit, context);                                              \
  }                                                                                                        \
  espalier_status TYPE##_reverse_scan(const TYPE* map, const KEY* from, const KEY* to, TYPE##_visit visit, \
                                      void* context) {                                                     \
    return TYPE##_calls::reverse_scan(map, from, to, visit, context);                                      \
  }                                                                                                        \
  size_t TYPE##_size(const TYPE* map) { return TYPE##_calls::size(map); }                                  \
  espalier_status TYPE##_clear(TYPE* map) { return TYPE##_calls::clear(map); }                             \
  TYPE##_cursor* TYPE##_cursor_new(const TYPE* map) {                                                      \
    if (map == nullptr) return nullptr;                                                                    \
    return made<TYPE##_cursor>([=] { return new TYPE##_cursor(*map); });                                   \
  }                                                                                                        \
  void TYPE##_cursor_free(TYPE##_cursor* cursor) { delete cursor; }                                        \
  espalier_status TYPE##_cursor_seek(TYPE##_cursor* cursor, KEY key) {                                     \
    if (!valid(key)) return ESPALIER_INVALID;                                                              \
    return TYPE##_calls::moved(cursor, [&](auto& c) { c.seek(from_c(key)); });                             \
  }                                                                                                        \
  espalier_status TYPE##_cursor_first(TYPE##_cursor* cursor) {                                             \
    return TYPE##_calls::moved(cursor, [](auto& c) { c.seek_first(); });                                   \
  }                                                                                                        \
  espalier_status TYPE##_cursor_last(TYPE##_cursor* cursor) {                                              \
    return TYPE##_calls::moved(cursor, [](auto& c) { c.seek_last(); });                                    \
  }                                                                                                        \
  espalier_status TYPE##_cursor_next(TYPE##_cursor* cursor) {                                              \
    return TYPE##_calls::moved(cursor, [](auto& c) { c.next(); });                                         \
  }                                                                                                        \
  espalier_status TYPE##_cursor_previous(TYPE##_cursor* cursor) {                                          \
    return TYPE##_calls::moved(cursor, [](auto& c) { c.previous(); });                                     \
  }                                                                                                        \
  espalier_status TYPE##_cursor_entry(const TYPE##_cursor* cursor, KEY* key, VALUE* value) {               \
    return TYPE##_calls::entry(cursor, key, value);                                                        \
  }

ESPALIER_DEFINE_MAP(espalier_map_u64_u64, uint64_t, uint64_t, uint64_t, std::uint64_t, std::uint64_t)
ESPALIER_DEFINE_MAP(espalier_map_u64_bytes, uint64_t, espalier_bytes, espalier_buffer, std::uint64_t,
                    std::string)
ESPALIER_DEFINE_MAP(espalier_map_bytes_u64, espalier_bytes, uint64_t, uint64_t, std::string, std::uint64_t)
ESPALIER_DEFINE_MAP(espalier_map_bytes_bytes, espalier_bytes, espalier_bytes, espalier_buffer, std::string,
                    std::string)

// The cache -------------------------------------------------------------------------------------------------------------

struct espalier_cache : espalier::cache<std::string, std::string> {
  using cache::cache;
};

namespace {

std::chrono::milliseconds lifetime(std::uint64_t ms) noexcept {
  constexpr auto forever = espalier_cache::forever;
  return ms == ESPALIER_FOREVER || ms > static_cast<std::uint64_t>(forever.count())
             ? forever
             : std::chrono::milliseconds(ms);
}

}  // namespace

espalier_status espalier_cache_new(const espalier_cache_options* options, espalier_cache** cache) {
  if (cache == nullptr) return ESPALIER_INVALID;
  *cache = nullptr;
  return guarded([&] {
    espalier::cache_options chosen;
    if (options != nullptr) {
      if (options->memory_limit != 0) chosen.memory_limit = options->memory_limit;
      if (options->largest_entry != 0)
        chosen.largest_entry = options->largest_entry;
      else
        chosen.largest_entry = std::min(chosen.largest_entry, chosen.memory_limit / 2);
      chosen.evicts = options->keeps_all == 0;
    }
    try {
      *cache = new espalier_cache(chosen);
    } catch (const std::invalid_argument&) {
      return ESPALIER_INVALID;
    }
    return ESPALIER_OK;
  });
}
void espalier_cache_free(espalier_cache* cache) { delete cache; }
espalier_status espalier_cache_get(espalier_cache* cache, espalier_bytes key, espalier_buffer* value,
                                   uint64_t* version) {
  if (cache == nullptr || !valid(key) || !valid_or_null(value)) return ESPALIER_INVALID;
  return guarded([&] {
    espalier_status found = ESPALIER_ABSENT;
    if (version != nullptr) {
      if (const auto there = cache->get_versioned(from_c(key))) {
        *version = there->version;
        found = copy_out(there->value, value);
      }
    } else {
      cache->get(from_c(key), [&](std::string_view there) { found = copy_out(there, value); });
    }
    return found;
  });
}

namespace {

/// A change of an entry, which says whether it was made.
espalier_status changed(espalier_cache* cache, const espalier_bytes& key, const espalier_bytes& value,
                        espalier_status otherwise, auto&& change) noexcept {
  if (cache == nullptr || !valid(key) || !valid(value)) return ESPALIER_INVALID;
  return guarded([&] { return unless(change(from_c(key), from_c(value)), otherwise); });
}

}  // namespace

espalier_status espalier_cache_set(espalier_cache* cache, espalier_bytes key, espalier_bytes value,
                                   uint64_t lifetime_ms) {
  return changed(cache, key, value, ESPALIER_NO_ROOM,
                 [&](auto k, auto v) { return cache->set(k, v, lifetime(lifetime_ms)); });
}
espalier_status espalier_cache_add(espalier_cache* cache, espalier_bytes key, espalier_bytes value,
                                   uint64_t lifetime_ms) {
  return changed(cache, key, value, ESPALIER_REFUSED,
                 [&](auto k, auto v) { return cache->add(k, v, lifetime(lifetime_ms)); });
}
espalier_status espalier_cache_replace(espalier_cache* cache, espalier_bytes key, espalier_bytes value,
                                       uint64_t lifetime_ms) {
  return changed(cache, key, value, ESPALIER_REFUSED,
                 [&](auto k, auto v) { return cache->replace(k, v, lifetime(lifetime_ms)); });
}
espalier_status espalier_cache_compare_and_swap(espalier_cache* cache, espalier_bytes key, uint64_t version,
                                                espalier_bytes value, uint64_t lifetime_ms) {
  return changed(cache, key, value, ESPALIER_REFUSED, [&](auto k, auto v) {
    return cache->compare_and_swap(k, version, v, lifetime(lifetime_ms));
  });
}
espalier_status espalier_cache_erase(espalier_cache* cache, espalier_bytes key) {
  return changed(cache, key, {}, ESPALIER_ABSENT, [&](auto k, auto) { return cache->erase(k); });
}
espalier_status espalier_cache_touch(espalier_cache* cache, espalier_bytes key, uint64_t lifetime_ms) {
  return changed(cache, key, {}, ESPALIER_REFUSED,
                 [&](auto k, auto) { return cache->touch(k, lifetime(lifetime_ms)); });
}
espalier_status espalier_cache_clear(espalier_cache* cache) {
  if (cache == nullptr) return ESPALIER_INVALID;
  cache->clear();
  return ESPALIER_OK;
}
espalier_status espalier_cache_get_statistics(const espalier_cache* cache,
                                              espalier_cache_statistics* statistics) {
  if (cache == nullptr || statistics == nullptr) return ESPALIER_INVALID;
  return guarded([&] {
    const espalier::cache_statistics now = cache->statistics();
    *statistics = {.entries = now.entries,
                   .entry_bytes = now.entry_bytes,
                   .used_bytes = now.used_bytes,
                   .stored = now.stored,
                   .evictions = now.evictions,
                   .expired = now.expired};
    return ESPALIER_OK;
  });
}

// The rest --------------------------------------------------------------------------------------------------------------

const char* espalier_status_text(int status) {
  switch (status) {
    case ESPALIER_OK:
      return "it is done";
    case ESPALIER_ABSENT:
      return "there is no such key";
    case ESPALIER_PRESENT:
      return "the key was present";
    case ESPALIER_TRUNCATED:
      return "the value is larger than the buffer";
    case ESPALIER_REFUSED:
      return "the condition does not hold, or the cache has no room";
    case ESPALIER_INVALID:
      return "an argument is invalid: a null pointer, or an option that does not fit";
    case ESPALIER_NO_MEMORY:
      return "there is no memory";
    case ESPALIER_NO_ROOM:
      return "the entry is larger than allowed, or the cache has no room";
    case ESPALIER_FAILED:
      return "the system refused it";
  }
  return "an unknown status";
}
const char* espalier_version() { return ESPALIER_VERSION; }
