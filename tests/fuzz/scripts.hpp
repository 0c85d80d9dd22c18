#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/memory/shared_heap.hpp"

// Scripts: bytes that say which operations one thread does on an ordered_map and on a std::map. Every outcome is compared.
// Any bytes are a script, so a fuzzer and a generator of random numbers both write them.
//
// The first byte chooses one of the kinds of maps below. Then each operation is a byte for what it does, and the bytes of its
// arguments. Behind the end of a script all bytes are 0. The maps have few keys, and most have small nodes, so that a
// script of some hundred bytes splits and merges nodes.

namespace espalier::fuzz {

/// The bytes that are left of a script.
class script {
 public:
  explicit script(std::span<const std::uint8_t> bytes) noexcept : left_(bytes) {}

  [[nodiscard]] bool over() const noexcept { return left_.empty(); }
  unsigned byte() noexcept {
    if (left_.empty()) return 0;
    const unsigned first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  unsigned two_bytes() noexcept {
    const unsigned low = byte();
    return low | byte() << 8U;
  }

 private:
  std::span<const std::uint8_t> left_;
};

using policies = map_traits::with_placement<shared_heap>;  // AddressSanitizer knows the blocks of this one

// A kind of map: its type, how many keys scripts use, and what the numbers of keys and values stand for.

/// Keys in a row, at the end of the type, far from each other, and at random.
template <class Key>
Key integer_key(unsigned n) noexcept {
  const unsigned which = n >> 2U;
  switch (n & 3U) {
    case 0:
      return static_cast<Key>(which);
    case 1:
      return static_cast<Key>(std::numeric_limits<Key>::max() - static_cast<Key>(which));
    case 2:
      return static_cast<Key>(std::rotr(static_cast<std::make_unsigned_t<Key>>(which), 8));
    default:
      return static_cast<Key>(measure::mix64(which));
  }
}

template <class Map, unsigned Keys>
struct integers {
  using map_type = Map;
  static constexpr unsigned keys = Keys;
  static typename Map::key_type key(unsigned n) noexcept { return integer_key<typename Map::key_type>(n); }
  static typename Map::mapped_type value(unsigned n) noexcept { return n; }
  static unsigned number(typename Map::mapped_type v) noexcept { return static_cast<unsigned>(v); }
};

using narrow = integers<ordered_map<std::uint64_t, std::uint64_t, policies>::with_fanout<3, 4>, 1024>;
using middling = integers<ordered_map<std::uint64_t, std::uint64_t, policies>::with_fanout<8, 64>, 4096>;
using full_size = integers<ordered_map<std::uint64_t, std::uint64_t, policies>, 65536>;
/// Words of 4 bytes: their leaves do not exchange pairs. Two values side by side are often what such a leaf has for a key.
struct decreasing
    : integers<ordered_map<std::int32_t, std::uint32_t, policies, std::greater<>>::with_fanout<8, 4>, 1024> {
  static std::uint32_t value(unsigned n) noexcept {
    return n % 2 == 1 ? ~std::uint32_t{0} : (~std::uint32_t{0} >> 1U) - n / 2 % 256;
  }
};

/// Values that lie in cells.
struct doubles {
  struct three_words {
    std::uint64_t first, second, third;
    friend bool operator==(const three_words&, const three_words&) = default;
  };
  using map_type = ordered_map<double, three_words, policies>::with_fanout<6, 4>;
  static constexpr unsigned keys = 1024;
  static double key(unsigned n) noexcept {
    using limits = std::numeric_limits<double>;
    constexpr std::array special{0.0, limits::infinity(), limits::max(), limits::min(), limits::denorm_min()};
    const double sign = (n & 4U) != 0 ? -1 : 1;
    switch (n & 3U) {
      case 0:
        return sign * special[(n >> 3U) % special.size()];
      case 1:
        return sign * (n >> 3U);
      default: {
        const auto any = std::bit_cast<double>(measure::mix64(n));
        return std::isnan(any) ? sign : any;
      }
    }
  }
  static three_words value(unsigned n) noexcept { return {n, ~std::uint64_t{n}, measure::mix64(n)}; }
  static unsigned number(const three_words& v) noexcept { return static_cast<unsigned>(v.first); }
};

/// Long and short strings with equal beginnings, with zeros in them, and the empty one.
struct strings {
  using map_type = ordered_map<std::string, std::uint64_t, policies>;
  static constexpr unsigned keys = 2048;
  static std::string key(unsigned n) {
    constexpr std::array<std::size_t, 16> lengths{0, 1, 6, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 63, 64, 100};
    constexpr std::string_view letters("\0a\x7f\xff", 4);
    std::string all(lengths[n % 16], (n & 16U) != 0 ? '\0' : 'a');
    const std::string end{letters[n >> 7U & 3U], letters[n >> 9U & 3U], 'a'};
    return all.append(end, 0, n >> 5U & 3U);
  }
  static std::uint64_t value(unsigned n) noexcept { return n; }
  static unsigned number(std::uint64_t v) noexcept { return static_cast<unsigned>(v); }
};

/// Keys of a type of their own, some of them equivalent, as their order has it.
struct structs {
  struct both {
    std::int16_t first, second;
    friend bool operator==(const both&, const both&) = default;
  };
  struct order {
    int ignored = 0;  ///< bits of the second part
    bool operator()(const both& a, const both& b) const noexcept {
      return a.first != b.first ? a.first > b.first : (a.second >> ignored) < (b.second >> ignored);
    }
  };
  using map_type = ordered_map<both, std::uint64_t, policies, order>::with_fanout<5, 4>;
  static constexpr unsigned keys = 1024;
  static both key(unsigned n) noexcept {
    return {static_cast<std::int16_t>((n >> 6U) - 8), static_cast<std::int16_t>((n & 63U) - 32)};
  }
  static std::uint64_t value(unsigned n) noexcept { return n; }
  static unsigned number(std::uint64_t v) noexcept { return static_cast<unsigned>(v); }
  static order less() noexcept { return {1}; }
};

enum class operation : std::uint8_t {
  find,
  contains,
  count,
  find_batch,
  lower_bound,
  upper_bound,
  first,
  last,
  scan,
  bounded_scan,
  reverse_scan,
  bounded_reverse_scan,
  loop,
  size,
  empty,
  insert,
  emplace,
  try_emplace,
  insert_or_assign,
  insert_batch,
  erase,
  erase_batch,
  erase_range,
  erase_if,
  clear,
  exchange,
  extract,
  update,
  bulk_load,
  walk,  ///< by a cursor
  range,
  move,
  use_guards  ///< or no longer
};

struct operation_share {
  operation what;
  std::string_view name;
  unsigned of_256;
};
/// In their order. What erases much is rare.
inline constexpr std::array operations{
    operation_share{operation::find, "find", 10},
    operation_share{operation::contains, "contains", 6},
    operation_share{operation::count, "count", 2},
    operation_share{operation::find_batch, "find_batch", 6},
    operation_share{operation::lower_bound, "lower_bound", 6},
    operation_share{operation::upper_bound, "upper_bound", 6},
    operation_share{operation::first, "first", 2},
    operation_share{operation::last, "last", 2},
    operation_share{operation::scan, "scan", 3},
    operation_share{operation::bounded_scan, "bounded scan", 4},
    operation_share{operation::reverse_scan, "reverse_scan", 3},
    operation_share{operation::bounded_reverse_scan, "bounded reverse_scan", 4},
    operation_share{operation::loop, "loop", 1},
    operation_share{operation::size, "size", 2},
    operation_share{operation::empty, "empty", 2},
    operation_share{operation::insert, "insert", 34},
    operation_share{operation::emplace, "emplace", 6},
    operation_share{operation::try_emplace, "try_emplace", 6},
    operation_share{operation::insert_or_assign, "insert_or_assign", 24},
    operation_share{operation::insert_batch, "insert_batch", 16},
    operation_share{operation::erase, "erase", 40},
    operation_share{operation::erase_batch, "erase_batch", 13},
    operation_share{operation::erase_range, "erase of a range", 3},
    operation_share{operation::erase_if, "erase_if", 1},
    operation_share{operation::clear, "clear", 1},
    operation_share{operation::exchange, "exchange", 16},
    operation_share{operation::extract, "extract", 16},
    operation_share{operation::update, "update", 12},
    operation_share{operation::bulk_load, "bulk_load", 2},
    operation_share{operation::walk, "cursor", 3},
    operation_share{operation::range, "range", 2},
    operation_share{operation::move, "move", 1},
    operation_share{operation::use_guards, "use_guards", 1}};

/// The operation that a byte stands for.
constexpr const operation_share& operation_of(unsigned byte) noexcept {
  const operation_share* at = operations.data();
  for (; byte >= at->of_256; ++at) byte -= at->of_256;
  return *at;
}
static_assert([] {
  unsigned sum = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].what != static_cast<operation>(i)) return 0U;
    sum += operations[i].of_256;
  }
  return sum;
}() == 256);

