#pragma once

#include <stdexcept>
#include <string>

namespace espalier::test {

/// The words of the exception with which a call refuses; "accepted" if it does not.
template <class Error = std::invalid_argument, class Call>
std::string refusal(Call&& call) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace espalier::test
