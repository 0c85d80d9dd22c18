#include "espalier/programs/code_names.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

namespace espalier::programs {
namespace {

constexpr std::string_view operator_word = "operator";

/// Where the parameters begin; npos if there are none. The parentheses of "operator()" and those in template arguments
/// do not count.
std::size_t parameters_of(std::string_view name) {
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with(operator_word)) {
      i += operator_word.size();
      // The operator itself, up to its parameters: "operator()(", "operator<<(", "operator new(".
      if (name.substr(i).starts_with("()")) i += 2;
      while (i < name.size() && name[i] != '(') ++i;
      if (i < name.size() && depth == 0) return i;
    }
    if (i >= name.size()) break;
    if (name[i] == '<') ++depth;
    if (name[i] == '>' && depth > 0) --depth;
    if (name[i] == '(' && depth == 0 && i > 0) return i;
  }
  return std::string_view::npos;
}

std::string without_template_arguments(std::string_view name) {
  std::string kept;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with(operator_word) && depth == 0) return kept.append(name.substr(i));
    if (name[i] == '<' && depth++ == 0) kept += "<>";
    if (depth == 0) kept += name[i];
    if (name[i] == '>') --depth;
  }
  return kept;
}

/// Names of function templates are demangled with their return type: "void f<int>(int)".
std::string_view without_return_type(std::string_view name) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with(operator_word)) break;
    if (name[i] == '<' || name[i] == '(') ++depth;
    if (name[i] == '>' || name[i] == ')') --depth;
    if (name[i] == ' ' && depth == 0) begin = i + 1;
  }
  return name.substr(begin);
}

}  // namespace

std::string short_function_name(std::string name) {
  constexpr std::size_t longest = 80;
  // Compilers disagree on whether it is part of a name.
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  for (auto at = name.find(anonymous); at != std::string::npos; at = name.find(anonymous))
    name.erase(at, anonymous.size());
  if (const auto clone = name.find(" [clone"); clone != std::string::npos) name.resize(clone);
  for (const std::string_view copy :
       {".isra.", ".part.", ".constprop.", ".cold", ".lto_priv.", ".localalias"}) {
    if (const auto at = name.find(copy); at != std::string::npos && at > 0) name.resize(at);
  }
  if (const auto at = parameters_of(name); at != std::string::npos) {
    name.resize(at);
    name = without_return_type(name);
  }
  return name.size() <= longest ? name : without_template_arguments(name);
}

code_place unnamed_place(std::span<const code_module> modules, const code_frame& frame) {
  code_place place;
  if (frame.module) place.module = std::filesystem::path(modules[*frame.module].path).filename().string();
  place.function =
      fmt::format("{}+{:#x}", place.module.empty() ? "code made at run time" : place.module, frame.address);
  return place;
}

}  // namespace espalier::programs
