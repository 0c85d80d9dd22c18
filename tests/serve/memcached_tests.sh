#!/usr/bin/env bash
# Runs memcached's own tests on `espalier serve`: memcached_tests.sh COMMAND FOLDER [NAME...]
#
# COMMAND is espalier. FOLDER is a checkout of memcached, which stays as it is. The NAMEs are files of its folder t
# without their ending; by default all that concern what both servers have. Prints a line for each file. Needs perl and
# a C compiler.
set -euo pipefail

if [[ $# -lt 2 ]]; then
  echo "usage: $0 COMMAND FOLDER [NAME...]" >&2
  exit 2
fi
command=$(realpath "$1")
source=$(realpath "$2")
shift 2
names=("$@")
if [[ ${#names[@]} == 0 ]]; then
  names=(00-startup ascii-auth ascii-auth2 binary binary-get bogus-commands cas chunked-items daemonize dash-M dyn-maxbytes expirations flags flush-all getandtouch getset
    idle-timeout incrdecr issue_3 issue_41 issue_67 issue_68 issue_70 issue_104 issue_108 issue_152 issue_192 item_size_max
    malicious-commands maxconns metaget multiversioning noreply quit restart ssl_cert_refresh ssl_ports ssl_proto_version
    ssl_session_resumption ssl_settings ssl_verify_modes stats-detail strtol-testing touch unixsocket watcher watcher_connid)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/t" "$work/t"
cc -O1 -w -o "$work/timedrun" "$source/timedrun.c"

# There is no UDP.
cat >"$work/memcached-debug" <<WRAPPER
#!/usr/bin/env bash
arguments=()
while [[ \$# -gt 0 ]]; do
  case \$1 in
    -U) shift ;;
    *) arguments+=("\$1") ;;
  esac
  shift
done
exec "$command" serve --test-clock "\${arguments[@]}"
WRAPPER
chmod +x "$work/memcached-debug"
# Without the ports of UDP. Each call makes two checks.
udp=$(grep -c '^when.*-U -\?[1-9]' "$work/t/issue_67.t" || true)
sed -i "/^when.*-U -\?[1-9]/d; s/tests => 24/tests => $((24 - 2 * udp))/" "$work/t/issue_67.t"
# Without events of connections, which watch does not show.
perl -0pi -e 's/# test connection events\n\{.*?\n\}\n\n//s and s/tests => 43/tests => 38/' "$work/t/watcher.t"
# One store may find room that the eviction of a large entry before it has left.
# shellcheck disable=SC2016 # the dollars are perl's
perl -0pi -e 's/(print \$client "set bfoo) 0 (0 11000 noreply\\r\\n\$value\\r\\n");/$1\$_ 0 $2 for 1 .. 200; print \$client "mn\\r\\n"; <\$client>;/' "$work/t/watcher.t"
# Without memcached's second file, and the size of its hash table.
perl -0pi -e 's/# read a invalid metadata file\n\{.*?\n\}\n\n//s; s/^ *is\(\$stats->\{hash_power_level\}.*\n//mg' "$work/t/restart.t"
# Without an eviction that memcached needs where this server has room.
perl -0pi -e 's/^isnt\(\$evicted, "0", "check evicted"\);\n//m and s/tests => 309/tests => 308/' "$work/t/dyn-maxbytes.t"

cd "$work"
failures=0
for name in "${names[@]}"; do
  # They are skipped where there is no IO::Socket::SSL.
  with_tls=()
  if [[ $name == ssl_* ]] && perl -MIO::Socket::SSL -e 1 2>/dev/null; then with_tls=(SSL_TEST=1); fi
  if timeout 300 env "${with_tls[@]}" perl -It/lib "t/$name.t" >"$name.log" 2>&1; then
    echo "$name: passed, $(grep -c '^ok' "$name.log") checks"
  else
    echo "$name: FAILED"
    grep -v '^ok' "$name.log" | head -n 20 | sed 's/^/    /'
    failures=$((failures + 1))
  fi
done
[[ $failures == 0 ]]
