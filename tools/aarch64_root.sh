#!/usr/bin/env bash
# Installs a cross compiler and an emulator for ARM64, and unpacks the libraries for the project and its tests on an
# ARM64 Debian 12 below a folder. The packages of this machine keep their own architecture.
#   tools/aarch64_root.sh FOLDER
set -euo pipefail

if [[ $# != 1 || $1 == -* ]]; then
  echo "usage: $0 FOLDER" >&2
  exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[[ ! -e $folder/complete ]] || exit 0

as_root=()
if [[ $(id -u) != 0 ]]; then as_root=(sudo); fi
export DEBIAN_FRONTEND=noninteractive
for command in aarch64-linux-gnu-g++ qemu-aarch64-static; do
  if ! command -v "$command" >/dev/null; then
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" apt-get install -q -y --no-install-recommends g++-aarch64-linux-gnu qemu-user-static
    break
  fi
done

# As if nothing were installed, so that all dependencies are fetched, too.
mkdir -p "$folder"/{lists/partial,cache/archives/partial,root}
: >"$folder/status"
apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=
  -o "Dir::State::lists=$folder/lists" -o "Dir::State::status=$folder/status" -o "Dir::Cache=$folder/cache"
  -o Debug::NoLocking=1)
"${apt[@]}" update
"${apt[@]}" install -y --download-only --no-install-recommends \
  libc6-dev libstdc++-12-dev libhwloc-dev libfmt-dev nlohmann-json3-dev libgtest-dev libgmock-dev
for package in "$folder"/cache/archives/*.deb; do dpkg -x "$package" "$folder/root"; done
rm -r "$folder/cache"
touch "$folder/complete"
