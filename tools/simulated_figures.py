#!/usr/bin/env python3
"""The simulated figures that docs/simulated-machine.md shows: simulates them again and writes their tables.

    tools/simulated_figures.py [--check] [BUILD]    BUILD: the folder of the build, if not build/release

They are the same on every machine. --check writes nothing, and fails where the page shows others. Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "simulated-machine.md"
BEGIN, END = "<!-- {} by tools/simulated_figures.py -->\n", "<!-- until here -->"
STUDIED = "simulate --study dps --machine e7_4850 --threads 40 --figure figure-6,figure-7"
SEARCHED = ("simulate --machine e7_4850 --threads 40 --keys 100000 --mix 100/0/0 "
            "--maps edge_ext_lf,global_lock_bst,hand_over_hand_bst")
CALIBRATED = ("e7_4850", "abu_dhabi", "e5_2650_htm")
LOADS = ("64 x 64", "512 x 64", "64 x 4", "512 x 4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="fail where the page shows other figures")
    asked = parser.parse_args()
    command = asked.build / "apps" / "espalier" / "espalier"
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        studied = simulated(command, STUDIED, "--out", work, at=work / "dps.json")
        searched = simulated(command, SEARCHED, "--json", work / "searches.json", at=work / "searches.json")
        calibrated = [simulated(command, f"simulate --study calibration --machine {name}", "--out", work,
                                at=work / "calibration.json") for name in CALIBRATED]
    shown = PAGE.read_text()
    now = written(written(shown, "simulated", table_of(studied, searched)), "calibrated", findings_of(calibrated))
    if asked.check and now != shown:
        sys.exit(f"{PAGE} shows other figures than the simulation; tools/simulated_figures.py writes them")
    if not asked.check:
        PAGE.write_text(now)


def written(page: str, what: str, table: str) -> str:
    """The page with the table where that of this name stands."""
    before, begin, rest = page.partition(BEGIN.format(what))
    if not rest:
        sys.exit(f"{PAGE} has no line {BEGIN.format(what).strip()}")
    return before + begin + table + rest[rest.index(END):]


def findings_of(studies: list[dict]) -> str:
    lines = [("machine", "published", "simulated", "verdict"), ("---",) * 4]
    for study in studies:
        for figure in study["study"]["figures"]:
            for finding in figure["findings"]:
                lines.append((f"`{finding['machine']}`", finding["paper"], finding["ours"], finding["verdict"]))
    return rows_of(lines)


def rows_of(lines: Iterable[Sequence[str]]) -> str:
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" if set(cells) != {"---"} else "|---" * len(cells) + "|\n"
                          for cells in lines) + "\n"


def simulated(command: pathlib.Path, arguments: str, *more: str | pathlib.Path, at: pathlib.Path) -> dict:
    subprocess.run([command, *shlex.split(arguments), *more], check=True, stdout=subprocess.DEVNULL)
    return json.loads(at.read_text())


def table_of(studied: dict, searched: dict) -> str:
    rows = {b["name"]: b for b in studied["benchmarks"]}

    def of(technique: str, load: str) -> dict:
        return rows[f"dps/{technique}/{load} lines, 40 threads"]

    def transfers(technique: str, load: str) -> str:
        return f"{of(technique, load)['counts']['remote_transfers']:.2g}"

    def gains(technique: str) -> str:
        ratios = (of(technique, load)["items_per_second"] / of("MCS", load)["items_per_second"] for load in LOADS)
        return ". ".join(f"{load}: {ratio:.2f}" for load, ratio in zip(LOADS, ratios))

    coherence = studied["study"]["coherence_operations"]
    searches = {b["map"]: b["counts"]["local_transfers"] + b["counts"]["remote_transfers"]
                for b in searched["benchmarks"]}
    lines = (
        ("what", "simulated"),
        ("---", "---"),
        ("objects of L lines, under MCS locks or by delegation (Middleware 2019, figure 7): remote transfers per "
         "operation",
         ". ".join(f"{load}: {transfers('MCS', load)} under locks, {transfers('DPS', load)} delegated"
                   for load in ("64 x 64", "64 x 4"))),
        ("the same: throughput with two messages in flight, over throughput under locks", gains("DPS, 2 in flight")),
        ("the same with one message in flight, the synchronous mode of the paper", gains("DPS")),
        ("coherence operations of 15 empty requests (section 5.1 there): ffwd, DPS",
         f"{coherence['ffwd-s1']:.0f} and {coherence['DPS']:.0f}; in the paper 46 and 60"),
        ("searches of 100,000 keys, transfers per search (ATC 2018, talk): no locks, one lock, lock coupling",
         ", ".join(f"{searches[name]:.2g}" for name in ("edge_ext_lf", "global_lock_bst", "hand_over_hand_bst"))),
    )
    return rows_of(lines)


if __name__ == "__main__":
    main()
