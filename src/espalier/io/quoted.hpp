#pragma once

#include <string>
#include <string_view>

namespace espalier::io {

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
