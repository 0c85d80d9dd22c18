#pragma once

#include <functional>
#include <span>

namespace espalier::measure {

/// Runs body(i) in `threads` new threads, pinned if PUs are given. Each calls `ready` when it is prepared, and all
/// continue together once every thread has called it. between() runs in the calling thread while they work; then they
/// are joined. Rethrows the first exception of any of them.
///
/// Returns the wall time in nanoseconds from the moment when the first body continues after `ready` to the end of the
/// last; 0 if no body calls it.
double run_team(unsigned threads, std::span<const unsigned> pus,
                const std::function<void(unsigned index, const std::function<void()>& ready)>& body,
                const std::function<void()>& between = {});

}  // namespace espalier::measure
