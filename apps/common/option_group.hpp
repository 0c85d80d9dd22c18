#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/io/text.hpp"

namespace espalier::app {

/// Why the text is no value of this type; empty if it is one. A number is left in the form that CLI11 reads as
/// decimal: to it, 010 is eight.
template <class Value>
std::string refusal_of(std::string& typed) {
  if (typed.empty()) return "the value is empty";
  if (typed.starts_with("--")) return "the value is missing before " + typed;
  if constexpr (std::is_arithmetic_v<Value>) {
    if (const auto value = io::parse_whole<Value>(typed)) {
      if constexpr (std::is_integral_v<Value>) {
        typed = std::to_string(*value);
      } else {
        if (!std::isfinite(*value)) return io::quoted(typed) + " is not a finite number";
      }
      return {};
    }
    const bool negative = typed.front() == '-';
    if (typed.find_first_not_of("0123456789", negative ? 1 : 0) != std::string::npos)
      return io::quoted(typed) + (std::is_integral_v<Value> ? " is not a whole number" : " is not a number");
    return typed +
           (negative ? std::is_unsigned_v<Value> ? " is negative" : " is too small" : " is too large");
  }
  return {};
}

/// For a whole number.
inline CLI::Validator at_least(std::int64_t least,
                               std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  return {[least, most](const std::string& typed) {
            const auto value = io::parse_whole<std::int64_t>(typed);
            if (value && *value < least)
              return typed + " is too small; at least " + std::to_string(least) + " is needed";
            // Of a type with more digits.
            const bool beyond = !value && io::parse_whole<std::uint64_t>(typed);
            if (beyond || (value && *value > most))
              return typed + " is too large; at most " + std::to_string(most) + " is possible";
            return std::string();
          },
          ""};
}

/// Declares options of a verb, in one group of its help.
class option_group {
 public:
  /// Without a name: the group of a verb's first options.
  explicit option_group(CLI::App& verb, std::string name = {}) : verb_(verb), name_(std::move(name)) {}

  /// `type` stands for the value in the help. A value that is none of its type is refused; the words of a program
  /// are its own.
  template <class Value>
  CLI::Option* add(const std::string& option, Value& value, const std::string& type,
                   const std::string& description) {
    CLI::Option* const added = in_group(verb_.add_option(option, value, description)->type_name(type));
    using element = decltype(element_of(value));
    return added->get_positional() ? added : added->transform(CLI::Validator(refusal_of<element>, ""));
  }
  /// The help shows the value from before the parse as the default.
  template <class Value>
  CLI::Option* add_default(const std::string& option, Value& value, const std::string& type,
                           const std::string& description) {
    return add(option, value, type, description)->capture_default_str();
  }
  /// Values separated by commas.
  template <class Values>
  CLI::Option* add_list(const std::string& option, Values& values, const std::string& type,
                        const std::string& description) {
    return add(option, values, type, description)->delimiter(',');
  }
  void add_flag(const std::string& option, bool& value, const std::string& description) {
    in_group(verb_.add_flag(option, value, description));
  }

 private:
  template <class Value>
  static Value element_of(const Value&);
  template <class Value>
  static Value element_of(const std::vector<Value>&);
  CLI::Option* in_group(CLI::Option* option) { return name_.empty() ? option : option->group(name_); }

  CLI::App& verb_;
  std::string name_;
};

}  // namespace espalier::app
