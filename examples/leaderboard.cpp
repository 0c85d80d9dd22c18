// A leaderboard: players gain points in several threads, and the best ones are listed while they do. The points of a
// player are one map, with an update that is one atomic step. A second map has the players in the order of their points.
//
// Two threads that change the points of one player change the second map in any order. So it holds sums: one more for the
// points that the player has now, one less for those before. A sum of 0 has no entry, and where a rank is left before it is
// taken the sum is -1 for a moment. A map that was only told to insert and to erase would keep such ranks for ever.
//
// Prints:
//   1. player 9 with 900 points
//   2. player 8 with 800 points
//   3. player 7 with 700 points
//   9 players have a rank

#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
    count(rank_of(*after, one), 1);
    if (before) count(rank_of(*before, one), -1);
  }

  template <class Show>
  void best(unsigned count, const Show& show) const {
    if (count == 0) return;
    unsigned place = 0;
    ranks_.scan(~rank{0}, [&](rank r, int sum) {
      if (sum <= 0) return true;
      show(++place, static_cast<player>(r), static_cast<points>(r >> 32U));
      return place != count;
    });
  }
  [[nodiscard]] std::size_t players() const { return ranks_.size(); }

 private:
  void count(rank r, int more) {
    ranks_.update(r, [more](std::optional<int> sum) {
      const int now = sum.value_or(0) + more;
      return now == 0 ? std::nullopt : std::optional(now);
    });
  }

  espalier::ordered_map<player, points> points_;
  espalier::ordered_map<rank, int, std::greater<>> ranks_;
};

}  // namespace

// leaderboard [ROUNDS]
int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 25;
  leaderboard board;
  std::vector<std::thread> games;
  for (int game = 0; game < 4; ++game) {
    games.emplace_back([&board, rounds] {
      for (int round = 0; round < rounds; ++round) {
        for (player p = 1; p < 10; ++p) board.gain(p, p);
        board.best(3, [](unsigned, player, points) {});  // may see a player twice while it moves up
      }
    });
  }
  for (std::thread& t : games) t.join();
  board.best(3, [](unsigned place, player p, points n) {
    std::printf("%u. player %u with %u points\n", place, p, n);
  });
  std::printf("%zu players have a rank\n", board.players());
}
