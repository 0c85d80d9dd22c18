#!/usr/bin/env bash
# Installs the Debian packages that are still missing. Arguments: the requested sets.
#   build  what the library, the command and its report need
#   peers  the libraries that `espalier bench` compares with: maps and mallocs
#   test   what ./check needs in addition
#   long   what ./check --long needs: one more compiler, and programs to run on the preloaded libraries
# The sets build and peers are for Debian 12 and 13, the others for Debian 12.
set -euo pipefail

# A|B: the first one that there is.
build=(g++ cmake ninja-build pkg-config git ca-certificates python3 python3-plotly libhwloc-dev libjemalloc-dev
  libcli11-dev libfmt-dev nlohmann-json3-dev libboost-dev libboost-context-dev libdw-dev libxxhash-dev
  libevent-dev libssl-dev
  binutils)
peers=(libtbb-dev libcds-dev libabsl-dev libjemalloc2 'libmimalloc2.0|libmimalloc3'
  'libtcmalloc-minimal4|libtcmalloc-minimal4t64')
test=(ccache clang-14 clang-19 clang-format-19 clang-tidy-19 g++-11 libc++-14-dev libc++abi-14-dev
  libclang-rt-19-dev llvm-19 libgtest-dev libgmock-dev libbenchmark-tools libzydis-dev python3-scipy chromium
  chromium-driver python3-selenium shellcheck valgrind qemu-user groff-base doxygen redis-tools sqlite3 memcached
  stress-ng libpython3.11-testsuite python3-dev python3-venv lua5.4 z3 librocksdb-dev libsqlite3-dev)
long=(clang-16 perl libio-socket-ssl-perl ruby nodejs default-jdk-headless golang-go rustc php-cli php-mbstring php-xml postgresql
  mariadb-server-core mariadb-client-core nginx apache2-utils ffmpeg imagemagick ghostscript xz-utils)

wanted=()
for set in "$@"; do
  case $set in
    build) wanted+=("${build[@]}") ;;
    peers) wanted+=("${peers[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    long) wanted+=("${long[@]}") ;;
    *)
      echo "$0: there is no set '$set'; the sets are build, peers, test and long" >&2
      exit 2
      ;;
  esac
done

as_root=()
if [[ $(id -u) != 0 ]] && command -v sudo >/dev/null; then as_root=(sudo); fi

# The tests open a browser with this name, which a minimal root does not know.
if [[ " $* " == *' test '* ]] && ! getent ahosts localhost >/dev/null; then
  echo "adding localhost to /etc/hosts"
  echo '127.0.0.1 localhost' | "${as_root[@]}" tee -a /etc/hosts >/dev/null
fi

is_installed() {
  local name
  for name in ${1//|/ }; do
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$name" 2>/dev/null) != installed ]] || return 0
  done
  return 1
}
missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [[ ${#missing[@]} == 0 ]]; then
  echo "all packages are installed"
  exit 0
fi

if [[ $(id -u) != 0 && ${#as_root[@]} == 0 ]]; then
  echo "error: these packages are missing and only root can install them: ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# The tests start servers themselves, so none is started when its package is installed.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi

# patiently COMMAND...: repeats a failed command after a while, up to three times. A mirror may be away for a moment.
patiently() {
  local pause
  for pause in 5 20 60; do
    if "$@"; then return; fi
    echo "failed: $*; once more in $pause seconds"
    sleep "$pause"
  done
  "$@"
}
patiently "${as_root[@]}" apt-get update -q
for i in "${!missing[@]}"; do
  for name in ${missing[i]//|/ }; do
    missing[i]=$name
    [[ -z $(apt-cache show "$name" 2>/dev/null) ]] || break
  done
done
patiently "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
