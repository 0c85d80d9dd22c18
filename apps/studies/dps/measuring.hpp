#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/terminal.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/dps/claims.hpp"

// The pages of the paper on DPS on its machine: for the study of its sections 5.1 and 5.2, and for that of section 5.3.

namespace espalier::simulate::dps {

/// Ascending: those of the command line, or the usual ones, as far as the machine has them.
[[nodiscard]] std::vector<unsigned> threads_of(const study_options& o, const std::vector<unsigned>& usual);

[[nodiscard]] app::dps::load_reading reading_of(const counted_phase& m, unsigned threads,
                                                std::uint64_t steps = 1);

class measured_pages {
 public:
  measured_pages(const study_options& o, std::string name, std::vector<app::dps::page> pages);
  measured_pages(const measured_pages&) = delete;
  measured_pages& operator=(const measured_pages&) = delete;
  virtual ~measured_pages() = default;

  /// Measures page by page, and shows each. An interrupt leaves out the rest.
  [[nodiscard]] int run(const std::string& title, const std::string& paper);

 protected:
  [[nodiscard]] const sim::machine_spec& machine() const { return options().places.front().machine; }
  [[nodiscard]] const study_options& options() const { return o_; }
  [[nodiscard]] bool is_wanted(const app::dps::load& l, const std::string& how) const {
    return wanted_.contains({l, how});
  }
  /// How many phases a measurement may take: one, if the command line says of how many operations.
  [[nodiscard]] unsigned most_phases(unsigned usual = 2) const {
    return o_.given("--operations") ? 1 : usual;
  }

  virtual void before(const app::dps::page& /*p*/) {}
  /// Measures it, unless it takes more threads. What it measures, it adds.
  virtual void measure_one(const app::dps::load& l, const std::string& how) = 0;
  virtual void complete(app::charted_figure& /*figure*/) const {}
  virtual void complete(nlohmann::ordered_json& /*study*/) const {}

  /// The entry of the file, to which a study may add.
  nlohmann::ordered_json& add(const app::dps::load& l, const std::string& how,
                              const app::dps::load_reading& r, const counted_phase& m);

  app::dps::results results_;

 private:
  bool measured_all(const app::dps::page& p);

  const study_options& o_;
  std::string name_;
  std::vector<app::dps::page> pages_;
  std::set<std::pair<app::dps::load, std::string>> wanted_;
  std::size_t added_ = 0;
  nlohmann::ordered_json benchmarks_ = nlohmann::ordered_json::array();
  app::progress_line line_;
};

}  // namespace espalier::simulate::dps
