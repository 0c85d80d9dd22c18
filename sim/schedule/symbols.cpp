#include "sim/schedule/symbols.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace espalier::sim {
namespace {

std::uintptr_t load_address() {
  std::uintptr_t found = 0;
  // The program itself comes first.
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uintptr_t*>(out) = info->dlpi_addr;
        return 1;
      },
      &found);
  return found;
}

std::string hexadecimal(std::uintptr_t n) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%zx", static_cast<std::size_t>(n));
  return text.data();
}

/// The symbol that dladdr finds.
std::string symbol_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_sname == nullptr)
    return hexadecimal(reinterpret_cast<std::uintptr_t>(address));
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return status == 0 ? readable.get() : info.dli_sname;
}

/// Omits template arguments and parameters of a demangled name.
std::string shortened(std::string_view name) {
  std::string kept;
  int depth = 0;
  for (const char c : name) {
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (depth == 0) kept += c;
    if (c == '>' || c == ')' || c == ']') --depth;
  }
  return kept;
}

std::string base_name(std::string_view path) { return std::string(path.substr(path.find_last_of('/') + 1)); }

}  // namespace

std::vector<std::string> describe(const std::vector<const void*>& return_addresses) {
  std::vector<std::string> described;
  if (return_addresses.empty()) return described;
  const std::uintptr_t base = load_address();
  std::string command = "addr2line -a -i -C -f -e /proc/" + std::to_string(getpid()) + "/exe";
  for (const void* a : return_addresses)
    command += ' ' + hexadecimal(reinterpret_cast<std::uintptr_t>(a) - base - 1);
  command += " 2>/dev/null";
  FILE* const answer = popen(command.c_str(), "r");
  if (answer != nullptr) {
    std::array<char, 8192> buffer{};
    std::vector<std::string> lines;
    while (std::fgets(buffer.data(), buffer.size(), answer) != nullptr) {
      lines.emplace_back(buffer.data());
      while (!lines.back().empty() && lines.back().back() == '\n') lines.back().pop_back();
    }
    pclose(answer);
    // For each address a line with it, then two for each function inlined there, innermost first.
    for (std::size_t i = 0; i < lines.size();) {
      std::string place;
      std::string function;
      for (++i; i + 1 < lines.size() && !lines[i].starts_with("0x"); i += 2) {
        const std::string_view file = std::string_view(lines[i + 1]).substr(0, lines[i + 1].find(' '));
        // Code that the standard library inlines does not help a person.
        if (!place.empty() || file.starts_with('?') || file.starts_with("/usr/")) continue;
        place = base_name(file);
        function = shortened(lines[i]);
      }
      if (!place.empty()) place.append(" in ").append(function);
      described.push_back(place);
    }
  }
  described.resize(return_addresses.size());
  for (std::size_t i = 0; i < described.size(); ++i) {
    if (described[i].empty()) described[i] = symbol_of(return_addresses[i]);
  }
  return described;
}

}  // namespace espalier::sim
