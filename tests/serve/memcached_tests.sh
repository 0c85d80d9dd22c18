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
  names=(00-startup ascii-auth ascii-auth2 binary binary-get bogus-commands cas chunked-items daemonize dash-M expirations flags flush-all getandtouch getset
    idle-timeout incrdecr issue_3 issue_41 issue_67 issue_68 issue_70 issue_104 issue_108 issue_152 issue_192 item_size_max
    malicious-commands maxconns metaget multiversioning noreply quit ssl_cert_refresh ssl_ports ssl_proto_version ssl_settings ssl_verify_modes stats-detail strtol-testing touch unixsocket)
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
