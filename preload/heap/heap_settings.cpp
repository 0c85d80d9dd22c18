#include "preload/heap/heap_settings.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "preload/environment/number.hpp"

namespace espalier::preload {
namespace {

constexpr const char prefix[] = "ESPALIER_MALLOC_";
constexpr std::size_t prefix_size = sizeof prefix - 1;

bool read_switch(const char* value, bool& to) noexcept {
  if ((value[0] != '0' && value[0] != '1') || value[1] != 0) return false;
  to = value[0] == '1';
  return true;
}

const char* read_prefault(const char* value, heap_settings& to) noexcept {
  return read_switch(value, to.prefault)
             ? nullptr
             : "ESPALIER_MALLOC_PREFAULT is neither 0 nor 1, whether memory for blocks is touched at once";
}

const char* read_huge(const char* value, heap_settings& to) noexcept {
  return read_switch(value, to.huge)
             ? nullptr
             : "ESPALIER_MALLOC_HUGE is neither 0 nor 1, whether the system is asked for huge pages";
}

const char* read_keep(const char* value, heap_settings& to) noexcept {
  std::uint64_t mebibytes = 0;
  if (!read_number(value, std::uint64_t{1} << 27U, mebibytes))
    return "ESPALIER_MALLOC_KEEP is not a number of MiB up to 2^27, the empty memory that is kept";
  to.keep = mebibytes << 20U;
  return nullptr;
}

const char* read_stats(const char* value, heap_settings& to) noexcept {
  return read_switch(value, to.stats)
             ? nullptr
             : "ESPALIER_MALLOC_STATS is neither 0 nor 1, whether figures are written at the end";
}

struct knob {
  const char* name;
  const char* (*read)(const char* value, heap_settings& to) noexcept;
};
constexpr std::array<knob, 4> knobs{{
    {"PREFAULT", read_prefault},
    {"HUGE", read_huge},
    {"KEEP", read_keep},
    {"STATS", read_stats},
}};

/// Null, or what is wrong with a variable of ours.
const char* read_one(const char* name, heap_settings& to) noexcept {
  const char* const equals = std::strchr(name, '=');
  if (equals == nullptr) return nullptr;
  const auto size = static_cast<std::size_t>(equals - name);
  for (const knob& each : knobs) {
    if (std::strlen(each.name) == size && std::memcmp(each.name, name, size) == 0)
      return each.read(equals + 1, to);
  }
  return "there is an ESPALIER_MALLOC_ variable other than PREFAULT, HUGE, KEEP and STATS";
}

}  // namespace

void read_heap_settings(char* const* environment, heap_settings& to, void (*complain)(const char*)) noexcept {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, prefix, prefix_size) != 0) continue;
    if (const char* const wrong = read_one(*environment + prefix_size, to)) complain(wrong);
  }
}

}  // namespace espalier::preload
