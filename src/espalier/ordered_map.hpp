#pragma once

// The map for programs: ordered, for any number of threads, with nothing to set up.
//
//   espalier::ordered_map<std::uint64_t, std::uint64_t> stock;
//   stock.insert(17, 5);                                   // true: 17 was absent
//   stock.update(17, [](auto n) { return std::optional(n.value_or(0) + 1); });
//   std::optional<std::uint64_t> n = stock.find(17);       // 6
//   stock.scan(10, 20, [](std::uint64_t item, std::uint64_t n) { ... });
//
// Keys: numbers, enumerations, pointers, std::string, and any other trivially copyable type, with any comparator.
//
// map/map_concept.hpp lists the operations and what they promise, map/map_facade.hpp documents each.

#include "espalier/hw/cache_line.hpp"  // first: it names the language level
#include "espalier/reclaim/epoch.hpp"  // second: it names exceptions

#include "espalier/map/ordered/ordered_map.hpp"
