#!/usr/bin/env bash
# Fails on C++ that clang-format would change, and on files that are not written by hand: more than 256 KiB.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard -z '*.hpp' '*.cpp' | xargs -0 clang-format-19 --dry-run -Werror
# shellcheck disable=SC2016
large=$(git ls-files -z | xargs -0 sh -c 'find "$@" -maxdepth 0 -size +256k' find)
if [ -n "$large" ]; then
  echo "too large for a file of the repository: $large" >&2
  exit 1
fi
