#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "espalier/map/ordered/ordered_map.hpp"
#include "scheduled/battery.hpp"

// The battery on maps of strings, with few entries in a node.

namespace espalier::sim::battery {

/// All begin with the same slice. The quotient by 40 fills the next one, or some. As many zeros follow as the remainder
/// says: 10 is the beginning of 20, and 20 of 30. So there are layers of one entry, one below the other, which come and
/// go with few keys, and multiples of 40 end with a slice.
struct layered_codec {
  using key_type = std::string;
  using value_type = std::uint64_t;
  static constexpr std::uint64_t largest_key = std::numeric_limits<std::uint64_t>::max();

  struct text {
    std::array<char, 80> bytes;
    std::size_t size = 0;
    void append(std::size_t count, char c) noexcept {
      while (count-- != 0) bytes[size++] = c;
    }
    // NOLINTNEXTLINE(google-explicit-constructor): as std::string has it
    operator std::string_view() const noexcept { return {bytes.data(), size}; }
  };

  [[nodiscard]] static std::less<> order() noexcept { return {}; }
  [[nodiscard]] static text encode_key(std::uint64_t k) noexcept {
    const std::uint64_t quotient = k / base;
    std::size_t digits = 1;
    for (std::uint64_t q = quotient / 10; q != 0; q /= 10) ++digits;
    text t;
    t.append(slice, '/');
    t.append(1, static_cast<char>('a' + digits));
    t.append(digits, '0');
    for (std::uint64_t q = quotient, at = t.size; q != 0; q /= 10)
      t.bytes[--at] = static_cast<char>('0' + q % 10);
    t.append(padding_of(digits) + k % base, '\0');
    return t;
  }
  [[nodiscard]] static std::uint64_t decode_key(std::string_view key) noexcept {
    const auto digits = static_cast<std::size_t>(key[slice] - 'a');
    std::uint64_t quotient = 0;
    for (const char c : key.substr(slice + 1, digits))
      quotient = 10 * quotient + static_cast<std::uint64_t>(c - '0');
    return base * quotient + (key.size() - slice - 1 - digits - padding_of(digits));
  }
  [[nodiscard]] static std::uint64_t encode_value(std::uint64_t v) noexcept { return v; }
  [[nodiscard]] static std::uint64_t decode_value(std::uint64_t v) noexcept { return v; }

 private:
  static constexpr std::uint64_t base = 40;
  static constexpr std::size_t slice = 8;
  static constexpr std::size_t padding_of(std::size_t digits) noexcept {
    return (slice - (1 + digits) % slice) % slice;
  }
};

template <unsigned Fanout>
[[nodiscard]] subject_type ordered_map_of_strings() {
  return subject_type_of<simulated_map<ordered_map<std::string, std::uint64_t>::with_fanout<Fanout>>, false,
                         layered_codec>();
}

}  // namespace espalier::sim::battery
