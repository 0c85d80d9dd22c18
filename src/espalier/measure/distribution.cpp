#include "espalier/measure/distribution.hpp"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>

#include "espalier/io/text.hpp"

namespace espalier::measure {

namespace {

// One row per kind: its word, its parameters with their ranges, and up to where it is exact.
struct parameter_rule {
  std::string_view name;
  double preset;
  double low;
  double high;
  bool low_allowed;
};

struct kind_rule {
  distribution_kind kind;
  std::string_view word;
  std::array<parameter_rule, 2> parameters;
  std::size_t parameter_count;
  unsigned exact_bits;
  /// Whether the last parameter may be left out. It is then 0.
  bool last_is_optional = false;
};

constexpr parameter_rule theta{"THETA", 0.99, 0, 64, false};

constexpr std::array<kind_rule, 9> rules{{
    {distribution_kind::uniform, "uniform", {}, 0, 64},
    {distribution_kind::zipfian, "zipfian", {theta}, 1, 53},
    {distribution_kind::scrambled_zipfian, "scrambled-zipfian", {theta}, 1, 53},
    {distribution_kind::latest, "latest", {theta}, 1, 53},
    {distribution_kind::hotspot,
     "hotspot",
     {{{"KEYS", 0.2, 0, 1, false}, {"DRAWS", 0.8, 0, 1, true}}},
     2,
     53},
    {distribution_kind::normal, "normal", {{{"SIGMA", 0.125, 0, 1, false}}}, 1, 53},
    {distribution_kind::self_similar, "self-similar", {{{"H", 0.2, 0, 0.5, false}}}, 1, 53},
    {distribution_kind::poisson,
     "poisson",
     {{{"LAMBDA", 0.5, 0, 1, false}, {"RANGES", 0, 0, 0x1p40, true}}},
     2,
     40,
     true},
    {distribution_kind::sequential, "sequential", {}, 0, 64},
}};

const kind_rule& rule_of(distribution_kind kind) {
  for (const auto& rule : rules) {
    if (rule.kind == kind) return rule;
  }
  throw std::invalid_argument("a distribution kind that does not exist; use an enumerator");
}

std::string form_of(const kind_rule& rule) {
  std::string form{rule.word};
  for (std::size_t i = 0; i < rule.parameter_count; ++i) {
    const bool optional = rule.last_is_optional && i + 1 == rule.parameter_count;
    form += fmt::format("{}{}{}{}", optional ? "[" : "", i == 0 ? ':' : ',', rule.parameters[i].name,
                        optional ? "]" : "");
  }
  return form;
}

std::string range_of(const parameter_rule& parameter) {
  return fmt::format("{} {} {} <= {}", parameter.low, parameter.low_allowed ? "<=" : "<", parameter.name,
                     parameter.high);
}

std::string example_of(const kind_rule& rule) {
  distribution_spec spec{rule.kind, {}};
  for (std::size_t i = 0; i < rule.parameter_count; ++i) spec.parameters[i] = rule.parameters[i].preset;
  return spec.to_string();
}

// The first parameter out of its range, in words. NaN is out of every range.
std::optional<std::string> fault_in(const kind_rule& rule, const std::array<double, 2>& values) {
  for (std::size_t i = 0; i < rule.parameter_count; ++i) {
    const auto& parameter = rule.parameters[i];
    const bool above = parameter.low_allowed ? values[i] >= parameter.low : values[i] > parameter.low;
    if (above && values[i] <= parameter.high) continue;
    return fmt::format("{} is {}, but {} is needed", parameter.name, values[i], range_of(parameter));
  }
  return std::nullopt;
}

[[noreturn]] void refuse_text(std::string_view text, std::string_view reason) {
  std::string forms;
  for (const auto& rule : rules) {
    if (!forms.empty()) forms += ", ";
    forms += form_of(rule);
  }
  throw std::invalid_argument(fmt::format("distribution '{}': {}; expected one of {}", text, reason, forms));
}

[[noreturn]] void refuse_parameters(std::string_view text, const kind_rule& rule, std::string_view reason) {
  throw std::invalid_argument(fmt::format("distribution '{}': {}; expected {}, such as {}", text, reason,
                                          form_of(rule), example_of(rule)));
}

distribution_spec checked(const distribution_spec& spec, std::uint64_t keys) {
  const auto& rule = rule_of(spec.kind);
  if (const auto fault = fault_in(rule, spec.parameters)) refuse_parameters(spec.to_string(), rule, *fault);
  if (keys == 0) {
    throw std::invalid_argument(
        fmt::format("distribution '{}' over 0 keys; at least 1 key is needed", spec.to_string()));
  }
  if (rule.exact_bits < 64 && keys > std::uint64_t{1} << rule.exact_bits) {
    throw std::invalid_argument(
        fmt::format("distribution '{}' over {} keys; at most 2^{} can be drawn exactly", spec.to_string(),
                    keys, rule.exact_bits));
  }
  return spec;
}

bool is_zipfian(distribution_kind kind) noexcept {
  return kind == distribution_kind::zipfian || kind == distribution_kind::scrambled_zipfian ||
         kind == distribution_kind::latest;
}

}  // namespace

distribution_spec distribution_spec::parse(std::string_view text) {
  const auto colon = text.find(':');
  const auto word = text.substr(0, colon);
  const auto* const rule = std::find_if(rules.begin(), rules.end(), [&](auto& r) { return r.word == word; });
  if (rule == rules.end()) refuse_text(text, "unknown kind");

  distribution_spec spec{rule->kind, {}};
  for (std::size_t i = 0; i < rule->parameter_count; ++i) spec.parameters[i] = rule->parameters[i].preset;
  if (colon == std::string_view::npos) return spec;

  std::size_t found = 0;
  for (auto rest = text.substr(colon + 1);; ++found) {
    const auto comma = rest.find(',');
    if (found == rule->parameter_count) refuse_parameters(text, *rule, "too many parameters");
    const auto value = io::parse_whole<double>(rest.substr(0, comma));
    if (!value) refuse_parameters(text, *rule, fmt::format("'{}' is no number", rest.substr(0, comma)));
    spec.parameters[found] = *value;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (found + 1 < rule->parameter_count - (rule->last_is_optional ? 1 : 0))
    refuse_parameters(text, *rule, "too few parameters");
  if (const auto fault = fault_in(*rule, spec.parameters)) refuse_parameters(text, *rule, *fault);
  return spec;
}

std::string distribution_spec::to_string() const {
  const auto& rule = rule_of(kind);
  std::string text{rule.word};
  const bool left_out = rule.last_is_optional && parameters[rule.parameter_count - 1] == 0;
  for (std::size_t i = 0; i < rule.parameter_count - (left_out ? 1 : 0); ++i) {
    text += fmt::format("{}{}", i == 0 ? ':' : ',', parameters[i]);
  }
  return text;
}

distribution::distribution(const distribution_spec& spec, std::uint64_t keys, std::uint64_t seed)
    : spec_(checked(spec, keys)),
      keys_(keys),
      real_keys_(static_cast<double>(keys)),
      zipf_(is_zipfian(spec.kind) ? spec.parameters[0] : 1),
      zipf_bound_(zipf_.bound(real_keys_)),
      scramble_(keys, seed) {
  const auto [first, second] = spec.parameters;
  switch (spec.kind) {
    case distribution_kind::hotspot:
      hot_keys_ =
          std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::llround(first * real_keys_)), 1, keys);
      hot_share_ = second;
      break;
    case distribution_kind::normal:
      sigma_ = first * real_keys_;
      break;
    case distribution_kind::self_similar:
      exponent_ = std::log(first) / std::log1p(-first);
      break;
    case distribution_kind::poisson:
      ranges_ = std::min(second == 0 ? real_keys_ : std::max(std::floor(second), 1.0), real_keys_);
      lambda_ = first * ranges_;
      break;
    default:
      break;
  }
}

sampler::sampler(const distribution& source, std::uint64_t seed, unsigned thread, unsigned threads)
    : source_(&source),
      random_(seed, thread),
      start_(thread % source.keys_),
      stride_(threads),
      position_(start_),
      latest_keys_(source.keys_),
      latest_bound_(source.zipf_bound_),
      poisson_(source.lambda_) {
  if (thread >= threads) {
    throw std::invalid_argument(
        fmt::format("sampler of thread {} of {} threads; threads count from 0", thread, threads));
  }
}

}  // namespace espalier::measure
