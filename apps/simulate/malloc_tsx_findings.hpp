#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "apps/common/study_claims.hpp"
#include "apps/simulate/malloc_tsx.hpp"

// What the paper on malloc placement and TSX found, and what the simulations say of it.

namespace espalier::simulate {

enum class benchmark : std::uint8_t { ring, tree };

[[nodiscard]] constexpr std::string_view to_string(benchmark b) noexcept {
  return b == benchmark::ring ? "ring" : "tree";
}

struct configuration {
  benchmark program = benchmark::ring;
  /// In the ring, or in the tree at first.
  std::size_t nodes = 0;
  std::size_t node_bytes = 0;
  allocation from = allocation::glibc;
  section_policy policy = section_policy::tts;

  auto operator<=>(const configuration&) const = default;
};

/// All that a study measured on one machine, in order of the configurations.
class malloc_tsx_results {
 public:
  malloc_tsx_results(unsigned write_ways, double ghz) : write_ways_(write_ways), ghz_(ghz) {}

  void add(const configuration& c, malloc_tsx_measurement m) { all_.emplace(c, std::move(m)); }
  /// Null where it was not measured.
  [[nodiscard]] const malloc_tsx_measurement* find(const configuration& c) const {
    const auto found = all_.find(c);
    return found == all_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const std::map<configuration, malloc_tsx_measurement>& all() const noexcept { return all_; }
  /// Numbers of nodes of a program, and its sizes of nodes, that were measured; rising.
  [[nodiscard]] std::vector<std::size_t> nodes_of(benchmark program) const;
  [[nodiscard]] std::vector<std::size_t> sizes_of(benchmark program) const;

  /// Lines that a transaction may write at one index.
  [[nodiscard]] unsigned write_ways() const noexcept { return write_ways_; }
  [[nodiscard]] double per_second(const malloc_tsx_measurement& m) const noexcept {
    return m.sections_per_second(ghz_);
  }
  /// Sections per second over those of another allocation or policy; nothing where either was not measured.
  [[nodiscard]] std::optional<double> ratio(const configuration& one, const configuration& other) const;

 private:
  unsigned write_ways_;
  double ghz_;
  std::map<configuration, malloc_tsx_measurement> all_;
};

/// Sections that committed as a transaction, of all of them.
[[nodiscard]] double committed_share(const malloc_tsx_measurement& m) noexcept;

/// Whether the law of capacity holds for the rings measured: where an index has more lines than ways no transaction
/// commits; where each has fewer than ways, more than nine in ten do. One line fewer, for what a section needs
/// beside the nodes.
struct capacity_law {
  std::uint64_t overloaded = 0;
  std::uint64_t overloaded_hold = 0;
  std::uint64_t roomy = 0;
  std::uint64_t roomy_hold = 0;
  /// Of which the law says nothing: as many lines as ways. Those that committed.
  std::uint64_t full = 0;
  std::uint64_t full_commit = 0;

  [[nodiscard]] std::uint64_t configurations() const noexcept { return overloaded + roomy; }
  [[nodiscard]] std::uint64_t holds() const noexcept { return overloaded_hold + roomy_hold; }
};
[[nodiscard]] capacity_law law_of(const malloc_tsx_results& results);

/// Something that the paper says, and what is so here.
struct malloc_tsx_finding {
  std::string_view figure;
  /// As "The paper: ...".
  std::string paper;
  app::judgement ours;
};
[[nodiscard]] std::vector<malloc_tsx_finding> findings_of(const malloc_tsx_results& results);

}  // namespace espalier::simulate
