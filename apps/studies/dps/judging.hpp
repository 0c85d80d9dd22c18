#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/studies/dps/claims.hpp"

// The forms of this study's claims.

namespace espalier::app::dps {

inline constexpr unsigned papers_threads = 80;
inline constexpr unsigned papers_cores = 40;
inline constexpr unsigned one_socket = 10;

/// What is compared.
struct side {
  std::string technique;
  load at;

  [[nodiscard]] std::string text() const;
};

using part = claim_part<results>;
using claim_row = claim_in_parts<results>;
using claim_rows = std::vector<claim_row>;

/// The first has at least `ratio` times the throughput of the second.
[[nodiscard]] part faster(const side& one, const side& other, double ratio = 1);
/// At most so many times.
[[nodiscard]] part no_faster(const side& one, const side& other, double ratio);
/// Under one load.
[[nodiscard]] part beats(const load& at, const std::string& one, const std::string& other, double ratio = 1);
/// With one technique.
[[nodiscard]] part falls(const std::string& technique, const load& from, const load& to, double ratio = 1);
/// Throughputs differ by no more than this factor.
[[nodiscard]] part alike(const side& one, const side& other, double factor);
[[nodiscard]] part stays(const std::string& technique, const load& from, const load& to, double factor);
/// `one` loses more of its throughput from one load to another than `other` does.
[[nodiscard]] part falls_more(const std::string& one, const std::string& other, const load& from,
                              const load& to);
/// The throughputs of `one` under the two loads are closer to each other than those of `other` are.
[[nodiscard]] part less_spread(const side& one, const side& one_elsewhere, const side& other,
                               const side& other_elsewhere);
/// `better` over `worse` is more than `other_better` over `other_worse`.
[[nodiscard]] part gains_more(const side& better, const side& worse, const side& other_better,
                              const side& other_worse);
/// The first has at least `ratio` times the count of the second.
using count = double (operation_counts::*)() const noexcept;
[[nodiscard]] part more(const std::string& what, count of, const side& one, const side& other, double ratio);
[[nodiscard]] part more_misses(const side& one, const side& other, double ratio = 1);
/// The 99th percentile of the first is at least `ratio` times that of the second.
[[nodiscard]] part longer_tail(const side& one, const side& other, double ratio = 1);
[[nodiscard]] part moves_at_most(const side& one, double lines);
/// Of 15 empty requests, within 2 of the paper's.
[[nodiscard]] part coherence(const std::string& technique, double papers);
/// The file of the first has at least `ratio` times as many lines with code.
[[nodiscard]] part more_lines_of_code(const std::string& one, const std::string& other, double ratio);
[[nodiscard]] part lines_of_code_below(const std::string& name, unsigned most);

/// Text for a claim that differs; it has its numbers from the results.
using reason = decltype(claim_row::why);
[[nodiscard]] reason because(std::string text);
/// "1.32", the throughput of the first over that of the second; "?" where one was not measured.
[[nodiscard]] std::string ratio_text(const results& measured, const side& one, const side& other);

/// For an x-axis.
inline double threads_of(const load& l) { return l.threads; }

/// The loads for each of some numbers.
template <class Numbers, class Make>
std::vector<load> each(const Numbers& numbers, Make make) {
  std::vector<load> loads;
  for (const auto n : numbers) loads.push_back(make(n));
  return loads;
}

/// A part for each of some numbers or names.
template <class Values, class Make>
std::vector<part> for_each_of(const Values& values, Make make) {
  std::vector<part> parts;
  for (const auto& value : values) {
    const std::vector<part> made = make(value);
    parts.insert(parts.end(), made.begin(), made.end());
  }
  return parts;
}

/// The pages of section 5.2, and that of section 2 about shared structures: in structures.cpp.
[[nodiscard]] page figure_2(const setting& where);
[[nodiscard]] page table_1(const setting& where);
[[nodiscard]] page figure_9(const setting& where);
[[nodiscard]] page figure_10(const setting& where);
[[nodiscard]] page figure_11(const setting& where);
[[nodiscard]] page figure_12(const setting& where);

}  // namespace espalier::app::dps
