"""Compares the verdicts of sim/history with those of Porcupine on random histories.

usage: porcupine_test.py HISTORY_DUMP [COUNT]
Exits with 77, skipped, where there is no Go or the module cannot be fetched.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent / "porcupine"
SKIPPED = 77


def dumped(program, count):
    """The dump, and its verdicts by history."""
    text = subprocess.run([program, str(count)], check=True, capture_output=True, text=True).stdout
    headers = [line.split() for line in text.splitlines() if line.startswith("history ")]
    return text, {name: verdict for _, name, _, verdict in headers}


def second_opinion(text):
    """Porcupine's verdicts by history; None where it cannot be had."""
    go = shutil.which("go")
    if go is None:
        print("skipped: go is not installed")
        return None
    try:
        fetched = subprocess.run([go, "mod", "download"], cwd=SOURCE, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        print("skipped: fetching Porcupine took too long")
        return None
    if fetched.returncode != 0:
        print("skipped: Porcupine cannot be fetched:", fetched.stderr.strip())
        return None
    with tempfile.TemporaryDirectory() as folder:
        checker = pathlib.Path(folder) / "porcupine"
        subprocess.run([go, "build", "-buildvcs=false", "-o", checker, "."], cwd=SOURCE, check=True)
        answer = subprocess.run([checker], input=text, check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in answer.splitlines())


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    text, ours = dumped(program, count)
    theirs = second_opinion(text)
    if theirs is None:
        return SKIPPED
    differ = sorted(ours.items() ^ theirs.items(), key=lambda item: int(item[0]))
    for name, verdict in differ[:10]:
        print(f"history {name}: {verdict}, says {'sim/history' if ours.get(name) == verdict else 'Porcupine'}")
    verdicts = list(ours.values())
    counts = {verdict: verdicts.count(verdict) for verdict in ("linearizable", "violation")}
    print(f"{len(ours)} histories, {counts}, {len(differ) // 2} differ")
    return 0 if not differ and len(ours) == count and min(counts.values()) > count / 10 else 1


if __name__ == "__main__":
    sys.exit(main())
