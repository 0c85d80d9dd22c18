#!/usr/bin/env python3
"""Tests what the mutants' runner counts as killed. Usage: mutants_test.py PROGRAMS, the folder of the built trials."""

import argparse
import json
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import mutants  # noqa: E402
import switches  # noqa: E402

PROGRAMS = pathlib.Path()  # from the command line
TRIALS = HERE / "trials"


class Trials(unittest.TestCase):
    """The runner, on programs that were built for it."""

    def run_on(self, *names: str) -> tuple[dict[str, dict], str, int]:
        """(row of each mutant and of each battery, what was printed, exit status)"""
        with tempfile.TemporaryDirectory() as folder:
            rows = pathlib.Path(folder) / "rows.json"
            done = subprocess.run(
                [sys.executable, str(HERE / "mutants.py"), "--tables", str(TRIALS), "run", "--programs", str(PROGRAMS),
                 "--rounds", "2", "--json", str(rows), "--only", *names],
                capture_output=True, text=True)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            read = json.loads(rows.read_text())
        return {row.get("mutant", row.get("reference")): row for row in read}, done.stdout, done.returncode

    def test_killed(self) -> None:
        rows, printed, status = self.run_on("trial_torn", "trial_waits_for_ever", "trial_loops_at_end")
        for name, kind in (("trial_torn", "requirement"), ("trial_waits_for_ever", "livelock"),
                           ("trial_loops_at_end", "no_end")):
            with self.subTest(name):
                self.assertTrue(rows[name]["killed"], printed)
                self.assertEqual(rows[name]["kind"], kind)
        self.assertIn("3 of 3 killed", printed)
        self.assertEqual(status, 0, printed)

    def test_survives(self) -> None:
        rows, printed, status = self.run_on("trial_survives")
        self.assertTrue(rows["two_turns"]["passed"])
        self.assertFalse(rows["trial_survives"]["killed"])
        self.assertEqual(rows["trial_survives"]["kind"], "survived")
        self.assertGreater(rows["trial_survives"]["schedules"], 0)
        self.assertEqual(status, 1, printed)

    def test_no_end_is_not_what_was_expected(self) -> None:
        rows, printed, status = self.run_on("trial_loops_but_expects_a_leak")
        self.assertFalse(rows["trial_loops_but_expects_a_leak"]["killed"])
        self.assertIn("found something else: no_end", printed)
        self.assertEqual(status, 1)

    def test_unchanged_code_without_an_end_is_a_false_alarm(self) -> None:
        rows, printed, status = self.run_on("trial_of_no_end")
        self.assertTrue(rows["trial_of_no_end"]["killed"])
        self.assertFalse(rows["no_end"]["passed"])
        self.assertIn("FALSE ALARM a schedule without an end", printed)
        self.assertEqual(status, 1)


