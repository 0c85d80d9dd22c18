#!/usr/bin/env bash
# Runs clang-tidy over the library's headers, including those of every map; with the argument 1 also over every source
# file except the tests'. Needs build/dev, with its generated headers.
set -euo pipefail
cd "$(dirname "$0")/.."
all_headers=build/dev/all_headers.cpp
find src/espalier -name '*.hpp' -printf '#include "espalier/%P"\n' | sort >"$all_headers"
# This takes as long as most of the others together, so it runs beside them.
clang-tidy-19 -quiet --header-filter='.*/src/espalier/.*' "$all_headers" -- -std=c++20 -Isrc -Ibuild/dev/src/espalier/generated &
headers=$!
status=0
if [[ ${1:-0} == 1 ]]; then
  # One driver of each map; g++ has warnings and precompiled headers that clang does not know.
  maps=$(find src/espalier/catalog/entries -name '*.hpp' -printf '%f\n' | sed 's/\.hpp$//' | paste -sd '|')
  run-clang-tidy-19 -quiet -p build/dev -j "$(nproc)" -extra-arg=-Wno-unknown-warning-option \
    -extra-arg=-Wno-unused-command-line-argument -extra-arg=-Wno-deprecated-declarations -extra-arg=-Wno-ignored-gch \
    "^$PWD/(src/espalier|sim|apps|preload)/.*\.cpp$|/espalier_drivers.units/($maps)\.cpp$" || status=1
fi
wait "$headers" || status=1
exit "$status"
