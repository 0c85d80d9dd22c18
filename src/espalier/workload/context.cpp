#include "espalier/workload/context.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "espalier/commit.hpp"
#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/counters.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/process.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/workload/heap_usage.hpp"

namespace espalier::workload {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang++ " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return "unavailable";
#endif
}

std::string cache_type_name(hw::cache_type type) {
  return type == hw::cache_type::data          ? "Data"
         : type == hw::cache_type::instruction ? "Instruction"
                                               : "Unified";
}

std::vector<run_context::cache> caches_of(const hw::topology& machine) {
  std::vector<run_context::cache> list;
  for (const auto& c : machine.caches()) {
    const auto same = [&](const run_context::cache& other) {
      return other.type == cache_type_name(c.type) && other.level == c.level && other.bytes == c.bytes;
    };
    bool listed = false;
    for (const auto& other : list) listed = listed || same(other);
    if (!listed) list.push_back({cache_type_name(c.type), c.level, c.bytes, c.pus.size()});
  }
  return list;
}

}  // namespace

run_context gather_context(std::uint64_t seed, std::string pinning, bool incomplete) {
  const hw::topology& machine = hw::topology::system();
  run_context c;
  c.date = fmt::format("{:%Y-%m-%dT%H:%M:%S+00:00}", fmt::gmtime(std::chrono::system_clock::now()));
  c.host = hw::host_name();
  c.processors = machine.pus().size();
  c.mhz = hw::tsc_hertz() / 1e6;
  c.cpu_scaling = hw::cpu_scaling_enabled();
  c.caches = caches_of(machine);
  c.load = hw::load_average();
  c.build_type = ESPALIER_BUILD_TYPE;
  c.version = ESPALIER_VERSION;
  c.commit = built_from_commit;
  c.compiler = compiler();
  c.build_flags = ESPALIER_BUILD_FLAGS;
  c.cpu_model = hw::cpu_model();
  c.topology = machine.summary();
  c.tsc_source = hw::tsc_source();
  c.huge_pages = hw::transparent_huge_pages();
  c.rtm = !hw::rtm::available() ? "unavailable" : hw::rtm_is_emulated() ? "emulated" : "available";
  c.fence = hw::asymmetric_fence_kind();
  c.hardware_counters = hw::hardware_counters_available();
  c.malloc = malloc_name();
  c.seed = seed;
  c.pinning = std::move(pinning);
  c.incomplete = incomplete;
  return c;
}

}  // namespace espalier::workload
