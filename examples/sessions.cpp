// A cache of sessions that expire. One map holds the end time of each session. A second map is ordered by these times:
// a scan from its lowest key meets the expired sessions first and stops at the first live one. Other threads renew
// sessions during the scan.
//
// Prints:
//   expired at 1500: 501
//   expired at 2000: 99
//   expired at 2500: 400

#include <compare>
#include <cstdint>
#include <cstdio>
#include <espalier/map/bst/occ_avl.hpp>
#include <thread>
#include <vector>

namespace {

using number = std::uint64_t;

class session_cache {
 public:
  /// Opens the session, or renews it.
  void touch(number id, number now) {
    const number end = now + lifetime;
    end_of_.insert_or_assign(id, end);
    by_end_.insert({end, id}, 0);
  }

  /// Erases the sessions that ended by `now`, and returns their number.
  std::size_t expire(number now) {
    std::size_t expired = 0;
    // A visitor may use the map that calls it.
    by_end_.scan({0, 0}, [&](const entry& due, char) {
      if (due.end > now) return false;
      by_end_.erase(due);
      // A renewed session has a later end and another entry for that end.
      const auto end = end_of_.find(due.id);
      if (end && *end <= now && end_of_.erase(due.id)) ++expired;
      return true;
    });
    return expired;
  }

 private:
  static constexpr number lifetime = 1000;

  struct entry {
    number end;
    number id;
    auto operator<=>(const entry&) const = default;
  };

  // Entries arrive in key order. A balanced tree does not degenerate under that.
  espalier::occ_avl<number, number> end_of_;
  espalier::occ_avl<entry, char> by_end_;
};

}  // namespace

int main() {
  constexpr number sessions = 1000;
  constexpr number owners = 4;
  session_cache cache;
  // One owner thread touches each session.
  const auto by_owners = [](auto touch) {
    std::vector<std::thread> threads;
    threads.reserve(owners);
    for (number owner = 0; owner < owners; ++owner) {
      threads.emplace_back([touch, owner] {
        for (number id = owner; id < sessions; id += owners) touch(id);
      });
    }
    return threads;
  };

  // Session number i is opened at time i.
  std::vector<std::thread> opening = by_owners([&cache](number id) { cache.touch(id, id); });
  for (std::thread& t : opening) t.join();

  // At time 1500 the owners renew the sessions from number 600 on, while this thread expires those that are due.
  std::vector<std::thread> renewing = by_owners([&cache](number id) {
    if (id >= 600) cache.touch(id, 1500);
  });
  std::printf("expired at 1500: %zu\n", cache.expire(1500));
  for (std::thread& t : renewing) t.join();

  std::printf("expired at 2000: %zu\n", cache.expire(2000));
  std::printf("expired at 2500: %zu\n", cache.expire(2500));
}
