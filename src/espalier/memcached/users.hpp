#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace espalier::memcached {

/// The users that may give commands, and their passwords.
class users {
 public:
  /// A line is NAME:PASSWORD. Throws std::invalid_argument that says which line is not one, or that there is none.
  explicit users(std::string_view lines);

  /// Takes the time of a comparison with all users, whichever matches. It depends on the lengths alone.
  [[nodiscard]] bool have(std::string_view name, std::string_view password) const noexcept;

 private:
  struct user {
    std::string name;
    std::string password;
  };
  std::vector<user> all_;
};

}  // namespace espalier::memcached
