#pragma once

// A set beside ordered_map.hpp: espalier::ordered_set<Key>.

#include "espalier/hw/cache_line.hpp"  // first: it names the language level
#include "espalier/map/ordered/ordered_set.hpp"
