// Maps that are chosen by their names, as subjects of the suites conformance and stress: ordered_map, and with
// ESPALIER_EVERY_ENTRY all that there are. In the suite fault ticket, which allocates at each insert.

#include <memory>
#include <string>
#include <string_view>

#include "espalier/catalog/any_map.hpp"
#include "support/catalog_subjects.hpp"

namespace espalier::test {
namespace {

static_assert(concurrent_ordered_map<any_map>);

any_map_options options_for(std::string_view name, void* domain) {
  any_map_options o;
  o.domain = static_cast<epoch_domain*>(domain);
  if (any_map_takes_placement(name)) o.placement.emplace(chosen_placement());
  return o;
}

subject_type named(std::string_view name) {
  subject_type type{};
  type.codec = "+any_map";
  type.name = std::string(name).append(type.codec);
  type.algorithm = name;
  type.properties = any_map(name).properties_of_chosen();
  type.properties.exchanges = any_map::properties.exchanges;
  type.properties.bidirectional = any_map::properties.bidirectional;
  type.largest_key = plain_codec::largest_key;
  type.reclaims = true;
  type.placement = segregated::name;
  type.node_entries = 0;
  type.make = [name](const std::shared_ptr<void>& domain) -> std::unique_ptr<subject> {
    return std::make_unique<subject_of<any_map, plain_codec, call_forms::both>>(
        domain, name, options_for(name, domain.get()));
  };
  type.make_domain = []() -> std::shared_ptr<void> { return std::make_shared<epoch_domain>(); };
  type.construct_only = [name] { const any_map map(name); };
  return type;
}

bool add_all() {
  for (const std::string_view name : any_map_names()) {
    if (every_entry || name == "ordered_map") add_subject(named(name));
    if (name == "ticket") add_placed(named(name), "fault", shared_heap::name, true);
  }
  return true;
}

[[maybe_unused]] const bool added = add_all();

}  // namespace
}  // namespace espalier::test
