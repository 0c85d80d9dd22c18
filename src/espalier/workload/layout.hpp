#pragma once

#include "espalier/inspect/snapshot.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/workload/subject.hpp"

namespace espalier::workload {

/// The addresses of a map's blocks, if its placement records them: a type for each role that has blocks, with what
/// searches read of them, and the pointers between the blocks. No thread may use the map meanwhile.
[[nodiscard]] inspect::snapshot layout_of(const subject_facts& facts, const any_placement& placement);

}  // namespace espalier::workload
