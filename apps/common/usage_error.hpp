#pragma once

#include <stdexcept>

namespace espalier::app {

/// What was asked for cannot be done: one line on standard error, exit status 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace espalier::app
