#pragma once

#include "preload/elision/section_counts.hpp"
#include "preload/elision/settings.hpp"

namespace espalier::preload {

/// Writes the counts to the place that the settings name, as lines of words between blanks: first one for the total,
/// then one with the column names, then one for each mutex and call site. On standard error only the twenty that ran
/// most often have lines, in descending order, and one line has all others. `how` is the policy as applied. A file is
/// in place whole or not at all. `standard_error` is its descriptor, or -1 where it no longer exists; then output for
/// it is dropped. Does not allocate by malloc; errno is preserved. False where a file could not be written.
bool report_counts(const elision_settings& settings, const section_counts& counts, const char* how,
                   int standard_error) noexcept;

}  // namespace espalier::preload
