// What must not compile, and what the compiler says then: refused_test.py compiles this file, and compares each comment
// with the errors of the lines behind it.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/ordered_map.hpp"
#include "espalier/ordered_set.hpp"
#include "espalier/sync/ticket_lock.hpp"

namespace {

using espalier::map_traits;
using espalier::ordered_map;

struct point {
  int x;
  int y;
};
struct order_of_numbers {
  bool operator()(int a, int b) const { return a < b; }
};
struct shorter {
  bool operator()(std::string_view a, std::string_view b) const { return a.size() < b.size(); }
};
struct order_of_targets {
  bool operator()(const point* a, const point* b) const { return a->x < b->x; }
};

template <class Map>
constexpr std::size_t made = sizeof(Map);

// refused: a key is a number
constexpr auto vector = made<ordered_map<std::vector<int>, int>>;
// refused: a key is a number
constexpr auto wide_string = made<ordered_map<std::wstring, int>>;
// refused: take std::string as the key, which is asked by std::string_view
constexpr auto view = made<ordered_map<std::string_view, int>>;
// refused: std::pair and std::tuple are not
constexpr auto pair = made<ordered_map<std::pair<int, int>, int>>;
// refused: std::pair and std::tuple are not
constexpr auto tuple = made<ordered_map<std::tuple<int, int>, int>>;
// refused: a struct needs an operator<
constexpr auto unordered = made<ordered_map<point, int>>;
// refused: the comparator does not compare two const keys
constexpr auto other_order = made<ordered_map<point, int, order_of_numbers>>;
// refused: an order of strings compares std::string_view
constexpr auto order_of_copies = made<ordered_map<std::string, int, std::less<std::string>>>;
// refused: keys are ordered by their bytes
constexpr auto by_length = made<ordered_map<std::string, int, shorter>>;
// refused: must outlive the map
constexpr auto targets = made<ordered_map<const point*, int, order_of_targets>>;
// refused: std::unique_ptr has no copies
constexpr auto unique = made<ordered_map<int, std::unique_ptr<int>>>;
// refused: policy_for
constexpr auto locked = made<ordered_map<int, int, map_traits::with_lock<espalier::ticket_lock>>>;

void visit(const ordered_map<int, int>& map) {
  // refused: the visitor of a scan returns nothing, or a bool
  map.scan([](int, int) { return 1; });
  // refused: the visitor of a scan returns nothing, or a bool
  map.scan(1, [](int, int) { return std::true_type(); });
  // refused: the visitor of a scan takes two arguments
  map.scan([](int) {});
  // refused: the visitor of a scan takes two arguments
  map.reverse_scan(1, 0, [](auto&) {});
  // refused: the visitor of find takes one argument, the value
  map.find(1, [](std::string) {});
  auto guard = map.pin();
  // refused: the visitor of find takes one argument, the value
  map.find(guard, 1, [](int, int) {});
  // refused: the visitor of a scan takes two arguments
  map.scan(guard, 1, [](int) {});
  // refused: find returns a std::optional
  static_cast<void>(map.find(1) != map.end());
}
void visit(const ordered_map<std::string, long>& map, const espalier::ordered_set<int>& set) {
  // refused: the visitor of a scan takes two arguments
  map.scan_prefix("a", [](int, std::string) {});
  // refused: find returns a std::optional
  static_cast<void>(map.end() == map.find("a"));
  // refused: the visitor of a scan of an ordered_set takes one argument
  set.scan([](int, int) {});
}

void change(ordered_map<int, int>& map, espalier::ordered_set<int>& set) {
  // refused: a function of the value itself is for update_present
  map.update(1, [](int value) { return value + 1; });
  // refused: returns the value to store
  map.update(1, [](auto value) { value.reset(); });
  // refused: the function of update_present takes a const Value&
  map.update_present(1, [](std::optional<int>& value) { return value; });
  // refused: the function of find_or_compute takes no argument
  map.find_or_compute(1, [](int key) { return key; });
  // refused: the predicate of erase_if takes two arguments
  map.erase_if([](int) { return true; });
  // refused: the predicate of erase_if takes a key
  set.erase_if([](int, int) { return true; });
}

void copy(const ordered_map<int, int>& map, const espalier::ordered_set<int>& set) {
  // refused: take m.copy()
  ordered_map<int, int> made(map);
  // refused: take a = b.copy()
  made = map;
  // refused: take s.copy()
  espalier::ordered_set<int> keys(set);
}

// What compiles: the program is right but for what is refused.
constexpr auto same_targets = made<ordered_map<const point*, int>>;
constexpr auto decreasing = made<ordered_map<int, int, std::greater<int>>>;
constexpr auto decreasing_strings = made<ordered_map<std::string, int, std::greater<>>>;
void right(ordered_map<std::string, int>& map) {
  map.scan([](const std::string&, int) {});
  map.scan([](std::string_view, int) { return true; });
  map.find("a", [](const int&) {});
  map.update("a", [](const std::optional<int>&) { return 1; });
  map.update_present("a", [](int value) { return value % 2 == 0 ? std::optional(value) : std::nullopt; });
  static_cast<void>(map.begin() == map.end() || map.end() == map.rbegin());
}
constexpr auto decreasing_with_policies = made<ordered_map<int, int, std::greater<>, map_traits>>;

}  // namespace
