#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/sync/elision.hpp"
#include "preload/elision/settings.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {

/// The counts of the sections of one mutex and call site.
struct counted_section {
  std::uintptr_t mutex;  ///< 0 for all sections without a place of their own
  std::uintptr_t site;   ///< a return address
  elision_counts elided;
  std::uint64_t taken;   ///< times the mutex itself was taken: without elision, or after it
  std::uint64_t waited;  ///< of these, times the mutex was not free at once
};

/// Counts by mutex and call site, in stripes: threads write different cache lines as far as there are stripes. Places
/// with counts are in a list, so that summing touches nothing else. Nothing is counted before start().
/// Constant-initialised, never destroyed.
class section_counts {
 public:
  static constexpr std::size_t most_sections = 1024;
  /// In addition to the events of elision.
  static constexpr std::size_t taken = elision_events;
  static constexpr std::size_t waited = elision_events + 1;

  using index = std::uint32_t;
  /// For sections that are not counted.
  static constexpr index nowhere = ~index{0};

  explicit constexpr section_counts(memory_budget& budget) noexcept : budget_(budget) {}
  section_counts(const section_counts&) = delete;
  section_counts& operator=(const section_counts&) = delete;

  /// Maps the memory. False where it is refused; then nothing is counted.
  bool start() noexcept;
  /// Has the kernel, if it can, give children of fork() zeroed memory in place of the table; clear() then has nothing
  /// to do there. After start().
  void wipe_in_children() noexcept;
  [[nodiscard]] bool counting() const noexcept { return table_ != nullptr; }

  /// The place of this mutex and site. Those that come when the table is full share one place. `key` is theirs.
  /// Constant time.
  [[nodiscard]] index find(std::uint64_t key, std::uintptr_t mutex, std::uintptr_t site) noexcept;

  /// Not in a transaction: every other thread that counts in the same place would abort it.
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

  /// Calls visit(counted_section) for each section with a count, and last for the shared place.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    if (!counting()) return;
    index at = first();
    // In a copy of the process made during enlist(), by a signal handler, the list may be circular.
    for (std::size_t most = most_sections + 1; most != 0 && at != end_of_list; --most) {
      if (at != most_sections) visit(sum(at));
      at = table_->names[at].after - 1;
    }
    if (table_->names[most_sections].stripes.load(std::memory_order_relaxed) != 0) visit(sum(most_sections));
  }

  /// Whether there is a section with a count.
  [[nodiscard]] bool counted() const noexcept { return counting() && first() != end_of_list; }

  /// Sets all counts to 0, as a child of fork() must. Linear in the places with counts. No thread counts meanwhile.
  void clear() noexcept;

 private:
  static constexpr std::size_t stripes = 16;
  static constexpr std::size_t events = elision_events + 2;
  static constexpr unsigned most_probes = 16;

  struct name {
    std::atomic<std::uint64_t> key;  // 0 while free; never changes after that
    std::atomic<std::uintptr_t> mutex;
    std::atomic<std::uintptr_t> site;
    std::atomic<std::uint32_t> stripes;  // a bit for each stripe in which something is counted
    std::uint32_t after;                 // next in the list: its index plus one; 0 for none
  };
  struct alignas(128) counters {
    std::array<std::atomic<std::uint64_t>, events> sums;
  };
  /// All zero initially, and in a child for which the kernel has wiped it.
  struct table {
    std::atomic<bool> begun;
    std::atomic<std::uint32_t> latest;  // as in name::after
    std::array<name, most_sections + 1> names;
    std::array<std::array<counters, most_sections + 1>, stripes> of_stripe;
  };
  static constexpr index end_of_list = ~index{0};

  [[nodiscard]] index first() const noexcept {
    // order: first (acquire) <- enlist (release)
    return table_->latest.load(std::memory_order_acquire) - 1;
  }
  void enlist(index at, std::size_t stripe) noexcept;
  template <class Visitor>
  void for_each_stripe_of(index at, Visitor&& visit) const noexcept;
  [[nodiscard]] counted_section sum(index at) const noexcept;

  memory_budget& budget_;
  table* table_ = nullptr;
};

/// Writes the counts to the place that the settings name, as lines of words between blanks: first one for the total,
/// then one with the column names, then one for each mutex and call site. On standard error only the twenty that ran
/// most often have lines, in descending order, and one line has all others. `how` is the policy as applied. A file is
/// in place whole or not at all. `standard_error` is its descriptor, or -1 where it no longer exists; then output for
/// it is dropped. Does not allocate by malloc; errno is preserved. False where a file could not be written.
bool report_counts(const elision_settings& settings, const section_counts& counts, const char* how,
                   int standard_error) noexcept;

}  // namespace espalier::preload
