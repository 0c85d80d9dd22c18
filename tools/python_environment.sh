#!/usr/bin/env bash
# Makes build/python, an environment of its own with what building and testing the package for Python needs, from PyPI. Where
# PyPI is away the tests of the package are skipped, so this never fails, nor waits for long.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=build/python
needed=(nanobind numpy pytest sortedcontainers)
if ! "$environment/bin/python3" -c 'import nanobind, numpy, pytest, sortedcontainers' 2>/dev/null; then
  python3 -m venv "$environment" && "$environment/bin/pip" install --quiet --timeout 20 --retries 1 "${needed[@]}" ||
    echo "without ${needed[*]} the tests of the package for Python are skipped"
fi
