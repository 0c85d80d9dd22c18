#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/studies/atc18/claims.hpp"
#include "apps/studies/study_output.hpp"

// The figures of the study, measured or simulated alike: what was measured of each, and what it shows.

namespace espalier::app {

/// A workload of a figure. `workload` is its name in the result file.
struct study_panel {
  std::string workload;
  std::uint64_t keys;
  unsigned threads;
  /// Of a simulation; empty for this machine.
  std::string machine;
};

struct figure_outcome {
  explicit figure_outcome(const atc18::figure& f) : figure(&f) {}

  const atc18::figure* figure;
  std::vector<study_panel> panels;
  std::map<std::string, std::size_t> node_bytes;
  std::vector<missing_map> missing;
  std::vector<finding> findings;

  /// Each map is recorded once.
  void miss(const std::string& map, const std::string& why);
  void judge(const readings& measured, const std::vector<std::uint64_t>& keys, const std::string& machine);
};

/// "figure-2, 1,000,000 keys", and the machine if it is simulated.
[[nodiscard]] std::string workload_name(const atc18::figure& f, std::uint64_t keys,
                                        const std::string& machine = {});

/// The figure's own numbers of keys, or only the requested one.
[[nodiscard]] std::vector<std::uint64_t> keys_of(const atc18::figure& f, std::optional<std::uint64_t> only);

/// The paper's findings and those made here, with what is missing.
[[nodiscard]] std::string findings_text(const figure_outcome& outcome, bool simulated, bool colour);

/// The member `study` of a result file.
[[nodiscard]] nlohmann::ordered_json study_json(const std::vector<figure_outcome>& outcomes);

}  // namespace espalier::app
