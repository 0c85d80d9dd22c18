#include "espalier/workload/operation_mix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "espalier/io/text.hpp"

namespace espalier::workload {

namespace {

constexpr std::string_view advice =
    "expected lookup/insert/erase percentages that sum to 100, such as 90/5/5, or hits, load, or one of "
    "ycsb-a to ycsb-f";

struct named_mix {
  std::string_view name;
  operation_shares percent;  // find, insert, erase, insert_or_assign, scan, update
  measure::distribution_spec request;
};

// YCSB's word "zipfian" means its scrambled generator, in workload E too: theta 0.99 everywhere.
const measure::distribution_spec skewed{measure::distribution_kind::scrambled_zipfian, {0.99, 0}};
const std::array<named_mix, 8> named{{
    {"hits", {100, 0, 0, 0, 0, 0}, {}},
    {"load", {0, 100, 0, 0, 0, 0}, {}},
    {"ycsb-a", {50, 0, 0, 50, 0, 0}, skewed},
    {"ycsb-b", {95, 0, 0, 5, 0, 0}, skewed},
    {"ycsb-c", {100, 0, 0, 0, 0, 0}, skewed},
    {"ycsb-d", {95, 5, 0, 0, 0, 0}, {measure::distribution_kind::latest, {0.99, 0}}},
    {"ycsb-e", {0, 5, 0, 0, 95, 0}, skewed},
    {"ycsb-f", {50, 0, 0, 0, 0, 50}, skewed},
}};

std::uint64_t sum_of(const operation_shares& percent) {
  std::uint64_t sum = 0;
  for (const auto share : percent) sum += share;
  return sum;
}

}  // namespace

std::string_view word_of(map_operation op) noexcept {
  switch (op) {
    case map_operation::find:
      return "lookup";
    case map_operation::insert_or_assign:
      return "update";
    case map_operation::update:
      return "read_modify_write";
    case map_operation::contains:
    case map_operation::insert:
    case map_operation::erase:
    case map_operation::exchange:
    case map_operation::extract:
    case map_operation::scan:
    case map_operation::reverse_scan:
      break;
  }
  return to_string(op);
}

operation_mix::operation_mix(std::string mix_name, const operation_shares& percentages, unsigned longest_scan,
                             std::optional<measure::distribution_spec> prescribed)
    : name(std::move(mix_name)), percent(percentages), max_scan(longest_scan), distribution(prescribed) {
  if (const auto sum = sum_of(percent); sum != 100) {
    throw std::invalid_argument(fmt::format("operation mix '{}' sums to {}; {}", name, sum, advice));
  }
  if (max_scan == 0) {
    throw std::invalid_argument(
        fmt::format("operation mix '{}' has scans of at most 0 entries; at least 1 is needed", name));
  }
  auto slot = table_.begin();
  for (std::size_t i = 0; i < percent.size(); ++i) slot = std::fill_n(slot, percent[i], drawn_operations[i]);
}

unsigned operation_mix::share(map_operation op) const noexcept {
  const auto* const found = std::find(drawn_operations.begin(), drawn_operations.end(), op);
  return found == drawn_operations.end()
             ? 0
             : percent[static_cast<std::size_t>(found - drawn_operations.begin())];
}

operation_mix operation_mix::parse(std::string_view text) {
  std::string lower{text};
  for (auto& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const auto& mix : named) {
    if (lower != mix.name) continue;
    operation_mix parsed(lower, mix.percent, 100, mix.request);
    parsed.into_empty = lower == "load";
    return parsed;
  }

  const auto malformed = [&] {
    return std::invalid_argument(fmt::format("unknown operation mix '{}'; {}", text, advice));
  };
  operation_shares percent{};
  auto rest = text;
  for (std::size_t kind = 0; kind < 3; ++kind) {
    const auto slash = rest.find('/');
    if ((slash == std::string_view::npos) != (kind == 2)) throw malformed();
    const auto share = io::parse_whole<unsigned>(rest.substr(0, slash));
    if (!share) throw malformed();
    percent[kind] = *share;
    rest.remove_prefix(kind == 2 ? rest.size() : slash + 1);
  }
  return {fmt::format("{}/{}/{}", percent[0], percent[1], percent[2]), percent};
}

}  // namespace espalier::workload
