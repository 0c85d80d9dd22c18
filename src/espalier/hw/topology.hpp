#pragma once

// The parts of the machine, copied out of hwloc into plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace espalier::hw {

enum class cache_type { unified, data, instruction };

/// A machine's packages, cores, PUs (hardware threads), NUMA nodes and caches. A value: it can be copied,
/// compared and shared between threads. Packages and cores are numbered from 0 in hwloc's logical order,
/// PUs and NUMA nodes by the operating system's index. PUs that the process's cgroup forbids are not part
/// of it.
class topology {
 public:
  struct package {
    unsigned index;
    std::vector<unsigned> pus;
    bool operator==(const package&) const = default;
  };

  struct core {
    unsigned index;
    unsigned package;
    std::vector<unsigned> pus;
    bool operator==(const core&) const = default;
  };

  struct pu {
    unsigned os_index;
    unsigned core;
    unsigned package;
    /// Operating-system index of the nearest NUMA node; the first if several are equally near.
    std::optional<unsigned> numa_node;
    /// Position among the PUs of its core; 0 for the first.
    unsigned smt_rank;
    bool operator==(const pu&) const = default;
  };

  struct numa_node {
    unsigned os_index;
    std::optional<std::uint64_t> bytes;
    /// Empty for a node with memory only.
    std::vector<unsigned> pus;
    bool operator==(const numa_node&) const = default;
  };

  struct cache {
    unsigned level;
    cache_type type;
    std::optional<std::uint64_t> bytes;
    /// Line size in bytes.
    std::optional<unsigned> line;
    /// Associativity; the number of lines if the cache is fully associative.
    std::optional<unsigned> ways;
    /// The PUs that share this cache.
    std::vector<unsigned> pus;
    bool operator==(const cache&) const = default;
  };

  /// Asks hwloc, which reads the machine from HWLOC_XMLFILE or HWLOC_SYNTHETIC if one of them is set.
  /// Throws std::runtime_error with the cause, also if hwloc cannot use the value of such a variable.
  /// Tens of milliseconds on a large machine.
  static topology discover();

  /// The result of the first discover() of this process that succeeded. Thread-safe.
  static const topology& system();

  const std::vector<package>& packages() const noexcept { return packages_; }
  const std::vector<core>& cores() const noexcept { return cores_; }
  const std::vector<pu>& pus() const noexcept { return pus_; }
  const std::vector<numa_node>& numa_nodes() const noexcept { return numa_nodes_; }
  /// Ascending by level within a type.
  const std::vector<cache>& caches() const noexcept { return caches_; }

  /// False if the description comes from a file or from a synthetic string: threads cannot be pinned to its PUs.
  bool is_this_machine() const noexcept { return is_this_machine_; }

  /// One line such as "1 package, 2 cores, 2 threads, 1 NUMA node".
  std::string summary() const;

  bool operator==(const topology&) const = default;

 private:
  topology() = default;

  std::vector<package> packages_;
  std::vector<core> cores_;
  std::vector<pu> pus_;
  std::vector<numa_node> numa_nodes_;
  std::vector<cache> caches_;
  bool is_this_machine_ = false;
};

}  // namespace espalier::hw
