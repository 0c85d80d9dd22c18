#!/usr/bin/env python3
"""Work that is measured under other mallocs and mutexes: the program that does it, and the study that asks for it."""

import collections
import json
import math
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from case import COMMAND, LIBRARIES, LONG, StudyCase, compiled, study_files
from ways import EMULATED_RTM

WORK = COMMAND.parent / "../studies/espalier-measured-work"


class Work(unittest.TestCase):
    def converse(self, *arguments: str, asked: str = "") -> subprocess.CompletedProcess:
        return subprocess.run([WORK, *arguments], input=asked, capture_output=True, text=True)

    def answers(self, *arguments: str, asked: str = "") -> list[dict]:
        done = self.converse(*arguments, asked=asked)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    RING = ("ring", "nodes=128", "size=512", "seed=1")
    TREE = ("tree", "threads=2", "keys=1000", "size=64", "seed=1")
    FRESH = ("fresh", "size=1008")
    LARSON = ("larson", "threads=2", "blocks=300", "least=8", "most=1000", "generation=100", "seed=1")
    XMALLOC = ("xmalloc", "pairs=1", "batch=50", "least=16", "most=400", "seed=1")
    SCRATCH = ("cache-scratch", "threads=2", "blocks=3", "size=8", "writes=5")

    def test_rounds_of_any_length_are_what_was_asked_for(self) -> None:
        for work, threads in ((self.RING, 1), (self.TREE, 2), (self.FRESH, 1), (self.LARSON, 2), (self.XMALLOC, 2),
                              (self.SCRATCH, 2)):
            with self.subTest(work):
                first, one, two = self.answers(*work, asked="round 10\nround 3\n")
                self.assertEqual(first["threads"], threads)
                self.assertIn("libc.so", first["malloc"])
                self.assertEqual([one["operations"], two["operations"]], [10 * threads, 3 * threads])
                self.assertTrue(all(r["cpu_ns"] > 0 and r["wall_ns"] > 0 for r in (one, two)))
        # Parts of batches, more batches than the queue has places, generations that end with the round and do not.
        rounds = [1, 49, 50, 51, 20_000, 99, 100, 101]
        for work in self.XMALLOC, ("xmalloc", "pairs=3", "batch=1", *self.XMALLOC[3:]), self.LARSON, self.SCRATCH:
            with self.subTest(work):
                said = self.answers(*work, asked="".join(f"round {n}\n" for n in rounds))
                self.assertEqual([r["operations"] for r in said[1:]], [n * said[0]["threads"] for n in rounds])

    def test_facts_count_each_block_and_its_bytes_once(self) -> None:
        facts = self.answers(*self.RING, "sets=32", asked="facts\nround 1\nfacts\n")
        for said in facts[1], facts[3]:
            self.assertEqual((len(said["loads"]), sum(said["loads"])), (32, 128))
            self.assertGreater(said["resident_kib"], 0)
        tree = self.answers(*self.TREE, asked="facts\n")[1]
        self.assertEqual((sum(tree["loads"]), tree["live_bytes"]), (500, 500 * 64))
        fresh = self.answers(*self.FRESH, asked="round 7\nfacts\n")[2]
        self.assertEqual((sum(fresh["loads"]), fresh["live_bytes"]), (7, 7 * 1008))
        eight = tuple(a.replace("most=1000", "most=8") for a in self.LARSON)
        larson = self.answers(*eight, asked="round 1000\nfacts\n")[2]
        self.assertEqual((sum(larson["loads"]), larson["live_bytes"]), (600, 600 * 8))
        mixed = self.answers(*self.LARSON, asked="facts\nround 1000\nfacts\n")
        self.assertEqual(sum(mixed[3]["loads"]), 600)
        self.assertTrue(all(600 * 400 < mixed[i]["live_bytes"] < 600 * 600 for i in (1, 3)))
        self.assertNotEqual(mixed[1]["live_bytes"], mixed[3]["live_bytes"])
        scratch = self.answers(*self.SCRATCH, asked="round 100\nfacts\n")[2]
        self.assertEqual((sum(scratch["loads"]), scratch["live_bytes"]), (6, 6 * 8))
        # What was sent has arrived.
        xmalloc = self.answers(*self.XMALLOC, asked="round 1234\nfacts\n")[2]
        self.assertEqual((sum(xmalloc["loads"]), xmalloc["live_bytes"]), (0, 0))
        one = ("tree", "threads=1", *self.TREE[2:])
        live = [self.answers(*one, asked="round 999\nfacts\n")[2]["live_bytes"] for _ in range(2)]
        self.assertEqual(live[0], live[1])

    def test_a_malloc_that_goes_wrong_is_found(self) -> None:
        # One block in fifty begins with the last bytes of the one before.
        source = """
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <stddef.h>
            static void *(*next)(size_t);
            static void (*next_free)(void *);
            static char *before, *shared;
            static int count;
            void *malloc(size_t n) {
              if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
              if (n == 64 && __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) % 50 == 0 && before && !shared)
                return shared = before + 56;
              char *p = next(n + 64);
              if (n == 64) before = p;
              return p;
            }
            void free(void *p) {
              if (!next_free) next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
              if (p && p == shared) shared = NULL; else next_free(p);
            }
        """
        wrong = compiled(source, "-shared", "-fPIC")
        for work in (("larson", "threads=2", "blocks=300", "least=64", "most=64", "generation=100", "seed=1"),
                     ("xmalloc", "pairs=1", "batch=50", "least=64", "most=64", "seed=1"),
                     ("cache-scratch", "threads=2", "blocks=100", "size=64", "writes=5")):
            with self.subTest(work):
                done = subprocess.run([WORK, *work], input="round 2000\n", capture_output=True, text=True,
                                      env={"LD_PRELOAD": str(wrong)})
                self.assertEqual((done.returncode, done.stderr), (1, "espalier-measured-work: a block was overwritten\n"))

    def test_what_one_thread_has_filled_serves_another_and_who_works_on_the_tree_has_filled_it(self) -> None:
        # Who fills the tree only waits then. Were its memory its own, there would be as much again, or most of it.
        own = {"LD_PRELOAD": str(LIBRARIES / "libespalier-malloc.so")}
        first, grown, live = self.growth_of_a_tree("keys=40000", "size=1000", "filled=1", env=own)
        self.assertIn("libespalier-malloc.so", first["malloc"])
        self.assertLess(grown, live / 4)
        # glibc's arenas are their threads' own: what another thread has filled serves nobody else.
        own, others = (self.growth_of_a_tree("keys=10000", "size=4000", f"filled={n}")[1] for n in (0, 1))
        self.assertLess(own, others / 4)

    def growth_of_a_tree(self, *shape: str, env: dict[str, str] | None = None) -> tuple[dict, float, float]:
        """What the program says of itself; KiB that 120,000 operations made resident; KiB of the nodes."""
        done = subprocess.run([WORK, "tree", "threads=1", "seed=1", *shape], input="facts\nround 120000\nfacts\n",
                              capture_output=True, text=True, env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, before, _, after = map(json.loads, done.stdout.splitlines())
        return first, after["resident_kib"] - before["resident_kib"], before["live_bytes"] / 1024

    def test_what_cannot_be_is_refused_in_a_line(self) -> None:
        for arguments, asked in {((), ""): "work ''", (("dance",), ""): "dance", (("ring", "size=64", "seed=1"), ""): "nodes",
                                 (("ring", "nodes=1", "size=64", "seed=1"), ""): "nodes",
                                 (("ring", "nodes=8", "size=6x", "seed=1"), ""): "size",
                                 (("fresh", "size=-1"), ""): "size", (self.RING, "round\n"): "round",
                                 (self.RING, "round 0\n"): "round 0", (self.RING, "round 5x\n"): "round 5x",
                                 ((*self.RING, "processors=1"), ""): "processor0",
                                 (("larson", *self.LARSON[1:4], "most=7", *self.LARSON[5:]), ""): "most",
                                 (("xmalloc", "pairs=0", *self.XMALLOC[2:]), ""): "pairs",
                                 (("cache-scratch", *self.SCRATCH[1:4]), ""): "writes",
                                 (("large", "blocks=2", "least=9", "most=8", "seed=1"), ""): "most"}.items():
            with self.subTest(arguments):
                done = self.converse(*arguments[0], asked=arguments[1])
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(asked, done.stderr)


@unittest.skipUnless(EMULATED_RTM, "there is no emulator of transactions")
class EmulatedTransactions(unittest.TestCase):
    """Where mallocs place blocks decides which transactions come to anything, on the emulator's L1 of 64 x 12 lines."""

    def sections(self, malloc: str | None, *work: str, operations: int, learn: str = "off") -> collections.Counter:
        """What the library counted of operations, each a section."""
        with tempfile.TemporaryDirectory() as folder:
            counts = pathlib.Path(folder) / "counts"
            preloaded = [LIBRARIES / "libespalier-elide.so", *([LIBRARIES / malloc] if malloc else []), EMULATED_RTM]
            subprocess.run([WORK, *work], input=f"round {operations}\n", capture_output=True, text=True, check=True,
                           env={"LD_PRELOAD": ":".join(map(str, preloaded)), "ESPALIER_ELIDE_POLICY": "tle",
                                "ESPALIER_ELIDE_LEARN": learn, "ESPALIER_ELIDE_STATS": str(counts),
                                "ESPALIER_MALLOC_PREFAULT": "1"})
            names, *lines = [line.split()[-10:] for line in counts.read_text().splitlines()[1:]]
        return sum((collections.Counter(dict(zip(names, map(int, line)))) for line in lines), collections.Counter())

    def test_a_ring_of_128_commits_where_its_nodes_are_spread(self) -> None:
        for size in 496, 1008, 2032, 4080:
            ring = ("ring", "nodes=128", f"size={size}", "seed=1")
            with self.subTest(size):
                crowded = self.sections(None, *ring, operations=50)
                self.assertEqual(crowded["commits"], 0, crowded)
                self.assertEqual((crowded["fallbacks"], crowded["skipped"]), (50, 0), crowded)
                # On a busy machine some find no moment at which all threads stand.
                self.assertGreaterEqual(crowded["capacity"], 45, crowded)
                spread = self.sections("libespalier-malloc.so", *ring, operations=100)
                self.assertGreaterEqual(spread["commits"], 98, spread)
                self.assertEqual(spread["capacity"], 0, spread)

    def test_what_users_have_passes_over_sections_that_never_fit_and_allocates_within_others(self) -> None:
        crowded = self.sections(None, "ring", "nodes=128", "size=496", "seed=1", operations=50, learn="auto")
        self.assertEqual(crowded["commits"], 0, crowded)
        self.assertGreater(crowded["skipped"], 3 * crowded["capacity"], crowded)
        fresh = self.sections("libespalier-malloc.so", "fresh", "size=1008", operations=200)
        self.assertGreaterEqual(fresh["commits"], 190, fresh)


class StudyTest(StudyCase):
    @classmethod
    def setUpClass(cls) -> None:
        if not (LIBRARIES / "libespalier-malloc.so").exists():
            raise unittest.SkipTest("this build has no libraries to preload")
        super().setUpClass()

    def setUp(self) -> None:
        super().setUp()
        self.study = self.results["study"]
        self.by_name = {b["name"]: b for b in self.results["benchmarks"]}


class MallocTsx(StudyTest):
    """The figures themselves need minutes, and most of them a processor with transactions."""

    NAME = "malloc-tsx"
    SIZES = (496, 576) if LONG else (496,)
    # ./check installs the others.
    MALLOCS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "random", "index-aware") if LONG else (
        "glibc", "random", "index-aware")
    OPTIONS = ("--sizes", ",".join(map(str, SIZES)), "--mallocs", ",".join(MALLOCS), "--runs", "2", "--threads", "2")

    def test_all_mallocs_and_locks_at_all_sizes(self) -> None:
        mallocs = {b["malloc"] for b in self.results["benchmarks"]}
        self.assertEqual(mallocs, set(self.MALLOCS))
        locks = {b["locks"] for b in self.results["benchmarks"]}
        transactions = self.results["context"]["rtm"] == "available"
        self.assertEqual(locks, {"tts", "tle", "tle-learnt"} if transactions else {"tts"})
        panels = ["ring-128", "ring-512", "ring-640", "tree-1", "tree-2"]
        expected = {f"{p}/{m}/{l}/size:{s}" for p in panels for m in mallocs for l in locks for s in self.SIZES}
        expected |= {f"fresh/{m}/{l}/size:1008" for m in mallocs for l in locks}
        self.assertEqual(set(self.by_name), expected)
        self.assertEqual([f["id"] for f in self.study["figures"]], [*panels, "fresh"])

    def test_glibc_piles_up_where_ours_spreads_and_rounds_are_kept(self) -> None:
        self.assertEqual(self.by_name["ring-128/glibc/tts/size:496"]["largest_load"], 16)
        for nodes, most in ((128, 3), (512, 9), (640, 11)):
            for size in self.SIZES:
                entry = self.by_name[f"ring-{nodes}/index-aware/tts/size:{size}"]
                self.assertLessEqual(entry["largest_load"], most)
                self.assertEqual((sum(entry["loads"]), max(entry["loads"])), (nodes, entry["largest_load"]))
        for entry in self.by_name.values():
            self.assertEqual((len(entry["rounds_cpu_ns"]), len(entry["rounds_wall_ns"])), (2, 2))
            self.assertGreater(entry["cpu_time"], 0)
        for words in ("A ring of 128 nodes", "Fresh blocks", "The paper: ", "Beyond the paper: ", "[agrees]"):
            self.assertIn(words, self.done.stdout)

    def test_what_is_not_there_is_unavailable(self) -> None:
        for entry in self.by_name.values():
            if entry["locks"] == "tts":
                self.assertEqual(entry["elision"], "unavailable")
            else:
                self.assertGreater(entry["elision"]["commits"] + entry["elision"]["fallbacks"], 0)
        verdicts = [f["verdict"] for figure in self.study["figures"] for f in figure["findings"]]
        self.assertIn("agrees", verdicts)
        if all(entry["locks"] == "tts" for entry in self.by_name.values()):
            self.assertIn("tle is left out", self.done.stderr)
            self.assertIn("not measurable here", verdicts)

    def test_a_page_for_each_figure_that_says_what_it_is_held_against(self) -> None:
        figures = {figure["id"]: figure for figure in self.study["figures"]}
        self.assertEqual(study_files(self.out), {"malloc-tsx.json", "index.html", *(f"{id_}.html" for id_ in figures)})
        for id_, figure in figures.items():
            limits = {chart["title"]: chart["limit"]["name"] for chart in figure["charts"] if "limit" in chart}
            ring = id_.startswith("ring-")
            self.assertEqual(limits, {"Nodes at the fullest index": "ways of the L1 cache"} if ring else {}, id_)
            self.assertEqual("Where the nodes lie" in (self.out / f"{id_}.html").read_text(), ring, id_)
            beyond = {"ring-128": [True] * 5 + [False], "tree-1": [True] * 2, "tree-2": [True] * 4}
            self.assertEqual([f["of_paper"] for f in figure["findings"]],
                             beyond.get(id_, [False] * len(figure["findings"])), id_)
        # That of the command says nothing about the programs'.
        self.assertNotIn("malloc", self.results["context"])

    def test_options_that_mean_nothing_are_refused(self) -> None:
        self.refused_each("bench", "--study", table={
            ("malloc-tsx", "--keys", "5"): "--keys", ("malloc-tsx", "--threads", "1,2"): "one number",
            ("malloc-tsx", "--mallocs", "libc"): "index-aware", ("malloc-tsx", "--sizes", "47"): "48",
            ("malloc-tsx", "--runs", "0"): "--runs", ("atc18", "--sizes", "64"): "--sizes", ("atc",): "malloc-tsx",
            ("malloc-tsx", "--out", "/proc/o"): "/proc/o", ("malloc-speed", "--mallocs", "mimalloc,index-aware"): "glibc",
            **{("malloc-speed", *arguments): word for arguments, word in {
                ("--sizes", "64"): "--sizes", ("--threads", "1,2"): "one number", ("--runs", "0"): "--runs",
                ("--keys", "9"): "--keys"}.items()},
            ("oltp", "--maps", "ticket/published"): "which has occ_avl, occ_avl_2,",
            ("oltp", "--figure", "figure-2"): "which has figure-1b, figure-5,"})

    def test_a_build_without_its_program_says_so(self) -> None:
        alone = self.folder / "apps/espalier/espalier"
        alone.parent.mkdir(parents=True)
        shutil.copy(COMMAND, alone)
        (self.folder / "preload").symlink_to(LIBRARIES.resolve())
        done = subprocess.run([alone, "bench", "--study", "malloc-tsx", "--sizes", "64"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("espalier-measured-work is missing", done.stderr)


class MallocSpeed(StudyTest):
    """What it takes of time and memory is no matter here: all that is said of it is."""

    NAME = "malloc-speed"
    MALLOCS = ["glibc", "jemalloc", "mimalloc", "index-aware"] if LONG else ["glibc", "index-aware"]
    OPTIONS = ("--mallocs", ",".join(MALLOCS), "--runs", "1")  # of several rounds figures are made in tests/apps

    def test_all_benchmarks_under_all_mallocs(self) -> None:
        programs = [p for p in ("sqlite3", "python3", "g++") if pathlib.Path("/usr/bin", p).exists()]
        expected = {f"{b}/{m}" for b in ("larson", "xmalloc", "cache-scratch", "large", *programs) for m in self.MALLOCS}
        self.assertEqual(set(self.by_name), expected)
        for entry in self.results["benchmarks"]:
            with self.subTest(entry["name"]):
                self.assertEqual(len(entry["rounds_cpu_ns"]), 1)
                self.assertGreater(entry["rounds_cpu_ns"][0], 0)
                self.assertGreater(entry["peak_kib"], 1000)
                self.assertEqual(entry["threads"], 1 if entry["name"].split("/")[0] in ("large", *programs) else 2)
        for missing in {"sqlite3", "python3", "g++"} - set(programs):
            self.assertIn(f"{missing} is left out", self.done.stderr)

    def test_ratios_are_those_of_the_rounds(self) -> None:
        logarithms: dict[str, list[float]] = {m: [] for m in self.MALLOCS}
        for one in self.study["ratios"]:
            mine, glibc = (self.by_name[f"{one['benchmark']}/{m}"] for m in (one["malloc"], "glibc"))
            self.assertAlmostEqual(one["time"], mine["rounds_cpu_ns"][0] / glibc["rounds_cpu_ns"][0])
            self.assertAlmostEqual(one["memory"], mine["peak_kib"] / glibc["peak_kib"])
            logarithms[one["malloc"]].append(math.log(one["time"]))
        for malloc, mean in self.study["means"].items():
            self.assertAlmostEqual(math.log(mean), sum(logarithms[malloc]) / len(logarithms[malloc]))
        self.assertEqual(self.study["means"]["glibc"], 1)

    def test_verdicts_are_on_the_terminal_in_the_file_and_on_pages(self) -> None:
        findings = [finding for figure in self.study["figures"] for finding in figure["findings"]]
        self.assertEqual(len(findings), 3)
        for finding in findings:
            self.assertIn(finding["verdict"], ("agrees", "differs", *(() if LONG else ("not measurable here",))))
            self.assertIn(finding["paper"].split(",")[0][:40], self.done.stdout)
            self.assertIn(f"[{finding['verdict']}]", self.done.stdout)
        for words in ("processor time", "resident memory", "geometric mean", "cache-scratch"):
            self.assertIn(words, self.done.stdout)
        self.assertEqual([figure["id"] for figure in self.study["figures"]],
                         ["time-over-mimalloc", "time-over-glibc", "memory-over-jemalloc", "classes"])
        self.assertEqual(study_files(self.out),
                         {"malloc-speed.json", "index.html", *(f"{f['id']}.html" for f in self.study["figures"])})
        self.assertIn("Some programs ran 1 round only", (self.out / "time-over-glibc.html").read_text())
        self.assertIn("All benchmarks and mallocs", (self.out / "index.html").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
