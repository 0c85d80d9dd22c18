#!/usr/bin/env bash
# Installs a build into a prefix, then builds and runs a separate project against it: static, shared, under each
# sanitizer, with pkg-config, on emulated older processors; one that builds the library itself; one against its simulator;
# with other compilers; the examples; and tries the installed command.
set -euo pipefail

build=${1:?usage: consumer_test.sh BUILD_FOLDER [C++ compiler]}
compiler=${2:-c++}
here=$(cd "$(dirname "$0")" && pwd)
long=0
if [[ ${ESPALIER_STRESS_SCALE:-1} -gt 1 ]]; then long=1; fi
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }

# configured SOURCE FOLDER COMPILER OPTION...
configured() {
  local source=$1 folder=$work/$2 cxx=$3
  shift 3
  cmake -S "$source" -B "$folder" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" "$@" \
    >"$work/configure.log" 2>&1
}

# built SOURCE FOLDER COMPILER OPTION...: configures and builds the project, or its targets in `only`. It must not warn.
only=()
built() {
  configured "$@" || { cat "$work/configure.log"; exit 1; }
  cmake --build "$work/$2" ${only:+--target "${only[@]}"} >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
}

echo "with find_package, into programs and a shared library"
optimised='-O1 -DNDEBUG'
if [[ $long == 1 ]]; then optimised='-O3 -DNDEBUG'; fi
built "$here" cmake "$compiler" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="$optimised"
for program in consumer host shared_consumer; do
  [[ ! -x $work/cmake/$program ]] || "$work/cmake/$program"
done
cp "$work/cmake/libplugin.so" "$work/cmake/libplugin_copy.so"
"$work/cmake/reloads" "$work/cmake/libplugin.so" "$work/cmake/libplugin_copy.so"
readelf -d "$work/cmake/consumer" | grep -E 'NEEDED.*(hwloc|fmt)' && { echo "the maps need more than pthreads"; exit 1; }
echo "with find_package, component oltp"
built "$here" database "$compiler" -DLIBRARY=oltp
"$work/database/transfers"
# sanitized SANITIZER COMPILER: the library is compiled with the program's flags.
sanitized() {
  echo "with $(basename "$2") -fsanitize=$1"
  local flags="-O0 -fsanitize=$1 -fno-sanitize-recover=all" folder
  folder=$(basename "$2")-${1%%,*}
  if [[ $long == 1 ]]; then
    built "$here" "$folder" "$2" -DLIBRARY=map_source -DCMAKE_CXX_FLAGS="$flags"
    for program in host consumer; do "$work/$folder/$program"; done
  fi
  # Linked with a library that the sanitizer does not see, it would report what is not so.
  configured "$here" "$folder" "$2" -DLIBRARY=map -DCMAKE_CXX_FLAGS="$flags" || { cat "$work/configure.log"; exit 1; }
  if cmake --build "$work/$folder" --target host >"$work/mixed.log" 2>&1; then echo "it links a library without it"; exit 1; fi
  grep -q "espalier_needs_map_source_with_${1%%,*}_sanitizer" "$work/mixed.log" || { cat "$work/mixed.log"; exit 1; }
}
clang=$(command -v clang++-19 || command -v clang++ || true)
sanitized address,undefined "$compiler"
if [[ $long == 1 ]]; then
  sanitized thread "$compiler"
  if [[ -n $clang ]]; then
    sanitized thread "$clang"
    sanitized address,undefined "$clang"
  fi
fi

# part FOLDER COMPILER STANDARD LIBRARY OPTION...: the project builds Espalier itself, with a C++ library.
part() {
  local folder=$1 cxx=$2 standard=$3 library=$4 flags=() program
  shift 4
  echo "with FetchContent, $(basename "$cxx"), C++$standard, $library $*"
  if [[ $library == libc++ ]]; then flags=(-DCMAKE_CXX_FLAGS=-stdlib=libc++); fi
  built "$here" "$folder" "$cxx" "${flags[@]}" -DESPALIER_SOURCE="$root" -DCMAKE_CXX_STANDARD="$standard" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 "$@"
  for program in host consumer; do [[ ! -x $work/$folder/$program ]] || "$work/$folder/$program"; done
}
only=(host)
if command -v clang++-14 >/dev/null; then part part clang++-14 20 libc++; else part part "$compiler" 20 libstdc++; fi
if ninja -C "$work/part" -t query all | grep espalier; then echo "it builds what the project does not link"; exit 1; fi
cmake --install "$work/part" --prefix "$work/part_prefix" >/dev/null
[[ $(find "$work/part_prefix" -type f | wc -l) == 2 ]] || { find "$work/part_prefix"; echo "it installs more than the project's"; exit 1; }

