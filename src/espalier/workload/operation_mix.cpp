#include "espalier/workload/operation_mix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace espalier::workload {

namespace {

constexpr std::string_view advice =
    "expected lookup/insert/erase percentages that sum to 100, such as 90/5/5, or one of ycsb-a to ycsb-f";

struct named_mix {
  std::string_view name;
  std::array<unsigned, operation_kinds> percent;  // lookup, insert, erase, update, scan, read_modify_write
  distribution_spec request;
};

// YCSB's word "zipfian" means its scrambled generator, in workload E too: theta 0.99 everywhere.
const distribution_spec skewed{distribution_kind::scrambled_zipfian, {0.99, 0}};
const std::array<named_mix, 6> ycsb{{
    {"ycsb-a", {50, 0, 0, 50, 0, 0}, skewed},
    {"ycsb-b", {95, 0, 0, 5, 0, 0}, skewed},
    {"ycsb-c", {100, 0, 0, 0, 0, 0}, skewed},
    {"ycsb-d", {95, 5, 0, 0, 0, 0}, {distribution_kind::latest, {0.99, 0}}},
    {"ycsb-e", {0, 5, 0, 0, 95, 0}, skewed},
    {"ycsb-f", {50, 0, 0, 0, 0, 50}, skewed},
}};

std::optional<unsigned> parse_count(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint64_t sum_of(const std::array<unsigned, operation_kinds>& percent) {
  std::uint64_t sum = 0;
  for (const auto share : percent) sum += share;
  return sum;
}

}  // namespace

std::string_view to_string(operation op) noexcept {
  switch (op) {
    case operation::lookup:
      return "lookup";
    case operation::insert:
      return "insert";
    case operation::erase:
      return "erase";
    case operation::update:
      return "update";
    case operation::scan:
      return "scan";
    case operation::read_modify_write:
      break;
  }
  return "read_modify_write";
}

operation_mix::operation_mix(std::string mix_name, const std::array<unsigned, operation_kinds>& percentages,
                             unsigned longest_scan, std::optional<distribution_spec> prescribed)
    : name(std::move(mix_name)), percent(percentages), max_scan(longest_scan), distribution(prescribed) {
  if (const auto sum = sum_of(percent); sum != 100) {
    throw std::invalid_argument(fmt::format("operation mix '{}' sums to {}; {}", name, sum, advice));
  }
  if (max_scan == 0) {
    throw std::invalid_argument(
        fmt::format("operation mix '{}' has scans of at most 0 entries; at least 1 is needed", name));
  }
  auto slot = table_.begin();
  for (std::size_t kind = 0; kind < operation_kinds; ++kind) {
    slot = std::fill_n(slot, percent[kind], static_cast<operation>(kind));
  }
}

operation_mix operation_mix::parse(std::string_view text) {
  std::string lower{text};
  for (auto& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const auto& mix : ycsb) {
    if (lower == mix.name) return {lower, mix.percent, 100, mix.request};
  }

  const auto malformed = [&] {
    return std::invalid_argument(fmt::format("unknown operation mix '{}'; {}", text, advice));
  };
  std::array<unsigned, operation_kinds> percent{};
  auto rest = text;
  for (std::size_t kind = 0; kind < 3; ++kind) {
    const auto slash = rest.find('/');
    if ((slash == std::string_view::npos) != (kind == 2)) throw malformed();
    const auto share = parse_count(rest.substr(0, slash));
    if (!share) throw malformed();
    percent[kind] = *share;
    rest.remove_prefix(kind == 2 ? rest.size() : slash + 1);
  }
  return {fmt::format("{}/{}/{}", percent[0], percent[1], percent[2]), percent};
}

}  // namespace espalier::workload
