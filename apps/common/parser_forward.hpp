#pragma once

/// CLI11's, by name: most of a file's compilation is its headers, which only those need who declare options or read them.
// NOLINTBEGIN(readability-identifier-naming)
namespace CLI {
class App;
}
// NOLINTEND(readability-identifier-naming)
