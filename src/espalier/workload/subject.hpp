#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/catalog/erased_map.hpp"
#include "espalier/inspect/snapshot.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/workload/plan.hpp"

// A map under test with its type erased: once per workload, never per operation.

namespace espalier::workload {

enum class subject_kind : std::uint8_t { espalier, peer };

[[nodiscard]] constexpr std::string_view to_string(subject_kind kind) noexcept {
  return kind == subject_kind::espalier ? "espalier" : "peer";
}

/// What is known of a map without constructing one.
struct subject_facts {
  /// "ticket", "ticket/shared_heap".
  std::string name;
  std::string_view algorithm;
  /// Empty for an algorithm's default.
  std::string_view variant;
  subject_kind kind = subject_kind::espalier;
  map_properties properties{};
  /// Bytes of a node; unset if a map has no fixed node.
  std::optional<std::size_t> node_bytes;
  std::vector<node_type> node_types;
  /// The names of the regions whose transactions the map counts; empty if it counts none.
  std::span<const std::string_view> transaction_regions;
  /// "unavailable" if the map does not state it.
  std::string_view placement;
  bool supports_erase = true;
  bool supports_scan = true;
  bool takes_strings = false;

  /// Why the map cannot run a plan; empty if it can.
  [[nodiscard]] std::string cannot_run(const workload_plan& plan) const;
};

/// One map and the threads that work on it. Not for concurrent use.
class subject {
 public:
  subject() = default;
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;
  virtual ~subject() = default;

  [[nodiscard]] virtual const subject_facts& facts() const noexcept = 0;

  /// Inserts the keys that the plan requires at the start, with all threads at once. Throws std::bad_alloc.
  virtual void prefill(const workload_plan& plan, unsigned threads, std::span<const unsigned> pus) = 0;

  virtual run_outcome run(const run_request& request) = 0;

  /// Bytes that the map holds per key present at the end of the prefill.
  [[nodiscard]] virtual std::optional<double> bytes_per_key() const = 0;

  /// Bytes that are still held and unreachable after every retired block was reclaimed. Linear in the map.
  [[nodiscard]] virtual std::optional<std::uint64_t> leaked_bytes() = 0;

  /// The addresses of the map's blocks, by role, with the pointers between them: all of them if its placement records them,
  /// otherwise those that the map reaches. Throws std::logic_error for a map that shows none.
  [[nodiscard]] virtual inspect::snapshot layout() const = 0;
};

/// A map that the command can make.
struct registration {
  subject_facts facts;
  std::function<std::unique_ptr<subject>()> make;
  /// The same map with another placement. any_placement defines the names and which ones it rejects. Empty if there is
  /// only one placement. The name is one of placement_names(), which outlive everything.
  std::function<std::unique_ptr<subject>(std::string_view placement, any_placement::recording)> make_placed;
  /// The same map of strings. Empty if it takes none.
  std::function<std::unique_ptr<subject>()> make_of_strings;

  /// The one for a plan that the map can run.
  [[nodiscard]] std::unique_ptr<subject> make_for(const workload_plan& plan) const {
    return plan.keys.type() == key_type::string ? make_of_strings() : make();
  }
};

/// The facts of a map with another placement, named such as "int_lf/index_aware". The name must outlive the facts.
[[nodiscard]] subject_facts placed_facts(const subject_facts& facts, std::string_view placement);

/// All maps of the program: the catalogue's in its order, then the peers. The translation units of the catalogue fill
/// it before main.
[[nodiscard]] std::vector<registration>& registry();

/// The addresses of a map's blocks, if its placement records them: a type for each role that has blocks, with what
/// searches read of them, and the pointers between the blocks. No thread may use the map meanwhile.
[[nodiscard]] inspect::snapshot layout_of(const subject_facts& facts, const any_placement& placement);

/// The same of the blocks that a map reaches. Throws std::logic_error if it does not show them.
[[nodiscard]] inspect::snapshot layout_of(const subject_facts& facts, const catalog::erased_map& map);

}  // namespace espalier::workload
