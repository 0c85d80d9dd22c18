#include "preload/random_malloc/padding.hpp"

#include <array>
#include <limits>

#include "preload/environment/knobs.hpp"

namespace espalier::preload {

namespace {

constexpr std::uint64_t most_bytes = 65536;

const char* read_seed(const char* value, random_settings& to) noexcept {
  return read_number(value, std::numeric_limits<std::uint64_t>::max(), to.seed)
             ? nullptr
             : "ESPALIER_RANDOM_SEED is not a whole number below 2^64";
}

const char* read_bytes(const char* value, random_settings& to) noexcept {
  std::uint64_t bytes = 0;
  if (!read_number(value, most_bytes, bytes) || bytes % padding_step != 0)
    return "ESPALIER_RANDOM_BYTES is not a multiple of 16 from 0 to 65536, the most that a block is given "
           "more";
  to.largest = bytes;
  return nullptr;
}

const char* read_stats(const char* value, random_settings& to) noexcept {
  return read_switch(value, to.stats) ? nullptr
                                      : "ESPALIER_RANDOM_STATS is neither 0 nor 1, whether the program tells "
                                        "at its end what was added";
}

constexpr std::array<knob<random_settings>, 3> knobs{{
    {"SEED", read_seed},
    {"BYTES", read_bytes},
    {"STATS", read_stats},
}};

}  // namespace

const char* read_random_settings(char* const* environment, random_settings& to) noexcept {
  to = {};
  const char* const wrong =
      read_knobs(environment, "ESPALIER_RANDOM_", knobs,
                 "there is an ESPALIER_RANDOM_ variable other than SEED, BYTES and STATS", to);
  if (wrong != nullptr) to = {};
  return wrong;
}

}  // namespace espalier::preload
