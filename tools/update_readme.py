#!/usr/bin/env python3
"""Measures anew what the README shows: its table of maps beside their peers, and its two pictures.

    tools/update_readme.py [BUILD]    BUILD: the folder of the release, if not build/release

Needs a machine with nothing else to do, Chromium, and the release with the peers. Takes some ten minutes. Writes
README.md and docs/pictures/.
"""

from __future__ import annotations

import argparse
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "report"))

from espalier_report import results, summary  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
COMPARED = ("bench --maps ordered_map --peers --keys 1000000 --threads 2 --mix hits --mix 100/0/0 --mix 90/5/5 "
            "--mix 50/25/25 --mix ycsb-a --mix ycsb-e --mix load --runs 5 --time 0.5 --latency-every 0")
INSPECTED = "inspect --map int_lf/studied --placement shared_heap --keys 100000"
BEGIN, END = "<!-- measured by tools/update_readme.py -->", "<!-- until here -->"
WIDTH, HEIGHT = 1200, 800


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, help="the folder that the command wrote, not measured again")
    asked = parser.parse_args()
    command = asked.build / "apps" / "espalier" / "espalier"
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        measured = asked.results or work
        if not asked.results:
            run(command, COMPARED, "--out", measured)
        write_table(results.load([measured / "results.json"]))
        PICTURES.mkdir(exist_ok=True)
        run(command, INSPECTED, "--report", work / "heap.html")
        picture(measured / "report.html", PICTURES / "report.png")
        picture(work / "heap.html", PICTURES / "heap.png")


def run(command: pathlib.Path, arguments: str, *more: str | pathlib.Path) -> None:
    subprocess.run([command, *shlex.split(arguments), *more], check=True)


def picture(page: pathlib.Path, to: pathlib.Path) -> None:
    """The page's first screen."""
    subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                    f"--window-size={WIDTH},{HEIGHT}", "--virtual-time-budget=5000", f"--screenshot={to}",
                    page.as_uri()], check=True, stderr=subprocess.DEVNULL)


def write_table(measured: results.Results) -> None:
    readme = ROOT / "README.md"
    before, found, rest = readme.read_text().partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        sys.exit(f"update_readme: README.md lacks the lines {BEGIN} and {END}")
    readme.write_text(f"{before}{BEGIN}\n\n{section(measured)}\n{END}{after}")


def section(measured: results.Results) -> str:
    """Speed over the best peer's, which says at once where a peer wins."""
    workloads, rows = summary.compared(measured), summary.rows(measured)
    best_peer = {workload: max(row.ratios[workload] for row in rows
                               if row.role is results.Role.PEER and workload in row.ratios) for workload in workloads}
    table = [f"| map | {' | '.join(workloads)} |", f"|---|{'---|' * len(workloads)}"]
    for row in rows:
        cells = [shown(row.ratios[workload] / best_peer[workload]) if workload in row.ratios else summary.UNMEASURED
                 for workload in workloads]
        table.append(f"| {row.label}{row.role.mark} | {' | '.join(cells)} |")
    clock = "the CPU time of an operation" if measured.by_cpu else "throughput"
    return "\n".join([
        f"Speed over that of the best peer, by {clock}: above 1 the map is faster than each of them. "
        f"{summary.conditions(measured)}, in turns. `{summary.UNMEASURED}`: the map does not offer it.",
        "", *table, "", "This command repeats it on your machine:", "",
        f"    build/release/apps/espalier/espalier {COMPARED} --out results/", ""])


def shown(ratio: float) -> str:
    return f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}"


if __name__ == "__main__":
    main()
