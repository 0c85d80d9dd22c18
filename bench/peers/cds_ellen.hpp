#pragma once

#include "bench/peers/support/libcds.hpp"
// The container's header requires that the reclamation above is included first.
#include <cds/container/ellen_bintree_map_rcu.h>

#include <cstdint>

#include "espalier/catalog/entry_list.hpp"

namespace espalier::peers {

/// libcds's external tree after Ellen and others. The library does not help: an operation that meets a half-done erase,
/// find included, waits for it.
struct cds_ellen_description {
  struct traits : cds::container::ellen_bintree::traits {
    using less = std::less<std::uint64_t>;
  };
  using container = cds::container::EllenBinTreeMap<libcds_rcu, std::uint64_t, value_cell, traits>;

  static constexpr map_properties properties{"cds_ellen",
                                             progress::blocking,
                                             progress::blocking,
                                             balance::none,
                                             true,
                                             "libcds " CDS_VERSION_STRING ", EllenBinTreeMap, buffered RCU"};
};

using cds_ellen = libcds_pair_map<cds_ellen_description>;
static_assert(concurrent_ordered_map<cds_ellen> && cds_ellen::supports_erase && !cds_ellen::supports_scan);

}  // namespace espalier::peers

namespace espalier::catalog {

using cds_ellen = entry_list<entry<espalier::peers::cds_ellen>>;

}  // namespace espalier::catalog
