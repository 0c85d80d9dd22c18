#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::app {

/// An invalid request: one line on standard error, exit status 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "; did you mean 'ticket'?" where one of the names that there are is close to what was typed, else nothing.
[[nodiscard]] std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace espalier::app
