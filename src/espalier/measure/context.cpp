#include "espalier/measure/context.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include "espalier/commit.hpp"
#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/counters.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/process.hpp"
#include "espalier/hw/topology.hpp"

// jemalloc's own function, if the program is linked or preloaded with it.
extern "C" __attribute__((weak)) int mallctl(const char* name, void* old_value, size_t* old_bytes,
                                             void* new_value, size_t new_bytes);

namespace espalier::measure {
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

std::string_view malloc_name() noexcept { return mallctl != nullptr ? "jemalloc" : "libc"; }

std::optional<std::uint64_t> heap_bytes_in_use() noexcept {
  if (mallctl != nullptr) {
    std::uint64_t epoch = 1;  // any write makes jemalloc refresh its statistics
    std::size_t bytes = 0;
    std::size_t size = sizeof bytes;
    if (mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch) != 0) return std::nullopt;
    if (mallctl("stats.allocated", &bytes, &size, nullptr, 0) != 0) return std::nullopt;
    return bytes;
  }
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return std::nullopt;
#endif
}

}  // namespace espalier::measure
