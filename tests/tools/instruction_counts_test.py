#!/usr/bin/env python3
"""Counts the instructions of a find and of an insert_or_assign of ordered_map, and compares them with instruction_counts.json.
They do not depend on how busy or how fast the machine is, so a change that makes an operation longer shows in any run.

usage: instruction_counts_test.py COUNTED_OPERATIONS COMPILER [--record]

--record writes the counts of this build, where a change of them is meant. COMPILER is its name and version: another one
than the recorded compiler makes other code, and nothing is compared (status 77). So it is without valgrind, and on a
processor without AVX2, for which the library has other code.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RECORDED = pathlib.Path(__file__).with_name("instruction_counts.json")
TOLERANCE = 0.03


def count(program: str, operation: str) -> float:
    """Instructions for each operation."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--toggle-collect=counted_{operation}",
             f"--callgrind-out-file={folder}/out", program, operation],
            capture_output=True, text=True, check=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    operations = re.match(r"(\d+) operations", done.stdout)
    if not collected or not operations or int(collected[1]) == 0:
        raise SystemExit(f"callgrind has counted nothing:\n{done.stderr}")
    return int(collected[1]) / int(operations[1])


def faults(recorded: dict[str, float], counted: dict[str, float]) -> list[str]:
    """What differs by more than the tolerance."""
    return [f"{name}: {now:.1f} instructions, and {recorded[name]:.1f} are recorded ({now / recorded[name] - 1:+.1%})"
            for name, now in counted.items() if abs(now / recorded[name] - 1) > TOLERANCE]


def main() -> int:
    program, compiler = sys.argv[1:3]
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    is_recording = "--record" in sys.argv
    if shutil.which("valgrind") is None or "avx2" not in pathlib.Path("/proc/cpuinfo").read_text():
        print("not compared: there is no valgrind, or the processor has no AVX2")
        return 77
    if not is_recording and recorded.get("compiler") != compiler:
        print(f"not compared: this build is of {compiler}, and the record of {recorded.get('compiler')}")
        return 77
    counted = {operation: count(program, operation) for operation in ("find", "set")}
    if is_recording:
        rounded = {name: round(n, 1) for name, n in counted.items()}
        RECORDED.write_text(json.dumps({"compiler": compiler, "instructions": rounded}, indent=1) + "\n")
        print(f"recorded: {rounded}")
        return 0
    print("instructions:", ", ".join(f"{name} {n:.1f}" for name, n in counted.items()))
    # A control: a count a little beyond the tolerance must be found, a lower one too.
    for factor in (1 + 1.5 * TOLERANCE, 1 - 1.5 * TOLERANCE):
        assert len(faults(recorded["instructions"], {n: r * factor for n, r in recorded["instructions"].items()})) == 2
    found = faults(recorded["instructions"], counted)
    for fault in found:
        print(fault)
    if found:
        print(f"where this is meant: {sys.argv[0]} {program} '{compiler}' --record")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