struct outcome {
  std::string wrong;  ///< the first difference; empty if there is none
  std::uint64_t operations = 0;
};

/// Plays one script. Without guards half as much of the map is compiled.
template <class Kind, bool Guards = true>
class player {
 public:
  /// A load has so many threads at most.
  explicit player(script from, unsigned threads = 3) : script_(from), threads_(threads) {}

  outcome play() {
    while (!script_.over() && done_.wrong.empty()) {
      const operation_share& now = operation_of(script_.byte());
      name_ = now.name;
      ++done_.operations;
      step(now.what);
      if (done_.operations % 64 == 0 || model_.empty()) check();
    }
    check();
    return std::move(done_);
  }

 private:
  using map_type = typename Kind::map_type;
  using key = typename map_type::key_type;
  using value = typename map_type::mapped_type;
  using entry = typename map_type::value_type;
  using view = std::remove_cvref_t<typename map_type::key_view>;
  using compare = typename map_type::key_compare;
  using model = std::map<key, value, compare>;

  [[nodiscard]] static compare order() {
    if constexpr (requires { Kind::less(); })
      return Kind::less();
    else
      return compare();
  }

  key next_key() { return Kind::key(script_.two_bytes() % Kind::keys); }
  value next_value() { return Kind::value(next_number_++); }
  /// Keys whose numbers have the same distance from one to the next.
  std::vector<key> next_keys() {
    const unsigned count = 1 + script_.byte();
    const unsigned distance = script_.byte();
    unsigned n = script_.two_bytes();
    std::vector<key> keys;
    for (unsigned i = 0; i < count; ++i, n += distance) keys.push_back(Kind::key(n % Kind::keys));
    return keys;
  }

