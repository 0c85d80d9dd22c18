// A leaderboard: players gain points in several threads, and the best ones are listed while they do. The points of a
// player are one map, with an update that is one atomic step. A second map has the players in the order of their points.
//
// Prints:
//   1. player 9 with 900 points
//   2. player 8 with 800 points
//   3. player 7 with 700 points

#include <cstdint>
#include <cstdio>
#include <espalier/ordered_map.hpp>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

namespace {

using player = std::uint32_t;
using points = std::uint32_t;
/// Points before the player: the order of these numbers is that of the points.
using rank = std::uint64_t;
rank rank_of(points p, player of) { return rank{p} << 32U | of; }

class leaderboard {
 public:
  void gain(player one, points more) {
    const auto [before, after] =
        points_.update(one, [more](std::optional<points> p) { return std::optional(p.value_or(0) + more); });
    ranks_.insert(rank_of(*after, one), 0);
    ranks_.erase(rank_of(before.value_or(0), one));
  }

  template <class Show>
  void best(unsigned count, const Show& show) const {
    if (count == 0) return;
    unsigned place = 0;
    ranks_.scan(~rank{0}, [&](rank r, char) {
      show(++place, static_cast<player>(r), static_cast<points>(r >> 32U));
      return place != count;
    });
  }

 private:
  espalier::ordered_map<player, points> points_;
  espalier::ordered_map<rank, char, espalier::map_traits, std::greater<>> ranks_;
};

}  // namespace

int main() {
  leaderboard board;
  std::vector<std::thread> games;
  for (int game = 0; game < 4; ++game) {
    games.emplace_back([&board] {
      for (int round = 0; round < 25; ++round) {
        for (player p = 1; p < 10; ++p) board.gain(p, p);
        board.best(3, [](unsigned, player, points) {});  // may see a player twice while it moves up
      }
    });
  }
  for (std::thread& t : games) t.join();
  board.best(3, [](unsigned place, player p, points n) {
    std::printf("%u. player %u with %u points\n", place, p, n);
  });
}
