// The callbacks of the compiler's thread sanitizer instrumentation. Outside a simulated world they only perform the
// access that the program requested.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/runtime/access.hpp"
#include "sim/runtime/fibers.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {

namespace {

[[gnu::noinline]] void announce_slowly(world& w, std::uintptr_t address, std::size_t bytes, access_kind kind,
                                       const void* where) {
  const own_code scope;
  w.before({address, static_cast<std::uint32_t>(bytes), kind, where});
}

inline void announce(const volatile void* address, std::size_t bytes, access_kind kind, const void* where) {
  if (world* const w = here.running)
    announce_slowly(*w, reinterpret_cast<std::uintptr_t>(address), bytes, kind, where);
}

constexpr std::memory_order order_of(int from_compiler) noexcept {
  // g++ adds hints for lock elision in higher bits.
  return static_cast<std::memory_order>(from_compiler & 0xffff);
}

template <class Word>
weak_memory::place place_of(const volatile Word* address) noexcept {
  return {reinterpret_cast<std::uintptr_t>(address), sizeof(Word)};
}

template <class Word>
Word load(const volatile Word* address, int order, const void* where) {
  world* const w = here.running;
  if (w == nullptr) return __atomic_load_n(address, __ATOMIC_SEQ_CST);
  announce_slowly(*w, reinterpret_cast<std::uintptr_t>(address), sizeof(Word), access_kind::atomic_load,
                  where);
  if (store_buffers* const b = w->buffers) {
    const own_code scope;
    if (const std::uint64_t* const own =
            b->find(w->slot() - 1, const_cast<const Word*>(address), sizeof(Word)))
      return static_cast<Word>(*own);
  }
  const Word newest = __atomic_load_n(address, __ATOMIC_RELAXED);
  if (w->weak == nullptr) return newest;
  const own_code scope;
  return static_cast<Word>(w->weak->load(w->slot() - 1, place_of(address), newest, order_of(order), where));
}

template <class Word>
void store(volatile Word* address, Word value, int order, const void* where) {
  world* const w = here.running;
  if (w == nullptr) return __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
  announce_slowly(*w, reinterpret_cast<std::uintptr_t>(address), sizeof(Word),
                  order == __ATOMIC_SEQ_CST ? access_kind::modify : access_kind::atomic_store, where);
  if (store_buffers* const b = w->buffers) {
    const own_code scope;
    if (order != __ATOMIC_SEQ_CST && !in_transaction(*w))
      return b->store(w->slot() - 1, const_cast<Word*>(address), sizeof(Word),
                      static_cast<std::uint64_t>(value));
    b->drain(w->slot() - 1);
  }
  if (w->weak != nullptr) {
    const own_code scope;
    w->weak->store(w->slot() - 1, place_of(address), __atomic_load_n(address, __ATOMIC_RELAXED), value,
                   order_of(order), where);
  }
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
}

template <class Word, class Change>
Word modify(volatile Word* address, int order, const void* where, Change&& change) {
  world* const w = here.running;
  if (w != nullptr) {
    announce_slowly(*w, reinterpret_cast<std::uintptr_t>(address), sizeof(Word), access_kind::modify, where);
    if (store_buffers* const b = w->buffers) {
      const own_code scope;
      b->drain(w->slot() - 1);
    }
  }
  Word before = __atomic_load_n(address, __ATOMIC_RELAXED);
  if (w != nullptr && w->weak != nullptr) {
    const own_code scope;
    w->weak->modify(w->slot() - 1, place_of(address), before, change(before), order_of(order), where);
  }
  // A single operating-system thread simulates all threads, but outside a world there may be more.
  while (!__atomic_compare_exchange_n(address, &before, change(before), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return before;
}

struct exchange_orders {
  int success;
  int failure;
  bool weak;
};

/// Under weak memory: a compare-exchange that fails writes nothing.
template <class Word>
bool exchange_if_equal(world& w, volatile Word* address, Word& expected, Word desired, exchange_orders orders,
                       const void* where) {
  const own_code scope;
  const unsigned me = w.slot() - 1;
  const Word now = __atomic_load_n(address, __ATOMIC_RELAXED);
  if (now == expected && !(orders.weak && w.weak->fails_spuriously(me))) {
    w.weak->modify(me, place_of(address), now, desired, order_of(orders.success), where);
    __atomic_store_n(address, desired, __ATOMIC_RELAXED);
    return true;
  }
  w.weak->read_newest(me, place_of(address), now, order_of(orders.failure));
  expected = now;
  return false;
}

template <class Word>
int exchange_if_equal(volatile Word* address, Word* expected, Word desired, exchange_orders orders,
                      const void* where) {
  if (world* const w = here.running; w != nullptr && w->weak != nullptr) {
    announce_slowly(*w, reinterpret_cast<std::uintptr_t>(address), sizeof(Word), access_kind::modify, where);
    return exchange_if_equal(*w, address, *expected, desired, orders, where) ? 1 : 0;
  }
  const Word wanted = *expected;
  const Word before =
      modify(address, orders.success, where, [&](Word now) { return now == wanted ? desired : now; });
  if (before == wanted) return 1;
  *expected = before;
  return 0;
}

/// Of two words: they are compared, and perhaps stored, at one step.
int exchange_pair_if_equal(volatile std::uint64_t* address, std::uint64_t* expected,
                           const std::uint64_t* desired, exchange_orders orders, const void* where) {
  std::uint64_t now[2];
  const auto look = [&] {
    for (int i = 0; i < 2; ++i) now[i] = __atomic_load_n(address + i, __ATOMIC_RELAXED);
    return now[0] == expected[0] && now[1] == expected[1];
  };
  world* const w = here.running;
  if (w != nullptr) {
    announce_slowly(*w, reinterpret_cast<std::uintptr_t>(address), 16, access_kind::modify, where);
    if (store_buffers* const b = w->buffers) {
      const own_code scope;
      b->drain(w->slot() - 1);
    }
  }
  const bool equal = look();
  if (w != nullptr && w->weak != nullptr) {
    const own_code scope;
    for (int i = 0; i < 2; ++i) {
      if (equal)
        w->weak->modify(w->slot() - 1, place_of(address + i), now[i], desired[i], order_of(orders.success),
                        where);
      else
        w->weak->read_newest(w->slot() - 1, place_of(address + i), now[i], order_of(orders.failure));
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (equal)
      __atomic_store_n(address + i, desired[i], __ATOMIC_RELAXED);
    else
      expected[i] = now[i];
  }
  return equal ? 1 : 0;
}

/// Loads two words at one step. The newest ones, in a weak memory, too: only x86 has such loads, and it has that order.
void load_pair(const volatile std::uint64_t* address, std::uint64_t* both, int order, const void* where) {
  world* const w = here.running;
  if (w != nullptr)
    announce_slowly(*w, reinterpret_cast<std::uintptr_t>(address), 16, access_kind::atomic_load, where);
  for (int i = 0; i < 2; ++i) {
    both[i] = __atomic_load_n(address + i, __ATOMIC_RELAXED);
    if (w == nullptr) continue;
    const own_code scope;
    const std::uint64_t* const own =
        w->buffers == nullptr
            ? nullptr
            : w->buffers->find(w->slot() - 1, const_cast<const std::uint64_t*>(address + i), sizeof(*both));
    if (own != nullptr)
      both[i] = *own;
    else if (w->weak != nullptr)
      w->weak->read_newest(w->slot() - 1, place_of(address + i), both[i], order_of(order));
  }
}

/// These bytes, of which a read was announced before other accesses of the same call, are read now: a transaction that
/// has begun to write them meanwhile meets the read.
void read_now(const void* address, std::size_t bytes, const void* where) {
  world* const w = here.running;
  if (w == nullptr || w->transactional == nullptr) return;
  const own_code scope;
  w->transactional->on_access(w->slot() - 1, {reinterpret_cast<std::uintptr_t>(address),
                                              static_cast<std::uint32_t>(bytes), access_kind::read, where});
}

void* copied(void* (*copy)(void*, const void*, std::size_t), void* to, const void* from, std::size_t bytes,
             const void* where) {
  if (bytes != 0) {
    announce(from, bytes, access_kind::read, where);
    announce(to, bytes, access_kind::write, where);
    read_now(from, bytes, where);
  }
  return copy(to, from, bytes);
}

void* filled(void* to, int value, std::size_t bytes, const void* where) {
  if (bytes != 0) announce(to, bytes, access_kind::write, where);
  return std::memset(to, value, bytes);
}

}  // namespace
}  // namespace espalier::sim

using espalier::sim::access_kind;

#define ESPALIER_CALLER __builtin_return_address(0)

#define ESPALIER_ACCESS(name, size, kind)                                       \
  extern "C" void __tsan_##name##size(void* address) {                          \
    espalier::sim::announce(address, size, access_kind::kind, ESPALIER_CALLER); \
  }
#define ESPALIER_PLAIN(size)                                                     \
  ESPALIER_ACCESS(read, size, read)                                              \
  ESPALIER_ACCESS(write, size, write)                                            \
  ESPALIER_ACCESS(unaligned_read, size, read)                                    \
  ESPALIER_ACCESS(unaligned_write, size, write)                                  \
  ESPALIER_ACCESS(volatile_read, size, read)                                     \
  ESPALIER_ACCESS(volatile_write, size, write)                                   \
  extern "C" void __tsan_read_write##size(void* address) {                       \
    espalier::sim::announce(address, size, access_kind::read, ESPALIER_CALLER);  \
    espalier::sim::announce(address, size, access_kind::write, ESPALIER_CALLER); \
  }