  void expect(bool right, std::string_view what) {
    if (right || !done_.wrong.empty()) return;
    done_.wrong.append("operation ").append(std::to_string(done_.operations));
    done_.wrong.append(", ").append(name_).append(": ").append(what);
  }

  /// Calls f, with a guard if the script uses them.
  template <class F>
  auto call(const F& f) {
    if constexpr (Guards) {
      if (guards_) {
        auto guard = map_.pin();
        return f(guard);
      }
    }
    return f();
  }

  struct optional_found {
    static std::optional<value> found(const map_type*, const value& v) noexcept { return v; }
    static std::optional<value> absent(const map_type*) noexcept { return std::nullopt; }
    static std::optional<value> slowly(const map_type* map, const key& k, const map_type*) noexcept {
      return map->find(k);
    }
  };
  [[nodiscard]] std::optional<value> in_model(const key& k) const {
    const auto at = model_.find(k);
    return at == model_.end() ? std::nullopt : std::optional(at->second);
  }
  /// A map returns the key that it was given when it got the entry, but the positive one of both zeros.
  [[nodiscard]] static bool same_key(const key& in_map, const key& in_model) noexcept {
    if constexpr (std::is_floating_point_v<key>) {
      if (in_map == 0 && std::signbit(in_map)) return false;
    }
    return in_map == in_model;
  }
  template <class At>
  void expect_entry(const std::optional<entry>& found, At at, At end) {
    expect(found.has_value() == (at != end), "there is an entry, or none");
    if (found && at != end)
      expect(same_key(found->key, at->first) && found->value == at->second, "another entry");
  }

