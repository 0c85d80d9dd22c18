#pragma once

// Loads that a core has issued and whose lines have not arrived.

#include <algorithm>
#include <array>
#include <cstdint>

namespace espalier::sim {

/// A core that executes out of order goes on beyond a load that misses, until it needs what it loads, or is as far beyond it
/// as its window reaches. Which instruction needs a load is not known here. An access needs an earlier load whose value is an
/// address a little below its own: it follows a pointer. What depends on a load in another way (an index, a branch that is
/// predicted wrongly) is not seen and waits only for the reach of the window.
class load_window {
 public:
  /// No value: far above all addresses.
  static constexpr std::uint64_t no_address = std::uint64_t{1} << 62U;

  /// At most `lines` lines of a core are on their way at once, at most most_loads; an access waits for the loads that are
  /// more than `reach` accesses before it.
  load_window(unsigned lines, unsigned reach) noexcept : lines_(lines), all_reach_(reach), reach_(reach) {}

  /// So many threads of the core are running: each has its part of the reach. Places for lines go to any thread.
  void share(unsigned threads) noexcept { reach_ = all_reach_ / threads; }

  [[nodiscard]] bool exists() const noexcept { return lines_ != 0; }
  /// Whether any load is on its way; quick.
  [[nodiscard]] bool any(std::uint64_t now) const noexcept { return latest_ > now; }
  /// How long until all have arrived.
  [[nodiscard]] std::uint64_t drain(std::uint64_t now) const noexcept {
    return latest_ > now ? latest_ - now : 0;
  }

  /// The next access is to this address: how long it waits for loads that it needs, or that are too far back.
  std::uint64_t before(std::uint64_t address, std::uint64_t now) noexcept {
    ++accesses_;
    std::uint64_t until = address - hit_.value < pointer_reach ? std::max(now, hit_.arrival) : now;
    if (!any(now)) return until - now;
    for (const load& l : loads_)
      if (l.arrival > until && (address - l.value < pointer_reach || accesses_ - l.number > reach_))
        until = l.arrival;
    return until - now;
  }

  /// When the line arrives, if a load has asked for it; else `now`.
  [[nodiscard]] std::uint64_t arrival_of(std::uint32_t line, std::uint64_t now) const noexcept {
    for (const load& l : loads_)
      if (l.line == line && l.arrival > now) return l.arrival;
    return now;
  }

  /// Lines that are on their way.
  [[nodiscard]] unsigned lines(std::uint64_t now) const noexcept {
    if (!any(now)) return 0;
    return static_cast<unsigned>(
        std::ranges::count_if(loads_, [now](const load& l) { return l.asked && l.arrival > now; }));
  }

  /// How long a load waits until another line may be asked for; other threads of the core wait for `others`. A thread
  /// without any waits for none of theirs.
  [[nodiscard]] std::uint64_t place(std::uint64_t now, unsigned others) const noexcept {
    const unsigned mine = lines(now);
    if (mine == 0 || mine + others < lines_) return 0;
    std::uint64_t first = latest_;
    for (const load& l : loads_)
      if (l.asked && l.arrival > now) first = std::min(first, l.arrival);
    return first - now;
  }

  /// A load that has hit: its value is there then.
  void add_hit(std::uint64_t value, std::uint64_t arrival) noexcept {
    hit_ = {.value = value, .arrival = arrival};
  }

  /// A load of a line that arrives then. `asked`: it has asked for the line itself. Returns how long it waits until another one
  /// has arrived, if there is no room for it.
  std::uint64_t add(std::uint64_t now, std::uint32_t line, std::uint64_t value, std::uint64_t arrival,
                    bool asked) noexcept {
    load& first = *std::ranges::min_element(loads_, {}, &load::arrival);
    const std::uint64_t wait = first.arrival > now ? first.arrival - now : 0;
    first = {line, asked, value, arrival + wait, accesses_};
    latest_ = std::max(latest_, first.arrival);
    return wait;
  }

  static constexpr unsigned most_loads = 16;

 private:
  /// A field of an object of at most this size.
  static constexpr std::uint64_t pointer_reach = 4096;

  struct load {
    std::uint32_t line = 0;
    bool asked = false;
    std::uint64_t value = no_address;
    std::uint64_t arrival = 0;
    std::uint64_t number = 0;  // of accesses before it
  };
  unsigned lines_;
  unsigned all_reach_;
  unsigned reach_;
  std::array<load, most_loads> loads_{};
  load hit_;  // the latest
  std::uint64_t accesses_ = 0;
  std::uint64_t latest_ = 0;
};

}  // namespace espalier::sim
