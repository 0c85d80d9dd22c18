#!/usr/bin/env bash
# Runs clang-tidy over the library, the simulator, the command and one driver of each map; with the argument 1
# over the other programs and the tests as well. Needs build/dev configured.
set -euo pipefail
cd "$(dirname "$0")/.."
maps=$(find src/espalier/map/catalog -name '*.hpp' -printf '%f\n' | sed 's/\.hpp$//' | paste -sd '|')
pattern="/(src|apps)/espalier/.*\.cpp$|/espalier_drivers.units/($maps)\.cpp$"
# Its rooms, not tests/sim.
pattern+='|/sim/[a-z]+/[^/]+\.cpp$'
if [[ ${1:-0} == 1 ]]; then pattern+='|/apps/.*\.cpp$|/tests/.*\.cpp$'; fi
# g++ has warnings that clang does not know.
run-clang-tidy-19 -quiet -p build/dev -j "$(nproc)" -extra-arg=-Wno-unknown-warning-option "$pattern"
