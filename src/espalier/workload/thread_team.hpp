#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <vector>

namespace espalier::workload {

/// Runs body(i) in `threads` new threads, pinned where PUs are given; all begin together, after each has
/// called `ready` once its preparations are done. between() runs in the calling thread while they work, then
/// they are joined. The first exception of any of them is thrown again.
///
/// Returns the wall time in nanoseconds from when the first body has gone on after `ready` to the end of the
/// last; 0 where no body calls it.
double run_team(unsigned threads, std::span<const unsigned> pus,
                const std::function<void(unsigned index, const std::function<void()>& ready)>& body,
                const std::function<void()>& between = {});

}  // namespace espalier::workload
