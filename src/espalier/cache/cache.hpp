#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/cache/byte_cache.hpp"
#include "espalier/cache/flights.hpp"

// A cache for a program's own keys and values, with a limit of memory (link espalier::cache):
//
//     espalier::cache<std::string, std::string> pages({.memory_limit = 256 << 20});
//     pages.set("/index", render("/index"), std::chrono::minutes(5));
//     if (auto page = pages.get("/index")) send(*page);
//     auto about = pages.get_or_set("/about", [] { return render("/about"); });
//
// Unlike a map it may forget: what no get asked for makes room for what is new. Threads, memory and progress are those of
// byte_cache. Functions of the caller (visitors, makers) run without a lock and on copies: they may block, throw, and use the
// cache.
//
// Lifetimes are milliseconds. No entry ends before its lifetime has passed since the call began, and it is gone at most a
// sixteenth of a second after it, and what the system's coarse clock is late (10 ms at most). If the options name a clock,
// that has seconds, and an entry is gone up to two of them later. An entry may be evicted at any time: a lock that is an
// entry (add) needs a cache with evicts = false.

namespace espalier {

/// What a cache holds byte by byte: strings, and what memcpy copies.
template <class T>
concept cacheable = std::same_as<T, std::string> || std::is_trivially_copyable_v<T>;

namespace caching {

template <class T>
concept character = std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> ||
                    std::same_as<T, char16_t> || std::same_as<T, char32_t>;
/// Only the address would be kept: views, spans, and pointers to characters.
template <class T>
concept refers_elsewhere = std::ranges::borrowed_range<T> ||
                           (std::is_pointer_v<T> && character<std::remove_cv_t<std::remove_pointer_t<T>>>);

}  // namespace caching

template <class Key, class Value>
class cache {
  static constexpr bool has_string_keys = std::same_as<Key, std::string>;
  static constexpr bool has_string_values = std::same_as<Value, std::string>;

  static_assert(!caching::refers_elsewhere<Key>,
                "a view or a pointer to characters is compared by its address: take std::string as the key, "
                "for which the functions take a std::string_view");
  static_assert(
      !caching::refers_elsewhere<Value>,
      "the cache would keep only the address of what a view or a pointer to characters refers to: take "
      "std::string as the value");
  static_assert(cacheable<Key>, "a key is a std::string, or trivially copyable");
  static_assert(cacheable<Value>,
                "a value is a std::string, or trivially copyable: one that owns memory would be freed "
                "without its destructor");
  static_assert(has_string_keys || std::has_unique_object_representations_v<Key>,
                "keys are compared byte by byte: a struct with padding, or a floating-point number, is not "
                "equal to itself");
  static_assert(has_string_keys || sizeof(Key) <= byte_cache::largest_key,
                "a key that is no string has at most 250 bytes");

 public:
  using key_type = Key;
  using value_type = Value;
  /// What the functions take: no string is made to ask for one. A string may have any length; one of more than 250 bytes takes
  /// 16 bytes more than a shorter one.
  using key_view = std::conditional_t<has_string_keys, std::string_view, const Key&>;
  using value_view = std::conditional_t<has_string_values, std::string_view, const Value&>;

  /// How long an entry lives, from any duration: milliseconds, rounded up.
  struct lifetime {
    std::chrono::milliseconds time;

    template <class Rep, class Period>
    constexpr lifetime(std::chrono::duration<Rep, Period> given) noexcept : time(time.max()) {
      using wide = std::chrono::duration<double, std::milli>;
      if (wide(given) < wide(time.max()) / 2) time = std::chrono::ceil<std::chrono::milliseconds>(given);
    }
  };
  /// An entry that does not end, as one that lives for eight years and more.
  static constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

  struct versioned {
    Value value;
    std::uint64_t version;
  };

  /// Throws what byte_cache throws.
  explicit cache(const cache_options& options = {}) : bytes_(options) {}

