#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/delegation/partitions.hpp"
#include "espalier/memory/placement_concept.hpp"

// What a map and a queue in partitions have in common (partitioned_map.hpp, partitioned_queue.hpp).

namespace espalier::detail {

/// All keys in the first partition.
struct one_partition {
  template <class Key>
  [[nodiscard]] std::uint64_t number(const Key&) const noexcept {
    return 0;
  }
  template <class Key>
  [[nodiscard]] unsigned partition(const Key&, unsigned) const noexcept {
    return 0;
  }
};

/// Where the keys of a structure go, unless the program gives a route. Equivalent keys are in one partition.
template <class Structure>
using usual_route = std::conditional_t<
    delegation::orders_equal_keys<typename Structure::key_compare, typename Structure::key_type>,
    delegation::by_hash, one_partition>;

/// How the operation of another thread has a key: a copy if it is small, otherwise a reference to that of the caller, which
/// waits.
template <class View>
class carried_key {
  using bare = std::remove_cvref_t<View>;
  static constexpr bool copies =
      std::is_trivially_copyable_v<bare> && sizeof(bare) <= 16 && alignof(bare) <= 8;

 public:
  explicit carried_key(const bare& key) noexcept : held_(of(key)) {}
  [[nodiscard]] const bare& operator*() const noexcept {
    if constexpr (copies)
      return held_;
    else
      return *held_;
  }

 private:
  using holder = std::conditional_t<copies, bare, const bare*>;
  static holder of(const bare& key) noexcept {
    if constexpr (copies)
      return key;
    else
      return &key;
  }
  holder held_;
};

/// A structure that its partition constructs: on the NUMA node of its locality, if its placement can be bound to one
/// (memory/node_bound.hpp).
template <class Structure>
struct in_partition : Structure {
  using key_compare = typename Structure::key_compare;
  in_partition(const delegation::partition_place& where, const key_compare& less)
    requires std::is_constructible_v<typename Structure::traits_type::placement_type, std::optional<unsigned>>
      : Structure(less, static_cast<typename Structure::reclaimer_type*>(nullptr), where.numa_node) {}
  in_partition(const delegation::partition_place&, const key_compare& less) : Structure(less) {}
};

/// The domains of all partitions, for what collects them.
template <class Partitions>
class partition_domains {
 public:
  explicit partition_domains(Partitions& all) noexcept : all_(all) {}
  /// As epoch_domain::collect. From a thread that is pinned in none.
  std::size_t collect() {
    std::size_t waiting = 0;
    for (unsigned i = 0; i < all_.count(); ++i) {
      if constexpr (requires { all_[i].domain().collect(); }) waiting += all_[i].domain().collect();
    }
    return waiting;
  }

 private:
  Partitions& all_;
};

/// A T for each partition, in the frame of an operation that asks all of them. Most structures have few, for which it needs no
/// memory.
template <class T>
class one_for_each {
  static constexpr unsigned usual = 4;

 public:
  explicit one_for_each(unsigned count) : count_(count), many_(count > usual ? count : 0) {}
  [[nodiscard]] T* begin() noexcept { return many_.empty() ? few_.data() : many_.data(); }
  [[nodiscard]] T* end() noexcept { return begin() + count_; }
  [[nodiscard]] T& operator[](unsigned i) noexcept { return begin()[i]; }

 private:
  unsigned count_;
  std::array<T, usual> few_;
  std::vector<T> many_;
};

/// The partitions, each with a Structure of its own.
template <class Structure, class Route>
class partitioned_structure {
 public:
  using part = in_partition<Structure>;
  using parts_type = delegation::partitions<part, Route>;

  partitioned_structure(const partitioned_structure&) = delete;
  partitioned_structure& operator=(const partitioned_structure&) = delete;

  /// The partitions, for operations of the program's own.
  [[nodiscard]] parts_type& parts() const noexcept { return *parts_; }

  // Quiescent only, for tests and inspection.

  [[nodiscard]] const char* check_invariants() const {
    for (unsigned i = 0; i < parts().count(); ++i) {
      if (const char* const wrong = parts()[i].check_invariants()) return wrong;
    }
    return nullptr;
  }
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum;
    for (unsigned i = 0; i < parts().count(); ++i) sum += parts()[i].usage();
    return sum;
  }
  [[nodiscard]] partition_domains<parts_type> domain() noexcept {
    return partition_domains<parts_type>(parts());
  }

 protected:
  using compare = typename Structure::key_compare;

  /// 0 partitions: one for each locality.
  partitioned_structure(delegation::runtime& threads, unsigned partitions, Route route, const compare& less)
      : parts_(std::make_unique<parts_type>(threads, partitions != 0 ? partitions : threads.locality_count(),
                                            std::move(route), less)) {}
  /// With a runtime of its own that has two localities, to which threads come in turn.
  explicit partitioned_structure(const compare& less)
      : own_(std::make_unique<delegation::runtime>(delegation::localities::in_turn(2))),
        parts_(std::make_unique<parts_type>(*own_, 2, Route(), less)) {}
  ~partitioned_structure() = default;

 private:
  std::unique_ptr<delegation::runtime> own_;
  std::unique_ptr<parts_type> parts_;
};

}  // namespace espalier::detail