# The oldest and the newest compilers of Debian 12, and its oldest libc++.
awk '/^```cpp$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$root/README.md" >"$work/first.cpp"
for flags in 'clang++-14 -std=c++20' 'clang++-19 -std=c++23 -stdlib=libc++' 'g++-11 -std=c++23 -Wuseless-cast'; do
  command -v "${flags%% *}" >/dev/null || continue
  echo "with $flags"
  # shellcheck disable=SC2086 # the flags are meant to be split
  $flags -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -I"$work/prefix/include" "$work/first.cpp"
done
if [[ $long == 1 ]]; then
  for kind in {clang++-14,clang++-16,clang++-19}' '{20,23}' '{libstdc++,libc++} {g++-11,g++-12}' '{20,23}' libstdc++'; do
    read -r cxx standard library <<<"$kind"
    command -v "$cxx" >/dev/null || continue
    only=(host consumer)
    part "${kind// /-}" "$cxx" "$standard" "$library"
    only=(host)
    part "${kind// /-}" "$cxx" "$standard" "$library" -DLIBRARY=map_shared
  done
fi
only=()

echo "the examples"
examples=$root/examples
# The build compiles them all, and its tests run them.
if [[ $long == 0 ]]; then only=(example_policies); fi
built "$examples" examples "$compiler"
for program in "$work"/examples/example_*; do
  python3 "$here/../examples/output_test.py" "$examples/${program##*/example_}.cpp" "$program"
done

only=()

echo "with a component that there is none of"
if configured "$here" nosuch "$compiler" -DLIBRARY=nosuch; then echo "it is found"; exit 1; fi
tr -s '\n ' ' ' <"$work/configure.log" | grep -q 'it has no component nosuch; its components are map, cache, c, espalier' ||
  { cat "$work/configure.log"; exit 1; }
if command -v clang++-14 >/dev/null; then
  echo "with libc++, which the installed library was not compiled with"
  configured "$here" libcxx clang++-14 -DLIBRARY=map -DCMAKE_CXX_FLAGS=-stdlib=libc++ || { cat "$work/configure.log"; exit 1; }
  if cmake --build "$work/libcxx" --target host >"$work/mixed.log" 2>&1; then echo "it links a library of the other"; exit 1; fi
  grep -q 'espalier_needs_map_source_with_libcxx' "$work/mixed.log" || { cat "$work/mixed.log"; exit 1; }
fi

echo "what is rare in a map is compiled in the library, not in the program"
cat >"$work/numbers.cpp" <<'END'
#include <cstdint>
#include <espalier/ordered_map.hpp>
std::uint64_t use(espalier::ordered_map<std::uint64_t, std::uint64_t>& map, std::uint64_t key) {
  map.insert(key, 1);
  map.insert_or_assign(key, 2);
  map.erase(key + 1);
  std::uint64_t sum = map.find(key).value_or(0);
  map.scan(key, [&](std::uint64_t, std::uint64_t value) { sum += value; });
  return sum;
}
END
for cxx in "$compiler" ${clang:+"$clang"}; do
  "$cxx" -std=c++20 -O1 -I"$work/prefix/include" -c "$work/numbers.cpp" -o "$work/numbers.o"
  nm -C "$work/numbers.o" >"$work/symbols"
  for function in 'hashed_nodes<.*>::find_again(' 'hashed_changes<.*>::apply(' 'tree_changes<.*>::merge_sparse(' \
    'hashed_leaf<.*256u>::want_order(' 'hashed_leaf<.*256u>::try_copy('; do
    grep -q " U .*$function" "$work/symbols" || { cat "$work/symbols"; echo "$cxx: it does not refer to $function"; exit 1; }
  done
  for function in 'split_below<' '::try_merge(' '::gather<' '::place_all<' '::key_between('; do
    ! grep " [TtWV] .*$function" "$work/symbols" || { echo "$cxx compiles $function"; exit 1; }
  done
done

echo "with what is refused"
# What must not compile, and what the compiler then says.
cat >"$work/refused.cpp" <<'END'
#include <espalier/map/bst/edge_ext_lf.hpp>
#include <espalier/map/bst/int_lf.hpp>
#include <espalier/map/bst/log_int.hpp>
#include <espalier/sync/mcs_lock.hpp>
#include <memory>
#include <string>
using namespace espalier;
struct padded { char a; int b; auto operator<=>(const padded&) const = default; };
int main() {
  edge_ext_lf<std::string, int> edges_of_strings;
  int_lf<std::string, int> strings;
  edge_ext_lf<int, std::unique_ptr<int>> pointers;
  int_lf<padded, int> padding;
  log_int<int, int, map_traits::with_lock<mcs_lock>> queues;
  queues.insert(1, 2);
}
END
if "$compiler" -std=c++20 -fsyntax-only -I"$work/prefix/include" "$work/refused.cpp" 2>"$work/said"; then
  echo "it compiles"; exit 1
fi
for sentence in 'which std::string is not' 'values are copied' 'a struct with padding' 'a lock with a queue node'; do
  grep -q "static assertion failed: .*$sentence" "$work/said" || { cat "$work/said"; echo "it does not say: $sentence"; exit 1; }
