#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/exit_status.hpp"

// Results of `espalier bench` beside earlier ones: which measurements take more CPU time than they did.

namespace espalier::app {

/// One map under one workload with one number of threads.
struct subject {
  /// `fields`: those of an entry of results that say what is measured, a JSON object.
  subject(std::string run_name, const nlohmann::ordered_json& fields);

  /// Of the measurement in results.
  std::string name;
  /// What a change of the code does not change: keys, distribution, placement.
  std::vector<std::string> terms;

  friend bool operator==(const subject&, const subject&) = default;
};

/// The median CPU time of an operation.
struct measured_time {
  subject of;
  double cpu_ns;
};

/// What results are compared with.
class baseline {
 public:
  /// Results of an earlier run, in the file's JSON. Throws usage_error if it has none.
  explicit baseline(const std::string& file);

  /// Throws usage_error if the baseline has none of these. Says so if it is of another processor.
  void expect_some(const std::vector<subject>& wanted) const;
  /// Null if it has none.
  [[nodiscard]] const measured_time* find(const subject& of) const noexcept;
  /// How the table and the results name it.
  [[nodiscard]] const std::string& description() const noexcept { return description_; }

 private:
  std::string file_;
  std::vector<measured_time> times_;
  std::string description_;
  std::string processor_;
};

/// A measurement before and now, and by how much it takes longer. The ratio may be a median of its own.
struct compared_time {
  std::string name;
  double before_ns;
  double now_ns;
  double ratio;
};

/// The measurements of the results that the baseline has too.
[[nodiscard]] std::vector<compared_time> compare(const nlohmann::ordered_json& results, const baseline& with);

/// Prints each, and adds them to the results. Returns the exit status: exit_failure if one is slower by more than the margin,
/// in percent, or if none could be compared.
[[nodiscard]] int report_comparison(const std::vector<compared_time>& all, double margin,
                                    const std::string& against, nlohmann::ordered_json& results);

/// Runs this program and another build of it in turns, each with these arguments of bench, and compares them turn by
/// turn. Returns the results of this one, and in `all` the comparison. Throws usage_error if the other is no such program.
[[nodiscard]] nlohmann::ordered_json measure_in_turns(const std::string& command,
                                                      const std::vector<std::string>& arguments,
                                                      std::int64_t turns, std::vector<compared_time>& all);

/// The options of a command line but these, as arguments.
[[nodiscard]] std::vector<std::string> arguments_of(const CLI::App& verb,
                                                    const std::vector<std::string_view>& without);

}  // namespace espalier::app
