#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/cache/byte_cache.hpp"

// A cache for a program's own keys and values, with a limit of memory (link espalier::cache):
//
//     espalier::cache<std::string, std::string> pages({.memory_limit = 256 << 20});
//     pages.set("/index", render("/index"), std::chrono::minutes(5));
//     if (auto page = pages.get("/index")) send(*page);
//     auto about = pages.get_or_set("/about", [] { return render("/about"); });
//
// Unlike a map it may forget: what no get asked for makes room for what is new. Threads, memory and progress are those of
// byte_cache.

namespace espalier {

/// What a cache holds byte by byte: strings, and what memcpy copies.
template <class T>
concept cacheable = std::same_as<T, std::string> || std::is_trivially_copyable_v<T>;

template <class Key, class Value>
class cache {
  static constexpr bool has_string_keys = std::same_as<Key, std::string>;
  static constexpr bool has_string_values = std::same_as<Value, std::string>;

  static_assert(cacheable<Key>, "a key is a std::string, or trivially copyable");
  static_assert(cacheable<Value>,
                "a value is a std::string, or trivially copyable: one that owns memory would be freed "
                "without its destructor");
  static_assert(has_string_keys || std::has_unique_object_representations_v<Key>,
                "keys are compared byte by byte: a struct with padding, or a floating-point number, is not "
                "equal to itself");
  static_assert(has_string_keys || sizeof(Key) <= byte_cache::largest_key, "a key has at most 250 bytes");

 public:
  using key_type = Key;
  using value_type = Value;
  /// What the functions take: no string is made to ask for one.
  using key_view = std::conditional_t<has_string_keys, std::string_view, const Key&>;
  using value_view = std::conditional_t<has_string_values, std::string_view, const Value&>;
  using seconds = std::chrono::seconds;

  /// An entry that does not end.
  static constexpr seconds forever = seconds::max();

  struct versioned {
    Value value;
    std::uint64_t version;
  };

  /// Throws what byte_cache throws.
  explicit cache(const cache_options& options = {}) : bytes_(options) {}

  /// A copy of the value. Expected constant time; lock-free, see byte_cache::get.
  [[nodiscard]] std::optional<Value> get(key_view key) {
    std::optional<Value> found;
    bytes_.get(bytes_of(key), [&](const cache_entry& e) { found.emplace(value_in(e)); });
    return found;
  }
  /// Calls visit(value_view) in place of the copy. It may not use this cache, and delays evictions while it runs.
  template <class Visitor>
    requires std::invocable<Visitor, value_view>
  bool get(key_view key, Visitor&& visit) {
    return bytes_.get(bytes_of(key), [&](const cache_entry& e) { std::forward<Visitor>(visit)(view_of(e)); });
  }
  /// With the version that compare_and_swap() takes.
  [[nodiscard]] std::optional<versioned> get_versioned(key_view key) {
    std::optional<versioned> found;
    bytes_.get(bytes_of(key),
               [&](const cache_entry& e) { found.emplace(versioned{value_in(e), e.version}); });
    return found;
  }
  /// As a get of which the cache notes nothing.
  [[nodiscard]] bool contains(key_view key) {
    return bytes_.get(bytes_of(key), [](const cache_entry&) {}, byte_cache::access::peek);
  }

