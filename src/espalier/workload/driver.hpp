#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "espalier/catalog/any_map.hpp"
#include "espalier/catalog/codec.hpp"
#include "espalier/catalog/entry_list.hpp"
#include "espalier/catalog/erased_map.hpp"
#include "espalier/catalog/erased_map_of.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/measure/context.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/workload/drawn_steps.hpp"
#include "espalier/workload/subject.hpp"

// What performs a plan's operations on a map. Every map, of the catalogue and of the peers, is driven by one loop, which
// hands it a batch of operations in one virtual call.

namespace espalier::workload {

/// Drives one map.
class driver final : public subject {
 public:
  driver(subject_facts facts, const std::function<std::unique_ptr<catalog::erased_map>()>& make);

  [[nodiscard]] const subject_facts& facts() const noexcept override { return facts_; }
  void prefill(const workload_plan& plan, unsigned threads, std::span<const unsigned> pus) override;
  run_outcome run(const run_request& request) override;
  [[nodiscard]] std::optional<double> bytes_per_key() const override;
  [[nodiscard]] std::optional<std::uint64_t> leaked_bytes() override { return map_->leaked_bytes(); }
  [[nodiscard]] inspect::snapshot layout() const override;

 private:
  struct thread_result;
  run_outcome fill(run_request request);
  template <class MakeSource>
  run_outcome run_source(const run_request& request, MakeSource&& make_source);
  template <class Source>
  double work(Source& source, const run_request& request, unsigned thread, const std::atomic<bool>& stop,
              thread_result& mine);
  void time_some(std::span<const step> steps, unsigned every, thread_result& mine);

  subject_facts facts_;
  std::optional<std::uint64_t> heap_before_;
  std::unique_ptr<catalog::erased_map> map_;
  std::uint64_t loaded_ = 0;
  std::optional<std::uint64_t> bytes_after_prefill_;
  hw::padded<std::atomic<std::uint64_t>> new_keys_{};
  hw::padded<std::atomic<std::uint64_t>> cursor_{};
};

/// The further arguments construct the map.
template <concurrent_ordered_map Map, catalog::codec Codec = catalog::number_codec<>, class... Arguments>
[[nodiscard]] std::unique_ptr<subject> drive(subject_facts facts, const Arguments&... arguments) {
  return std::make_unique<driver>(std::move(facts), [&]() -> std::unique_ptr<catalog::erased_map> {
    return std::make_unique<catalog::erased_map_of<Map, Codec>>(arguments...);
  });
}

/// The facts that a catalogue entry states.
template <class Entry>
[[nodiscard]] subject_facts facts_of(subject_kind kind) {
  using map = typename Entry::map_type;
  subject_facts facts;
  facts.name = Entry::name();
  facts.algorithm = Entry::algorithm;
  facts.variant = Entry::variant;
  facts.kind = kind;
  facts.properties = map::properties;
  if constexpr (requires { map::node_bytes; }) facts.node_bytes = map::node_bytes;
  facts.node_types = node_types_of<map>();
  if constexpr (counts_transactions<map>) facts.transaction_regions = map::transaction_regions;
  if constexpr (requires { typename map::traits_type; })
    facts.placement = map::traits_type::placement_type::name;
  else
    facts.placement = "unavailable";
  facts.takes_strings = requires { typename Entry::string_map; };
  if constexpr (requires { map::supports_erase; }) facts.supports_erase = map::supports_erase;
  if constexpr (requires { map::supports_scan; }) facts.supports_scan = map::supports_scan;
  return facts;
}

/// Adds every entry of a catalogue list to the registry. Returns true, for use in an initialiser.
template <class EntryList, subject_kind Kind>
bool register_subjects() {
  EntryList::for_each([]<class Entry>() {
    const subject_facts facts = facts_of<Entry>(Kind);
    registration r{facts, [facts] { return drive<typename Entry::map_type>(facts); }, {}, {}};
    if constexpr (requires { typename Entry::string_map; })
      r.make_of_strings = [facts] {
        return drive<typename Entry::string_map, catalog::listed_string_codec>(facts);
      };
    if constexpr (Kind == subject_kind::espalier && Entry::placement_is == catalog::placing::chosen) {
      r.make_placed = [facts](std::string_view placement, any_placement::recording keeps) {
        subject_facts placed = placed_facts(facts, placement);
        if constexpr (Entry::variant.empty()) {
          return std::unique_ptr<subject>(std::make_unique<driver>(std::move(placed), [&] {
            return any_map::make(Entry::algorithm, {.placement = any_placement(placement, keeps)});
          }));
        } else {
          using map = catalog::placed<typename Entry::map_type, any_placement>;
          return drive<map>(std::move(placed), nullptr, placement, keeps);
        }
      };
    }
    registry().push_back(std::move(r));
  });
  return true;
}

}  // namespace espalier::workload