  /// Compares what a scan visits with the entries from `at` to `end`. It ends the scan after `limit` entries; 0: never. One
  /// type for all scans of a direction: they are compiled once.
  template <class At>
  struct visitor {
    player& of;
    At at;
    const At end;
    const unsigned limit;
    std::size_t visits = 0;

    bool operator()(const key& k, const value& v) {
      ++visits;
      of.expect(at != end && same_key(k, at->first) && v == at->second, "visits another entry");
      if (at != end) ++at;
      return limit == 0 || (visits < limit && of.done_.wrong.empty());
    }
  };
  template <class Scan, class At>
  void expect_scan(const Scan& scan, At from, At end) {
    visitor<At> seen{*this, from, end, script_.byte()};
    const std::size_t returned = scan(seen);
    expect(seen.at == end || seen.visits == seen.limit, "misses an entry");
    expect(returned == seen.visits, "another number of visits");
  }

  void check() { check(map_, model_); }
  void check(map_type& map, const model& expected) {
    if (!done_.wrong.empty()) return;
    const char* const broken = map.check_invariants();
    expect(broken == nullptr, broken != nullptr ? broken : "");
    expect(map.size() == expected.size(), "another size");
    auto at = expected.begin();
    const key smallest = expected.empty() ? Kind::key(0) : at->first;
    map.scan(smallest, [&](const key& k, const value& v) {
      expect(at != expected.end() && same_key(k, at->first) && v == at->second, "another entry in the map");
      if (at != expected.end()) ++at;
    });
    expect(at == expected.end(), "an entry is not in the map");
    std::size_t blocks = 0;
    std::size_t nodes = 0;
    map.visit_nodes([&](const void*, std::size_t, memory_role role) {
      ++blocks;
      if (role != memory_role::value) ++nodes;
    });
    expect(!expected.empty() || nodes <= 1, "an empty map has more than its last leaf");
    map.domain().collect();
    expect(map.usage().blocks == blocks, "a block is lost, or was freed in another map");
  }

  bool add(const key& k, const value& v) { return model_.emplace(k, v).second; }

