#!/usr/bin/env python3
"""Runs an example, whose output must be what its source says after "// Prints:".

usage: output_test.py SOURCE PROGRAM
"""

import difflib
import pathlib
import subprocess
import sys


def expected_of(source: str) -> str:
    """The comment's lines below "// Prints:", without what indents them."""
    lines = source.partition("// Prints:\n")[2].splitlines()
    said = []
    for line in lines:
        if not line.startswith("//   "):
            break
        said.append(line.removeprefix("//   ") + "\n")
    return "".join(said)


def main() -> int:
    source, program = map(pathlib.Path, sys.argv[1:])
    expected = expected_of(source.read_text())
    if not expected:
        print(f"{source} does not say what it prints")
        return 1
    done = subprocess.run([program], capture_output=True, text=True)
    if done.returncode != 0 or done.stdout != expected:
        print(f"status {done.returncode}\n{done.stderr}")
        sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), done.stdout.splitlines(True),
                                                   str(source), str(program)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
