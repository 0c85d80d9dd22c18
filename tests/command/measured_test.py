#!/usr/bin/env python3
"""Work that is measured under other mallocs and mutexes: the program that does it, and the study that asks for it."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "espalier").resolve()
WORK = COMMAND.parent / "../../bench/espalier-measured-work"
LIBRARIES = COMMAND.parent / "../../preload"


class Work(unittest.TestCase):
    def converse(self, *arguments: str, asked: str = "") -> subprocess.CompletedProcess:
        return subprocess.run([WORK, *arguments], input=asked, capture_output=True, text=True, timeout=60)

    def answers(self, *arguments: str, asked: str = "") -> list[dict]:
        done = self.converse(*arguments, asked=asked)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    RING = ("ring", "nodes=128", "size=512", "seed=1")
    TREE = ("tree", "threads=2", "keys=1000", "size=64", "seed=1")
    FRESH = ("fresh", "size=1008")

    def test_rounds_are_what_was_asked_for(self) -> None:
        for work, threads in ((self.RING, 1), (self.TREE, 2), (self.FRESH, 1)):
            with self.subTest(work):
                first, one, two = self.answers(*work, asked="round 10\nround 3\n")
                self.assertEqual(first["threads"], threads)
                self.assertIn("libc.so", first["malloc"])
                self.assertEqual([one["operations"], two["operations"]], [10 * threads, 3 * threads])
                self.assertTrue(all(r["cpu_ns"] > 0 and r["wall_ns"] > 0 for r in (one, two)))

    def test_facts_count_each_block_once(self) -> None:
        facts = self.answers(*self.RING, "sets=32", asked="facts\nround 1\nfacts\n")
        for said in facts[1], facts[3]:
            self.assertEqual((len(said["loads"]), sum(said["loads"])), (32, 128))
            self.assertGreater(said["resident_kib"], 0)
        tree = self.answers(*self.TREE, asked="facts\n")[1]
        self.assertEqual((sum(tree["loads"]), tree["live_bytes"]), (500, 500 * 64))
        fresh = self.answers(*self.FRESH, asked="round 7\nfacts\n")[2]
        self.assertEqual((sum(fresh["loads"]), fresh["live_bytes"]), (7, 7 * 1008))

    def test_the_same_seed_makes_the_same_tree(self) -> None:
        one = ("tree", "threads=1", *self.TREE[2:])
        live = [self.answers(*one, asked="round 999\nfacts\n")[2]["live_bytes"] for _ in range(2)]
        self.assertEqual(live[0], live[1])

    def test_what_cannot_be_is_refused_in_a_line(self) -> None:
        for arguments, asked in {((), ""): "work ''", (("dance",), ""): "dance", (("ring", "size=64", "seed=1"), ""): "nodes",
                                 (("ring", "nodes=1", "size=64", "seed=1"), ""): "nodes",
                                 (("ring", "nodes=8", "size=6x", "seed=1"), ""): "size",
                                 (("fresh", "size=-1"), ""): "size", (self.RING, "round\n"): "round",
                                 (self.RING, "round 0\n"): "round 0", (self.RING, "round 5x\n"): "round 5x",
                                 ((*self.RING, "processors=1"), ""): "processor0"}.items():
            with self.subTest(arguments):
                done = self.converse(*arguments[0], asked=arguments[1])
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(asked, done.stderr)


class Study(unittest.TestCase):
    """The figures themselves need minutes, and most of them a processor with transactions."""

    @classmethod
    def setUpClass(cls) -> None:
        if not (LIBRARIES / "libespalier-malloc.so").exists():
            raise unittest.SkipTest("this build has no libraries to preload")
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.out = pathlib.Path(scratch.name) / "o"
        cls.done = subprocess.run([COMMAND, "bench", "--study", "malloc-tsx", "--sizes", "496,576", "--runs", "3",
                                   "--threads", "2", "--out", cls.out], capture_output=True, text=True, timeout=500)

    def setUp(self) -> None:
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.results = json.loads((self.out / "malloc-tsx.json").read_text())
        self.by_name = {b["name"]: b for b in self.results["benchmarks"]}

    def test_all_mallocs_and_locks_at_all_sizes(self) -> None:
        mallocs = {b["malloc"] for b in self.results["benchmarks"]}
        # ./check installs the others.
        self.assertEqual(mallocs, {"glibc", "jemalloc", "mimalloc", "tcmalloc", "random", "index-aware"})
        locks = {b["locks"] for b in self.results["benchmarks"]}
        transactions = self.results["context"]["rtm"] == "available"
        self.assertEqual(locks, {"tts", "tle"} if transactions else {"tts"})
        panels = ["ring-128", "ring-512", "ring-640", "tree-1", "tree-2"]
        expected = {f"{p}/{m}/{l}/size:{s}" for p in panels for m in mallocs for l in locks for s in (496, 576)}
        expected |= {f"fresh/{m}/{l}/size:1008" for m in mallocs for l in locks}
        self.assertEqual(set(self.by_name), expected)
        self.assertEqual([f["id"] for f in self.results["study"]["figures"]], [*panels, "fresh"])

    def test_glibc_piles_up_where_ours_spreads(self) -> None:
        self.assertEqual(self.by_name["ring-128/glibc/tts/size:496"]["largest_load"], 16)
        for nodes, most in ((128, 3), (512, 9), (640, 11)):
            for size in (496, 576):
                entry = self.by_name[f"ring-{nodes}/index-aware/tts/size:{size}"]
                self.assertLessEqual(entry["largest_load"], most)
                self.assertEqual((sum(entry["loads"]), max(entry["loads"])), (nodes, entry["largest_load"]))

    def test_rounds_are_kept(self) -> None:
        for entry in self.by_name.values():
            self.assertEqual((len(entry["rounds_cpu_ns"]), len(entry["rounds_wall_ns"])), (3, 3))
            self.assertGreater(entry["cpu_time"], 0)

    def test_what_is_not_there_is_unavailable(self) -> None:
        for entry in self.by_name.values():
            if entry["locks"] == "tts":
                self.assertEqual(entry["elision"], "unavailable")
            else:
                self.assertGreater(entry["elision"]["commits"] + entry["elision"]["fallbacks"], 0)
        verdicts = [f["verdict"] for figure in self.results["study"]["figures"] for f in figure["findings"]]
        self.assertIn("agrees", verdicts)
        if all(entry["locks"] == "tts" for entry in self.by_name.values()):
            self.assertIn("tle is left out", self.done.stderr)
            self.assertIn("not measurable here", verdicts)

    def test_a_page_for_each_figure_that_says_what_it_is_held_against(self) -> None:
        figures = {figure["id"]: figure for figure in self.results["study"]["figures"]}
        self.assertEqual({path.name for path in self.out.iterdir()},
                         {"malloc-tsx.json", "index.html", *(f"{id_}.html" for id_ in figures)})
        for id_, figure in figures.items():
            limits = {chart["title"]: chart["limit"]["name"] for chart in figure["charts"] if "limit" in chart}
            ring = id_.startswith("ring-")
            self.assertEqual(limits, {"Nodes at the fullest index": "ways of the L1 cache"} if ring else {}, id_)
            self.assertEqual("Where the nodes lie" in (self.out / f"{id_}.html").read_text(), ring, id_)
            beyond = {"ring-128": [True] * 4 + [False], "tree-1": [True], "tree-2": [True] * 2}
            self.assertEqual([f["of_paper"] for f in figure["findings"]],
                             beyond.get(id_, [False] * len(figure["findings"])), id_)
        # That of the command says nothing about the programs'.
        self.assertNotIn("malloc", self.results["context"])

    def test_the_words_are_on_the_terminal(self) -> None:
        for words in ("A ring of 128 nodes", "Fresh blocks", "The paper: ", "Beyond the paper: ", "[agrees]"):
            self.assertIn(words, self.done.stdout)

    def refused(self, *arguments: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([COMMAND, "bench", "--study", *arguments], cwd=folder, capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
            return done.stderr

    def test_options_that_mean_nothing_are_refused(self) -> None:
        for arguments, word in {("malloc-tsx", "--keys", "5"): "--keys", ("malloc-tsx", "--threads", "1,2"): "one number",
                                ("malloc-tsx", "--mallocs", "libc"): "index-aware", ("malloc-tsx", "--sizes", "47"): "48",
                                ("malloc-tsx", "--runs", "0"): "--runs", ("atc18", "--sizes", "64"): "--sizes",
                                ("atc", ): "malloc-tsx", ("malloc-tsx", "--out", "/proc/o"): "/proc/o"}.items():
            with self.subTest(arguments):
                self.assertIn(word, self.refused(*arguments))

    def test_a_build_without_its_program_says_so(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / "apps/espalier/espalier"
            alone.parent.mkdir(parents=True)
            shutil.copy(COMMAND, alone)
            (alone.parent.parent.parent / "preload").symlink_to(LIBRARIES.resolve())
            done = subprocess.run([alone, "bench", "--study", "malloc-tsx", "--sizes", "64"], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("espalier-measured-work is missing", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