class Outcomes(unittest.TestCase):
    """Programs that end in each possible way."""

    def judged(self, script: str) -> tuple:
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{script}\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            report, ended, _ = mutants.outcome_of(program, [])
        return mutants.judge({"name": "one"}, report, ended), mutants.false_alarm(report, ended)

    def test_crash(self) -> None:
        (killed, _, _, what), alarm = self.judged("os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertTrue(killed)
        self.assertIn("crashed", what)
        self.assertIsNotNone(alarm)

    def test_no_end(self) -> None:
        (killed, _, _, what), alarm = self.judged("os.kill(os.getpid(), signal.SIGPROF)")
        self.assertEqual((killed, what, alarm), (True, "no_end", "a schedule without an end"))

    def test_says_no_report(self) -> None:
        (killed, _, _, what), alarm = self.judged("print('no scenes', file=sys.stderr); sys.exit(3)")
        self.assertTrue(killed)
        self.assertIn("exit status 3 no scenes", what)
        self.assertIsNotNone(alarm)

    def test_passes(self) -> None:
        (killed, _, schedules, what), alarm = self.judged(
            """print('{"passed": true, "schedules": 7, "scenario": "", "text": ""}')""")
        self.assertEqual((killed, schedules, what), (False, 7, "survived"))
        self.assertIsNone(alarm)

    def test_does_not_reach_the_mutant(self) -> None:
        (killed, _, _, what), _ = self.judged(
            """print('{"passed": true, "schedules": 7, "reached": false, "scenario": "", "text": ""}')""")
        self.assertEqual((killed, what), (False, "survived: its code did not run, or is not in this build"))

    def test_runs_no_scene(self) -> None:
        (killed, _, _, what), _ = self.judged(
            """print('{"passed": true, "schedules": 0, "scenario": "", "text": ""}')""")
        self.assertEqual((killed, what), (False, "survived: no scene has that name"))

    def test_not_built(self) -> None:
        with self.assertRaisesRegex(mutants.Wrong, "is not built"):
            mutants.outcome_of(pathlib.Path("/nowhere/program"), [])


class Tables(unittest.TestCase):
    def wrong(self, head: str = "", **changed) -> str:
        fields = {"why": "so", "edit": ["take()", "give()"]} | changed
        with tempfile.TemporaryDirectory() as folder:
            lines = "\n".join(f"{k} = {json.dumps(v)}" for k, v in fields.items() if v is not None)
            head = f"files = ['tests/mutants/trials/turns.hpp']\n{head}"
            (pathlib.Path(folder) / "some.toml").write_text(f"{head}\n[one]\n{lines}\n")
            with self.assertRaises(mutants.Wrong) as raised:
                mutants.read_tables(pathlib.Path(folder))
        return str(raised.exception)

    def test_read(self) -> None:
        for folder in (HERE, TRIALS):
            self.assertTrue(mutants.read_tables(folder))
        of_ticket = mutants.read_tables(HERE)["version_lock_wraps"]
        self.assertEqual((of_ticket["battery"], of_ticket["file"]), ("ticket", "src/espalier/sync/version_lock.hpp"))

    def test_what_is_long(self) -> None:
        everything, short = (mutants.chosen(argparse.Namespace(tables=HERE, short=s, without=["heap"])) for s in (False, True))
        for name in ("hashed_group_not_marked", "citrus_wrong_tag"):
            self.assertIn(name, everything)
        self.assertIn("hashed_group_not_marked", short)
        self.assertNotIn("citrus_wrong_tag", short)
        self.assertNotIn("heap", {m["battery"] for m in everything.values()})

    def test_wrong_tables(self) -> None:
        self.assertIn("unknown field 'edits_of'", self.wrong(edits_of="a"))
        self.assertIn("the field 'why' is missing", self.wrong(why=None))
        self.assertIn("needs one of edit,", self.wrong(edit=None))
        self.assertIn("needs one of edit,", self.wrong(remove="a"))
        self.assertIn("'why' cannot be that of every mutant", self.wrong(head="why = 'so'"))
        self.assertIn("expect knows no kind 'hang'", self.wrong(expect=["hang"]))

    def test_edits_in_short(self) -> None:
        self.assertEqual(mutants.edits_of({"remove": "a;"}), [("a;", "")])
        self.assertEqual(mutants.edits_of({"relax": "memory_order_acq_rel, memory_order_acquire"})[0][1],
                         "memory_order_relaxed, memory_order_relaxed")

    def test_edits_that_find_no_place_or_two(self) -> None:
        self.assertIn("it occurs not in tests/mutants/trials/turns.hpp", self.wrong(edit=["no such text", "b"]))
        self.assertIn("it occurs 4 times in tests/mutants/trials/turns.hpp", self.wrong(edit=["taken_.", "b"]))

    def test_a_file_is_that_of_the_text(self) -> None:
        place, both = "here", ["tests/mutants/trials/turns.hpp", "tests/mutants/trials/two_turns.cpp"]
        self.assertEqual(mutants.file_of(place, [("release_all()", "a")], both[:1]), both[0])
        self.assertEqual(mutants.file_of(place, [("a turn is lost", "a")], both), both[1])
        with self.assertRaisesRegex(mutants.Wrong, "1 times in .*turns.hpp, 1 times in .*two_turns.cpp"):
            mutants.file_of(place, [("release_all()", "a")], both)


class Switches(unittest.TestCase):
    TEXT = """#pragma once
struct counter {
  int add(int n) {  // sums
    if (n < 0) return 0;
    const int old = sum_;
    sum_ = old + n;  // no overflow
    for (int i = 0; i < n; ++i) {
      touch(i);
      touch(-i);
    }
    return old;
  }
  int sum_ = 0;
};
"""

    def branches(self, *edits: tuple[str, str], text: str = TEXT) -> list[str]:
        """What stands in the branches of each mutant and, last, in that of none, in the order of the text."""
        names = {f"m{i}": [edit] for i, edit in enumerate(edits)}
        out, chosen = switches.switched(text, names)
        self.assertEqual(chosen, set(names))
        self.assertTrue(out.startswith("#pragma once\n" + switches.HEADER))
        source = switches.Source(out)
        found = []
        for i, word in enumerate(source.words):
            if word == "chosen":
                brace = source.words.index("{", i)
                found.append(out[source.end(brace):source.begin(source.partner[brace])])
                behind = source.partner[brace] + 1
                if source.word(behind + 1) == "{":
                    found.append(out[source.end(behind + 1):source.begin(source.partner[behind + 1])])
        return [" ".join(branch.split()) for branch in found]

    def test_a_statement(self) -> None:
        self.assertEqual(self.branches(("touch(i);", "touch(i + 1);")), ["touch(i + 1);", "touch(i);"])
        self.assertEqual(self.branches(("n < 0", "n < 1")), ["if (n < 1) return 0;", "if (n < 0) return 0;"])

    def test_statements_that_go_come_and_change_places(self) -> None:
        self.assertEqual(self.branches(("      touch(-i);\n", "")), ["", "touch(-i);"])
        self.assertEqual(self.branches(("      touch(i);\n", "      touch(i);\n      touch(i);\n")),
                         ["touch(i);", ""])
        self.assertEqual(self.branches(("touch(i);\n      touch(-i);", "touch(-i);\n      touch(i);")),
                         ["touch(-i); touch(i);", "touch(i); touch(-i);"])

    def test_a_declaration_takes_along_what_may_use_it(self) -> None:
        changed, same = self.branches(("old = sum_;", "old = 0;"))
        self.assertTrue(changed.startswith("const int old = 0; sum_ = old + n;") and changed.endswith("return old;"))
        self.assertTrue(same.startswith("const int old = sum_; sum_ =") and same.endswith("return old;"))

    def test_two_mutants_of_one_statement(self) -> None:
        self.assertEqual(self.branches(("touch(i);\n      touch(-i);", "touch(-i);"), ("touch(-i);", "touch(n);")),
                         ["touch(-i);", "touch(i); touch(n);", "touch(i); touch(-i);"])

    def test_a_comment_is_not_cut(self) -> None:
        changed, same = self.branches(("old + n;  // no", "old - n;  // no"))
        self.assertIn("sum_ = old - n;", changed)
        self.assertIn("sum_ = old + n;", same)

    def test_what_is_no_statement(self) -> None:
        for find, replace in (("int add(int n)", "int add(long n)"), ("int sum_ = 0", "long sum_ = 0"),
                              ("  int sum_ = 0;\n", "")):
            out, chosen = switches.switched(self.TEXT, {"one": [(find, replace)]})
            self.assertEqual((out, chosen), (self.TEXT, set()))

    def test_a_case_takes_the_switch_along(self) -> None:
        text = "#pragma once\ninline int f(int a) {\n  switch (a) {\n    case 1:\n      return 2;\n  }\n  return 0;\n}\n"
        self.assertEqual(self.branches(("return 2;", "return 3;"), text=text),
                         ["switch (a) { case 1: return 3; }", "switch (a) { case 1: return 2; }"])

    def test_all_mutants_but_a_few_share_programs(self) -> None:
        found = mutants.read_tables(HERE)
        _, program_of = mutants.programs_of(found)
        alone = [name for name, program in program_of.items() if name == program]
        self.assertLess(len(alone), len(found) / 10)


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1))
    unittest.main()
