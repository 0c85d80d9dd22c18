#!/usr/bin/env python3
"""What simulated programs show: the effects that papers measured, and the same counts in every process."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "espalier").resolve()
RETRY, CAPACITY = 1 << 1, 1 << 3  # bits of an abort's status word


class StudiesTest(unittest.TestCase):
    def simulate(self, *arguments: str, under: tuple[str, ...] = ()) -> dict:
        """The result file. What the command printed is shown where a check of the test fails."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*under, COMMAND, "simulate", *arguments, "--json", "r.json"], cwd=folder,
                                  capture_output=True, text=True, timeout=240)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.table = done.stdout
            return json.loads((pathlib.Path(folder) / "r.json").read_text())

    def assertWithin(self, value: float, least: float, most: float) -> None:
        self.assertTrue(least <= value <= most, f"{value} is not from {least} to {most}\n{self.table}")


class Objects(StudiesTest):
    """Middleware 2019, figure 7: operations that go to the data against locks that fetch it."""

    @classmethod
    def setUpClass(cls) -> None:
        study = cls()
        rows = study.simulate("--study", "objects", "--machine", "e7_4850", "--threads", "40", "--operations",
                              "4000")["benchmarks"]
        cls.table = study.table
        cls.by_name = {row["name"]: row for row in rows}

    def row(self, shape: str, program: str) -> dict:
        return self.by_name[f"objects/{shape}/{program}/threads:40"]

    def test_locks_fetch_most_lines_from_other_sockets(self) -> None:
        self.assertWithin(self.row("64x64", "locks")["counts"]["remote_transfers"], 45, 55)
        self.assertWithin(self.row("64x4", "locks")["counts"]["remote_transfers"], 4.5, 5.5)

    def test_messages_leave_the_lines_where_they_are(self) -> None:
        for shape in ("64x64", "64x4"):
            with self.subTest(shape):
                self.assertWithin(self.row(shape, "by message")["counts"]["remote_transfers"], 1, 3)

    def test_large_objects_gain_and_small_ones_lose(self) -> None:
        # Two messages in flight, as the operations return nothing.
        self.assertWithin(self.row("64x64", "by message, 2 in flight")["speed_up"], 2.0, 4)
        self.assertWithin(self.row("512x64", "by message, 2 in flight")["speed_up"], 1.5, 4)
        self.assertWithin(self.row("512x4", "by message, 2 in flight")["speed_up"], 0.2, 0.99)


