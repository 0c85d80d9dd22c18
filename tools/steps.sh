# shellcheck shell=bash
# Sourced by ./quickstart and ./check: saying what is done, and stopping at the first failure with its cause.

logs=build/logs
mkdir -p "$logs"

# step NAME COMMAND...: runs the command with its output in a log; shows the end of it if it fails.
step() {
  local name=$1 begin=$SECONDS log
  shift
  log=$logs/$(tr -c 'a-z0-9\n' '_' <<<"$name").log
  printf '%s ... ' "$name"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf 'done (%d s)\n' $((SECONDS - begin))
    return
  fi
  printf 'FAILED\n\n' >&2
  grep -nE 'error:|FAILED|Error|\*\*\*Failed|Failure' "$log" | head -n 20 >&2 || true
  printf '\nThe last lines of %s:\n\n' "$log" >&2
  tail -n 40 "$log" >&2
  printf '\n%s stopped at: %s\n  %s\n' "$0" "$name" "$*" >&2
  exit 1
}
