#!/usr/bin/env bash
# Makes the source archive of a release from the current commit, and builds the library of what it unpacks to, without git.
#
#   tools/make_release.sh [FOLDER]    the archive is FOLDER/espalier-VERSION.tar.gz, by default in build/release-archive
#
# The steps of a release: set the version in CMakeLists.txt, debian/changelog, cmake/vcpkg/ and CHANGELOG.md, which
# tests/tools/check_version_test.py compares; run ./check --long, tools/check_abi.sh, tools/try_packages.sh and `conan create .`;
# tag the commit vVERSION; run this.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/steps.sh
folder=$(realpath -m "${1:-build/release-archive}")
version=$(sed -n 's/^  VERSION \(.*\)$/\1/p' CMakeLists.txt)
release=espalier-$version
mkdir -p "$folder"

[[ -z $(git status --porcelain) ]] || { echo "error: there are changes that are not committed; the archive would lack them" >&2; exit 1; }
if [[ $(git describe --tags --exact-match 2>/dev/null || true) != v$version ]]; then
  echo "note: this commit has no tag v$version"
fi

unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
archive() { git archive --format=tar.gz --prefix="$release/" --output="$folder/$release.tar.gz" HEAD; }
# What a step runs goes on after a failure unless it says so.
it_builds() {
  tar -C "$unpacked" -xzf "$folder/$release.tar.gz" &&
    cmake -S "$unpacked/$release" -B "$unpacked/build" -G Ninja -DESPALIER_BUILD_APPS=OFF -DESPALIER_BUILD_TESTS=OFF \
      -DESPALIER_SIMULATOR=OFF -DESPALIER_PRELOAD=OFF -DESPALIER_TOGETHER=ON -DCMAKE_BUILD_TYPE=Release &&
    cmake --build "$unpacked/build" --target espalier_map espalier_c espalier_measure &&
    grep -q "\"$(git rev-parse --short HEAD)\"" "$unpacked/build/src/espalier/generated/espalier/commit.hpp"
}
step 'versions agree' python3 tests/tools/check_version_test.py
step 'archive' archive
step 'it builds without git' it_builds
echo "$folder/$release.tar.gz"