  void step(operation what) {
    switch (what) {
      case operation::find: {
        const key k = next_key();
        expect(call([&](auto&... g) { return map_.find(g..., k); }) == in_model(k), "another value");
        if constexpr (requires { map_.template tail_find<optional_found>(k, &map_); })
          expect(map_.template tail_find<optional_found>(k, &map_) == in_model(k),
                 "another value at its end");
        break;
      }
      case operation::contains: {
        const key k = next_key();
        expect(call([&](auto&... g) { return map_.contains(g..., k); }) == model_.contains(k),
               "another answer");
        break;
      }
      case operation::count: {
        const key k = next_key();
        expect(call([&](auto&... g) { return map_.count(g..., k); }) == model_.count(k), "another number");
        break;
      }
      case operation::find_batch:
        find_batch();
        break;
      case operation::lower_bound: {
        const key k = next_key();
        expect_entry(call([&](auto&... g) { return map_.lower_bound(g..., k); }), model_.lower_bound(k),
                     model_.end());
        break;
      }
      case operation::upper_bound: {
        const key k = next_key();
        expect_entry(call([&](auto&... g) { return map_.upper_bound(g..., k); }), model_.upper_bound(k),
                     model_.end());
        break;
      }
      case operation::first:
        expect_entry(call([&](auto&... g) { return map_.first(g...); }), model_.begin(), model_.end());
        break;
      case operation::last:
        expect_entry(call([&](auto&... g) { return map_.last(g...); }), model_.rbegin(), model_.rend());
        break;
      case operation::scan: {
        const key from = next_key();
        expect_scan(
            [&](auto&& visit) { return call([&](auto&... g) { return map_.scan(g..., from, visit); }); },
            model_.lower_bound(from), model_.end());
        break;
      }
      case operation::bounded_scan: {
        const key from = next_key();
        const key to = next_key();
        expect_scan(
            [&](auto&& visit) { return call([&](auto&... g) { return map_.scan(g..., from, to, visit); }); },
            model_.lower_bound(from), model_.lower_bound(larger(from, to)));
        break;
      }
      case operation::reverse_scan: {
        const key from = next_key();
        expect_scan(
            [&](auto&& visit) {
              return call([&](auto&... g) { return map_.reverse_scan(g..., from, visit); });
            },
            std::reverse_iterator(model_.upper_bound(from)), model_.rend());
        break;
      }
      case operation::bounded_reverse_scan: {
        const key from = next_key();
        const key to = next_key();
        const bool any = less_(to, from);
        expect_scan(
            [&](auto&& visit) {
              return call([&](auto&... g) { return map_.reverse_scan(g..., from, to, visit); });
            },
            std::reverse_iterator(model_.upper_bound(from)),
            std::reverse_iterator(model_.upper_bound(any ? to : from)));
        break;
      }
      case operation::loop:
        loop(map_, model_.begin(), model_.end());
        break;
      case operation::size:
        expect(map_.size() == model_.size(), "another number");
        break;
      case operation::empty:
        expect(map_.empty() == model_.empty(), "another answer");
        break;
      case operation::insert: {
        const key k = next_key();
        const value v = next_value();
        expect(call([&](auto&... g) { return map_.insert(g..., k, v); }) == add(k, v), "another answer");
        break;
      }
      case operation::emplace: {
        const key k = next_key();
        const value v = next_value();
        expect(call([&](auto&... g) { return map_.emplace(g..., k, v); }) == add(k, v), "another answer");
        break;
      }
      case operation::try_emplace: {
        const key k = next_key();
        const value v = next_value();
        expect(call([&](auto&... g) { return map_.try_emplace(g..., k, v); }) == add(k, v), "another answer");
        break;
      }
      case operation::insert_or_assign: {
        const key k = next_key();
        const value v = next_value();
        expect(call([&](auto&... g) { return map_.insert_or_assign(g..., k, v); }) ==
                   model_.insert_or_assign(k, v).second,
               "another answer");
        break;
      }
      case operation::insert_batch:
        insert_batch();
        break;
      case operation::erase: {
        const key k = next_key();
        expect(call([&](auto&... g) { return map_.erase(g..., k); }) == (model_.erase(k) == 1),
               "another answer");
        break;
      }
      case operation::erase_batch: {
        const std::vector<key> keys = next_keys();
        const std::vector<view> views(keys.begin(), keys.end());
        std::size_t present = 0;
        for (const key& k : keys) present += model_.erase(k);
        expect(call([&](auto&... g) { return map_.erase_batch(g..., views); }) == present, "another number");
        break;
      }
      case operation::erase_range: {
        const key from = next_key();
        const key to = next_key();
        const std::size_t before = model_.size();
        model_.erase(model_.lower_bound(from), model_.lower_bound(larger(from, to)));
        expect(map_.erase(from, to) == before - model_.size(), "another number");
        break;
      }
      case operation::erase_if: {
        const unsigned rest = script_.byte() % 3;
        const auto goes = [&](const key&, const value& v) { return Kind::number(v) % 3 == rest; };
        expect(map_.erase_if(goes) ==
                   std::erase_if(model_, [&](const auto& e) { return goes(e.first, e.second); }),
               "another number");
        break;
      }
      case operation::clear:
        map_.clear();
        model_.clear();
        break;
      case operation::exchange: {
        const key k = next_key();
        const value v = next_value();
        expect(call([&](auto&... g) { return map_.exchange(g..., k, v); }) == in_model(k), "another value");
        model_.insert_or_assign(k, v);
        break;
      }
      case operation::extract: {
        const key k = next_key();
        expect(call([&](auto&... g) { return map_.extract(g..., k); }) == in_model(k), "another value");
        model_.erase(k);
        break;
      }
      case operation::update:
        update();
        break;
      case operation::bulk_load:
        bulk_load();
        break;
      case operation::walk:
        walk();
        break;
      case operation::range: {
        const key from = next_key();
        const key to = next_key();
        loop(map_.range(from, to), model_.lower_bound(from), model_.lower_bound(larger(from, to)));
        break;
      }
      case operation::move:
        move();
        break;
      case operation::use_guards:
        guards_ = !guards_;
        break;
    }
  }