class Transactions(StudiesTest):
    def test_what_fits_is_what_the_cache_holds(self) -> None:
        result = self.simulate("--study", "transactions", "--machine", "i7_4770", "--threads", "1,4",
                               "--operations", "1000")
        limits = result["limits"]
        self.assertEqual(limits["written_lines"], 512, self.table)
        self.assertEqual(limits["written_in_one_set"], 8, self.table)
        self.assertEqual(limits["beyond_word"] & (CAPACITY | RETRY), CAPACITY, self.table)
        self.assertIs(limits["leaves_no_trace"], True, self.table)
        self.assertEqual(len(result["benchmarks"]), 4)
        for row in result["benchmarks"]:
            with self.subTest(row["name"]):
                self.assertEqual(row["committed"] + row["fallbacks"], row["iterations"], self.table)
                self.assertEqual(row["begun"] - row["committed"], sum(row["aborts"].values()), self.table)

    def test_conflicts_need_two(self) -> None:
        result = self.simulate("--study", "transactions", "--machine", "i7_4770", "--threads", "1,4",
                               "--operations", "1000")
        conflicts = {row["name"]: row["aborts"]["true conflict"] for row in result["benchmarks"]}
        self.assertEqual(conflicts["counter/threads:1"], 0, self.table)
        self.assertGreater(conflicts["counter/threads:4"], 0, self.table)

    def test_a_machine_without_transactions_is_refused(self) -> None:
        done = subprocess.run([COMMAND, "simulate", "--study", "transactions", "--machine", "e7_4850"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn("i7_4770", done.stderr)
        self.assertEqual(done.stdout, "")


class SearchTrees(unittest.TestCase):
    """ATC 2018 with few keys: what is shown. The effects themselves need millions, and minutes."""

    @classmethod
    def setUpClass(cls) -> None:
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.out = pathlib.Path(scratch.name) / "o"
        cls.done = subprocess.run([COMMAND, "simulate", "--study", "atc18", "--keys", "500", "--operations", "300",
                                   "--out", cls.out], capture_output=True, text=True, timeout=500)

    def setUp(self) -> None:
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.results = json.loads((self.out / "atc18.json").read_text())

    def test_both_machines_of_the_paper(self) -> None:
        self.assertEqual({(b["threads"], b["simulated"]) for b in self.results["benchmarks"]},
                         {(64, True), (48, True)})
        contexts = self.results["study"]["contexts"]
        self.assertEqual([context["machine"]["name"] for context in contexts], ["abu_dhabi", "haswell"])
        for figure in self.results["study"]["figures"]:
            if figure["panels"]:
                self.assertEqual([panel["machine"] for panel in figure["panels"]], ["abu_dhabi", "haswell"])

    def test_all_of_it_is_called_simulated(self) -> None:
        for line in self.done.stdout.splitlines():
            if line.startswith(("figure", "table", "baselines")):
                self.fail(f"not called simulated: {line}")
        self.assertIn("SIMULATED figure-2", self.done.stdout)
        self.assertIn("absolute throughput does not", self.done.stdout)
        for path in self.out.glob("*.html"):
            self.assertRegex(path.read_text()[:2000], r"<title>[^<]*simulated", path.name)

    def test_a_claim_is_judged_where_the_paper_makes_it(self) -> None:
        machines = {}
        for figure in self.results["study"]["figures"]:
            for finding in figure["findings"]:
                machines.setdefault(finding["paper"], []).append(finding["machine"])
        for paper, judged in machines.items():
            where = [name for name in ("abu_dhabi", "haswell") if name in paper] or ["abu_dhabi", "haswell"]
            self.assertEqual(judged, where, paper)

    def test_the_same_map_on_the_same_machine_has_the_same_counts_in_every_figure(self) -> None:
        counts: dict = {}
        for b in self.results["benchmarks"]:
            counts.setdefault((b["map"], b["threads"], b["keys"]), set()).add(json.dumps(b["counts"]))
        self.assertTrue(all(len(different) == 1 for different in counts.values()))
        self.assertLess(len(counts), len(self.results["benchmarks"]))

    def refused(self, *arguments: str) -> str:
        done = subprocess.run([COMMAND, "simulate", "--study", *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr

    def test_options_that_mean_nothing_to_a_study_are_refused(self) -> None:
        for arguments, word in {("atc18", "--mix", "90/5/5"): "--mix", ("atc18", "--json", "r.json"): "--out",
                                ("atc18", "--threads", "1,2"): "one number",
                                ("atc18", "--threads", "64"): "48 is possible on haswell",
                                ("atc18", "--threads", "65"): "64 is possible on abu_dhabi",
                                ("atc18", "--keys", "0"): "at least 1", ("objects", "--keys", "5"): "--keys",
                                ("objects", "--report", "r.html"): "--csv",
                                ("transactions", "--csv", "r.csv"): "--json"}.items():
            with self.subTest(arguments):
                self.assertIn(word, self.refused(*arguments))


class Pinning(StudiesTest):
    def test_is_obeyed_and_written(self) -> None:
        for study, machine in (("objects", "e7_4850"), ("transactions", "i7_4770")):
            compact, cores = (self.simulate("--study", study, "--machine", machine, "--threads", "2",
                                            "--operations", "200", "--pin", pin) for pin in ("compact", "cores"))
            with self.subTest(study):
                self.assertEqual((compact["context"]["pinning"], cores["context"]["pinning"]), ("compact", "cores"))
                times = [[row["real_time"] for row in run["benchmarks"]] for run in (compact, cores)]
                self.assertNotEqual(*times)


class Searches(StudiesTest):
    def test_searches_that_write_move_more_lines(self) -> None:
        """None for a lock-free search but of cold lines, one lock's line, one lock for each node."""
        maps = ["edge_ext_lf", "global_lock_bst", "hand_over_hand_bst"]
        result = self.simulate("--machine", "e7_4850", "--threads", "40", "--maps", ",".join(maps), "--keys",
                               "100000", "--mix", "100/0/0", "--operations", "20000")
        moved = {row["map"]: row["counts"]["local_transfers"] + row["counts"]["remote_transfers"]
                 for row in result["benchmarks"]}
        self.assertEqual(sorted(moved, key=moved.get), maps, f"{moved}\n{self.table}")
        self.assertEqual(len(set(moved.values())), 3, moved)


class Repetition(StudiesTest):
    def test_the_same_in_every_process(self) -> None:
        unrandomised = ("setarch", "-R")
        if shutil.which("setarch") is None or subprocess.run([*unrandomised, "true"], check=False,
                                                            capture_output=True).returncode != 0:
            unrandomised = ()  # not everywhere allowed
        for arguments in (("--study", "objects", "--machine", "e7_4850", "--threads", "20"),
                          ("--study", "transactions", "--machine", "e5_2650_htm", "--threads", "8"),
                          ("--maps", "ticket,edge_ext_lf", "--threads", "4,40", "--keys", "1000")):
            with self.subTest(arguments):
                # Whoever starts it has set other variables: stacks begin elsewhere.
                first, *others = [
                    json.dumps(self.simulate(*arguments, "--operations", "400", under=under)["benchmarks"])
                    for under in ((), ("env", "ESPALIER_TEST_PADDING=" + "x" * 3000), unrandomised)]
                self.assertEqual(others, [first, first])


if __name__ == "__main__":
    unittest.main(verbosity=2)
