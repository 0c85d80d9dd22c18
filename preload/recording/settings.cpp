#include "preload/recording/settings.hpp"

#include <signal.h>

#include <cstring>

#include "preload/environment/knobs.hpp"
#include "preload/environment/output.hpp"
#include "preload/recording/call_stack.hpp"

namespace espalier::preload {
namespace {

constexpr const char prefix[] = "ESPALIER_INSPECT_";
constexpr std::size_t prefix_size = sizeof prefix - 1;

bool is(const char* text, const char* word) noexcept { return std::strcmp(text, word) == 0; }

const char* read_file(const char* value, settings& to) noexcept {
  text path(to.file.data(), to.file.size());
  if (*value == 0) return "ESPALIER_INSPECT_FILE is empty; name a file, such as espalier-inspect.%p";
  if (!put_absolute(path, value))
    return "ESPALIER_INSPECT_FILE is relative to a folder that is gone; name an absolute path";
  return path.whole() ? nullptr : "ESPALIER_INSPECT_FILE is too long; name a path of less than 4096 bytes";
}

const char* read_frames(const char* value, settings& to) noexcept {
  std::uint64_t frames = 0;
  if (!read_number(value, most_frames, frames) || frames == 0)
    return "ESPALIER_INSPECT_FRAMES is not a number from 1 to 16, the frames of a call site";
  to.frames = static_cast<unsigned>(frames);
  return nullptr;
}

const char* read_sample(const char* value, settings& to) noexcept {
  constexpr const char* taught =
      "ESPALIER_INSPECT_SAMPLE is none of all, blocks:N, bytes:N and regions:N, with N from 1 to 2^40: one "
      "in N "
      "is recorded";
  to.sample = {};
  if (is(value, "all")) return nullptr;
  const char* const colon = std::strchr(value, ':');
  if (colon == nullptr) return taught;
  const auto size = static_cast<std::size_t>(colon - value);
  const auto names = [&](const char* name) {
    return size == std::strlen(name) && std::memcmp(value, name, size) == 0;
  };
  if (names("blocks")) {
    to.sample.how = sampling::kind::blocks;
  } else if (names("bytes")) {
    to.sample.how = sampling::kind::bytes;
  } else if (names("regions")) {
    to.sample.how = sampling::kind::regions;
  } else {
    return taught;
  }
  const bool read = read_number(colon + 1, std::uint64_t{1} << 40U, to.sample.every);
  return read && to.sample.every != 0 ? nullptr : taught;
}

const char* read_signal(const char* value, settings& to) noexcept {
  constexpr const char* taught = "ESPALIER_INSPECT_SIGNAL is none of USR1, USR2, none and a signal's number";
  std::uint64_t number = 0;
  if (is(value, "USR1")) {
    number = SIGUSR1;
  } else if (is(value, "USR2")) {
    number = SIGUSR2;
  } else if (!is(value, "none")) {
    const bool read = read_number(value, static_cast<std::uint64_t>(SIGRTMAX), number);
    if (!read || number == 0 || number == SIGKILL || number == SIGSTOP) return taught;
  }
  to.signal = static_cast<int>(number);
  return nullptr;
}

const char* read_every(const char* value, settings& to) noexcept {
  std::uint64_t seconds = 0;
  if (!read_number(value, 1'000'000'000, seconds))
    return "ESPALIER_INSPECT_EVERY is not a whole number of seconds between snapshots, 0 for none";
  to.every_ms = 1000 * seconds;
  return nullptr;
}

const char* read_follow(const char* value, settings& to) noexcept {
  if (is(value, "none")) {
    to.follow = followed::none;
  } else if (is(value, "forks")) {
    to.follow = followed::forks;
  } else if (is(value, "all")) {
    to.follow = followed::all;
  } else {
    return "ESPALIER_INSPECT_FOLLOW is none of none, forks and all";
  }
  return nullptr;
}

const char* read_pointers(const char* value, settings& to) noexcept {
  return read_switch(value, to.pointers)
             ? nullptr
             : "ESPALIER_INSPECT_POINTERS is neither 0 nor 1, whether pointers between blocks are sought";
}

const char* read_peak(const char* value, settings& to) noexcept {
  return read_switch(value, to.peak) ? nullptr
                                     : "ESPALIER_INSPECT_PEAK is neither 0 nor 1, whether there is a "
                                       "snapshot of the heap at its peak";
}

const char* read_memory(const char* value, settings& to) noexcept {
  std::uint64_t mebibytes = 0;
  if (!read_number(value, std::uint64_t{1} << 40U, mebibytes) || mebibytes == 0)
    return "ESPALIER_INSPECT_MEMORY is not a number of MiB, from 1 on, that the recording may take";
  to.memory_limit = mebibytes << 20U;
  return nullptr;
}

const char* read_seed(const char* value, settings& to) noexcept {
  return read_number(value, std::numeric_limits<std::uint64_t>::max(), to.seed)
             ? nullptr
             : "ESPALIER_INSPECT_SEED is not a whole number below 2^64";
}

constexpr std::array<knob<settings>, 10> knobs{{
    {"FILE", read_file},
    {"FRAMES", read_frames},
    {"SAMPLE", read_sample},
    {"SIGNAL", read_signal},
    {"EVERY", read_every},
    {"FOLLOW", read_follow},
    {"POINTERS", read_pointers},
    {"PEAK", read_peak},
    {"MEMORY", read_memory},
    {"SEED", read_seed},
}};

bool is_ours(const char* variable) noexcept { return std::strncmp(variable, prefix, prefix_size) == 0; }

constexpr const char preload[] = "LD_PRELOAD=";
constexpr std::size_t preload_size = sizeof preload - 1;
bool is_preload(const char* variable) noexcept { return std::strncmp(variable, preload, preload_size) == 0; }

/// Copies of the removed variables, each with its end: programs write their titles over those from the kernel.
constinit std::array<char, 8192> removed{};
constinit std::size_t removed_size = 0;

void keep_removed(const char* variable) noexcept {
  const std::size_t size = std::strlen(variable) + 1;
  if (size > removed.size() - removed_size) return;
  std::memcpy(removed.data() + removed_size, variable, size);
  removed_size += size;
}

/// Removes the entries for the library from "LD_PRELOAD=one:two"; true where others are left.
bool remove_library(char* list, const char* library) noexcept {
  char* to = list;
  for (const char* at = list; *at != 0;) {
    const std::size_t size = std::strcspn(at, ": ");
    const char* name = at;
    for (const char* c = at; c < at + size; ++c) {
      if (*c == '/') name = c + 1;
    }
    const auto name_size = static_cast<std::size_t>(at + size - name);
    const bool ours = std::strlen(library) == name_size && std::memcmp(name, library, name_size) == 0;
    const char* const next = at + size + (at[size] != 0 ? 1 : 0);
    if (!ours) {
      if (to != list) *to++ = ':';
      std::memmove(to, at, size);
      to += size;
    }
    at = next;
  }
  *to = 0;
  return to != list;
}

}  // namespace

const char* read_settings(char* const* environment, settings& to) noexcept {
  to = {};
  to.signal = SIGUSR2;
  if (const char* const wrong = read_file("espalier-inspect.%p", to)) return wrong;
  return read_knobs(environment, prefix, knobs,
                    "there is an ESPALIER_INSPECT_ variable other than FILE, FRAMES, SAMPLE, SIGNAL, EVERY, "
                    "FOLLOW, POINTERS, PEAK, MEMORY and SEED",
                    to);
}

void remove_from_environment(char** environment, const char* library) noexcept {
  removed_size = 0;
  if (environment == nullptr) return;
  char** to = environment;
  for (char** at = environment; *at != nullptr; ++at) {
    if (is_ours(*at)) {
      keep_removed(*at);
      continue;
    }
    if (is_preload(*at) && !remove_library(*at + preload_size, library)) continue;
    *to++ = *at;
  }
  *to = nullptr;
}

char** put_back_in_environment(char* const* given, const char* library, memory_budget& memory) noexcept {
  std::size_t variables = knobs.size() + 2;  // LD_PRELOAD and the end
  const char* others = "";
  for (char* const* at = given; at != nullptr && *at != nullptr; ++at) {
    ++variables;
    if (is_preload(*at)) others = *at + preload_size;
  }
  const std::size_t list_size = preload_size + std::strlen(library) + 1 + std::strlen(others) + 1;
  const std::size_t bytes = variables * sizeof(char*) + list_size;
  auto* const whole = static_cast<char**>(memory.map(bytes));
  if (whole == nullptr) return nullptr;
  char** to = whole;
  for (char* const* at = given; at != nullptr && *at != nullptr; ++at) {
    if (!is_ours(*at) && !is_preload(*at)) *to++ = *at;
  }
  for (std::size_t at = 0; at < removed_size; at += std::strlen(removed.data() + at) + 1) {
    if (to < whole + variables - 2) *to++ = removed.data() + at;
  }
  auto* const list = reinterpret_cast<char*>(whole + variables);
  text(list, list_size) << preload << library << (*others == 0 ? "" : ":") << others;
  *to = list;
  return whole;
}

namespace {

/// `number` replaces %n: a number, or "peak". `unnumbered` is appended where the pattern has no %n.
bool named(const settings& of, long process, const char* number, const char* unnumbered, bool of_child,
           char* to, std::size_t room) noexcept {
  text name(to, room);
  const pattern_uses uses = put_pattern(name, of.file.data(), process, number);
  if (!uses.number) name << unnumbered;
  if (of_child && !uses.process) name << "." << static_cast<std::uint64_t>(process);
  return name.whole();
}

}  // namespace

bool file_name(const settings& of, long process, unsigned number, bool of_child, char* to,
               std::size_t room) noexcept {
  std::array<char, 24> digits{};
  text(digits.data(), digits.size()) << std::uint64_t{number};
  return named(of, process, digits.data(), "", of_child, to, room);
}

bool peak_file_name(const settings& of, long process, bool of_child, char* to, std::size_t room) noexcept {
  return named(of, process, "peak", ".peak", of_child || of.follow == followed::all, to, room);
}

}  // namespace espalier::preload
