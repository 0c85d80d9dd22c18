#include "apps/studies/study.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "apps/common/exit_status.hpp"

namespace espalier::app {
namespace {

std::map<std::string_view, study>& studies() {
  static std::map<std::string_view, study> all;
  return all;
}

hw::pin_policy checked_pin(const std::string& name) {
  if (name == "cores") return hw::pin_policy::cores;
  if (name == "scatter") return hw::pin_policy::scatter;
  if (name == "none") return hw::pin_policy::none;
  throw usage_error(fmt::format("--pin {} is unknown; it is cores, scatter or none", name));
}

}  // namespace

workload::session_request measurement_of(const bench_options& o) {
  check_seconds(o.seconds);
  workload::session_request s;
  s.threads = checked_threads(o.threads);
  s.pinning = checked_pin(o.pin);
  s.runs = static_cast<unsigned>(o.runs);
  s.time = std::chrono::nanoseconds(std::llround(o.seconds * 1e9));
  if (o.operations > 0) s.operations = static_cast<std::uint64_t>(o.operations);
  s.seed = o.seed;
  s.latency_every = static_cast<unsigned>(o.latency_every);
  s.check_leaks = !o.no_leak_check;
  return s;
}

const study& find_study(std::string_view name) {
  const auto found = studies().find(name);
  if (found != studies().end()) return found->second;
  std::string known;
  for (const auto& [other, one] : studies())
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", other, one.title);
  throw usage_error(fmt::format("there is no study '{}'; there are {}", name, known));
}

registered_study::registered_study(study one) {
  const std::string_view name = one.name;
  studies().emplace(name, std::move(one));
}

}  // namespace espalier::app
