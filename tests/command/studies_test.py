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
