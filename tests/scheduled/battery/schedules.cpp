#include "scheduled/schedules.hpp"

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace espalier::sim {

std::uint64_t scaled_schedules(double usual) {
  double factor = 1;
  if (const char* const wish = std::getenv("ESPALIER_SCHEDULES")) {
    char* end = nullptr;
    factor = std::strtod(wish, &end);
    if (end == wish || *end != '\0' || !(factor > 0) || !std::isfinite(factor))
      throw std::invalid_argument("ESPALIER_SCHEDULES is a positive factor such as 10, not '" +
                                  std::string(wish) + "'");
  }
  return static_cast<std::uint64_t>(std::ceil(usual * factor));
}

}  // namespace espalier::sim
