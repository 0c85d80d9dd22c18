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

/// "; did you mean 'ticket'?" if a known name is close to what was typed, else empty.
[[nodiscard]] std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace espalier::app
