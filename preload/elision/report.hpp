#pragma once

#include "preload/elision/section_counts.hpp"
#include "preload/elision/settings.hpp"

namespace espalier::preload {

/// Writes what was counted as the settings say, as lines of words between blanks: first one of the whole, one of the
/// column names, then one for each mutex and call site; on standard error for the twenty that ran most often, those
/// first, and one for all others. `how` is the policy as it was followed. A file is in its place whole or not at all.
/// `standard_error` is a descriptor of it, or -1 where there is none any more, and then what is meant for it is dropped.
/// Allocates through no malloc; errno is kept. False where a file could not be written.
bool report_counts(const elision_settings& settings, const section_counts& counts, const char* how,
                   int standard_error) noexcept;

}  // namespace espalier::preload
