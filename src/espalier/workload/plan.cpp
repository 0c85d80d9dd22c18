#include "espalier/workload/plan.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace espalier::workload {

std::shared_ptr<const workload_plan> make_plan(const plan_request& request) {
  operation_mix mix = operation_mix::parse(request.mix);
  const bool all_loaded = mix.distribution.has_value();
  const std::uint64_t listed =
      request.explicit_strings ? request.explicit_strings->keys.size() : request.explicit_keys.size();
  if (listed == 0 && request.keys == 0)
    throw std::invalid_argument("--keys is 0; a map to measure needs at least 1 key");
  if (listed == 1)
    throw std::invalid_argument(
        "the list of keys has 1 key; at least 2 are needed, half of which are loaded");

  const std::uint64_t universe = listed != 0 ? listed : all_loaded ? request.keys : request.keys * 2;
  std::uint64_t loaded = request.keys;
  if (!request.prefill)
    loaded = 0;
  else if (all_loaded)
    loaded = universe;
  else if (listed != 0)
    loaded = universe / 2;
  const measure::distribution_spec spec = request.distribution && !mix.into_empty ? *request.distribution
                                          : mix.distribution                      ? *mix.distribution
                                                             : measure::distribution_spec{};
  key_space keys = request.explicit_strings ? key_space(request.explicit_strings)
                   : listed != 0            ? key_space(request.explicit_keys)
                                            : key_space(request.order, universe, request.seed);
  std::string name = request.name;
  if (name.empty()) name = mix.into_empty ? mix.name : fmt::format("{} {}", mix.name, spec.to_string());
  return std::make_shared<const workload_plan>(workload_plan{
      std::move(name), std::move(mix), std::move(keys), measure::distribution(spec, universe, request.seed),
      measure::permutation(universe, request.seed + 1), loaded, all_loaded && listed == 0, request.trace});
}

}  // namespace espalier::workload