  [[nodiscard]] const key& larger(const key& a, const key& b) const { return less_(a, b) ? b : a; }

  void find_batch() {
    const std::vector<key> keys = next_keys();
    const std::vector<view> views(keys.begin(), keys.end());
    std::vector<std::optional<value>> found(keys.size(), next_value());
    std::size_t present = 0;
    const std::size_t returned =
        call([&](auto&... g) { return map_.find_batch(g..., views, std::span(found)); });
    for (std::size_t i = 0; i < keys.size(); ++i) {
      expect(found[i] == in_model(keys[i]), "another value");
      present += model_.count(keys[i]);
    }
    expect(returned == present, "another number");
  }

  void insert_batch() {
    std::vector<entry> entries;
    std::size_t absent = 0;
    for (const key& k : next_keys()) {
      entries.push_back({k, next_value()});
      if (add(k, entries.back().value)) ++absent;
    }
    expect(call([&](auto&... g) { return map_.insert_batch(g..., entries); }) == absent, "another number");
  }

  /// A loop over entries of the map that erases some of what it reads.
  template <class Entries, class At>
  void loop(const Entries& entries, At at, const At end) {
    const unsigned every = script_.byte();
    unsigned n = 0;
    for (const entry& e : entries) {
      expect(at != end && same_key(e.key, at->first) && e.value == at->second, "reads another entry");
      if (!done_.wrong.empty()) return;
      if (++n % (every + 2) == 0) {
        expect(map_.erase(e.key), "does not find what it reads");
        at = model_.erase(at);
      } else {
        ++at;
      }
    }
    expect(at == end, "misses an entry");
  }

  /// A cursor that erases some of the entries at which it is, and turns now and then.
  void walk() {
    const unsigned steps = 2 * script_.byte();
    const unsigned turns = 1 + script_.byte();
    const unsigned erases = 2 + script_.byte();
    const unsigned from = script_.byte() % 4;
    const key k = next_key();
    typename map_type::cursor cursor(map_);
    expect(!cursor.valid(), "a cursor that was not told where to be is somewhere");
    auto at = model_.begin();
    if (from == 0) {
      cursor.seek_first();
    } else if (from == 1) {
      cursor.seek_last();
      if (!model_.empty()) at = std::prev(model_.end());
    } else {
      cursor.seek(k);
      at = model_.lower_bound(k);
    }
    bool back = from == 1;
    for (unsigned n = 1; n <= steps && done_.wrong.empty(); ++n) {
      expect(cursor.valid() == (at != model_.end()), "there is an entry, or none");
      if (!cursor.valid() || !done_.wrong.empty()) return;
      expect(same_key(cursor.key(), at->first) && cursor.value() == at->second, "another entry");
      if (n % turns == 0) back = !back;
      if (n % (8 * turns) == 0) cursor.seek(cursor.key());
      const key here = at->first;
      if (n % erases == 0) {
        expect(map_.erase(here), "does not find where it is");
        model_.erase(at);
      }
      if (back) {
        cursor.previous();
        at = model_.lower_bound(here);
        at = at == model_.begin() ? model_.end() : std::prev(at);
      } else {
        cursor.next();
        at = model_.upper_bound(here);
      }
    }
  }

