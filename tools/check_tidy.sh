#!/usr/bin/env bash
# Runs clang-tidy over the library, the maps' headers as one file; with the argument 1 over one driver of each
# map, the simulator, the programs and the tests as well. Needs build/dev configured.
set -euo pipefail
cd "$(dirname "$0")/.."
pattern='/src/espalier/.*\.cpp$'
if [[ ${1:-0} == 1 ]]; then
  maps=$(find src/espalier/map/catalog -name '*.hpp' -printf '%f\n' | sed 's/\.hpp$//' | paste -sd '|')
  pattern+="|/espalier_drivers.units/($maps)\.cpp$|/(sim|apps)/.*\.cpp$|/tests/.*\.cpp$"
fi
all_maps=build/dev/all_maps.cpp
find src/espalier/map/catalog -name '*.hpp' -printf '#include "espalier/map/catalog/%f"\n' | sort >"$all_maps"
# The one file takes as long as most of the others together.
clang-tidy-19 -quiet --header-filter='.*/src/espalier/.*' "$all_maps" -- -std=c++20 -Isrc &
maps=$!
# g++ has warnings that clang does not know.
run-clang-tidy-19 -quiet -p build/dev -j "$(nproc)" -extra-arg=-Wno-unknown-warning-option "$pattern" || {
  wait "$maps"
  exit 1
}
wait "$maps"
