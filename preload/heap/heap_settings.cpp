#include "preload/heap/heap_settings.hpp"

#include <array>
#include <cstdint>

#include "preload/environment/knobs.hpp"

namespace espalier::preload {
namespace {

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

const char* read_decay(const char* value, heap_settings& to) noexcept {
  std::uint64_t milliseconds = 0;
  if (!read_number(value, std::uint64_t{1} << 32U, milliseconds))
    return "ESPALIER_MALLOC_DECAY is not a number of milliseconds up to 2^32, for which more than KEEP stays";
  to.decay = milliseconds;
  return nullptr;
}

const char* read_stats(const char* value, heap_settings& to) noexcept {
  return read_switch(value, to.stats)
             ? nullptr
             : "ESPALIER_MALLOC_STATS is neither 0 nor 1, whether figures are written at the end";
}

constexpr std::array<knob<heap_settings>, 5> knobs{{
    {"PREFAULT", read_prefault},
    {"HUGE", read_huge},
    {"KEEP", read_keep},
    {"DECAY", read_decay},
    {"STATS", read_stats},
}};

}  // namespace

void read_heap_settings(char* const* environment, heap_settings& to, void (*complain)(const char*)) noexcept {
  read_knobs(environment, "ESPALIER_MALLOC_", knobs,
             "there is an ESPALIER_MALLOC_ variable other than PREFAULT, HUGE, KEEP, DECAY and STATS", to,
             [complain](const char* line) {
               complain(line);
               return true;
             });
}

}  // namespace espalier::preload
