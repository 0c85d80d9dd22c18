#pragma once

#include "bench/peers/support/libcds.hpp"
// The container's header requires that the reclamation above is included first.
#include <cds/container/skip_list_map_rcu.h>

#include <cstdint>

#include "espalier/catalog/entry_list.hpp"

namespace espalier::peers {

/// libcds's lock-free skip list. Its iterators start only at the least key, so there is no scan from a key on.
struct cds_skip_list_description {
  struct traits : cds::container::skip_list::traits {
    using less = std::less<std::uint64_t>;
  };
  using container = cds::container::SkipListMap<libcds_rcu, std::uint64_t, value_cell, traits>;

  static constexpr map_properties properties{"cds_skip_list",
                                             progress::lock_free,
                                             progress::blocking,
                                             balance::relaxed,
                                             true,
                                             "libcds " CDS_VERSION_STRING ", SkipListMap, buffered RCU"};
};

using cds_skip_list = libcds_pair_map<cds_skip_list_description>;
static_assert(concurrent_ordered_map<cds_skip_list> && cds_skip_list::supports_erase &&
              !cds_skip_list::supports_scan);

}  // namespace espalier::peers

namespace espalier::catalog {

using cds_skip_list = entry_list<entry<espalier::peers::cds_skip_list>>;

}  // namespace espalier::catalog
