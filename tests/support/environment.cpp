#include "support/environment.hpp"

#include <cstdlib>

namespace espalier::test {

double environment_number(const char* variable, double fallback) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  return end != text && *end == '\0' && number > 0 ? number : fallback;
}

}  // namespace espalier::test
