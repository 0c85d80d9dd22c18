#!/usr/bin/env python3
"""Seeded bugs, each of which the scheduled tests must find.

A mutant is an edit of one source file of the library that exists only in the build folder. The tables of
*.toml beside this script describe them:

    files = ["src/espalier/map/bst/ticket.hpp"]  # the mutant's is the one in which its text occurs, once

    [ticket_version_after_edge]
    why = "what error this is, and where it was published if it was"
    edit = ["text", "what stands there instead"]
    scene = "ticket_races"      # optional: the scene that runs, or those of this suite, or the map, or map/scenario
    wide = true                 # optional: only scenarios with values larger than a word find it. The others
                                # run without those
    expect = ["leak"]           # optional: the only kinds of failure that count

Instead of edit there may be one of

    remove = "text of which nothing is left"
    relax = "text whose memory orders are relaxed"
    edits = [["text", "what stands there instead"]]   # several edits of one file

The mutants of a table are sought by the program of scenes (tests/scheduled) that has the table's name: its battery. With
`long = true`, above the first mutant or in one, only ./check --long builds and runs them.

A battery is one program, of which --mutant chooses the bug (switches.py). A mutant that cannot be chosen so, such
as one that changes a signature, is a program by itself.

The simulator's mutants are sought by programs of tests, not of scenes (machine, simulation): `scene` is a part of the names
of the tests that run, once each. Those of bindings/ are libraries, which take the place of the ones that their tests use.

Verbs: list, generate (overlays into the build folder), run (each mutant in a process of its own).

A mutant is killed by a failure that the explorer reports, by a crash, or by a schedule without an end: the explorer
counts the steps of the scene's threads, and the program (scheduled/main.cpp) ends what loops before or after them. A program has
a number of rounds, and no limit of time: what kills a mutant on one machine kills it on a slower one.
"""

import argparse
import functools
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tomllib

import switches

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

EDITS = {"edit", "remove", "relax", "edits"}
FIELDS = EDITS | {"why", "wide", "scene", "expect", "long"}
# How the explorer's reports begin: sim::to_string(failure_kind). no_end comes from scheduled/main.cpp.
KINDS = {
    "requirement": "a requirement does not hold",
    "use_after_free": "use of memory that is not allocated",
    "bad_free": "wrong free",
    "bad_retire": "wrong retirement",
    "leak": "leak",
    "data_race": "data race",
    "livelock": "livelock",
    "exception": "exception",
    "signal": "crash",
    "no_end": "a schedule without an end",
}


class Wrong(Exception):
    """An error in the tables or in the build, as a message for users."""


def read_tables(folder):
    found = {}
    for path in sorted(folder.glob("*.toml")):
        with open(path, "rb") as table:
            document = tomllib.load(table)
        files = document.pop("files", [])
        defaults = {key: document.pop(key) for key in [key for key in document if not isinstance(document[key], dict)]}
        if unknown := set(defaults) - {"long"}:
            raise Wrong(f"{path.name}: {sorted(unknown)[0]!r} cannot be that of every mutant")
        for name, fields in document.items():
            place = f"{path.name}, mutant {name}"
            if unknown := set(fields) - FIELDS:
                raise Wrong(f"{place}: unknown field {sorted(unknown)[0]!r}")
            if "why" not in fields:
                raise Wrong(f"{place}: the field 'why' is missing")
            if not name.isidentifier():
                raise Wrong(f"{place}: a name is letters, digits and underscores")
            if name in found:
                raise Wrong(f"{place}: the name is taken")
            if len(set(fields) & EDITS) != 1:
                raise Wrong(f"{place}: needs one of edit, edits, remove and relax")
            for kind in fields.get("expect", []):
                if kind not in KINDS:
                    raise Wrong(f"{place}: expect knows no kind {kind!r}; there are {', '.join(KINDS)}")
            edits = edits_of(fields)
            found[name] = defaults | fields | {"name": name, "battery": path.stem, "edits": edits,
                                               "file": file_of(place, edits, files)}
    return found


def edits_of(fields):
    if "remove" in fields:
        return [(fields["remove"], "")]
    if "relax" in fields:
        return [(fields["relax"], re.sub(r"memory_order_\w+", "memory_order_relaxed", fields["relax"]))]
    return [tuple(edit) for edit in fields.get("edits") or [fields["edit"]]]


def file_of(place, edits, files):
    """The one file in which the texts of all edits occur."""
    counts = {file: [text_of(file).count(text) for text, _ in edits] for file in files}
    fits = [file for file, of in counts.items() if 0 not in of]
    if len(fits) != 1 or set(counts[fits[0]]) != {1}:
        text = edits[0][0].strip().replace("\n", "\n    ")
        where = ", ".join(f"{n} times in {file}" for file in files for n in counts[file] if n) or f"not in {', '.join(files)}"
        raise Wrong(f"{place}: its text must occur once in one of the table's files; it occurs {where}:\n    {text}")
    return fits[0]


