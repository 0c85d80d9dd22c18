#include "espalier/memcached/users.hpp"

#include <algorithm>
#include <stdexcept>

namespace espalier::memcached {
namespace {

/// Looks at all bytes, so that its time does not show how many of them are right.
bool are_equal(std::string_view one, std::string_view other) noexcept {
  if (one.size() != other.size()) return false;
  unsigned differences = 0;
  for (std::size_t i = 0; i < one.size(); ++i) differences |= static_cast<unsigned>(one[i] ^ other[i]);
  return differences == 0;
}

}  // namespace

users::users(std::string_view lines) {
  for (std::size_t number = 1; !lines.empty(); ++number) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos)
      throw std::invalid_argument("line " + std::to_string(number) + " is not NAME:PASSWORD");
    all_.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 1))});
  }
  if (all_.empty()) throw std::invalid_argument("it names no user");
}

bool users::have(std::string_view name, std::string_view password) const noexcept {
  bool found = false;
  for (const user& one : all_) {
    const bool is_name = are_equal(one.name, name);
    const bool is_password = are_equal(one.password, password);
    found |= is_name && is_password;
  }
  return found;
}

}  // namespace espalier::memcached
