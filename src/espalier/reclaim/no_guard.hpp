#pragma once

#include <cstddef>

#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier {

/// The guard of a map in which no thread can hold a pointer to an unlinked object, because locks keep readers
/// away: it protects nothing and costs nothing. It is movable only, as all guards are, so that code which copies
/// a guard does not compile with this map either.
class [[nodiscard]] no_guard {
 public:
  no_guard() noexcept = default;
  no_guard(no_guard&&) noexcept = default;
  no_guard& operator=(no_guard&&) noexcept = default;
  no_guard(const no_guard&) = delete;
  no_guard& operator=(const no_guard&) = delete;
  ~no_guard() = default;

  void reserve(std::size_t) noexcept {}
  void retire(const retired& entry) noexcept { entry.reclaim(entry); }
};

/// The reclaimer that goes with it: reclaims at once. Correct only where the argument above holds; such a map
/// uses it in place of the reclaimer that its traits name.
class unprotected {
 public:
  static constexpr bool gives_back = true;
  using guard = no_guard;

  [[nodiscard]] guard pin() noexcept { return {}; }
  void purge(void*) noexcept {}
};

static_assert(reclaimer<unprotected>);

}  // namespace espalier
