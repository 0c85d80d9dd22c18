#include "espalier/hw/topology.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace espalier::hw {
namespace {

struct hwloc_destroyer {
  void operator()(hwloc_topology_t raw) const noexcept { hwloc_topology_destroy(raw); }
};
using hwloc_handle = std::unique_ptr<hwloc_topology, hwloc_destroyer>;

[[noreturn]] void fail(const std::string& step) {
  throw std::runtime_error("hwloc cannot " + step + ": " + std::generic_category().message(errno));
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// hwloc silently falls back to the real machine if such a variable has an invalid value. The user would take the
/// results for those of another machine.
void refuse_ignored_description(hwloc_topology_t raw) {
  if (hwloc_topology_is_thissystem(raw) == 0 || is_set("HWLOC_THISSYSTEM")) return;
  for (const char* variable : {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC"}) {
    if (!is_set(variable)) continue;
    throw std::runtime_error(std::string(variable) + "=\"" + std::getenv(variable) +
                             "\" is not a machine description that hwloc accepts; unset or correct it");
  }
}

hwloc_handle load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail("start");
  hwloc_handle handle(raw);
  // hwloc omits instruction caches by default.
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(raw) != 0) fail("discover the machine");
  refuse_ignored_description(raw);
  return handle;
}

std::vector<unsigned> pus_of(hwloc_const_cpuset_t set) {
  std::vector<unsigned> pus;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) {
    pus.push_back(static_cast<unsigned>(i));
  }
  return pus;
}

/// hwloc gives 0 for a number that it does not know.
template <typename Number>
std::optional<Number> known(Number value) {
  return value != 0 ? std::optional(value) : std::nullopt;
}

std::optional<unsigned> ways_of(const hwloc_obj_attr_u::hwloc_cache_attr_s& cache) {
  if (cache.associativity > 0) return static_cast<unsigned>(cache.associativity);
  const bool fully_associative = cache.associativity < 0;
  if (!fully_associative || cache.linesize == 0) return std::nullopt;
  return known(static_cast<unsigned>(cache.size / cache.linesize));
}

cache_type type_of(hwloc_obj_cache_type_t type) {
  switch (type) {
    case HWLOC_OBJ_CACHE_DATA:
      return cache_type::data;
    case HWLOC_OBJ_CACHE_INSTRUCTION:
      return cache_type::instruction;
    case HWLOC_OBJ_CACHE_UNIFIED:
      break;
  }
  return cache_type::unified;
}

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

topology topology::discover() {
  const auto handle = load();
  hwloc_topology_t raw = handle.get();
  topology result;
  result.is_this_machine_ = hwloc_topology_is_thissystem(raw) != 0;

  for (hwloc_obj_t found = nullptr;
       (found = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_NUMANODE, found)) != nullptr;) {
    result.numa_nodes_.push_back(
        {found->os_index, known(std::uint64_t{found->attr->numanode.local_memory}), pus_of(found->cpuset)});
  }

  // PUs come in logical order, so those of one core, and of one package, are neighbours. Virtual machines
  // may describe no cores or packages: then each PU counts as a core, and all PUs lie in one package.
  hwloc_obj_t last_core = nullptr;
  hwloc_obj_t last_package = nullptr;
  for (hwloc_obj_t found = nullptr;
       (found = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PU, found)) != nullptr;) {
    hwloc_obj_t found_core = hwloc_get_ancestor_obj_by_type(raw, HWLOC_OBJ_CORE, found);
    hwloc_obj_t found_package = hwloc_get_ancestor_obj_by_type(raw, HWLOC_OBJ_PACKAGE, found);
    if (result.packages_.empty() || found_package != last_package) {
      result.packages_.push_back({static_cast<unsigned>(result.packages_.size()), {}});
    }
    auto& package = result.packages_.back();
    if (found_core == nullptr || found_core != last_core) {
      result.cores_.push_back({static_cast<unsigned>(result.cores_.size()), package.index, {}});
    }
    auto& core = result.cores_.back();
    last_core = found_core;
    last_package = found_package;

    const auto near = std::ranges::find_if(result.numa_nodes_, [&](const numa_node& candidate) {
      return std::ranges::binary_search(candidate.pus, found->os_index);
    });
    result.pus_.push_back({found->os_index, core.index, package.index,
                           near != result.numa_nodes_.end() ? std::optional(near->os_index) : std::nullopt,
                           static_cast<unsigned>(core.pus.size())});
    core.pus.push_back(found->os_index);
    package.pus.push_back(found->os_index);
  }
  if (result.pus_.empty()) throw std::runtime_error("hwloc describes a machine without any PU");

  for (const auto type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE,
                          HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L1ICACHE, HWLOC_OBJ_L2ICACHE, HWLOC_OBJ_L3ICACHE}) {
    for (hwloc_obj_t found = nullptr; (found = hwloc_get_next_obj_by_type(raw, type, found)) != nullptr;) {
      const auto& attributes = found->attr->cache;
      result.caches_.push_back({attributes.depth, type_of(attributes.type),
                                known(std::uint64_t{attributes.size}), known(attributes.linesize),
                                ways_of(attributes), pus_of(found->cpuset)});
    }
  }
  return result;
}

const topology& topology::system() {
  static const topology once = discover();
  return once;
}

std::string topology::summary() const {
  return counted(packages_.size(), "package") + ", " + counted(cores_.size(), "core") + ", " +
         counted(pus_.size(), "thread") + ", " + counted(numa_nodes_.size(), "NUMA node");
}

}  // namespace espalier::hw
