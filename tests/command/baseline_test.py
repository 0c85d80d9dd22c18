#!/usr/bin/env python3
"""`espalier bench` beside a baseline: a file of results, and another build. Baselines are made so that no machine can
change the verdict: a thousand times as fast, or as slow."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from case import COMMAND, Case, compiled

LOAD = ("--maps", "ordered_map,ticket", "--keys", "64", "--operations", "500", "--threads", "1,2")
NAMES = [f"50/25/25 uniform/{name}/threads:{threads}" for threads in (1, 2) for name in ("ordered_map", "ticket")]
QUICK = ("bench", *LOAD, "--mix", "50/25/25", "--runs", "2", "--latency-every", "0")


class Baseline(Case):
    def setUp(self) -> None:
        super().setUp()
        self.ended(0, *QUICK, "--json", "now.json")
        self.now = json.loads((self.folder / "now.json").read_text())

    def saved(self, factor: float, only: str = "", **terms: object) -> str:
        """Results that took so many times the time; some of them under other terms."""
        changed = json.loads(json.dumps(self.now))
        for entry in changed["benchmarks"]:
            entry["cpu_time"] *= factor
            if only in entry["name"]:
                entry.update(terms)
        (self.folder / "before.json").write_text(json.dumps(changed))
        return "before.json"

    def test_what_is_slower_is_named_and_ends_with_status_1(self) -> None:
        self.saved(1000)
        done = self.ended(0, *QUICK, "--baseline", "before.json", "--json", "compared.json")
        self.assertIn("none of 4 is slower by more than 10 %", done.stdout)
        compared = json.loads((self.folder / "compared.json").read_text())
        self.assertEqual(compared["comparison"]["slower"], 0)
        self.assertEqual([row["name"] for row in compared["comparison"]["benchmarks"]], NAMES)
        for row in compared["comparison"]["benchmarks"]:
            self.assertAlmostEqual(row["ratio"], row["now"] / row["before"])
        # All else is as without a baseline.
        self.assertEqual([b["name"] for b in compared["benchmarks"]], [b["name"] for b in self.now["benchmarks"]])

        self.saved(1 / 1000)
        done = self.ended(1, *QUICK, "--baseline", "before.json", "--json", "compared.json")
        self.assertIn("4 of 4 slower by more than 10 %", done.stdout)
        self.assertEqual(done.stdout.count("x  slower\n"), 4)
        compared = json.loads((self.folder / "compared.json").read_text())
        self.assertTrue(all(row["slower"] for row in compared["comparison"]["benchmarks"]))

    def test_the_margin_is_a_percentage(self) -> None:
        """Near some of these margins chance decides which are slower: the ratios that the command itself reports tell."""
        # A twentieth is not 1 % more; a thousandfold is more than 20,000 %, and less than 2,000,000 %.
        for factor, margin in ((20, 1), (1 / 1000, 2e4), (1 / 1000, 2e6), (1 / 1000, 1e9)):
            with self.subTest(factor=factor, margin=margin):
                self.saved(factor)
                done = self.espalier(*QUICK, "--baseline", "before.json", "--margin", f"{margin:g}", "--json", "compared.json")
                rows = json.loads((self.folder / "compared.json").read_text())["comparison"]["benchmarks"]
                self.assertEqual([row["slower"] for row in rows], [row["ratio"] > 1 + margin / 100 for row in rows])
                slower = sum(row["slower"] for row in rows)
                self.assertEqual(done.returncode, 1 if slower else 0, done.stderr)
                self.assertIn(f"{slower} of 4 slower" if slower else "none of 4 is slower", done.stdout)

    def test_one_of_several_is_enough(self) -> None:
        self.saved(1000)
        everything = json.loads((self.folder / "before.json").read_text())
        for entry in everything["benchmarks"]:
            if entry["run_name"] == NAMES[1]:
                entry["cpu_time"] /= 1e6
        (self.folder / "before.json").write_text(json.dumps(everything))
        done = self.ended(1, *QUICK, "--baseline", "before.json")
        self.assertIn("1 of 4 slower", done.stdout)
        self.assertRegex(done.stdout, rf"(?m)^  {NAMES[1]} .* slower$")

    def test_only_like_is_compared_with_like(self) -> None:
        self.saved(1000, only="ticket", keys=65)
        done = self.ended(0, *QUICK, "--baseline", "before.json")
        self.assertIn("none of 2 is slower", done.stdout)
        self.assertEqual(done.stderr.count("is not compared"), 2)
        for term in ("mix", "distribution", "keys", "key_order", "key_type", "placement"):
            with self.subTest(term):
                self.saved(1000, **{term: "other"})
                why = self.refused(*QUICK, "--baseline", str(self.folder / "before.json"))
                self.assertIn(f'none of these measurements: {NAMES[0]} has {term} "other" there, and {term} ', why)

    def test_results_without_an_order_of_keys_had_the_usual_one(self) -> None:
        self.saved(1000)
        old = json.loads((self.folder / "before.json").read_text())
        for entry in old["benchmarks"]:
            self.assertEqual(entry.pop("key_order"), "scrambled")
        (self.folder / "before.json").write_text(json.dumps(old))
        self.assertIn("none of 4", self.ended(0, *QUICK, "--baseline", "before.json").stdout)
        why = self.refused(*QUICK, "--order", "sequential", "--baseline", str(self.folder / "before.json"))
        self.assertIn('has key_order "scrambled" there, and key_order "sequential" here', why)

    def test_baselines_that_cannot_be_are_refused(self) -> None:
        folder = pathlib.Path(self.folder)
        (folder / "none.json").write_text("{}")
        (folder / "no.json").write_text("no JSON")
        (folder / "cut.json").write_text('{"benchmarks": [3, {"aggregate_name": "median"}, {"run_name": 7}]}')
        (folder / "folder").mkdir()
        before = str(folder / self.saved(1))
        for arguments, word in {
            ("--baseline", "absent.json"): "cannot be read",
            ("--baseline", str(folder / "folder")): "cannot be read",
            ("--baseline-command", str(folder / "folder")): "no program",
            ("--baseline", str(folder / "none.json")): "no results of espalier bench",
            ("--baseline", str(folder / "no.json")): "no results of espalier bench",
            ("--baseline", str(folder / "cut.json")): "no results of espalier bench",
            ("--baseline", before, "--mix", "ycsb-a"): "none of these measurements",
            ("--baseline", before, "--mix", "50/25/25", "--json", before): "results would replace it",
            ("--baseline-command", "absent"): "no program",
            ("--baseline-command", str(COMMAND), "--baseline", before): "--baseline",
            ("--baseline-command", str(COMMAND), "--out", "o"): "--out",
            ("--margin", "5"): "--margin",
            ("--baseline", before, "--margin=-1"): "--margin",
        }.items():
            with self.subTest(arguments):
                self.assertIn(word, self.refused("bench", *LOAD, *arguments))

    def test_a_baseline_without_a_context(self) -> None:
        self.saved(1000)
        everything = json.loads((self.folder / "before.json").read_text())
        (self.folder / "before.json").write_text(json.dumps(everything | {"context": 5}))
        done = self.ended(0, *QUICK, "--baseline", "before.json")
        self.assertIn("before.json (commit unavailable, unavailable)", done.stdout)

    def test_a_baseline_of_another_processor(self) -> None:
        self.saved(1000)
        self.assertNotIn("processor", self.ended(0, *QUICK, "--baseline", "before.json").stderr)
        everything = json.loads((self.folder / "before.json").read_text())
        everything["context"]["cpu_model"] = "Other CPU"
        (self.folder / "before.json").write_text(json.dumps(everything))
        self.assertIn("before.json is of another processor, Other CPU",
                      self.ended(0, *QUICK, "--baseline", "before.json").stderr)
        before = str(self.folder / "before.json")
        self.assertIn("none of these", self.refused("bench", *LOAD, "--baseline", before, "--mix", "ycsb-a"))

    def test_a_baseline_sends_the_terminal_no_commands(self) -> None:
        self.saved(1000)
        everything = json.loads((self.folder / "before.json").read_text())
        everything["context"] |= {"commit": "\x1b[2J", "cpu_model": "\x1b[2J"}
        (self.folder / "before.json").write_text(json.dumps(everything))
        done = self.ended(0, *QUICK, "--baseline", "before.json")
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        for entry in everything["benchmarks"]:
            entry["run_name"] = "\x1b[2J" + entry["run_name"]
        (self.folder / "before.json").write_text(json.dumps(everything))
        before = str(self.folder / "before.json")
        self.assertIn("has no results of espalier bench", self.refused("bench", *LOAD, "--baseline", before))

    def other_build(self, factor: float) -> str:
        """A build of the command that is said to take so many times the time."""
        program = self.folder / "other"
        program.write_text(f"""#!/usr/bin/python3
