#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "espalier/map/map_concept.hpp"

// Tools keep keys and values as 64-bit numbers: plans, traces, results, histories and test suites do. A codec translates
// them for a map of other types.

namespace espalier::catalog {

/// What drives a map. encode_key() returns what an operation of the map takes for a key (key_view), which need not be a
/// key itself.
template <class C>
concept codec = requires(std::uint64_t number, const typename C::value_type& value) {
  { C::encode_key(number) } -> std::convertible_to<key_view_of<typename C::key_type>>;
  { C::encode_value(number) } -> std::same_as<typename C::value_type>;
  { C::decode_value(value) } -> std::same_as<std::uint64_t>;
};

/// order() makes a comparator under which larger numbers, up to largest_key, are larger keys.
template <class C>
concept ordered_codec = codec<C> && requires(const typename C::key_type& key, decltype(C::order()) less) {
  { less(key, key) } -> std::convertible_to<bool>;
  { C::largest_key } -> std::convertible_to<std::uint64_t>;
  { C::decode_key(key) } -> std::same_as<std::uint64_t>;
};

/// Strings of a list, as key_space numbers them.
struct listed_string_codec {
  using key_type = std::string;
  using value_type = std::uint64_t;
  [[nodiscard]] static std::string_view encode_key(std::uint64_t k) noexcept {
    return *reinterpret_cast<const std::string_view*>(k);
  }
  [[nodiscard]] static std::uint64_t encode_value(std::uint64_t v) noexcept { return v; }
  [[nodiscard]] static std::uint64_t decode_value(std::uint64_t v) noexcept { return v; }
};

/// Integers of any size. The number 0 is the lowest key.
template <std::integral Key = std::uint64_t, std::integral Value = std::uint64_t>
struct number_codec {
  using key_type = Key;
  using value_type = Value;
  static constexpr auto lowest = static_cast<std::uint64_t>(std::numeric_limits<Key>::min());
  static constexpr std::uint64_t largest_key =
      static_cast<std::uint64_t>(std::numeric_limits<Key>::max()) - lowest;

  [[nodiscard]] static constexpr std::less<Key> order() noexcept { return {}; }
  [[nodiscard]] static constexpr Key encode_key(std::uint64_t k) noexcept {
    return static_cast<Key>(k + lowest);
  }
  [[nodiscard]] static constexpr std::uint64_t decode_key(Key k) noexcept {
    return static_cast<std::uint64_t>(k) - lowest;
  }
  [[nodiscard]] static constexpr Value encode_value(std::uint64_t v) noexcept {
    return static_cast<Value>(v);
  }
  [[nodiscard]] static constexpr std::uint64_t decode_value(Value v) noexcept {
    return static_cast<std::uint64_t>(v);
  }
};

/// Keys are strings of 21 to 43 bytes that begin alike, as addresses of one host do. Half of the number follows, without
/// leading zeros but with the number of its digits before them, which keeps the order. The string of an odd number
/// extends that of the even one below.
struct string_codec {
  using key_type = std::string;
  using value_type = std::uint64_t;
  static constexpr std::uint64_t largest_key = std::numeric_limits<std::uint64_t>::max();

  struct text {
    std::array<char, 44> bytes;
    std::size_t size = 0;
    void append(std::string_view part) noexcept {
      std::ranges::copy(part, bytes.begin() + size);
      size += part.size();
    }
    // NOLINTNEXTLINE(google-explicit-constructor): as std::string has it
    operator std::string_view() const noexcept { return {bytes.data(), size}; }
  };

  [[nodiscard]] static std::less<> order() noexcept { return {}; }
  [[nodiscard]] static text encode_key(std::uint64_t k) noexcept {
    text t;
    t.append(host);
    unsigned digits = digits_of(k / 2);
    t.bytes[t.size++] = static_cast<char>('a' + digits);
    while (digits-- != 0) t.bytes[t.size++] = "0123456789abcdef"[k / 2 >> 4 * digits & 15U];
    if (k % 2 != 0) t.append(extension);
    return t;
  }
  [[nodiscard]] static std::uint64_t decode_key(std::string_view rest) noexcept {
    rest.remove_prefix(host.size() + 1);
    std::uint64_t half = 0;
    for (; !rest.empty() && rest.front() != extension.front(); rest.remove_prefix(1))
      half = 16 * half + static_cast<std::uint64_t>(rest.front() - (rest.front() < 'a' ? '0' : 'a' - 10));
    return 2 * half + (rest.empty() ? 0 : 1);
  }
  [[nodiscard]] static std::uint64_t encode_value(std::uint64_t v) noexcept { return v; }
  [[nodiscard]] static std::uint64_t decode_value(std::uint64_t v) noexcept { return v; }

 private:
  static constexpr std::string_view host = "https://example.org/";
  static constexpr std::string_view extension = "/index";
  static unsigned digits_of(std::uint64_t k) noexcept {
    return (static_cast<unsigned>(std::bit_width(k)) + 3) / 4;
  }
};

}  // namespace espalier::catalog
