// Scenes of rlu_list: those of all lists, and commits at one time.

#include "espalier/catalog/entries/rlu_list.hpp"
#include "scheduled/list_scenes.hpp"
#include "scheduled/maps.hpp"

ESPALIER_CATALOG_UNIT(rlu_list)

namespace espalier::sim {
namespace {

ESPALIER_LIST_SCENES(rlu_list)

struct pair_of_numbers {
  std::uint64_t number;
};
using numbers = rlu_domain<pair_of_numbers>;

/// Two objects that writers change together, two others that others do.
struct two_pairs {
  numbers domain;
  numbers::object a{{0}};
  numbers::object b{{0}};
  numbers::object c{{0}};
  numbers::object d{{0}};

  /// Adds one to both, or to none.
  void add(numbers::object& first, numbers::object& second) {
    numbers::section now(domain);
    while (true) {
      pair_of_numbers* const one = now.try_write(first);
      pair_of_numbers* const other = one != nullptr ? now.try_write(second) : nullptr;
      if (other != nullptr) {
        ++one->number;
        ++other->number;
        return now.commit();
      }
      now.abort([] { wait_for_others(); });
    }
  }
  void look() {
    const numbers::section now(domain);
    look_at(now, a, b);
    look_at(now, c, d);
  }
  static void look_at(const numbers::section& now, const numbers::object& first,
                      const numbers::object& second) {
    const pair_of_numbers& one = now.read(first);
    const std::uint64_t before = one.number;
    require(now.read(second).number == before, "a section sees a part of a commit");
    require(one.number == before, "what a section reads stays as it is");
  }
};

ESPALIER_SCENE(rlu_races, sections_beside_commits, 1000) {
  auto& all = s.make<two_pairs>();
  s.thread("first", [&all] {
    all.add(all.a, all.b);
    all.add(all.b, all.a);
    all.add(all.a, all.b);
  });
  s.thread("second", [&all] { all.add(all.c, all.d); });
  s.thread("reads", [&all] {
    all.look();
    all.look();
  });
}

ESPALIER_SCENE(rlu_races, writers_that_conflict, 1000) {
  auto& all = s.make<two_pairs>();
  s.thread("first", [&all] {
    all.add(all.a, all.b);
    all.add(all.c, all.d);
  });
  s.thread("second", [&all] {
    all.add(all.b, all.c);
    all.add(all.a, all.d);
  });
  s.at_end([&all] {
    for (const numbers::object* const one : {&all.a, &all.b, &all.c, &all.d})
      require(one->fields().number == 2 && !one->is_locked(), "each commit counts, and unlocks");
  });
}

/// A section that reads a copy, and two commits of its writer.
ESPALIER_SCENE(rlu_races, a_log_is_used_again, 1000) {
  auto& all = s.make<two_pairs>();
  s.thread("writes", [&all] {
    for (int i = 0; i < 4; ++i) i % 2 == 0 ? all.add(all.a, all.b) : all.add(all.c, all.d);
  });
  s.thread("reads", [&all] {
    for (int i = 0; i < 3; ++i) all.look();
  });
}

}  // namespace
}  // namespace espalier::sim
