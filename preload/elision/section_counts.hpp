#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/sync/elision_policy.hpp"
#include "preload/recording/memory_budget.hpp"

namespace espalier::preload {

/// What is counted of the sections of one mutex and call site.
struct counted_section {
  std::uintptr_t mutex;  ///< 0 for all that found no place
  std::uintptr_t site;   ///< a return address
  elision_counts elided;
  std::uint64_t taken;   ///< the mutex itself was taken: without elision, or after it
  std::uint64_t waited;  ///< of these, the mutex was not free at once
};

/// Counts by mutex and call site, in stripes: threads add to different lines as far as there are stripes. What has counts
/// is in a list, so that who sums them up touches nothing else. Nothing is counted before start(). Constant-initialised,
/// never destroyed.
class section_counts {
 public:
  static constexpr std::size_t most_sections = 1024;
  /// Beyond the events of elision.
  static constexpr std::size_t taken = elision_events;
  static constexpr std::size_t waited = elision_events + 1;

  using index = std::uint32_t;
  /// Of what is not counted.
  static constexpr index nowhere = ~index{0};

  explicit constexpr section_counts(memory_budget& budget) noexcept : budget_(budget) {}
  section_counts(const section_counts&) = delete;
  section_counts& operator=(const section_counts&) = delete;

  /// Maps the memory; false where it is refused, and nothing is counted.
  bool start() noexcept;
  /// Has the kernel hand children of fork() zeroed memory instead of all this, where it can: clear() has then nothing to do
  /// there. Behind start().
  void wipe_in_children() noexcept;
  [[nodiscard]] bool counting() const noexcept { return table_ != nullptr; }

  /// Where this mutex and site are counted; a place for the rest is shared by those that come when the table is
  /// full. `key` is theirs. Constant time.
  [[nodiscard]] index find(std::uint64_t key, std::uintptr_t mutex, std::uintptr_t site) noexcept;

  /// Not in a transaction: it would be aborted by everybody who counts in the same place.
  void add(index at, unsigned stripe, std::size_t event) noexcept {
    if (at == nowhere) return;
    // relaxed: a sum has no order.
    std::atomic<std::uint64_t>& sum = table_->of_stripe[stripe % stripes][at].sums[event];
    if (sum.fetch_add(1, std::memory_order_relaxed) == 0) [[unlikely]]
      enlist(at, stripe % stripes);
  }
  void add(index at, unsigned stripe, elision_event event) noexcept {
    add(at, stripe, static_cast<std::size_t>(event));
  }

  /// Calls visit(counted_section) for each with a count, and for the rest last.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    if (!counting()) return;
    index at = first();
    // In a copy that a signal handler made in the middle of enlist(), the list may be a ring.
    for (std::size_t most = most_sections + 1; most != 0 && at != end_of_list; --most) {
      if (at != most_sections) visit(sum(at));
      at = table_->names[at].after - 1;
    }
    if (table_->names[most_sections].stripes.load(std::memory_order_relaxed) != 0) visit(sum(most_sections));
  }

  /// Whether there is a section with a count.
  [[nodiscard]] bool counted() const noexcept { return counting() && first() != end_of_list; }

  /// Everything is 0 again, as it must be in a child of fork(). Linear in what has counts. Nobody counts meanwhile.
  void clear() noexcept;

 private:
  static constexpr std::size_t stripes = 16;
  static constexpr std::size_t events = elision_events + 2;
  static constexpr unsigned most_probes = 16;

  struct name {
    std::atomic<std::uint64_t> key;  // 0 while free; never changes after that
    std::atomic<std::uintptr_t> mutex;
    std::atomic<std::uintptr_t> site;
    std::atomic<std::uint32_t> stripes;  // a bit for each in which something is counted
    std::uint32_t after;                 // in the list, by one more than its index: 0 for none
  };
  struct alignas(128) counters {
    std::array<std::atomic<std::uint64_t>, events> sums;
  };
  /// All zero at first, and in a child for which the kernel has wiped it.
  struct table {
    std::atomic<bool> begun;
    std::atomic<std::uint32_t> latest;  // as in name::after
    std::array<name, most_sections + 1> names;
    std::array<std::array<counters, most_sections + 1>, stripes> of_stripe;
  };
  static constexpr index end_of_list = ~index{0};

  [[nodiscard]] index first() const noexcept {
    // order: first (acquire) -> enlist (release)
    return table_->latest.load(std::memory_order_acquire) - 1;
  }
  void enlist(index at, std::size_t stripe) noexcept;
  template <class Visitor>
  void for_each_stripe_of(index at, Visitor&& visit) const noexcept;
  [[nodiscard]] counted_section sum(index at) const noexcept;

  memory_budget& budget_;
  table* table_ = nullptr;
};

}  // namespace espalier::preload