  /// A load of the map, which most often is empty, with keys that now and then are not in order.
  void bulk_load() {
    const unsigned threads = 1 + script_.byte() % threads_;
    const unsigned how = script_.byte() % 8;
    const unsigned count = script_.two_bytes() % 1024;
    const unsigned distance = script_.byte();
    unsigned n = script_.two_bytes();
    const std::size_t wrong = script_.two_bytes();
    if (how != 0) {
      map_.clear();
      model_.clear();
    }
    model loaded(less_);
    for (unsigned i = 0; i < count; ++i, n += distance)
      loaded.emplace(Kind::key(n % Kind::keys), next_value());
    std::vector<entry> entries;
    for (const auto& [k, v] : loaded) entries.push_back({k, v});
    bool right = model_.empty();
    if (how < 3 && entries.size() > 1) {
      const std::size_t at = wrong % (entries.size() - 1);
      if (how == 1)
        entries[at + 1].key = entries[at].key;
      else
        std::swap(entries[at], entries[at + 1]);
      right = false;
    }
    try {
      map_.bulk_load(entries, threads);
      expect(right, "takes what is not in order, or is not empty");
      model_ = loaded;
    } catch (const std::invalid_argument&) {
      expect(!right, "refuses what is in order");
    }
    check();
  }

  /// The contents go to another map. They come back, or are lost with it, and its own entry stays.
  void move() {
    const unsigned how = script_.byte();
    const key k = next_key();
    const value v = next_value();
    map_type other(less_, (how & 1U) != 0 ? &domain_ : nullptr);
    model other_model(less_);
    other.insert(k, v);
    other_model.emplace(k, v);
    const auto exchange = [&](bool by_moves) {
      if (by_moves) {
        map_type taken(std::move(map_));
        map_ = std::move(other);
        other = std::move(taken);
      } else {
        swap(map_, other);
      }
      std::swap(model_, other_model);
      check();
      check(other, other_model);
    };
    exchange((how & 2U) != 0);
    if (how % 5 != 0) exchange((how & 4U) != 0);
    if ((how & 8U) != 0) other.clear();  // it ends with what it has retired
  }

  struct refusal {};

  void update() {
    const key k = next_key();
    const value fresh = next_value();
    const unsigned how = script_.byte() % 6;
    const auto change = [&](const std::optional<value>& now) -> std::optional<value> {
      switch (how) {
        case 0:
          return now;
        case 1:
          return now ? std::nullopt : std::optional(fresh);
        case 2:
          return now ? std::optional(Kind::value(Kind::number(*now) + 1)) : std::nullopt;
        case 3:
          return std::nullopt;
        case 4:
          throw refusal();
        default:
          return fresh;
      }
    };
    const std::optional<value> before = in_model(k);
    try {
      expect(call([&](auto&... g) { return map_.update(g..., k, change).before; }) == before,
             "another value");
      expect(how != 4, "does not throw what its function throws");
      if (const std::optional<value> after = change(before))
        model_.insert_or_assign(k, *after);
      else
        model_.erase(k);
    } catch (const refusal&) {
    }
  }

  script script_;
  unsigned threads_;
  outcome done_;
  std::string_view name_ = "begin";
  bool guards_ = false;
  unsigned next_number_ = 0;
  compare less_ = order();
  typename map_type::reclaimer_type domain_;  ///< of some of the maps
  map_type map_{less_};
  model model_{less_};
};

/// Plays scripts of some of the kinds.
template <class... Kinds>
outcome play(std::span<const std::uint8_t> bytes) {
  script from(bytes);
  constexpr std::array<outcome (*)(script), sizeof...(Kinds)> players{
      [](script of_it) { return player<Kinds>(of_it).play(); }...};
  const unsigned kind = from.byte() % sizeof...(Kinds);
  return players[kind](from);
}

inline outcome play_any(std::span<const std::uint8_t> bytes) {
  return play<narrow, middling, full_size, decreasing, doubles, strings, structs>(bytes);
}

/// A script at random. Long ones are rare.
inline std::vector<std::uint8_t> random_script(measure::random_generator& random) {
  std::vector<std::uint8_t> bytes(std::size_t{1} << (4 + random.below(12)));
  for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(random.next());
  return bytes;
}

}  // namespace espalier::fuzz
