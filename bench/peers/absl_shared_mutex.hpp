#pragma once

#include <mutex>
#include <shared_mutex>
#include <string>

#include "bench/peers/support/locked_btree.hpp"
#include "espalier/catalog/entry_list.hpp"

namespace espalier::peers {

/// The baseline: what most programs use.
struct absl_shared_mutex_description {
  using mutex = std::shared_mutex;
  using reader = std::shared_lock<mutex>;
  using writer = std::unique_lock<mutex>;

  static constexpr map_properties properties{"absl_shared_mutex",
                                             progress::blocking,
                                             progress::blocking,
                                             balance::strict,
                                             false,
                                             ESPALIER_PEERS_ABSEIL ", btree_map under std::shared_mutex"};
};

using absl_shared_mutex = locked_btree<absl_shared_mutex_description>;
static_assert(concurrent_ordered_map<absl_shared_mutex> && absl_shared_mutex::supports_erase &&
              absl_shared_mutex::supports_scan);

}  // namespace espalier::peers

namespace espalier::catalog {

using absl_shared_mutex = entry_list<entry_with_strings<
    espalier::peers::absl_shared_mutex,
    espalier::peers::locked_btree<espalier::peers::absl_shared_mutex_description, std::string>>>;

}  // namespace espalier::catalog
