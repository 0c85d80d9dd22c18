#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "espalier/map/map_concept.hpp"

// Checks of an adapter against its contract. Each returns what is wrong, or an empty string, so that the
// checks can be tested on maps that are wrong on purpose.

namespace espalier::peers::checks {

using key = std::uint64_t;
using value = std::uint64_t;

inline constexpr key greatest = std::numeric_limits<key>::max();

template <class Map>
std::string differs(const char* operation, key k, const char* what) {
  return std::string(Map::properties.name)
      .append(": ")
      .append(operation)
      .append("(")
      .append(std::to_string(k))
      .append(") ")
      .append(what);
}

/// The same operations on the map and on a std::map, by one thread. Few keys, so that all outcomes come up;
/// the least and the greatest key and value are among them.
template <concurrent_ordered_map Map>
std::string agrees_with_model(std::size_t operations, std::uint64_t seed) {
  const typename Map::thread_scope scope;
  Map map;
  std::map<key, value> model;
  std::mt19937_64 random(seed);
  constexpr std::array<key, 4> borders{0, 1, greatest - 1, greatest};
  const auto draw_key = [&]() -> key {
    const key k = random() % 64;
    return k < borders.size() ? borders[k] : k * 1000;
  };

  for (std::size_t i = 0; i < operations; ++i) {
    const key k = draw_key();
    const value v = random() % 8 == 0 ? borders[random() % borders.size()] : random();
    const bool present = model.contains(k);
    const bool with_guard = random() % 2 == 0;
    auto guard = map.pin();
    switch (random() % 5) {
      case 0: {
        const bool added = with_guard ? map.insert(guard, k, v) : map.insert(k, v);
        if (added == present) return differs<Map>("insert", k, "returned the opposite");
        model.emplace(k, v);
        break;
      }
      case 1: {
        const bool added = with_guard ? map.insert_or_assign(guard, k, v) : map.insert_or_assign(k, v);
        if (added == present) return differs<Map>("insert_or_assign", k, "returned the opposite");
        model[k] = v;
        break;
      }
      case 2: {
        if constexpr (Map::supports_erase) {
          const bool erased = with_guard ? map.erase(guard, k) : map.erase(k);
          if (erased != present) return differs<Map>("erase", k, "returned the opposite");
          model.erase(k);
        }
        break;
      }
      case 3: {
        const bool found = with_guard ? map.contains(guard, k) : map.contains(k);
        if (found != present) return differs<Map>("contains", k, "returned the opposite");
        break;
      }
      default: {
        const std::optional<value> found = with_guard ? map.find(guard, k) : map.find(k);
        if (found.has_value() != present) return differs<Map>("find", k, "is wrong about presence");
        if (present && *found != model.at(k)) return differs<Map>("find", k, "found another value");
      }
    }
  }

  for (const auto& [k, v] : model)
    if (map.find(k) != v) return differs<Map>("find", k, "lost the value at the end");

  constexpr std::array<key, 6> bounds{0, 7, 4000, 4001, greatest - 1, greatest};
  std::array<std::optional<value>, bounds.size()> found;
  map.find_batch(bounds, found);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (found[i] != map.find(bounds[i])) return differs<Map>("find_batch", bounds[i], "differs from find");
  }
  if constexpr (Map::supports_size) {
    if (map.size() != model.size()) return differs<Map>("size", 0, "is not the number of keys");
  }

  if constexpr (Map::supports_scan) {
    for (const key from : bounds) {
      auto expected = model.lower_bound(from);
      bool same = true;
      const std::size_t visits = map.scan(from, [&](key k, value v) {
        same = same && expected != model.end() && expected->first == k && expected->second == v;
        if (expected != model.end()) ++expected;
      });
      if (!same || expected != model.end()) return differs<Map>("scan", from, "visited other entries");
      if (visits != static_cast<std::size_t>(std::distance(model.lower_bound(from), model.end())))
        return differs<Map>("scan", from, "miscounted its visits");
      const auto next = model.lower_bound(from);
      const auto bound = map.lower_bound(from);
      if (bound.has_value() != (next != model.end()) ||
          (bound && (bound->key != next->first || bound->value != next->second)))
        return differs<Map>("lower_bound", from, "found another entry");
      for (const key to : bounds) {
        const auto wanted = from < to ? std::distance(next, model.lower_bound(to)) : 0;
        if (map.scan(from, to, ignore_entry{}) != static_cast<std::size_t>(wanted))
          return differs<Map>("scan", to, "did not end there");
      }
    }
    auto next = model.begin();
    for (const auto& entry : map) {
      if (next == model.end() || next->first != entry.key || next->second != entry.value)
        return differs<Map>("range-for", entry.key, "visited another entry");
      ++next;
    }
    if (next != model.end()) return differs<Map>("range-for", next->first, "ended too early");
    auto guard = map.pin();
    std::size_t visited = 0;
    const std::size_t counted = map.scan(guard, 0, [&](key, value) {
      ++visited;
      return visited < 3;
    });
    if (counted != 3 || visited != 3) return differs<Map>("scan", 0, "did not stop when told");
  }
  return {};
}

