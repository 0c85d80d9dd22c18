#pragma once

#include "bench/peers/support/libcds.hpp"
// The container's header requires that the reclamation above is included first.
#include <cds/container/bronson_avltree_map_rcu.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "espalier/catalog/entry_list.hpp"

namespace espalier::peers {

/// libcds's AVL tree after Bronson and others. Values lie behind a pointer in both of its forms; this is the one that
/// owns them. Visitors run under the node's lock (a find that hits takes it), so that a value needs no atomic, and
/// update sets a new node's value before it links the node. Uses the library's default traits: neither relaxed_insert
/// nor the other form made a difference beyond the spread.
class bronson_tree {
  struct traits : cds::container::bronson_avltree::traits {
    using less = std::less<std::uint64_t>;
  };

 public:
  using thread_scope = libcds_thread_scope;

  static constexpr map_properties properties{"cds_bronson",
                                             progress::blocking,
                                             progress::blocking,
                                             balance::relaxed,
                                             true,
                                             "libcds " CDS_VERSION_STRING
                                             ", BronsonAVLTreeMap, buffered RCU"};

  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t key) {
    std::optional<std::uint64_t> found;
    map_->find(key, [&](std::uint64_t, std::uint64_t value) { found = value; });
    return found;
  }

  [[nodiscard]] bool contains(std::uint64_t key) { return map_->contains(key); }

  bool insert(std::uint64_t key, std::uint64_t value) { return map_->insert(key, value); }

  bool insert_or_assign(std::uint64_t key, std::uint64_t value) {
    return map_->update(key, [&](bool, std::uint64_t, std::uint64_t& held) { held = value; }).second;
  }

  bool erase(std::uint64_t key) { return map_->erase(key); }

 private:
  libcds_container<cds::container::BronsonAVLTreeMap<libcds_rcu, std::uint64_t, std::uint64_t, traits>> map_;
};

using cds_bronson = peer_map<bronson_tree>;
static_assert(concurrent_ordered_map<cds_bronson> && cds_bronson::supports_erase &&
              !cds_bronson::supports_scan);

}  // namespace espalier::peers

namespace espalier::catalog {

using cds_bronson = entry_list<entry<espalier::peers::cds_bronson>>;

}  // namespace espalier::catalog
