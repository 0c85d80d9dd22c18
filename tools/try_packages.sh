#!/usr/bin/env bash
# Builds the Debian packages in a root that has only what they name, checks them with lintian, installs them in a bare root, runs
# debian/tests there, and purges them. Needs root, debootstrap, and a Debian mirror.
#
#   tools/try_packages.sh [FOLDER [MIRROR]]    the packages are left in FOLDER, by default build/packages
#
# The roots are kept in FOLDER/roots, and used again.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/steps.sh
folder=$(realpath -m "${1:-build/packages}")
mirror=${2:-http://deb.debian.org/debian}
bare=$folder/roots/bare
clean=$folder/roots/clean
version=$(dpkg-parsechangelog --show-field Version)

[[ $(id -u) == 0 ]] || { echo "error: only root may make another root: run it with sudo" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "error: debootstrap is missing: apt install debootstrap" >&2; exit 1; }
mkdir -p "$folder/roots"

# inside ROOT COMMAND...: as on a machine of its own.
inside() {
  local root=$1
  shift
  mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
finish() {
  for root in "$bare" "$clean"; do
    if mountpoint -q "$root/proc"; then umount "$root/proc"; fi
  done
}
trap finish EXIT

# What a step runs goes on after a failure unless it says so.
bare_root() {
  { [[ -e $bare/etc/debian_version ]] || debootstrap --variant=minbase bookworm "$bare" "$mirror"; } &&
    inside "$bare" apt-get update
}
clean_root() {
  { [[ -e $clean/etc/debian_version ]] || cp -a "$bare" "$clean"; } &&
    rm -rf "$clean/build/source" &&
    mkdir -p "$clean/build/source" &&
    git ls-files -z | xargs -0 cp --parents -t "$clean/build/source" &&
    inside "$clean" apt-get install -y --no-install-recommends build-essential lintian &&
    inside "$clean" apt-get build-dep -y --no-install-recommends /build/source
}
packages_are_built() {
  inside "$clean" sh -c 'cd /build/source && exec dpkg-buildpackage -us -uc -b' &&
    inside "$clean" sh -c "cd /build && exec lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs --allow-root espalier_${version}_*.changes" &&
    cp "$clean"/build/*"_${version}_"*.deb "$folder" &&
    rm -f "$folder"/*-dbgsym_*
}
they_install() {
  rm -rf "$bare/tmp/packages" &&
    mkdir -p "$bare/tmp/packages" &&
    cp "$folder"/*"_${version}_"*.deb "$bare/tmp/packages" &&
    cp -r debian/tests "$bare/tmp/packages" &&
    inside "$bare" apt-get install -y --no-install-recommends g++ pkg-config &&
    inside "$bare" sh -c 'apt-get install -y --no-install-recommends /tmp/packages/*.deb'
}
their_tests_pass() {
  local test
  for test in programs server command; do
    echo "$test"
    inside "$bare" "/tmp/packages/tests/$test" || return
  done
}
a_purge_leaves_nothing() {
  inside "$bare" apt-get purge -y espalier espalier-serve libespalier0.2 libespalier-dev libespalier-preload || return
  local left
  left=$(find "$bare" -xdev -path "$bare/tmp" -prune -o -path "$bare/proc" -prune -o -name '*espalier*' -print)
  left+=$(grep espalier "$bare/etc/passwd" "$bare/etc/group" || true)
  [[ -z $left ]] || { echo "these were left: $left"; return 1; }
}

step 'a bare root' bare_root
step 'a root to build in' clean_root
step 'packages' packages_are_built
step 'installed' they_install
step 'their tests' their_tests_pass
step 'purged' a_purge_leaves_nothing
echo "packages of version $version, in $folder:"
(cd "$folder" && ls -- *"_${version}_"*.deb)
