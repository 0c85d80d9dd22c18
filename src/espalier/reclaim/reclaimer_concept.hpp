#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace espalier {

/// An unlinked object, and how to reclaim it once no thread can hold a pointer to it. `aux` is for the caller to
/// use; an entry may stand for several objects that reclaim() finds from it.
struct retired {
  void* object;
  void* aux;
  /// The map that the object belongs to: reclaimer::purge() selects by it.
  void* owner;
  /// Must not call into the reclaimer, and must not block.
  void (*reclaim)(const retired&) noexcept;
};

/// Decides when unlinked memory may be reclaimed.
///
/// pin() enters a protected region and returns its witness: what the thread reaches while the guard lives
/// stays allocated. A guard belongs to the thread that made it; guards of one thread may nest. It protects in its own
/// domain alone; protects(domain) says so, for assertions.
///
/// A guard keeps everything that any thread retires while it lives. guard.renew() ends the region and enters another one,
/// so that a long loop keeps little: what was reached before may be gone. It has no effect inside another guard.
///
/// guard.reserve(n) throws std::bad_alloc or makes sure that the next n calls of retire on this thread
/// cannot fail. An operation reserves before its first change that other threads can see. So it either fails
/// with nothing changed or finishes.
///
/// guard.retire(entry) hands over an object that (I1) no path from a root reaches any more, (I2) no other
/// thread retires, (I3) no live object will point to again.
///
/// purge(owner) reclaims at once what this owner has retired. Only when no thread can still be inside
/// an operation on that owner: in the destructor of a map.
template <class R>
concept reclaimer =
    requires(R& r, typename R::guard& guard, std::size_t n, const retired& entry, void* owner) {
      { r.pin() } -> std::same_as<typename R::guard>;
      { guard.protects(r) } noexcept -> std::same_as<bool>;
      { guard.renew() } noexcept;
      guard.reserve(n);
      { guard.retire(entry) } noexcept;
      { r.purge(owner) } noexcept;
      { R::reclaims } -> std::convertible_to<bool>;
    } && std::movable<typename R::guard> && !std::copyable<typename R::guard>;

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

  template <class Domain>
  [[nodiscard]] static bool protects(const Domain&) noexcept {
    return true;
  }
  static void renew() noexcept {}
  void reserve(std::size_t) noexcept {}
  void retire(const retired& entry) noexcept { entry.reclaim(entry); }
};

/// The reclaimer that goes with it: reclaims at once. Correct only where the argument above holds; such a map
/// uses it in place of the reclaimer that its traits name.
class unprotected {
 public:
  static constexpr bool reclaims = true;
  using guard = no_guard;

  [[nodiscard]] guard pin() noexcept { return {}; }
  void purge(void*) noexcept {}
};

static_assert(reclaimer<unprotected>);

}  // namespace espalier