def overlay_of(file):
    """Path of the edited file below the program's folder: as the library includes it."""
    path = pathlib.PurePosixPath(file)
    return path.relative_to("src") if path.parts[0] == "src" else path


@functools.cache
def text_of(file):
    return (ROOT / file).read_text()


def chosen(arguments):
    """The mutants of all tables or, with --short, of those that are not long. The texts of all must fit."""
    mutants = read_tables(arguments.tables)
    return {name: m for name, m in mutants.items()
            if not (arguments.short and m.get("long")) and m["battery"] not in arguments.without}


def edited(mutant, text):
    for old, new in mutant["edits"]:
        text = text.replace(old, new)
    return text


def programs_of(mutants):
    """{program: {battery, files, overlays: {path: text}}}, and {mutant: its program}."""
    programs = {}
    program_of = {}
    for battery in sorted({m["battery"] for m in mutants.values()}):
        of = [m for m in mutants.values() if m["battery"] == battery]
        all_of_it = programs[battery] = {"battery": battery, "files": [], "overlays": {}}
        for file in sorted({m["file"] for m in of}):
            text = text_of(file)
            here = {m["name"]: m for m in of if m["file"] == file}
            both, chosen = switches.switched(text, {n: m["edits"] for n, m in here.items()})
            if chosen:
                all_of_it["files"].append(file)
                all_of_it["overlays"][overlay_of(file)] = both
            for name, m in here.items():
                program_of[name] = battery if name in chosen else name
                if name not in chosen:
                    programs[name] = {"battery": battery, "files": [file],
                                      "overlays": {overlay_of(file): edited(m, text)}}
    if clash := set(programs) & set(mutants) - {n for n, p in program_of.items() if n == p}:
        raise Wrong(f"a mutant has the name of a battery: {sorted(clash)[0]}")
    return programs, program_of


def write(path, text):
    """Leaves a file with that text alone, so that nothing is compiled again."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def generate(arguments):
    mutants = chosen(arguments)
    if arguments.batteries:
        mutants = {name: m for name, m in mutants.items() if m["battery"] in arguments.batteries}
    programs, _ = programs_of(mutants)
    for name, program in programs.items():
        folder = arguments.into / name
        texts = {folder / path: text for path, text in program["overlays"].items()}
        # A program whose mutants edited another file before would still be built with that one.
        for stale in (p for p in folder.rglob("*.?pp") if p not in texts):
            stale.unlink()
        for path, text in texts.items():
            write(path, text)


def show_list(arguments):
    mutants = chosen(arguments)
    if arguments.cmake:
        # One list element each: program, battery, edited files, their overlays.
        programs, _ = programs_of(mutants)
        print(";".join(f"{name}|{p['battery']}|{','.join(p['files'])}|{','.join(map(str, p['overlays']))}"
                       for name, p in programs.items()), end="")
        return
    for m in mutants.values():
        print(f"{m['name']}  ({m['file']}, by {m['battery']})\n    {' '.join(m['why'].split())}")


def executable_of(folder, program):
    names = (f"scheduled_{program}", f"scheduled_{program}_test", f"mutant_{program}")
    return next((folder / name for name in names if (folder / name).exists()), folder / names[0])


def outcome_of(executable, arguments):
    """Runs one program: (its report or None, how it ended, processor seconds)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ESPALIER_")}
    try:
        done = subprocess.run([str(executable), *arguments], capture_output=True, text=True, errors="replace",
                              env=environment)
    except FileNotFoundError:
        raise Wrong(f"{executable} is not built; build the target tests_of_mutants") from None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = done.stdout.splitlines()
    if done.returncode in (0, 1) and lines:
        return json.loads(lines[-1]), "", used
    if done.returncode == -signal.SIGPROF:  # scheduled/main.cpp's
        return None, "no_end", used
    detail = (done.stderr.strip().splitlines() or [""])[-1]
    return None, f"exit status {done.returncode} {detail}".strip(), used


def kind_of(text):
    for kind, words in KINDS.items():
        if text.startswith(words):
            return kind
    return "other"


def judge(mutant, report, ended):
    """(killed, scenario, schedules, what) for one mutant."""
    scenario, schedules = "-", None
    if report is not None:
        schedules = report["schedules"]
        if report["passed"]:
            why = "" if report.get("reached", True) else ": its code did not run, or is not in this build"
            return False, scenario, schedules, "survived" + (why if schedules else ": no scene has that name")
        scenario = report["scenario"]
        kind = kind_of(report["text"])
    elif ended == "no_end":
        kind = ended
    else:
        return True, scenario, schedules, f"the process crashed ({ended})"
    if kind not in mutant.get("expect", KINDS):  # such as a program that is not deterministic
        return False, scenario, schedules, f"found something else: {kind}"
    return True, scenario, schedules, kind


