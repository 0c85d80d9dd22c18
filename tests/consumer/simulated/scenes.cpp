// Two scenes right and two wrong: a map of the library, and a structure of one's own.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <espalier/map/bst/ticket.hpp>
#include <iostream>
#include <string>
#include <string_view>

#include "sim/explore.hpp"
#include "sim/recorded_map.hpp"

namespace {

using namespace espalier;

using tree = ticket<std::uint64_t, std::uint64_t>;

/// Does nothing right but for one thread: what it found may be gone when it erases.
class absent_minded_map : public tree {
 public:
  bool erase(std::uint64_t key) {
    if (!contains(key)) return false;
    tree::erase(key);
    return true;
  }
};

template <class Map>
void two_erase(sim::scene& s) {
  auto& map = s.make<sim::recorded<Map>>();
  map.start_with(1, 10);
  s.thread("a", [&map] { map.erase(1); });
  s.thread("b", [&map] { map.erase(1); });
  s.at_end([&map] { map.check(); });
}

/// One place, taken by whoever finds it free.
template <bool Atomic>
class place {
 public:
  bool take() {
    if constexpr (Atomic) return !taken_.exchange(true);
    if (taken_.load()) return false;
    taken_.store(true);
    return true;
  }

 private:
  std::atomic<bool> taken_{false};
};

template <bool Atomic>
void two_take(sim::scene& s) {
  auto& all = s.make<place<Atomic>>();
  auto& takers = s.make<std::atomic<int>>(0);
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&all, &takers] {
      if (all.take()) ++takers;
    });
  }
  s.at_end([&takers] { sim::require(takers == 1, "one thread takes the place"); });
}

/// Passes if `text` is empty, else fails with it.
bool expect(const sim::exploration_report& report, std::string_view text) {
  if (report.passed()) return text.empty();
  if (!text.empty() && report.failure->text.find(text) != std::string::npos) return true;
  std::cout << report << '\n';
  return false;
}

}  // namespace

int main() {
  sim::exploration_options options;
  options.schedules = 300;
  const bool right =
      expect(sim::explore("erases of ticket", options, two_erase<tree>), "") &&
      expect(sim::explore("erases that do not look", options, two_erase<absent_minded_map>), "erase(1)") &&
      expect(sim::explore("a place", options, two_take<true>), "") &&
      expect(sim::explore("a place for two", options, two_take<false>), "one thread takes the place");
  std::puts(right ? "simulated consumer: right" : "simulated consumer: wrong");
  return right ? 0 : 1;
}