  /// A copy of the value. Expected constant time; lock-free, see byte_cache::get.
  [[nodiscard]] std::optional<Value> get(key_view key) {
    std::optional<Value> found;
    look(key, [&](std::string_view value, const cache_entry&) { found.emplace(value_in(value)); });
    return found;
  }
  /// Calls visit(value_view) with a copy of the value, for which no memory is allocated up to half a kilobyte.
  template <class Visitor>
    requires std::invocable<Visitor, value_view>
  bool get(key_view key, Visitor&& visit) {
    if constexpr (has_string_values) {
      std::array<char, 512> small;
      std::string large;
      std::string_view copy;
      const bool there = look(key, [&](std::string_view value, const cache_entry&) {
        if (value.size() <= small.size()) {
          value.copy(small.data(), value.size());
          copy = {small.data(), value.size()};
        } else {
          large = value;
          copy = large;
        }
      });
      if (there) std::invoke(std::forward<Visitor>(visit), copy);
      return there;
    } else {
      const std::optional<Value> found = get(key);
      if (found) std::invoke(std::forward<Visitor>(visit), *found);
      return found.has_value();
    }
  }
  /// With the version that compare_and_swap() takes.
  [[nodiscard]] std::optional<versioned> get_versioned(key_view key) {
    std::optional<versioned> found;
    look(key, [&](std::string_view value, const cache_entry& e) {
      found.emplace(versioned{value_in(value), e.version});
    });
    return found;
  }
  /// As a get of which the cache notes nothing.
  [[nodiscard]] bool contains(key_view key) {
    return look(key, [](std::string_view, const cache_entry&) {}, byte_cache::access::peek);
  }

  /// False: the value is larger than the options allow, or there is no room. Then the key has no entry: never the value before.
  bool set(key_view key, value_view value, lifetime lives = forever) {
    return store_if(key, value, lives, [](const cache_entry*) { return true; }) || (erase(key), false);
  }
  /// Only where there is no entry.
  bool add(key_view key, value_view value, lifetime lives = forever) {
    return store_if(key, value, lives, [](const cache_entry* now) { return now == nullptr; });
  }
  /// Only where there is one.
  bool replace(key_view key, value_view value, lifetime lives = forever) {
    return store_if(key, value, lives, [](const cache_entry* now) { return now != nullptr; });
  }
  /// Only where the entry is still that of the version.
  bool compare_and_swap(key_view key, std::uint64_t version, value_view value, lifetime lives = forever) {
    return store_if(key, value, lives,
                    [=](const cache_entry* now) { return now != nullptr && now->version == version; });
  }
  bool erase(key_view key) {
    const stored_key k(key);
    flights_.forget(k.hashed.hash, bytes_of(key));
    const auto decide = [](const cache_entry* now) {
      cache_change c;
      if (now != nullptr) c.what = cache_change::kind::erase;
      return c;
    };
    return change(k, decide, nothing).what == cache_change::kind::erase;
  }
  /// Gives the entry another end. False: it is not there, or there is no room for an end where it had none.
  bool touch(key_view key, lifetime lives) {
    bool there = false;
    const std::uint32_t end = bytes_.end_after(lives.time);
    const auto decide = [&](const cache_entry* now) {
      cache_change c;
      there = now != nullptr;
      if (there) {
        c.what = cache_change::kind::amend;
        c.expires = end;
        c.stale = now->stale;
        c.claimed = now->claimed;
      }
      return c;
    };
    return change(stored_key(key), decide, nothing).outcome == cache_outcome::done && there;
  }
  /// Adds to the value, as one step; wraps around as the type does. The value after it; nullopt if there is none, or no room.
  std::optional<Value> increment(key_view key, Value by)
    requires std::unsigned_integral<Value>
  {
    return add_to(key, by, nullptr, cache_entry::never);
  }
  /// The same, and where there is no value stores the initial one, to which nothing is added. nullopt: there is no room.
  std::optional<Value> increment(key_view key, Value by, Value initial, lifetime lives = forever)
    requires std::unsigned_integral<Value>
  {
    return add_to(key, by, &initial, bytes_.end_after(lives.time));
  }
  /// The value, or what make() returns, which is stored. Of the threads that miss a key at one time one calls make, and the
  /// others wait for its value. If make throws, that thread's call does, and the next one makes. A value that was made while
  /// the key was set, erased or cleared is returned, and not stored: it may have been made of what has changed.
  ///
  /// make may use the cache, but for this function with the same key, for which it throws std::logic_error; and makers of two
  /// keys may not ask for each other's, which never ends.
  template <class Make>
  Value get_or_set(key_view key, Make&& make, lifetime lives = forever) {
    if (auto found = get(key)) return *std::move(found);
    return flights_.fetch(
        stored_key(key).hashed.hash, bytes_of(key), [&] { return get(key); }, std::forward<Make>(make),
        [&](value_view made) {
          store_if(key, made, lives, [](const cache_entry* now) { return now == nullptr; }, false);
        });
  }

  /// Forgets all that was stored before, at one moment.
  void clear() noexcept {
    flights_.forget_all();
    bytes_.flush();
  }
  /// Takes out what has ended, so that statistics() counts it no longer. Memory comes back without it too, when it is needed.
  /// Linear in the memory.
  void reclaim_ended() noexcept { bytes_.reclaim_ended(); }
  [[nodiscard]] cache_statistics statistics() const { return bytes_.statistics(); }

