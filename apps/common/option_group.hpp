#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace espalier::app {

/// Declares options of a verb, in one group of its help.
class option_group {
 public:
  /// Without a name: the group of a verb's first options.
  explicit option_group(CLI::App& verb, std::string name = {}) : verb_(verb), name_(std::move(name)) {}

  /// `type` stands for the value in the help.
  template <class Value>
  CLI::Option* add(const std::string& option, Value& value, const std::string& type,
                   const std::string& description) {
    return in_group(verb_.add_option(option, value, description)->type_name(type));
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
  CLI::Option* in_group(CLI::Option* option) { return name_.empty() ? option : option->group(name_); }

  CLI::App& verb_;
  std::string name_;
};

}  // namespace espalier::app
