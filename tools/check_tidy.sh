#!/usr/bin/env bash
# Runs clang-tidy over the library, the command and one driver of each map; with the argument 1 over the
# tests as well. Needs build/dev configured.
set -euo pipefail
cd "$(dirname "$0")/.."
pattern='/(src|apps)/.*\.cpp$|/espalier_drivers.units/.*\.cpp$'
if [[ ${1:-0} == 1 ]]; then pattern+='|/tests/.*\.cpp$'; fi
run-clang-tidy-19 -quiet -p build/dev -j "$(nproc)" "$pattern"
