#pragma once

#include <memory>
#include <type_traits>

#include "espalier/hw/htm.hpp"
#include "espalier/map/map_traits.hpp"

namespace espalier::sim {

/// The transactions of the world in which the program runs, as a backend for locks and maps; transactions.hpp describes
/// them. Outside the threads of a world, and on a machine without transactions, run() aborts with status 0 and the body
/// never runs.
///
/// An abort leaves the body at any point, without destroying the objects of its frames. A body that follows the rules
/// of hw/htm.hpp has only memory of the simulated program there, which is restored.
class simulated_htm {
 public:
  /// Constant during a run of a world.
  [[nodiscard]] static bool available() noexcept;
  [[nodiscard]] static bool active() noexcept;

  template <hw::transaction_body Body>
  [[nodiscard]] static hw::transaction_outcome run(Body&& body) noexcept {
    using body_type = std::remove_cvref_t<Body>;
    return run_erased(
        [](const void* b) noexcept {
          // In registers, as where the instructions are a part of the caller.
          auto copy = *static_cast<const body_type*>(b);
          return hw::verdict_of(copy);
        },
        std::addressof(body));
  }

 private:
  using erased_body = hw::transaction_verdict (*)(const void*) noexcept;
  static hw::transaction_outcome run_erased(erased_body body, const void* context) noexcept;
};

static_assert(hw::transactional_backend<simulated_htm>);

/// The same map with these transactions, unless it has none.
template <class Map>
using with_simulated_htm = typename Map::template rebind<
    typename Map::key_type, typename Map::mapped_type, typename Map::key_compare,
    typename Map::traits_type::template where_used<
        std::conditional_t<std::is_same_v<typename Map::traits_type::htm_type, hw::unavailable>, map_traits,
                           map_traits::with_htm<simulated_htm>>>>;

}  // namespace espalier::sim
