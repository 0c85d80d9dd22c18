#include "emulated_rtm/settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulated_rtm/write_set.hpp"

namespace espalier::emulated_rtm {
namespace {

[[noreturn]] void refuse(const char* text) noexcept {
  std::fprintf(
      stderr,
      "emulated RTM: ESPALIER_EMULATED_RTM='%s' is not a list like 'abort_every=7,ways=12' of abort_every, "
      "sets (a power of two, at most %zu) and ways (from 1)\n",
      text, write_set::most_sets);
  std::_Exit(2);
}

/// Steps over `name=number` where it is the next.
template <class Number>
bool take(const char*& text, const char* name, Number& into) noexcept {
  const std::size_t length = std::strlen(name);
  if (std::strncmp(text, name, length) != 0 || text[length] != '=') return false;
  const char* const digits = text + length + 1;
  char* behind = nullptr;
  const unsigned long long number = std::strtoull(digits, &behind, 10);
  if (behind == digits || (*behind != ',' && *behind != '\0')) return false;
  into = static_cast<Number>(number);
  text = *behind == ',' ? behind + 1 : behind;
  return into == number;
}

}  // namespace

settings settings::from_environment() noexcept {
  settings s;
  const char* const whole = std::getenv("ESPALIER_EMULATED_RTM");
  if (whole == nullptr) return s;
  for (const char* left = whole; *left != '\0';) {
    if (!take(left, "abort_every", s.abort_every) && !take(left, "sets", s.sets) &&
        !take(left, "ways", s.ways))
      refuse(whole);
  }
  if (s.sets == 0 || s.sets > write_set::most_sets || (s.sets & (s.sets - 1)) != 0 || s.ways == 0 ||
      s.ways > 0xffff)
    refuse(whole);
  return s;
}

}  // namespace espalier::emulated_rtm
