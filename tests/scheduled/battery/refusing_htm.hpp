#pragma once

#include <cstdint>

#include "espalier/hw/htm.hpp"
#include "espalier/sync/elision.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace espalier::sim::battery {

/// The simulator's transactions, of which some are refused in a way that no further attempt helps: their sections fall
/// back. Left to itself, hardly one section in a thousand uses up its attempts.
class refusing_htm {
 public:
  /// In the run that begins: one transaction in so many, counted over all threads. 0: none.
  static void refuse_one_in(std::uint64_t n) noexcept {
    one_in_ = n;
    begun_ = 0;
  }

  [[nodiscard]] static bool available() noexcept { return simulated_htm::available(); }
  [[nodiscard]] static bool active() noexcept { return simulated_htm::active(); }

  template <hw::transaction_body Body>
  [[nodiscard]] static hw::transaction_outcome run(Body&& body) noexcept {
    if (refuses()) return {false, hw::abort_status::asked_for(not_elidable)};
    return simulated_htm::run(body);
  }

 private:
  // Its own accesses are no steps of the run.
  [[nodiscard, gnu::no_sanitize_thread, gnu::noinline]] static bool refuses() noexcept {
    return one_in_ != 0 && ++begun_ % one_in_ == 0;
  }

  static inline std::uint64_t one_in_ = 0;
  static inline std::uint64_t begun_ = 0;
};

static_assert(hw::transactional_backend<refusing_htm>);

}  // namespace espalier::sim::battery
