#include "apps/simulate/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/common/exit_status.hpp"

namespace espalier::simulate {
namespace {

std::map<std::string, study>& studies() {
  static std::map<std::string, study> all;
  return all;
}

}  // namespace

const sim::transactional_spec& transactions_of(const sim::machine_spec& machine) {
  if (!machine.transactions)
    throw app::usage_error(fmt::format(
        "the machine {} has no transactional memory; i7_4770, e5_2650_htm and emerald_rapids have",
        machine.name));
  return *machine.transactions;
}

std::string too_short(std::uint64_t operations, unsigned threads, std::uint64_t steps) {
  constexpr std::uint64_t least_a_thread = 20;
  const std::uint64_t least = least_a_thread * threads;
  if (operations * std::max<std::uint64_t>(steps, 1) >= least) return "";
  return fmt::format("Too short: {} operations by {} threads; a verdict takes {}.", operations, threads,
                     least);
}

const study& find_study(const std::string& name) {
  const auto found = studies().find(name);
  if (found != studies().end()) return found->second;
  std::string known;
  for (const auto& [other, one] : studies())
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", other, one.description);
  throw app::usage_error(fmt::format("there is no study '{}'; there is {}", name, known));
}

registered_study::registered_study(study one) {
  std::string name = one.name;
  studies().emplace(std::move(name), std::move(one));
}

}  // namespace espalier::simulate
