#!/usr/bin/env bash
# Builds the Debian packages in a root that has only what they name, checks them with lintian, installs them in a bare root, runs
# debian/tests there, and purges them. So it does with a wheel of the package for Python. Needs root, debootstrap, a Debian mirror,
# and pip with PyPI.
#
#   tools/try_packages.sh [FOLDER [RELEASE [MIRROR]]]    the packages are left in FOLDER, by default build/packages
#
# RELEASE is bookworm, Debian 12, by default, or trixie, Debian 13.
# The roots are kept in FOLDER/roots, and used again.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/steps.sh
folder=$(realpath -m "${1:-build/packages}")
release=${2:-bookworm}
mirror=${3:-http://deb.debian.org/debian}
[[ $release == bookworm || $release == trixie ]] ||
  { echo "error: '$release' is no release that packages are made for; these are: bookworm, trixie" >&2; exit 2; }
bare=$folder/roots/$release-bare
clean=$folder/roots/$release-clean
version=$(dpkg-parsechangelog --show-field Version)
wheel_version=${version%-*}

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
  { [[ -e $bare ]] || { rm -rf "$bare.part" && debootstrap --variant=minbase "$release" "$bare.part" "$mirror" && mv "$bare.part" "$bare"; }; } &&
    inside "$bare" apt-get update
}
clean_root() {
  # Not what is mounted in the other one.
  { [[ -e $clean ]] || { rm -rf "$clean.part" && cp -ax "$bare" "$clean.part" && mv "$clean.part" "$clean"; }; } &&
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
wheel_is_built() {
  local python
  rm -rf "$clean/build/wheel" &&
    inside "$clean" apt-get install -y --no-install-recommends python3-dev python3-venv &&
    python=$(inside "$clean" python3 -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")') &&
    # A root may reach PyPI by other means than this machine does.
    python3 -m pip download --quiet --dest "$clean/build/wheel/needed" --only-binary :all: --python-version "$python" \
      scikit-build-core nanobind 'cmake>=3.26' ninja &&
    inside "$clean" python3 -m venv /build/wheel/python &&
    inside "$clean" /build/wheel/python/bin/pip wheel --no-index --find-links /build/wheel/needed --no-deps \
      --wheel-dir /build/wheel /build/source/python &&
    cp "$clean/build/wheel/espalier-$wheel_version"-*.whl "$folder"
}
they_install() {
  rm -rf "$bare/tmp/packages" &&
    mkdir -p "$bare/tmp/packages" &&
    cp "$folder"/*"_${version}_"*.deb "$folder/espalier-$wheel_version"-*.whl "$bare/tmp/packages" &&
    cp -r debian/tests "$bare/tmp/packages" &&
    inside "$bare" apt-get install -y --no-install-recommends g++ pkg-config python3-venv python3-numpy &&
    inside "$bare" sh -c 'apt-get install -y --no-install-recommends --reinstall /tmp/packages/*.deb'
}
their_tests_pass() {
  local test
  for test in programs server command python; do
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
step 'a wheel' wheel_is_built
step 'installed' they_install
step 'their tests' their_tests_pass
step 'purged' a_purge_leaves_nothing
echo "packages of version $version, in $folder:"
(cd "$folder" && ls -- *"_${version}_"*.deb "espalier-$wheel_version"-*.whl)
