#pragma once

namespace espalier::test {

/// Whether each entry of the catalogue is compiled as it ships; else those that differ in placement or layout share a
/// type.
#ifdef ESPALIER_EVERY_ENTRY
inline constexpr bool every_entry = true;
#else
inline constexpr bool every_entry = false;
#endif

}  // namespace espalier::test
