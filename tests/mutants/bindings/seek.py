#!/usr/bin/env python3
"""Runs the tests of a library with a mutant of it in its place, and says in JSON what they found.

usage: seek.py library test [test...] -- [--mutant NUMBER] [...]

A test that is a script of Python is given the library; one that is a program runs with the library preloaded, unless it is
the mutant itself.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable  # Debian's loads SQLite's extensions


def main(library: str, *arguments: str) -> int:
    tests, options = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    mutant = dict(zip(options[::2], options[1::2])).get("--mutant", "0")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    runs, failed, said = 0, "", ""
    with tempfile.TemporaryDirectory() as folder:
        reached = pathlib.Path(folder) / "reached"
        environment = os.environ | {"ESPALIER_MUTANT": mutant, "ESPALIER_MUTANT_REACHED": str(reached)}
        for test in tests:
            if test.endswith(".py"):
                command, extra = [PYTHON, "-B", test, library, "--failfast"], {}
            else:
                command, extra = [test], {"GTEST_FAIL_FAST": "1"} | ({"LD_PRELOAD": library} if test != library else {})
            done = subprocess.run(command, env=environment | extra, capture_output=True, text=True, errors="replace", check=False)
            runs += 1
            if done.returncode != 0:
                failed, said = pathlib.Path(test).name, f"exit status {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
                break
        print(json.dumps({
            "passed": not failed,
            "schedules": runs,
            "reached": mutant == "0" or reached.exists(),
            "scenario": failed,
            "text": failed and f"a requirement does not hold: {said}",
        }))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