import json, os, subprocess, sys
file = next(a.split("=", 1)[1] for a in sys.argv if a.startswith("--json="))
# Whose results are there: that tells the order.
last = json.load(open(file)).get("of", "this") if os.path.exists(file) else "none"
done = subprocess.run([{str(COMMAND)!r}, *sys.argv[1:]])
results = json.load(open(file)) | {{"of": "other"}}
for entry in results["benchmarks"]:
    entry["cpu_time"] *= {factor}
json.dump(results, open(file, "w"))
print(*sys.argv[1:], file=open("{self.folder}/asked", "a"))
times = {{b["run_name"]: b["cpu_time"] for b in results["benchmarks"] if b.get("aggregate_name") == "median"}}
print(json.dumps({{"after": last, "times": times}}), file=open("{self.folder}/measured", "a"))
sys.exit(done.returncode)
""")
        program.chmod(0o755)
        return str(program)

    def test_another_build_measures_in_turns(self) -> None:
        turns = ("bench", *LOAD, "--mix", "50/25/25", "--runs", "3")
        done = self.ended(0, *turns, "--baseline-command", self.other_build(1000), "--json", "turns.json")
        self.assertIn("none of 4 is slower", done.stdout)
        asked = (self.folder / "asked").read_text().splitlines()
        self.assertEqual(len(asked), 3)
        for line in asked:
            for word in ("--maps=ordered_map", "--maps=ticket", "--keys=64", "--mix=50/25/25", "--threads=2", "--runs=1"):
                self.assertIn(word, line.split())
        results = json.loads((self.folder / "turns.json").read_text())
        measured = [json.loads(line) for line in (self.folder / "measured").read_text().splitlines()]
        self.assertEqual([turn["after"] for turn in measured], ["none", "this", "other"])
        for name in NAMES:
            runs = [b for b in results["benchmarks"] if b["run_name"] == name and b["run_type"] == "iteration"]
            self.assertEqual([b["repetition_index"] for b in runs], [0, 1, 2])
            median = next(b for b in results["benchmarks"] if b["name"] == f"{name}_median")
            self.assertEqual(median["cpu_time"], sorted(b["cpu_time"] for b in runs)[1])
            row = next(r for r in results["comparison"]["benchmarks"] if r["name"] == name)
            self.assertEqual(row["now"], median["cpu_time"])
            before = [turn["times"][name] for turn in measured]
            self.assertAlmostEqual(row["before"], sorted(before)[1])
            # Turn by turn, which is not the ratio of the medians.
            ratios = [b["cpu_time"] / other for b, other in zip(runs, before)]
            self.assertAlmostEqual(row["ratio"], sorted(ratios)[1])
        # What it has written is a baseline, too.
        self.assertIn("of 4", self.espalier(*QUICK, "--baseline", "turns.json").stdout)

        done = self.ended(1, *turns, "--baseline-command", self.other_build(1 / 1000))
        self.assertIn("4 of 4 slower", done.stdout)

    def test_another_build_that_fails_is_reported(self) -> None:
        other = self.folder / "other"
        other.write_text("#!/bin/sh\necho 'other: no such option' >&2\nexit 2\n")
        other.chmod(0o755)
        done = self.ended(1, "bench", *LOAD, "--baseline-command", str(other))
        self.assertIn("other: no such option", done.stderr)
        self.assertIn("ended with status 2", done.stderr)
        other.write_text("#!/bin/sh\n")
        done = self.ended(1, "bench", *LOAD, "--baseline-command", str(other))
        self.assertIn("other bench has written no results", done.stderr)

    def test_a_folder_for_temporary_files_that_is_none(self) -> None:
        done = self.ended(2, "bench", *LOAD, "--baseline-command", str(COMMAND), env=os.environ | {"TMPDIR": "/absent"})
        self.assertIn("TMPDIR names no folder", done.stderr)

    def test_a_name_alone_is_a_file_here(self) -> None:
        self.other_build(1000)
        done = self.ended(0, "bench", *LOAD, "--mix", "50/25/25", "--runs", "1", "--baseline-command", "other")
        self.assertIn("none of 4 is slower", done.stdout)
        self.assertTrue((self.folder / "measured").exists())

    def test_turns_that_are_interrupted(self) -> None:
        for to_group in (False, True):
            with self.subTest(to_group=to_group), subprocess.Popen(
                    [COMMAND, "bench", *LOAD, "--mix", "50/25/25", "--runs", "100000", "--baseline-command",
                     self.other_build(1000), "--json", "turns.json"],
                    cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
                while "turn 3 of" not in process.stderr.readline():
                    pass
                (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
                process.stderr.read()
                self.assertIn("none of 4 is slower", process.stdout.read())
                self.assertEqual(process.wait(), 130)
                results = json.loads((self.folder / "turns.json").read_text())
                self.assertIs(results["context"]["incomplete"], True)
                runs = [b for b in results["benchmarks"] if b["run_name"] == NAMES[0] and b["run_type"] == "iteration"]
                self.assertGreaterEqual(len(runs), 2)
                self.assertEqual({b["repetitions"] for b in results["benchmarks"]}, {len(runs)})

    def test_a_run_of_turns_ends_with_the_command(self) -> None:
        other = self.folder / "other"
        other.write_text("#!/bin/sh\necho started >&2\nsleep 600\necho survived >&2\n")
        other.chmod(0o755)
        # The run has begun before the command knows its number.
        library = compiled(r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <time.h>
int posix_spawnp(pid_t* child, const char* file, const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* how,
                 char* const words[], char* const environment[]) {
  int (*next)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const[], char* const[]);
  *(void**)&next = dlsym(RTLD_NEXT, "posix_spawnp");
  const int failed = next(child, file, actions, how, words, environment);
  nanosleep(&(struct timespec){0, 400000000}, NULL);
  return failed;
}
""", "-shared", "-fPIC")
        for by in signal.SIGINT, signal.SIGHUP:
            # The runs have the standard error, which is at its end when all have ended.
            with self.subTest(by), subprocess.Popen(
                    [COMMAND, "bench", *LOAD, "--baseline-command", other], cwd=self.folder, text=True,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                    env=os.environ | {"LD_PRELOAD": str(library)}) as process:
                while "started" not in process.stderr.readline():
                    pass
                while process.poll() is None:
                    process.send_signal(by)
                    time.sleep(0.5)  # one that follows at once would belong to the first
                self.assertNotIn("survived", process.stderr.read())
                self.assertEqual(process.returncode, -by)


if __name__ == "__main__":
    unittest.main()
