#!/usr/bin/env bash
# Compares the interfaces of the shared libraries with those of the newest release that has the same SONAME. Needs abidiff
# (abigail-tools in Debian).
#
#   tools/check_abi.sh [COMMIT]    by default the newest tag vMAJOR.MINOR.*, of this tree's version
#
# Exit status: 0 if programs that were linked with the earlier libraries run with these, 1 if not.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/steps.sh
version=$(sed -n 's/^  VERSION \(.*\)$/\1/p' CMakeLists.txt)
soname=${version%.*}
command -v abidiff >/dev/null || { echo "error: abidiff is missing: apt install abigail-tools" >&2; exit 2; }
before=${1:-$(git tag --list "v$soname.*" --sort=-version:refname | head -n 1)}
if [[ -z $before ]]; then
  echo "there is no release v$soname.*: its libraries will be the first with the SONAME .$soname"
  exit 0
fi

folder=build/abi
libraries=(map espalier c)
# built SOURCE NAME: the shared libraries, with what abidiff reads.
built() {
  # What a step runs goes on after a failure unless it says so.
  cmake -S "$1" -B "$folder/$2" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG='-Og -g' -DESPALIER_TOGETHER=ON \
    -DESPALIER_BUILD_APPS=OFF -DESPALIER_BUILD_TESTS=OFF -DESPALIER_SIMULATOR=OFF -DESPALIER_PRELOAD=OFF &&
    cmake --build "$folder/$2" --target espalier_map_shared espalier_shared espalier_c
}
checked_out() {
  rm -rf "$folder/source" && mkdir -p "$folder/source" &&
    git archive "$before" | tar -C "$folder/source" -x
}
file_of() { case $2 in espalier) echo "$folder/$1/src/espalier/libespalier.so" ;; *) echo "$folder/$1/src/espalier/libespalier_$2.so" ;; esac; }
compatible() {
  local library status=0
  for library in "${libraries[@]}"; do
    # Of its bits 4 says that the interface has changed, 8 that programs break, 1 and 2 that it was not compared.
    abidiff --no-added-syms "$(file_of before "$library")" "$(file_of now "$library")" || status=$?
    (( (status & 11) == 0 )) || return 1
    status=0
  done
}
step "sources of $before" checked_out
step "libraries of $before" built "$folder/source" before
step 'libraries of this tree' built . now
step 'programs linked before run now' compatible
