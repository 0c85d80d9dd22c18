#include "espalier/oltp/schema.hpp"

namespace espalier::oltp {

std::string to_string(const std::vector<column>& columns, const std::byte* row) {
  std::string text;
  for (const column& c : columns) {
    text.append(text.empty() ? "" : ", ").append(c.name).append(" ");
    const std::byte* const at = row + c.offset;
    const auto read = [&](auto value) {
      std::memcpy(&value, at, c.bytes);
      return value;
    };
    const std::size_t unused = 64 - 8 * c.bytes;
    switch (c.kind) {
      case column_kind::whole:  // with the sign in its place
        text += std::to_string(read(std::int64_t{}) << unused >> unused);
        break;
      case column_kind::natural:
        text += std::to_string(read(std::uint64_t{}));
        break;
      case column_kind::real:
        text += std::to_string(c.bytes == 8 ? read(double{}) : static_cast<double>(read(float{})));
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
