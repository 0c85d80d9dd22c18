#include "espalier/oltp/schema.hpp"

#include <algorithm>
#include <cstring>

namespace espalier::oltp {

std::string to_string(const std::vector<column>& columns, const std::byte* row) {
  std::string text;
  for (const column& c : columns) {
    text.append(text.empty() ? "" : ", ").append(c.name).append(" ");
    const std::byte* const at = row + c.offset;
    const auto number = [&]<class T>(T) {
      T value{};
      std::memcpy(&value, at, sizeof value);
      text += std::to_string(value);
    };
    switch (c.kind) {
      case column_kind::whole:
        c.bytes == 8   ? number(std::int64_t{})
        : c.bytes == 4 ? number(std::int32_t{})
        : c.bytes == 2 ? number(std::int16_t{})
                       : number(std::int8_t{});
        break;
      case column_kind::natural:
        c.bytes == 8   ? number(std::uint64_t{})
        : c.bytes == 4 ? number(std::uint32_t{})
        : c.bytes == 2 ? number(std::uint16_t{})
                       : number(std::uint8_t{});
        break;
      case column_kind::real:
        c.bytes == 8 ? number(double{}) : number(float{});
        break;
      case column_kind::characters: {
        const auto* const first = reinterpret_cast<const char*>(at);
        text.append("'").append(first, std::find(first, first + c.bytes, '\0')).append("'");
        break;
      }
    }
  }
  return text;
}

}  // namespace espalier::oltp
