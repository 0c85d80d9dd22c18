# shellcheck shell=bash
# Sourced by ./quickstart and ./check: reports each step, and stops at the first failure with its cause.

logs=build/logs
mkdir -p "$logs"

# The progress of a build or a test run, from the end of its log: "[12/340]" of ninja, "12/340 Test" of ctest.
progress_in() { tail -c 4096 "$1" 2>/dev/null | tr '\r' '\n' | grep -oE '^(\[[0-9]+/[0-9]+\]| *[0-9]+/[0-9]+ Test)' | tail -n 1 | grep -oE '[0-9]+/[0-9]+'; }

# Shows it repeatedly, until it is ended: on a terminal in place, elsewhere every half minute in a new word.
show_progress() {
  local name=$1 log=$2 at shown='' pause=30
  [[ ! -t 1 ]] || pause=1
  while sleep "$pause" >/dev/null 2>&1; do  # which may outlive this function, and holds no pipe of it
    at=$(progress_in "$log") || continue
    [[ $at != "$shown" ]] || continue
    shown=$at
    if [[ -t 1 ]]; then printf '\r\033[K%s ... %s' "$name" "$at"; else printf '%s ... ' "$at"; fi
  done
}

# step NAME COMMAND...: runs the command with its output in a log and shows its progress; prints the end of the log, and
# then its errors, if it fails.
step() {
  local name=$1 begin=$SECONDS log progress failed=0
  shift
  log=$logs/$(tr -c 'a-z0-9\n' '_' <<<"$name").log
  printf '%s ... ' "$name"
  : >"$log"
  show_progress "$name" "$log" &
  progress=$!
  "$@" >"$log" 2>&1 </dev/null || failed=$?
  kill "$progress" 2>/dev/null || true
  wait "$progress" 2>/dev/null || true
  [[ ! -t 1 ]] || printf '\r\033[K%s ... ' "$name"
  if [[ $failed == 0 ]]; then
    printf 'done (%d s)\n' $((SECONDS - begin))
    return
  fi
  printf 'FAILED\n\n' >&2
  printf 'The last lines of %s:\n\n' "$log" >&2
  tail -n 40 "$log" >&2
  printf '\nIts errors:\n\n' >&2
  grep -nE 'error:|^(FAIL|ERROR):|FAILED|Error|\*\*\*Failed|Failure' "$log" | tail -n 20 >&2 || true
  printf '\n%s stopped at: %s\n  %s\n' "$0" "$name" "$*" >&2
  exit 1
}
