#!/usr/bin/env bash
# Fails on C++ that clang-format would change.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard -z '*.hpp' '*.cpp' | xargs -0 clang-format-19 --dry-run -Werror
