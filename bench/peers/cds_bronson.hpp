#pragma once

#include "bench/peers/support/libcds.hpp"
// The container's header wants the reclamation above first.
#include <cds/container/bronson_avltree_map_rcu.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "espalier/map/catalog.hpp"
#include "espalier/reclaim/no_guard.hpp"

namespace espalier::peers {

/// libcds's AVL tree after Bronson and others. Values lie behind a pointer in both of its forms; this is the
/// one that owns them. Visitors run under the node's lock (a find that hits takes it), so a value needs no
/// atomic, and update sets a new node's value before it links the node. The library's default traits: neither
/// relaxed_insert nor the other form made a difference beyond the spread.
class cds_bronson : public map_facade<cds_bronson, std::uint64_t, std::uint64_t, std::less<>> {
  using facade = map_facade<cds_bronson, std::uint64_t, std::uint64_t, std::less<>>;

  struct traits : cds::container::bronson_avltree::traits {
    using less = std::less<std::uint64_t>;
  };

 public:
  using key_type = std::uint64_t;
  using mapped_type = std::uint64_t;
  using guard_type = no_guard;
  using thread_scope = libcds_thread_scope;

  static constexpr map_properties properties{"cds_bronson",
                                             progress::blocking,
                                             progress::blocking,
                                             balance::relaxed,
                                             scan_guarantee::per_key,
                                             true,
                                             "libcds " CDS_VERSION_STRING
                                             ", BronsonAVLTreeMap, buffered RCU"};
  static constexpr bool supports_erase = true;
  static constexpr bool supports_scan = false;

  cds_bronson() = default;

  using facade::contains;
  using facade::erase;
  using facade::find;
  using facade::insert;
  using facade::insert_or_assign;
  using facade::scan;

  [[nodiscard]] guard_type pin() const noexcept { return {}; }

  [[nodiscard]] std::optional<mapped_type> find(guard_type&, const key_type& key) {
    std::optional<mapped_type> found;
    map_->find(key, [&](const key_type&, const mapped_type& value) { found = value; });
    return found;
  }

  [[nodiscard]] bool contains(guard_type&, const key_type& key) { return map_->contains(key); }

  bool insert(guard_type&, const key_type& key, const mapped_type& value) { return map_->insert(key, value); }

  bool insert_or_assign(guard_type&, const key_type& key, const mapped_type& value) {
    return map_->update(key, [&](bool, const key_type&, mapped_type& held) { held = value; }).second;
  }

  bool erase(guard_type&, const key_type& key) { return map_->erase(key); }

  template <class Visitor>
  std::size_t scan(guard_type&, const key_type&, Visitor&&) {
    refuse(properties.name, "scan");
  }

 private:
  libcds_container<cds::container::BronsonAVLTreeMap<libcds_rcu, std::uint64_t, std::uint64_t, traits>> map_;
};

static_assert(concurrent_ordered_map<cds_bronson>);

}  // namespace espalier::peers

namespace espalier::catalog {

using cds_bronson = entry_list<entry<espalier::peers::cds_bronson>>;

}  // namespace espalier::catalog
