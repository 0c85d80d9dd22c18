#!/usr/bin/env bash
# Installs a build into a prefix, then builds and runs a separate project against it in both ways and one
# against its simulator, and tries the installed command.
set -euo pipefail

build=${1:?usage: consumer_test.sh BUILD_FOLDER [C++ compiler]}
compiler=${2:-c++}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }

echo "with find_package"
cmake -S "$here" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/cmake"
"$work/cmake/consumer"

echo "with pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name espalier.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # the flags are meant to be split
"$compiler" -O2 "$here/consumer.cpp" $(pkg-config --cflags --libs espalier) -o "$work/with_pkg_config"
"$work/with_pkg_config"

configure_simulated() {
  cmake -S "$here/simulated" -B "$work/simulated" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" 2>&1
}

if grep -q '^ESPALIER_SIMULATOR:BOOL=ON$' "$build/CMakeCache.txt"; then
  echo "with find_package, component sim"
  configure_simulated || { cat "$work/configure.log"; exit 1; }
  cmake --build "$work/simulated"
  "$work/simulated/simulated_consumer"
else
  echo "no simulator in this build: the component sim is refused"
  if configure_simulated; then echo "the component sim is found, yet was not built"; exit 1; fi
  tr -s '\n ' ' ' <"$work/configure.log" | grep -q 'without its component sim' || { cat "$work/configure.log"; exit 1; }
fi

if [[ -x $work/prefix/bin/espalier ]]; then
  echo "the installed command"
  "$work/prefix/bin/espalier" list >/dev/null
  "$work/prefix/bin/espalier" bench --maps ticket --keys 1000 --runs 3 --time 0.02 --threads 1 \
    --out "$work/out" >/dev/null 2>&1
  for name in results.json results.csv report.html; do
    [[ -s $work/out/$name ]] || { echo "the installed command did not write $name"; exit 1; }
  done
  if [[ -x $work/prefix/libexec/espalier/espalier-simulate ]]; then
    "$work/prefix/bin/espalier" simulate --machine i7_4770 --threads 2 --operations 1000 --maps ticket \
      --keys 1000 --json "$work/simulated.json" >/dev/null 2>&1
    [[ -s $work/simulated.json ]] || { echo "the installed simulator did not write its results"; exit 1; }
  fi
  for library in "$work"/prefix/lib*/libespalier-random.so "$work"/prefix/lib*/*/libespalier-random.so; do
    [[ -e $library ]] || continue
    preloaded=$("$work/prefix/bin/espalier" run --malloc random -- printenv LD_PRELOAD)
    [[ $preloaded == "$library" ]] || { echo "the installed command preloads '$preloaded'"; exit 1; }
  done
  grep -q 'complete -F' "$work"/prefix/share/bash-completion/completions/espalier
fi
echo "consumer: all right"
