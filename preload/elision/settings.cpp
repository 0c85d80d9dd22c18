#include "preload/elision/settings.hpp"

#include <cstring>

#include "preload/environment/knobs.hpp"
#include "preload/environment/output.hpp"

namespace espalier::preload {
namespace {

bool is(const char* text, const char* word) noexcept { return std::strcmp(text, word) == 0; }

const char* read_policy(const char* value, elision_settings& to) noexcept {
  const bool tts = is(value, "tts");
  if (!tts && !is(value, "tle")) return "ESPALIER_ELIDE_POLICY is neither tts nor tle; it is taken for tle";
  to.policy = tts ? elision_policy::tts : elision_policy::tle;
  to.policy_asked = true;
  return nullptr;
}

/// False with nothing changed where the value is neither.
bool read_off_or_auto(const char* value, bool& on) noexcept {
  const bool off = is(value, "off");
  if (!off && !is(value, "auto")) return false;
  on = !off;
  return true;
}

const char* read_rtm(const char* value, elision_settings& to) noexcept {
  if (!read_off_or_auto(value, to.rtm))
    return "ESPALIER_ELIDE_RTM is neither off nor auto; it is taken for auto";
  to.rtm_asked = true;
  return nullptr;
}

const char* read_learning(const char* value, elision_settings& to) noexcept {
  return read_off_or_auto(value, to.learns)
             ? nullptr
             : "ESPALIER_ELIDE_LEARN is neither off nor auto; it is taken for auto";
}

const char* read_counts(const char* value, elision_settings& to) noexcept {
  if (*value == 0) return "ESPALIER_ELIDE_STATS is empty; name a file, or stderr; nothing is counted";
  text path(to.counts.data(), to.counts.size());
  if (is(value, "stderr")) {
    path << value;
  } else if (!put_absolute(path, value)) {
    return "ESPALIER_ELIDE_STATS is relative to a folder that is gone; name an absolute path; nothing is "
           "counted";
  }
  if (path.whole()) return nullptr;
  to.counts[0] = 0;
  return "ESPALIER_ELIDE_STATS is too long; name a path of less than 4096 bytes; nothing is counted";
}

constexpr std::array<knob<elision_settings>, 4> knobs{
    {{"POLICY", read_policy}, {"RTM", read_rtm}, {"LEARN", read_learning}, {"STATS", read_counts}}};

}  // namespace

void read_elision_settings(char* const* environment, elision_settings& to,
                           void (*wrong)(const char*)) noexcept {
  to = {};
  read_knobs(environment, "ESPALIER_ELIDE_", knobs,
             "there is an ESPALIER_ELIDE_ variable other than POLICY, RTM, LEARN and STATS; it means nothing",
             to, [wrong](const char* line) {
               wrong(line);
               return true;
             });
}

bool counts_file_name(const elision_settings& of, long process, char* to, std::size_t room) noexcept {
  text name(to, room);
  put_pattern(name, of.counts.data(), process);
  return name.whole();
}

}  // namespace espalier::preload