ESPALIER_PLAIN(1)
ESPALIER_PLAIN(2)
ESPALIER_PLAIN(4)
ESPALIER_PLAIN(8)
ESPALIER_PLAIN(16)

// NOLINTBEGIN(bugprone-macro-parentheses): a type has none
#define ESPALIER_MODIFY(name, bits, word, after)                                                       \
  extern "C" word __tsan_atomic##bits##_##name(volatile word* address, word value, int order) {        \
    return espalier::sim::modify(address, order, ESPALIER_CALLER,                                      \
                                 [&]([[maybe_unused]] word now) { return static_cast<word>(after); }); \
  }
#define ESPALIER_ATOMIC(bits, word)                                                                      \
  extern "C" word __tsan_atomic##bits##_load(const volatile word* address, int order) {                  \
    return espalier::sim::load(address, order, ESPALIER_CALLER);                                         \
  }                                                                                                      \
  extern "C" void __tsan_atomic##bits##_store(volatile word* address, word value, int order) {           \
    espalier::sim::store(address, value, order, ESPALIER_CALLER);                                        \
  }                                                                                                      \
  ESPALIER_MODIFY(exchange, bits, word, value)                                                           \
  ESPALIER_MODIFY(fetch_add, bits, word, now + value)                                                    \
  ESPALIER_MODIFY(fetch_sub, bits, word, now - value)                                                    \
  ESPALIER_MODIFY(fetch_and, bits, word, now& value)                                                     \
  ESPALIER_MODIFY(fetch_or, bits, word, now | value)                                                     \
  ESPALIER_MODIFY(fetch_xor, bits, word, now ^ value)                                                    \
  ESPALIER_MODIFY(fetch_nand, bits, word, ~(now & value))                                                \
  extern "C" int __tsan_atomic##bits##_compare_exchange_strong(volatile word* address, word* expected,   \
                                                               word desired, int success, int failure) { \
    return espalier::sim::exchange_if_equal(address, expected, desired, {success, failure, false},       \
                                            ESPALIER_CALLER);                                            \
  }                                                                                                      \
  extern "C" int __tsan_atomic##bits##_compare_exchange_weak(volatile word* address, word* expected,     \
                                                             word desired, int success, int failure) {   \
    return espalier::sim::exchange_if_equal(address, expected, desired, {success, failure, true},        \
                                            ESPALIER_CALLER);                                            \
  }                                                                                                      \
  extern "C" word __tsan_atomic##bits##_compare_exchange_val(volatile word* address, word expected,      \
                                                             word desired, int success, int failure) {   \
    espalier::sim::exchange_if_equal(address, &expected, desired, {success, failure, false},             \
                                     ESPALIER_CALLER);                                                   \
    return expected;                                                                                     \
  }
