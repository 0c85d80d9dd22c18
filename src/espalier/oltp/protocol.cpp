#include "espalier/oltp/protocol.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace espalier::oltp {

std::string_view to_string(protocol p) noexcept {
  static constexpr std::array<std::string_view, all_protocols.size()> names{"no_wait", "wait_die", "silo"};
  return names[static_cast<std::size_t>(p)];
}

protocol parse_protocol(std::string_view text) {
  for (const protocol p : all_protocols) {
    if (text == to_string(p)) return p;
  }
  throw std::invalid_argument("there is no protocol '" + std::string(text) +
                              "'; there are no_wait, wait_die, silo");
}

}  // namespace espalier::oltp
