#pragma once

// A set beside ordered_map.hpp: espalier::ordered_set<Key>.

#include "espalier/map/ordered_set.hpp"
