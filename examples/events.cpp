// A store of events by time. Several threads append, a reader looks at a window, and what is too old goes. Keys that come
// in order fill the nodes of the map, and a window that moves on needs no more memory.
//
// Prints:
//   4000 events
//   8 events from 100 ms on, up to 102 ms
//   the last one comes at 999 ms
//   2000 events expired, 2000 are left

#include <cstdint>
#include <cstdio>
#include <espalier/ordered_map.hpp>
#include <thread>
#include <vector>

namespace {

/// The time in ms, and which of the threads saw the event: two events of one time have two keys.
enum class moment : std::uint64_t {};
moment at(std::uint64_t ms, unsigned source = 0) { return moment{ms << 16U | source}; }

using store = espalier::ordered_map<moment, std::uint32_t>;

}  // namespace

int main() {
  store events;
  std::vector<std::thread> sources;
  for (unsigned source = 0; source < 4; ++source) {
    sources.emplace_back([&events, source] {
      for (unsigned ms = 0; ms < 1000; ++ms) events.insert(at(ms, source), ms * source);
    });
  }
  for (std::thread& t : sources) t.join();
  std::printf("%zu events\n", events.size());

  const std::size_t seen = events.scan(at(100), at(102), [](moment, std::uint32_t) {});
  std::printf("%zu events from 100 ms on, up to 102 ms\n", seen);
  if (const auto last = events.last())
    std::printf("the last one comes at %u ms\n",
                static_cast<unsigned>(static_cast<std::uint64_t>(last->key) >> 16U));

  const std::size_t expired = events.erase(at(0), at(500));
  std::printf("%zu events expired, %zu are left\n", expired, events.size());
}