def false_alarm(report, ended):
    """What is wrong with a program of unchanged code, or None."""
    if report is not None:
        return None if report["passed"] else report["text"]
    return KINDS.get(ended, ended)


def run(arguments):
    mutants = chosen(arguments)
    if arguments.only:
        if unknown := [n for n in arguments.only if n not in mutants]:
            raise Wrong(f"there is no mutant {unknown[0]}")
        mutants = {name: mutants[name] for name in arguments.only}
    _, program_of = programs_of(mutants)
    folder = arguments.programs
    rows = []
    false_alarms = []

    def show(name, killed, scenario, schedules, used, what):
        count = "-" if schedules is None else str(schedules)
        mark = "killed" if killed else "      "
        print(f"{name:44} {mark} {scenario:36} {count:>9} {used:7.2f} s  {what}", flush=True)

    print(f"{'mutant':44} {'':6} {'scenario':36} {'schedules':>9} {'CPU':>9}  kind")
    for battery in sorted({m["battery"] for m in mutants.values()}):
        report, ended, used = outcome_of(executable_of(folder, battery), ["--rounds", "1"])
        alarm = false_alarm(report, ended)
        show(f"(unchanged: {battery})", False, "-", report["schedules"] if report else None, used,
             "passed" if alarm is None else f"FALSE ALARM {alarm}")
        rows.append({"reference": battery, "passed": alarm is None, "cpu_seconds": used,
                     "schedules": report["schedules"] if report else None})
        if alarm is not None:
            false_alarms.append(battery)

    survivors = []
    for name, mutant in mutants.items():
        how = ["--rounds", str(arguments.rounds), "--wide", str(int(mutant.get("wide", False)))]
        if "scene" in mutant:
            how += ["--scene", mutant["scene"]]
        if program_of[name] != name:
            how += ["--mutant", str(switches.number_of(name))]
        report, ended, used = outcome_of(executable_of(folder, program_of[name]), how)
        killed, scenario, schedules, what = judge(mutant, report, ended)
        show(name, killed, scenario, schedules, used, what)
        if arguments.verbose and report is not None and not report["passed"]:
            print("    " + report["text"].replace("\n", "\n    "))
        if not killed:
            survivors.append(name)
        rows.append({"mutant": name, "file": mutant["file"], "battery": mutant["battery"], "killed": killed,
                     "scenario": scenario, "schedules": schedules, "cpu_seconds": used, "kind": what,
                     "text": report["text"] if report else ended})
    killed_count = sum(row.get("killed", False) for row in rows)
    print(f"{killed_count} of {len(mutants)} killed ({100 * killed_count / len(mutants):.1f} %)")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if survivors:
        print(f"survivors: {', '.join(survivors)}")
    if false_alarms:
        print(f"false alarms on unchanged code: {', '.join(false_alarms)}")
    return 1 if survivors or false_alarms else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=lambda text: pathlib.Path(text).resolve(), default=HERE,
                        help="folder of the tables")
    parser.add_argument("--short", action="store_true", help="without the tables that are long")
    parser.add_argument("--without", action="append", default=[], metavar="BATTERY", help="without this table")
    verbs = parser.add_subparsers(required=True)

    verb = verbs.add_parser("list", help="what there is")
    verb.add_argument("--cmake", action="store_true", help="as a list for CMake")
    verb.set_defaults(do=show_list)

    verb = verbs.add_parser("generate", help="write overlays")
    verb.add_argument("--into", type=pathlib.Path, required=True, help="folder in the build folder")
    verb.add_argument("batteries", nargs="*", help="those whose programs to write; all if none")
    verb.set_defaults(do=generate)

    verb = verbs.add_parser("run", help="run the built programs; 0 only if every mutant is killed")
    verb.add_argument("--programs", type=pathlib.Path, required=True, help="folder of the executables")
    verb.add_argument("--only", nargs="+", metavar="NAME", help="these mutants")
    verb.add_argument("--rounds", type=int, default=100, help="in which a mutant has to be killed")
    verb.add_argument("--json", type=pathlib.Path, help="results into this file")
    verb.add_argument("--verbose", action="store_true", help="with the explorer's reports")
    verb.set_defaults(do=run)

    arguments = parser.parse_args()
    try:
        return arguments.do(arguments) or 0
    except Wrong as wrong:
        print(f"mutants.py: {wrong}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