/// An operation that the library lacks throws, and changes nothing.
template <concurrent_ordered_map Map>
std::string refuses_what_it_lacks() {
  const typename Map::thread_scope scope;
  Map map;
  map.insert(5, 50);
  const auto refused = [&](auto operation) {
    try {
      operation();
      return false;
    } catch (const std::logic_error& error) {
      return std::string_view(error.what()).find(Map::properties.name) != std::string_view::npos;
    }
  };
  if (!Map::supports_erase && !refused([&] { map.erase(5); }))
    return differs<Map>("erase", 5, "was not refused");
  if (!Map::supports_scan && !refused([&] { map.scan(0, ignore_entry{}); }))
    return differs<Map>("scan", 0, "was not refused");
  if (!Map::supports_size && !refused([&] { static_cast<void>(map.size()); }))
    return differs<Map>("size", 0, "was not refused");
  return map.find(5) == 50 ? std::string{} : differs<Map>("find", 5, "lost its value to a refusal");
}

/// Four threads add and erase the same few keys. At the end each key is present as often as it was added
/// minus erased, which must be 0 or 1, and no reader ever saw a value that was not written for its key.
template <concurrent_ordered_map Map>
std::string conserves_keys(std::size_t operations, std::uint64_t seed) {
  constexpr std::size_t threads = 4;
  constexpr std::size_t keys = 32;
  constexpr value never = 0;  // every value written has its key plus one in the upper half
  const auto value_of = [](std::size_t k, std::uint64_t draw) { return (value{k} + 1) << 32 | (draw >> 32); };

  const typename Map::thread_scope scope;
  Map map;
  std::array<std::atomic<long>, keys> balance{};
  std::atomic<std::size_t> foreign_values{0};
  std::barrier start(threads);
  std::vector<std::thread> workers;
  workers.reserve(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      const typename Map::thread_scope here;
      std::mt19937_64 random(seed + t);
      auto guard = map.pin();
      start.arrive_and_wait();
      for (std::size_t i = 0; i < operations; ++i) {
        const std::size_t k = random() % keys;
        const std::uint64_t draw = random();
        switch (draw % 4) {
          case 0:
            balance[k] += map.insert(guard, k, value_of(k, draw)) ? 1 : 0;
            break;
          case 1:
            balance[k] += map.insert_or_assign(guard, k, value_of(k, draw)) ? 1 : 0;
            break;
          case 2:
            if constexpr (Map::supports_erase) balance[k] -= map.erase(guard, k) ? 1 : 0;
            break;
          default: {
            const auto found = map.find(guard, k);
            if (found && (*found == never || *found >> 32 != k + 1)) ++foreign_values;
          }
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();

  if (foreign_values != 0) return differs<Map>("find", 0, "saw values that no thread wrote for the key");
  for (std::size_t k = 0; k < keys; ++k) {
    if (balance[k] != 0 && balance[k] != 1) return differs<Map>("insert, erase", k, "do not balance");
    if (map.contains(k) != (balance[k] == 1))
      return differs<Map>("contains", k, "is not what the updates left");
  }
  return {};
}

/// Scans beside updates: strictly increasing, and each key that is present throughout is seen.
template <concurrent_ordered_map Map>
std::string scans_beside_updates(std::size_t scans) {
  constexpr std::size_t keys = 1200;  // more than one pin of the scan without a guard
  const typename Map::thread_scope scope;
  Map map;
  for (key k = 0; k < keys; k += 2) map.insert(k, k);

  std::atomic<bool> stop{false};
  std::barrier start(2);
  std::thread writer([&] {
    const typename Map::thread_scope here;
    start.arrive_and_wait();
    for (key k = 1; !stop; k = (k + 2) % keys) {
      map.insert(k, k);
      if constexpr (Map::supports_erase) map.erase(k);
    }
  });
  start.arrive_and_wait();
  std::string wrong;
  for (std::size_t i = 0; i < scans && wrong.empty(); ++i) {
    std::optional<key> last;
    std::size_t stable = 0;
    bool increasing = true;
    const auto visit = [&](key k, value) {
      increasing = increasing && (!last || *last < k);
      last = k;
      if (k % 2 == 0) ++stable;
    };
    if (i % 2 == 0) {
      map.scan(0, visit);
    } else {
      for (const auto& entry : map) visit(entry.key, entry.value);
    }
    if (!increasing) wrong = differs<Map>("scan", 0, "is not strictly increasing");
    if (stable != keys / 2) wrong = differs<Map>("scan", 0, "missed or repeated keys present throughout");
  }
  stop = true;
  writer.join();
  return wrong;
}

}  // namespace espalier::peers::checks