  /// False: the value is larger than the options allow, or there is no room. Then the key has no entry: never the value before.
  bool set(key_view key, value_view value, seconds lives = forever) {
    return store_if(key, value, lives, [](const cache_entry*) { return true; }) || (erase(key), false);
  }
  /// Only where there is no entry.
  bool add(key_view key, value_view value, seconds lives = forever) {
    return store_if(key, value, lives, [](const cache_entry* now) { return now == nullptr; });
  }
  /// Only where there is one.
  bool replace(key_view key, value_view value, seconds lives = forever) {
    return store_if(key, value, lives, [](const cache_entry* now) { return now != nullptr; });
  }
  /// Only where the entry is still that of the version.
  bool compare_and_swap(key_view key, std::uint64_t version, value_view value, seconds lives = forever) {
    return store_if(key, value, lives,
                    [=](const cache_entry* now) { return now != nullptr && now->version == version; });
  }
  bool erase(key_view key) {
    const auto done = bytes_.change(
        bytes_.hashed(bytes_of(key)),
        [](const cache_entry* now) {
          cache_change c;
          if (now != nullptr) c.what = cache_change::kind::erase;
          return c;
        },
        nothing);
    return done.what == cache_change::kind::erase;
  }
  /// Gives the entry another end.
  bool touch(key_view key, seconds lives) {
    bool there = false;
    const auto done = bytes_.change(
        bytes_.hashed(bytes_of(key)),
        [&](const cache_entry* now) {
          cache_change c;
          there = now != nullptr;
          if (there) {
            c.what = cache_change::kind::amend;
            c.expires = end_of(lives);
            c.stale = now->stale;
            c.claimed = now->claimed;
          }
          return c;
        },
        nothing);
    return there && done.outcome == cache_outcome::done;
  }
  /// Adds to the value, as one step; wraps around as the type does. The value after it; nullopt if there is none.
  std::optional<Value> increment(key_view key, Value by)
    requires std::unsigned_integral<Value>
  {
    std::optional<Value> after;
    const auto done = bytes_.change(
        bytes_.hashed(bytes_of(key)),
        [&](const cache_entry* now) {
          cache_change c;
          after.reset();
          if (now != nullptr) {
            after = static_cast<Value>(value_in(*now) + by);
            c.what = cache_change::kind::store;
            c.value_bytes = sizeof(Value);
            c.expires = now->expires;
          }
          return c;
        },
        [&](char* to, const cache_entry*) { std::memcpy(to, &*after, sizeof(Value)); });
    if (done.outcome != cache_outcome::done) after.reset();
    return after;
  }
  /// The value, or what make() returns, which is stored. Threads that miss together each call make; the first value stays.
  template <class Make>
  Value get_or_set(key_view key, Make&& make, seconds lives = forever) {
    if (auto found = get(key)) return *std::move(found);
    Value made = std::forward<Make>(make)();
    if (!add(key, made, lives)) {
      if (auto found = get(key)) return *std::move(found);
    }
    return made;
  }

  /// Forgets all that was stored before, at one moment.
  void clear() noexcept { bytes_.flush(); }
  [[nodiscard]] cache_statistics statistics() const { return bytes_.statistics(); }

 private:
  static constexpr auto nothing = [](char*, const cache_entry*) {};

  static std::string_view bytes_of(key_view key) noexcept {
    if constexpr (has_string_keys)
      return key;
    else
      return {reinterpret_cast<const char*>(std::addressof(key)), sizeof(Key)};
  }
  static Value value_in(const cache_entry& e) {
    if constexpr (has_string_values) {
      return std::string(e.value);
    } else {
      Value v;
      std::memcpy(std::addressof(v), e.value.data(), sizeof(Value));
      return v;
    }
  }
  static decltype(auto) view_of(const cache_entry& e) {
    if constexpr (has_string_values)
      return std::string_view(e.value);
    else
      return value_in(e);
  }
  std::uint32_t end_of(seconds lives) const noexcept {
    const std::uint64_t now = bytes_.now();
    if (lives.count() < 0) return 0;
    const auto left = static_cast<std::uint64_t>(lives.count());
    return left >= cache_entry::never - now ? cache_entry::never : static_cast<std::uint32_t>(now + left);
  }

  template <class Condition>
  bool store_if(key_view key, value_view value, seconds lives, Condition&& may) {
    const std::uint32_t end = end_of(lives);
    const auto done = bytes_.change(
        bytes_.hashed(bytes_of(key)),
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
        [&](char* to, const cache_entry*) {
          if constexpr (has_string_values)
            value.copy(to, value.size());
          else
            std::memcpy(to, std::addressof(value), sizeof(Value));
        });
    return done.what == cache_change::kind::store && done.outcome == cache_outcome::done;
  }

  byte_cache bytes_;
};

}  // namespace espalier
