#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace espalier::io {

/// Without the blanks and line ends around it.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The number that the whole text is, as std::from_chars reads it; nullopt for any other text.
template <class Number, class... Base>
[[nodiscard]] std::optional<Number> parse_whole(std::string_view text, Base... base) {
  Number value{};
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, value, base...);
  return error == std::errc{} && end == text_end ? std::optional(value) : std::nullopt;
}

/// Quotes input for a message: at most 40 bytes of it, with bytes that are not printable ASCII as `\xNN`.
[[nodiscard]] inline std::string quoted(std::string_view text) {
  constexpr std::size_t most = 40;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown = "'";
  for (const char c : text.substr(0, most)) {
    if (c >= ' ' && c <= '~') {
      shown += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      shown += {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
    }
  }
  if (text.size() > most) shown += "...";
  return shown + '\'';
}

}  // namespace espalier::io