 private:
  friend struct cache_test_access;

  static constexpr auto nothing = [](char*) {};

  static std::string_view bytes_of(key_view key) noexcept {
    if constexpr (has_string_keys)
      return key;
    else
      return {reinterpret_cast<const char*>(std::addressof(key)), sizeof(Key)};
  }

  /// A key as byte_cache has it. One that is too long there is its hash and its length; the whole key precedes the value, and
  /// of two keys with one hash the later one takes the place of the other. The flags of an entry say which kind it is.
  struct stored_key {
    explicit stored_key(key_view key) noexcept : hashed(byte_cache::hashed(bytes_of(key))) {
      if constexpr (has_string_keys) {
        if (key.size() <= byte_cache::largest_key) return;
        before_value = key;
        const std::uint64_t parts[] = {hashed.hash, key.size()};
        std::memcpy(digest.data(), parts, sizeof(parts));
        hashed = byte_cache::hashed({digest.data(), digest.size()});
      }
    }
    stored_key(const stored_key&) = delete;
    stored_key& operator=(const stored_key&) = delete;

    [[nodiscard]] bool is_of(const cache_entry& e) const noexcept {
      return (e.flags != 0) == !before_value.empty() && e.value.starts_with(before_value);
    }
    [[nodiscard]] std::string_view value_in(const cache_entry& e) const noexcept {
      return e.value.substr(before_value.size());
    }

    std::array<char, 16> digest;
    byte_cache::hashed_key hashed;
    std::string_view before_value;
  };

  template <class Visitor>
  bool look(key_view key, Visitor&& visit, byte_cache::access how = byte_cache::access::counted) {
    const stored_key k(key);
    bool there = false;
    bytes_.get(
        k.hashed,
        [&](const cache_entry& e) {
          there = k.is_of(e);
          if (there) visit(k.value_in(e), e);
        },
        how);
    return there;
  }
  template <class Decide, class Fill>
  cache_changed change(const stored_key& k, Decide&& decide, Fill&& fill) {
    return bytes_.change(
        k.hashed,
        [&](const cache_entry* now) {
          cache_change c = decide(now != nullptr && k.is_of(*now) ? now : nullptr);
          c.value_bytes += k.before_value.size();
          c.flags = k.before_value.empty() ? 0 : 1;
          return c;
        },
        [&](char* to, const cache_entry*) {
          k.before_value.copy(to, k.before_value.size());
          fill(to + k.before_value.size());
        });
  }

  static Value value_in(std::string_view bytes) {
    if constexpr (has_string_values) {
      return std::string(bytes);
    } else {
      Value v;
      std::memcpy(std::addressof(v), bytes.data(), sizeof(Value));
      return v;
    }
  }

  template <class Condition>
  bool store_if(key_view key, value_view value, lifetime lives, Condition&& may, bool ends_flight = true) {
    const stored_key k(key);
    if (ends_flight) flights_.forget(k.hashed.hash, bytes_of(key));
    const std::uint32_t end = bytes_.end_after(lives.time);
    const auto done = change(
        k,
        [&](const cache_entry* now) {
          cache_change c;
          if (!may(now)) return c;
          c.what = cache_change::kind::store;
          if constexpr (has_string_values)
            c.value_bytes = value.size();
          else
            c.value_bytes = sizeof(Value);
          c.expires = end;
          return c;
        },
        [&](char* to) {
          if constexpr (has_string_values)
            value.copy(to, value.size());
          else
            std::memcpy(to, std::addressof(value), sizeof(Value));
        });
    return done.what == cache_change::kind::store && done.outcome == cache_outcome::done;
  }
  std::optional<Value> add_to(key_view key, Value by, const Value* initial, std::uint32_t end) {
    const stored_key k(key);
    flights_.forget(k.hashed.hash, bytes_of(key));
    std::optional<Value> after;
    const auto done = change(
        k,
        [&](const cache_entry* now) {
          cache_change c;
          after.reset();
          if (now != nullptr)
            after = static_cast<Value>(value_in(k.value_in(*now)) + by);
          else if (initial != nullptr)
            after = *initial;
          if (after) {
            c.what = cache_change::kind::store;
            c.value_bytes = sizeof(Value);
            c.expires = now != nullptr ? now->expires : end;
          }
          return c;
        },
        [&](char* to) { std::memcpy(to, &*after, sizeof(Value)); });
    if (done.outcome != cache_outcome::done) after.reset();
    return after;
  }

  byte_cache bytes_;
  caching::flights<Value> flights_;
};

}  // namespace espalier