// NOLINTEND(bugprone-macro-parentheses)

ESPALIER_ATOMIC(8, std::uint8_t)
ESPALIER_ATOMIC(16, std::uint16_t)
ESPALIER_ATOMIC(32, std::uint32_t)
ESPALIER_ATOMIC(64, std::uint64_t)

extern "C" {

// Outside a simulated world no other thread may use the pair at that time.
__extension__ typedef unsigned __int128 pair_of_words;
int __tsan_atomic128_compare_exchange_strong(volatile pair_of_words* address, pair_of_words* expected,
                                             pair_of_words desired, int success, int failure) {
  std::uint64_t wanted[2];
  std::uint64_t next[2];
  std::memcpy(wanted, expected, sizeof(wanted));
  std::memcpy(next, &desired, sizeof(next));
  const int done =
      espalier::sim::exchange_pair_if_equal(reinterpret_cast<volatile std::uint64_t*>(address), wanted, next,
                                            {success, failure, false}, ESPALIER_CALLER);
  std::memcpy(expected, wanted, sizeof(wanted));
  return done;
}

pair_of_words __tsan_atomic128_load(const volatile pair_of_words* address, int order) {
  std::uint64_t both[2];
  espalier::sim::load_pair(reinterpret_cast<const volatile std::uint64_t*>(address), both, order,
                           ESPALIER_CALLER);
  pair_of_words result;
  std::memcpy(&result, both, sizeof(result));
  return result;
}

// What orders the words of a pair, it does above.
void __tsan_release(void*) {}
void __tsan_acquire(void*) {}

void __tsan_init() {}

void __tsan_func_entry(void* caller) { espalier::sim::running_calls->enter(caller); }
void __tsan_func_exit() { espalier::sim::running_calls->leave(); }

void __tsan_read_range(void* address, std::size_t bytes) {
  espalier::sim::announce(address, bytes, access_kind::read, ESPALIER_CALLER);
}
void __tsan_write_range(void* address, std::size_t bytes) {
  espalier::sim::announce(address, bytes, access_kind::write, ESPALIER_CALLER);
}
void __tsan_vptr_update(void** address, void*) {
  espalier::sim::announce(static_cast<void*>(address), sizeof(void*), access_kind::write, ESPALIER_CALLER);
}
void __tsan_vptr_read(void** address) {
  espalier::sim::announce(static_cast<void*>(address), sizeof(void*), access_kind::read, ESPALIER_CALLER);
}

void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  return espalier::sim::copied(std::memcpy, to, from, bytes, ESPALIER_CALLER);
}
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  return espalier::sim::copied(std::memmove, to, from, bytes, ESPALIER_CALLER);
}
void* __tsan_memset(void* to, int value, std::size_t bytes) {
  return espalier::sim::filled(to, value, bytes, ESPALIER_CALLER);
}

// g++ leaves these calls to the linker, which redirects them to these functions (--wrap) in simulated programs.
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  return espalier::sim::copied(std::memcpy, to, from, bytes, ESPALIER_CALLER);
}
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  return espalier::sim::copied(std::memmove, to, from, bytes, ESPALIER_CALLER);
}
void* __wrap_memset(void* to, int value, std::size_t bytes) {
  return espalier::sim::filled(to, value, bytes, ESPALIER_CALLER);
}
int __wrap_memcmp(const void* left, const void* right, std::size_t bytes) {
  if (bytes != 0) {
    espalier::sim::announce(left, bytes, access_kind::read, ESPALIER_CALLER);
    espalier::sim::announce(right, bytes, access_kind::read, ESPALIER_CALLER);
    espalier::sim::read_now(left, bytes, ESPALIER_CALLER);
  }
  return std::memcmp(left, right, bytes);
}

void __tsan_atomic_thread_fence(int order) {
  if (espalier::sim::world* const w = espalier::sim::here.running) {
    const espalier::sim::own_code scope;
    w->fence(espalier::sim::order_of(order));
  } else {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  }
}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