done
[[ $(grep -c "static assertion failed: .*which std::string is not" "$work/said") -ge 2 ]] ||
  { cat "$work/said"; echo "it takes strings as keys"; exit 1; }
for cxx in "$compiler" ${clang:+"$clang"}; do
  said=$("$cxx" -std=c++17 -fsyntax-only -I"$work/prefix/include" "$work/first.cpp" 2>&1 | grep -m 1 'error: ' || true)
  [[ $said == *'compile with -std=c++20'* ]] || { echo "$said"; echo "it does not name the language level"; exit 1; }
  said=$("$cxx" -std=c++20 -fno-exceptions -fsyntax-only -I"$work/prefix/include" "$work/first.cpp" 2>&1 |
    grep -m 1 'error: ' || true)
  [[ $said == *'compile without -fno-exceptions'* ]] || { echo "$said"; echo "it does not name exceptions"; exit 1; }
done

echo "with pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name espalier.pc)")
export PKG_CONFIG_PATH
libraries=$(pkg-config --variable=libdir espalier-map)
for module in espalier espalier-map; do
  [[ $(pkg-config --cflags "$module") != *-std=* ]] || { echo "$module changes the program's language level"; exit 1; }
  # shellcheck disable=SC2046 # the flags are meant to be split
  [[ -e $work/plugin.o ]] ||
    "$compiler" -std=c++20 $(pkg-config --cflags "$module") -c "$here/plugin.cpp" -o "$work/plugin.o"
  # shellcheck disable=SC2046 # as above
  "$compiler" -std=c++20 "$work/plugin.o" "$here/host.cpp" $(pkg-config --cflags --libs "$module") \
    -o "$work/with_pkg_config"
  LD_LIBRARY_PATH=$libraries "$work/with_pkg_config"
done
# shellcheck disable=SC2046 # as above
"$compiler" -std=c++20 "$here/transfers.cpp" $(pkg-config --cflags --libs espalier-oltp) -o "$work/with_pkg_config"
LD_LIBRARY_PATH=$libraries "$work/with_pkg_config"
# shellcheck disable=SC2046 # as above
"$compiler" -std=c++20 "$here/cached.cpp" $(pkg-config --cflags --libs espalier-cache) -o "$work/with_pkg_config"
LD_LIBRARY_PATH=$libraries "$work/with_pkg_config"
# shellcheck disable=SC2046 # as above
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$root/examples/visits.c" $(pkg-config --cflags --libs espalier-c) \
  -o "$work/with_pkg_config"
LD_LIBRARY_PATH=$libraries "$work/with_pkg_config" >/dev/null

# What is installed runs on processors older than this one, whose flags all maps are compiled with.
if command -v qemu-x86_64 >/dev/null; then
  processors=(Nehalem) maps=occ_avl,locked_map
  if [[ $long == 1 ]]; then processors+=(Haswell) maps=all; fi
  for processor in "${processors[@]}"; do
    echo "on a $processor"
    qemu-x86_64 -cpu "$processor" "$work/cmake/host"
    [[ ! -x $work/prefix/bin/espalier ]] || qemu-x86_64 -cpu "$processor" "$work/prefix/bin/espalier" bench \
      --maps "$maps" --keys 200 --runs 1 --operations 200 --threads 2 --latency-every 0 >/dev/null
  done
fi

if grep -q '^ESPALIER_SIMULATOR:BOOL=ON$' "$build/CMakeCache.txt"; then
  echo "with find_package, component sim"
  built "$here/simulated" simulated "$compiler" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="$optimised"
  "$work/simulated/simulated_consumer"
else
  echo "no simulator in this build: the component sim is refused"
  if configured "$here/simulated" simulated "$compiler"; then echo "the component sim is found, yet was not built"; exit 1; fi
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
  if [[ -e $work/prefix/lib/systemd/system/espalier-cache.service ]]; then
    [[ $("$work/prefix/bin/espalier" serve -V) == 'espalier '* ]] || { echo "there is no installed server"; exit 1; }
    [[ -x $work/prefix/bin/espalier-serve ]] || { echo "the server is not where it belongs"; exit 1; }
  fi
  for library in "$work"/prefix/lib*/libespalier-random.so "$work"/prefix/lib*/*/libespalier-random.so; do
    [[ -e $library ]] || continue
    preloaded=$("$work/prefix/bin/espalier" run --malloc random -- printenv LD_PRELOAD)
    [[ $preloaded == "$library" ]] || { echo "the installed command preloads '$preloaded'"; exit 1; }
  done
  grep -q 'complete -F' "$work"/prefix/share/bash-completion/completions/espalier
  for page in espalier espalier-bench espalier-simulate; do
    grep -q '^\.TH ' "$work/prefix/share/man/man1/$page.1" || { echo "the manual page $page is not installed"; exit 1; }
  done
fi
echo "consumer: all right"
