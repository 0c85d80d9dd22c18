#pragma once

#include "apps/oltp/published_unit.hpp"
#include "apps/studies/oltp/program.hpp"
#include "sim/runtime/spend.hpp"

// The trees of the study as indexes of the simulated database: each operation of a map is counted apart from the rest.

namespace espalier::simulate {

class in_index {
 public:
  in_index() noexcept : former_(sim::count_in(static_cast<unsigned>(database_part::index))) {}
  in_index(const in_index&) = delete;
  in_index& operator=(const in_index&) = delete;
  ~in_index() { sim::count_in(former_); }

 private:
  unsigned former_;
};

template <class Map>
class counted_index final : public detail::any_map_of<Map> {
  using base = detail::any_map_of<Map>;
  using key = catalog::key;
  using value = catalog::value;

 public:
  using base::base;

  [[nodiscard]] std::optional<value> find(key k) const override {
    const in_index scope;
    return base::find(k);
  }
  bool insert(key k, value v) override {
    const in_index scope;
    return base::insert(k, v);
  }
  bool erase(key k) override {
    const in_index scope;
    return base::erase(k);
  }
  void scan(key from, any_map::visit_function visit, void* visitor) const override {
    const in_index scope;
    base::scan(from, visit, visitor);
  }
  [[nodiscard]] std::optional<map_entry<key, value>> lower_bound(key k) const override {
    const in_index scope;
    return base::lower_bound(k);
  }
  std::size_t find_batch(std::span<const key> keys, std::span<std::optional<value>> results) const override {
    const in_index scope;
    return base::find_batch(keys, results);
  }
};

template <class EntryList>
any_map::choice counted_choice() {
  any_map::choice chosen{};
  EntryList::for_each([&]<class Entry>() {
    if constexpr (Entry::variant.empty())
      chosen = {Entry::algorithm, &detail::make_placed_any_map<typename Entry::map_type, counted_index>,
                true};
  });
  return chosen;
}

}  // namespace espalier::simulate

#undef ESPALIER_CATALOG_UNIT
#define ESPALIER_CATALOG_UNIT(algorithm)                                                                   \
  namespace espalier::detail {                                                                             \
  any_map::choice any_map_choice_of_##algorithm();                                                         \
  any_map::choice any_map_choice_of_##algorithm() {                                                        \
    return simulate::counted_choice<espalier::catalog::algorithm>();                                       \
  }                                                                                                        \
  }                                                                                                        \
  namespace {                                                                                              \
  [[maybe_unused]] const bool added =                                                                      \
      espalier::app::db::add_published<espalier::catalog::algorithm, espalier::simulate::counted_index>(); \
  }
