#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/catalog/erased_map.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

// any_map: a map of the catalogue that is chosen by its name when the program runs, with 64-bit keys and values:
//
//     espalier::any_map index("ticket");                     // link espalier::maps
//     index.insert(1, 2);
//
// An operation costs one virtual call more than that of the map itself, a batch or a scan one for the whole of it. Each
// pins for itself, so the map's guards protect nothing.
//
// Several maps can share their memory and their reclamation:
//
//     espalier::any_placement arena("segregated");
//     espalier::epoch_domain domain;
//     espalier::any_map orders("ordered_map", {arena, &domain}), lines("ordered_map", {arena, &domain});

namespace espalier {

/// The names of all maps that any_map knows: each algorithm of the catalogue at its default.
[[nodiscard]] std::vector<std::string_view> any_map_names();

/// The names of the entries beyond the defaults that the program has added (any_map::add).
[[nodiscard]] std::vector<std::string_view> any_map_variant_names();

/// Whether the map of this name takes a placement. False for one whose partitions have their own, and for an unknown name.
[[nodiscard]] bool any_map_takes_placement(std::string_view name) noexcept;

struct any_map_options {
  /// Lent to the map; none: the one that the algorithm has by default, or a clustered one if that splits its nodes.
  std::optional<any_placement> placement;
  /// For a map that reclaims by epochs; null: one of its own. It outlives the map.
  epoch_domain* domain = nullptr;
};

class any_map final : public map_facade<any_map, catalog::key, catalog::value, std::less<catalog::key>,
                                        no_guard, uncounted_size> {
  using key = catalog::key;
  using value = catalog::value;
  using facade = map_facade<any_map, key, value, std::less<key>, no_guard, uncounted_size>;
  friend facade;

 public:
  using reclaimer_type = unprotected;
  /// What every map of the catalogue promises. properties_of_chosen() says more.
  static constexpr map_properties properties{.name = "any",
                                             .find_progress = progress::blocking,
                                             .update_progress = progress::blocking,
                                             .shape = balance::none,
                                             .region_protection = false,
                                             .paper = "the catalogue"};

  /// Throws std::invalid_argument, which lists the names, for an unknown one, and for a placement where the map's partitions
  /// have their own; std::bad_alloc.
  explicit any_map(std::string_view name, const any_map_options& o = {}) : held_(make(name, o)) {}
  any_map() : any_map("ordered_map") {}
  any_map(const any_map&) = delete;
  any_map& operator=(const any_map&) = delete;
  ~any_map() = default;

  [[nodiscard]] const map_properties& properties_of_chosen() const noexcept { return held_->properties; }
  [[nodiscard]] guard_type pin() const noexcept { return {}; }

  /// Performs operations of all kinds in this order, with one virtual call; returns the sum of what they return
  /// (catalog/step.hpp).
  std::uint64_t apply_all(std::span<const catalog::step> steps) { return held_->apply_all(steps); }

  /// The first entry whose key is not smaller.
  [[nodiscard]] std::optional<value_type> lower_bound(key k) const { return held_->lower_bound(k); }
  [[nodiscard]] std::optional<value_type> lower_bound(guard_type&, key k) const { return lower_bound(k); }

  // Quiescent only, for tests and inspection.

  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    held_->visit_nodes(
        [](void* v, const void* memory, std::size_t bytes, memory_role role) {
          (*static_cast<std::remove_reference_t<Visitor>*>(v))(memory, bytes, role);
        },
        const_cast<void*>(static_cast<const void*>(&visitor)));
  }
  [[nodiscard]] const char* check_invariants() const { return held_->check_invariants(); }
  /// Frees what was erased; returns how many blocks still wait.
  std::size_t collect() { return held_->collect(); }
  /// Of its placement: with a lent one, that of all to which it is lent.
  [[nodiscard]] memory_usage usage() const { return held_->usage().value_or(memory_usage{}); }

  using visit_function = bool (*)(void* visitor, key k, value v);

  /// A map with its type erased, with the operations of the contract.
  struct held : catalog::erased_map {
    using erased_map::erased_map;
    [[nodiscard]] virtual std::optional<value> find(key k) const = 0;
    [[nodiscard]] virtual bool contains(key k) const = 0;
    virtual bool insert(key k, value v) = 0;
    virtual bool assign(key k, value v) = 0;
    virtual bool erase(key k) = 0;
    /// From the key on, in order, until visit() returns false.
    virtual void scan(key from, visit_function visit, void* visitor) const = 0;
    [[nodiscard]] virtual std::optional<map_entry<key, value>> lower_bound(key k) const = 0;
    virtual std::size_t find_batch(std::span<const key> keys,
                                   std::span<std::optional<value>> results) const = 0;
    virtual std::size_t insert_batch(std::span<const map_entry<key, value>> entries) = 0;
    virtual std::size_t erase_batch(std::span<const key> keys) = 0;
    [[nodiscard]] virtual std::size_t size() const = 0;
    [[nodiscard]] virtual const char* check_invariants() const = 0;
    virtual std::size_t collect() = 0;
  };
  /// Throws as the constructor does.
  [[nodiscard]] static std::unique_ptr<held> make(std::string_view name, const any_map_options& o);
  /// How to make one.
  struct choice {
    std::string_view name;
    std::unique_ptr<held> (*make)(const any_map_options& o);
    bool takes_placement;
  };
  /// From now on there is a map of this name too, which lives as long as the program. Before main, or while no other thread uses
  /// any_map. Returns true.
  static bool add(const choice& one);

 private:
  [[nodiscard]] std::optional<value> do_find(guard_type&, const key& k) const { return held_->find(k); }
  [[nodiscard]] bool do_contains(guard_type&, const key& k) const { return held_->contains(k); }
  bool do_insert(guard_type&, const key& k, value v) { return held_->insert(k, v); }
  bool do_assign(guard_type&, const key& k, value v) { return held_->assign(k, v); }
  bool do_erase(guard_type&, const key& k) { return held_->erase(k); }
  template <class Visit>
  void do_scan(guard_type&, const bound_type& bound, Visit&& visit) const {
    key from = bound.key() == nullptr ? 0 : *bound.key();
    if (bound.excludes_key() && from++ == ~key{0}) return;
    held_->scan(
        from,
        [](void* v, key k, value of_k) {
          return (*static_cast<std::remove_reference_t<Visit>*>(v))(k, of_k);
        },
        const_cast<void*>(static_cast<const void*>(&visit)));
  }
  std::size_t do_find_batch(guard_type&, std::span<const key> keys,
                            std::span<std::optional<value>> results) const {
    return held_->find_batch(keys, results);
  }
  std::size_t do_insert_batch(guard_type&, std::span<const value_type> entries) {
    return held_->insert_batch(entries);
  }
  std::size_t do_erase_batch(guard_type&, std::span<const key> keys) { return held_->erase_batch(keys); }
  [[nodiscard]] std::size_t do_size() const { return held_->size(); }

  std::unique_ptr<held> held_;
};

}  // namespace espalier
