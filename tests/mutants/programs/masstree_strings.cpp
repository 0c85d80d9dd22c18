// The battery on masstree for strings: with small nodes, then with such as have containers with room; and a key that has
// its slot again.

#include <cstdint>
#include <string>

#include "espalier/map/btree/masstree.hpp"
#include "mutants/battery_program.hpp"
#include "scheduled/strings.hpp"

namespace espalier::mutants {
namespace {

void slot_used_again(sim::scene& s) {
  auto& map = s.make<masstree<std::string, std::uint64_t>>();
  const std::string k = "a key with a tail";
  map.insert(k, 1);
  map.insert("a key with another tail", 1);  // so that the erase does not take the container
  s.thread("inserts", [&map, k] {
    map.erase(k);
    map.insert(k, 2);
  });
  s.thread("finds", [&map, k] {
    if (map.find(k) == 2U) sim::require(map.contains(k), "a value is seen before its key is there");
  });
}

}  // namespace

void explore_all(scenes& all) {
  using sim::battery::masstree_of_strings;
  explore_battery<masstree_of_strings<3>>("masstree_of_strings", all);
  explore_battery<masstree_of_strings<5>>("masstree_of_strings", all);
  all.run("slot_used_again", slot_used_again, {}, 40);
}

}  // namespace espalier::mutants
