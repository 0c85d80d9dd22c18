#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/studies/study_claims.hpp"
#include "espalier/io/output_file.hpp"

// The output of a study: words on the terminal, a result file, and pages. docs/studies.md defines the file's form.

namespace espalier::app {

/// A map, or a malloc, that is not here.
struct missing_map {
  std::string map;
  std::string why;
};

/// "The paper: ..." or the name of another source, and below it the finding, which begins with "[verdict]".
[[nodiscard]] std::string finding_text(const std::string& source, const std::string& claim,
                                       const judgement& ours, const std::string& where);

/// A limit with which curves or bars are compared.
struct chart_limit {
  double y;
  std::string name;
};

struct chart_curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< by ascending x
};

/// The minimum and the maximum of several rounds, if there were several.
struct chart_bar {
  std::string name;
  double value;
  std::optional<double> least{};
  std::optional<double> most{};
  bool peer = false;
};

/// Curves over x, or bars, of which the shortest is best unless more is better.
struct chart {
  std::string title;
  std::string caption;
  std::string y;
  std::string x{};  ///< of curves
  std::vector<chart_curve> curves{};
  std::vector<chart_bar> bars{};
  std::optional<chart_limit> limit{};
  std::string of = "Malloc";    ///< what a bar's name is
  bool more_is_better = false;  ///< of bars
};

/// A workload of a figure. `workload` is its name in the result file.
struct study_panel {
  std::string workload;
  std::uint64_t keys;
  unsigned threads;
  /// Of a simulation; empty for this machine.
  std::string machine;
};

/// What a figure shows of the result file's benchmarks.
struct measured_panels {
  std::vector<study_panel> panels;
  std::map<std::string, std::size_t> node_bytes;
};

/// A figure of a study, from which the report makes a page.
struct charted_figure {
  std::string id;
  std::string title;
  std::string summary;
  std::vector<chart> charts{};
  std::vector<missing_map> missing{};
  std::vector<judged_claim> findings{};
  /// Of a simulation; empty for this machine.
  std::string machine{};
  /// Instead of charts.
  std::optional<measured_panels> measured{};

  /// Records each map or malloc once.
  void miss(const std::string& name, const std::string& why);
};

/// Its charts as tables, and its findings, for the terminal. `where` is the place of all of them.
[[nodiscard]] std::string figure_text(const charted_figure& figure, const std::string& where, bool colour);

/// An entry of `study.figures`, and all of them.
[[nodiscard]] nlohmann::ordered_json to_json(const charted_figure& figure);
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<charted_figure>& figures);

/// <study>.json, index.html and a page for each figure, in a folder; nothing if no folder was named.
class study_files {
 public:
  /// Checks at once whether they can be written. Throws std::invalid_argument.
  study_files(const std::string& folder, std::string_view study);
  /// Keeps a figure for the results.
  void keep(charted_figure figure) { kept_.push_back(std::move(figure)); }
  /// The same, and shows it on the terminal. `where` is the place of its findings.
  void show(charted_figure figure, const std::string& where);
  /// Those that are kept.
  [[nodiscard]] nlohmann::ordered_json figures() const;
  void write(const nlohmann::ordered_json& results);

 private:
  std::optional<io::output_file> results_;
  std::vector<charted_figure> kept_;
};

}  // namespace espalier::app
