#pragma once

/// CLI11's, by name: most of a file's compilation is its headers, which only those need who declare options or read them.
namespace CLI {
class App;
}
