#pragma once

/// Declares CLI11's classes by name. Its headers dominate the compilation of a file, and only files that declare or
/// read options need them.
// NOLINTBEGIN(readability-identifier-naming)
namespace CLI {
class App;
}
// NOLINTEND(readability-identifier-naming)
