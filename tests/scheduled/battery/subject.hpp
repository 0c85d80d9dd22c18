#pragma once

#include <cstdint>
#include <vector>

#include "espalier/catalog/step.hpp"
#include "espalier/map/map_concept.hpp"
#include "sim/explore.hpp"
#include "sim/history/history.hpp"

// A map as the scenarios see it: behind virtual functions, so that they are compiled once and not once for each map
// type.

namespace espalier::sim::battery {

/// One operation of a program. A scan visits at most so many entries as the argument says; of a find it is find_together for one
/// of a batch.
using step = catalog::step;
inline constexpr std::uint64_t find_together = 1;

/// A map in a scene; all its operations are recorded.
class subject {
 public:
  subject() = default;
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;
  virtual ~subject() = default;

  virtual void start_with(const map_entry& e) = 0;
  /// Each step with a separate guard.
  virtual void play(const step* first, const step* last) = 0;
  /// All steps under one guard.
  virtual void play_guarded(const step* first, const step* last) = 0;
  /// Called at the end of the run: fails it if the map has violated its guarantees.
  virtual void check() = 0;
};

/// How to make a map of a type, in a scene.
struct subject_type {
  subject& (*make)(scene& s);
  /// With values of 24 bytes; null if the type cannot be given other values.
  subject& (*make_wide)(scene& s);
  map_properties properties;
  /// Whether its transactions are those of refusing_htm.
  bool refusable = false;
  /// Whether a node may have several entries.
  bool many_entries = false;
};

}  // namespace espalier::sim::battery
