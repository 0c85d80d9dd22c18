#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace espalier::memcached {

inline constexpr std::string_view base64_letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The value of each letter of base64, by its code, 0 for the padding; 64 for other codes.
inline constexpr std::array<std::uint8_t, 256> base64_values = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(64);
  values[static_cast<std::uint8_t>('=')] = 0;
  for (std::size_t i = 0; i < base64_letters.size(); ++i)
    values[static_cast<std::uint8_t>(base64_letters[i])] = static_cast<std::uint8_t>(i);
  return values;
}();

/// The number of decoded bytes; 0 if the text is not base64. As memcached does, it skips other codes, and ends after the
/// first four letters that have padding.
inline std::size_t decode_base64(std::string_view text, char* to) noexcept {
  const auto value_of = [](char c) { return base64_values[static_cast<std::uint8_t>(c)]; };
  if (std::ranges::count_if(text, [&](char c) { return value_of(c) < 64; }) % 4 != 0) return 0;
  std::uint32_t bits = 0;
  unsigned held = 0;
  unsigned padding = 0;
  char* at = to;
  for (const char c : text) {
    if (value_of(c) > 63) continue;
    bits = bits << 6U | value_of(c);
    if (c == '=') ++padding;
    if (++held % 4 != 0) continue;
    if (padding > 2) return 0;
    for (unsigned i = 0; i < 3 - padding; ++i) *at++ = static_cast<char>(bits >> (16 - 8 * i));
    if (padding != 0) break;
  }
  return static_cast<std::size_t>(at - to);
}

inline char* put_base64(char* at, std::string_view bytes) noexcept {
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(3, bytes.size()))) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0U);
    for (unsigned i = 0; i < 4; ++i)
      *at++ = i > bytes.size() ? '=' : base64_letters[bits >> (18 - 6 * i) & 63U];
  }
  return at;
}

}  // namespace espalier::memcached
