#include "espalier/catalog/any_map.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "any_map_algorithms.hpp"  // made by the build: ESPALIER_ANY_MAPS(one) is one(algorithm) for each that there is

namespace espalier {

namespace detail {
#define ESPALIER_ANY_MAP(algorithm) any_map::choice any_map_choice_of_##algorithm();
ESPALIER_ANY_MAPS(ESPALIER_ANY_MAP)
#undef ESPALIER_ANY_MAP
}  // namespace detail

namespace {

const auto& choices() {
#define ESPALIER_ANY_MAP(algorithm) detail::any_map_choice_of_##algorithm(),
  static const std::array all{ESPALIER_ANY_MAPS(ESPALIER_ANY_MAP)};
#undef ESPALIER_ANY_MAP
  return all;
}

std::vector<any_map::choice>& added() {
  static std::vector<any_map::choice> all;
  return all;
}

/// Null for an unknown name.
const any_map::choice* choice_of(std::string_view name) noexcept {
  for (const any_map::choice& one : choices()) {
    if (one.name == name) return &one;
  }
  for (const any_map::choice& one : added()) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

}  // namespace

bool any_map::add(const choice& one) {
  added().push_back(one);
  return true;
}

std::vector<std::string_view> any_map_variant_names() {
  std::vector<std::string_view> names;
  for (const any_map::choice& one : added()) names.push_back(one.name);
  return names;
}

std::vector<std::string_view> any_map_names() {
  std::vector<std::string_view> names;
  for (const any_map::choice& one : choices()) names.push_back(one.name);
  return names;
}

bool any_map_takes_placement(std::string_view name) noexcept {
  const any_map::choice* const one = choice_of(name);
  return one != nullptr && one->takes_placement;
}

std::unique_ptr<any_map::held> any_map::make(std::string_view name, const any_map_options& o) {
  const choice* const found = choice_of(name);
  if (found == nullptr) {
    std::string message = "there is no map '";
    message.append(name).append("'; there are");
    for (const choice& one : choices())
      message.append(&one == choices().data() ? " " : ", ").append(one.name);
    for (const choice& one : added()) message.append(", ").append(one.name);
    throw std::invalid_argument(message);
  }
  return found->make(o);
}

}  // namespace espalier
