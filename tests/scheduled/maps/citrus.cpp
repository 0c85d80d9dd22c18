// Moves of successors in citrus that the battery rarely reaches. In most scenes one thread stops before it takes a lock, and
// continues when another has done its part. These have a single relevant schedule, and always run it.

#include <atomic>
#include <utility>

#include "espalier/catalog/entries/citrus.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(citrus)

namespace espalier::sim {
namespace {

/// A point where a thread stops for others.
class stop {
 public:
  void reach() {
    reached_ = true;
    while (!open_.load()) wait_for_others();
  }
  void pass() { reached_ = true; }
  /// Waits until a thread has arrived here.
  void await() const {
    while (!reached_.load()) wait_for_others();
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> reached_{false};
  std::atomic<bool> open_{false};
};

/// A lock before which a thread stops: the next one that takes it, or one after a number of acquisitions.
struct stopping_lock : ttas_lock {
  void lock() noexcept {
    if (at != nullptr && locks_before-- == 0) std::exchange(at, nullptr)->reach();
    ttas_lock::lock();
  }
  static inline stop* at = nullptr;
  static inline int locks_before = 0;
};

using plain = citrus<catalog::key, catalog::value>;
using stopping = citrus<catalog::key, catalog::value, map_traits::with_lock<stopping_lock>>;

/// One thread does `first` up to a lock; then another does `then`.
template <class First, class Then>
void stopped(scene& s, int locks_before, First first, Then then) {
  auto& here = s.make<stop>();
  stopping_lock::at = nullptr;
  s.thread("stops", [&here, locks_before, first] {
    stopping_lock::locks_before = locks_before;
    stopping_lock::at = &here;
    first();
    // It took fewer locks: release the other thread anyway.
    if (std::exchange(stopping_lock::at, nullptr) != nullptr) here.pass();
  });
  s.thread("meanwhile", [&here, then] {
    here.await();
    then();
    here.open();
  });
}

/// The insert of 52 finds the left edge of 80 empty. When it links there, the edge is empty again. But 55, which was
/// inserted there and has moved to the place of 50, now leads searches for 52 away from it.
ESPALIER_SCENE(citrus_moves, insert_at_an_edge_that_is_empty_again, 200, 0.1) {
  auto& map = map_with<stopping>(s, {50, 20, 80});
  stopped(
      s, 0, [&map] { map.insert(52, 1); },
      [&map] {
        map.insert(55, 2);
        map.erase(50);
      });
}

/// The same, but the edge becomes empty by the erase of the node that replaced 55 there, not by the move.
ESPALIER_SCENE(citrus_moves, insert_at_an_edge_that_is_empty_later, 200, 0.1) {
  auto& map = map_with<stopping>(s, {50, 20, 80});
  stopped(
      s, 0, [&map] { map.insert(52, 1); },
      [&map] {
        map.insert(55, 2);
        map.insert(57, 3);
        map.erase(50);
        map.erase(57);
      });
}

/// The node below which an insert is about to link is the successor that moves.
ESPALIER_SCENE(citrus_moves, insert_below_the_successor, 200, 0.1) {
  auto& map = map_with<stopping>(s, {50, 20, 80});
  stopped(s, 0, [&map] { map.insert(52, 1); }, [&map] { map.erase(50); });
}

/// An erase holds the locks of 50, of the node above and of the copy, and has found the successor, 60. Before it locks
/// 60, a smaller key is inserted.
ESPALIER_SCENE(citrus_moves, successor_gets_a_left_child, 200, 0.1) {
  auto& map = map_with<stopping>(s, {50, 20, 80, 60});
  stopped(s, 3, [&map] { map.erase(50); }, [&map] { map.insert(55, 1); });
}

/// As above, but the successor is erased.
ESPALIER_SCENE(citrus_moves, successor_goes, 200, 0.1) {
  auto& map = map_with<stopping>(s, {50, 20, 80, 60});
  stopped(
      s, 3, [&map] { map.erase(50); },
      [&map] {
        map.erase(60);
        map.insert(70, 1);
      });
}

/// A writer stops with four locks held; readers are not delayed.
ESPALIER_SCENE(citrus_moves, readers_beside_a_stopped_erase, 200, 0.1) {
  auto& map = map_with<stopping>(s, {50, 20, 80, 60, 70});
  stopped(
      s, 4, [&map] { map.erase(50); },
      [&map] {
        for (const std::uint64_t key : {50, 20, 80, 60, 70}) map.find(key);
        map.scan(0);
      });
}

/// The first scene with every stop that an insert can make.
ESPALIER_SCENE(citrus_moves, insert_beside_a_move, 5000) {
  auto& map = map_with<plain>(s, {50, 20, 80});
  s.thread("inserts", [&map] { map.insert(52, 1); });
  s.thread("moves", [&map] {
    map.insert(55, 2);
    map.erase(50);
  });
}

/// While 80 is linked twice, the copy loses its left child and is itself erased.
ESPALIER_SCENE(citrus_moves, copy_is_erased_during_the_move, 5000) {
  auto& map = map_with<plain>(s, {50, 20, 80});
  s.thread("moves", [&map] { map.erase(50); });
  s.thread("erases", [&map] {
    map.erase(20);
    map.erase(80);
    map.contains(80);
  });
  s.thread("reads", [&map] { map.find(80); });
}

/// Searches pass 50 before the move, and reach 60 and the nodes below it after the move.
ESPALIER_SCENE(citrus_moves, searches_are_overtaken, 5000) {
  auto& map = map_with<plain>(s, {50, 20, 80, 60, 70});
  s.thread("moves", [&map] { map.erase(50); });
  s.thread("finds", [&map] {
    map.find(60);
    map.find(70);
  });
  s.thread("scans", [&map] { map.scan(60); });
}

/// If they take locks without a common order, each takes locks for which another waits.
ESPALIER_SCENE(citrus_moves, moves_that_share_nodes, 5000) {
  auto& map = map_with<plain>(s, {50, 20, 80, 60, 70, 90});
  s.thread("moves 60", [&map] { map.erase(50); });
  s.thread("erases 60", [&map] { map.erase(60); });
  s.thread("moves 90", [&map] { map.erase(80); });
  s.thread("assigns", [&map] { map.insert_or_assign(60, 1); });
}

}  // namespace
}  // namespace espalier::sim
