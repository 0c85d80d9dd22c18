#!/usr/bin/env python3
"""`espalier simulate` as a user meets it: what it shows, what it refuses, and that it says the same every time."""

import csv
import json
import shutil
import subprocess
import unittest

from case import COMMAND, LONG, Case, listed

PRESETS = ["abu_dhabi", "haswell", "e7_4850", "e5_2650_htm", "i7_4770", "emerald_rapids"]
SMALL = ["--keys", "200", "--operations", "300"]
SERVED = ["l1_hits", "l2_hits", "llc_hits", "local_transfers", "remote_transfers", "local_dram", "remote_dram"]


class SimulateTest(Case):
    def simulated(self, *arguments: str, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return self.ended(0, "simulate", *arguments, under=under)

    def results(self, *arguments: str, under: tuple[str, ...] = ()) -> dict:
        self.done = self.simulated(*arguments, "--json", "r.json", under=under)
        return json.loads((self.folder / "r.json").read_text())


class Refusals(SimulateTest):
    def test_mistakes(self) -> None:
        mistakes = {
            ("--machine", "pdp11"): "e7_4850",
            ("--machine", "e7_4850:no-travel"): "'no-travel', but with no-window, no-write-backs, no-smt, no-links",
            ("--machine", "i7_4770:no-window"): "i7_4770 cannot be simulated with 'no-window', but with no-commit-wait",
            ("--threads", "0"): "from 1 to 80",
            ("--threads", "81"): "from 1 to 80",
            ("--machine", "i7_4770", "--threads", "9"): "from 1 to 8 is possible on i7_4770",
            ("--threads", "1,x"): "--threads",
            ("--threads", "1,,2"): "--threads 1,,2 has an empty item",
            ("--keys", "-1"): "-1 is negative",
            ("--keys", "100000000000"): "GiB are free",
            ("--pin", "none"): "compact",
            ("--maps", "nosuch"): "'nosuch'",
            ("--mix", "50/50/50"): "150",
            ("--mix", "load"): "not simulated",
            ("--distribution", "zipf"): "zipfian",
            ("--order", "random"): "scrambled",
            ("--keys", "0"): "at least 1",
            ("--keys-from", "absent.txt"): "absent.txt",
            ("--operations", "0"): "at least 1",
            ("--operations", "-5"): "at least 1",
            ("--study", "nosuch"): "'nosuch'",
            ("--calibrate", "--machine", "haswell"): "--calibrate",
            ("--calibrate", "--maps", "ticket"): "two",
            ("--calibrate", "--study", "dps"): "--study",
            ("--nosuch",): "--nosuch",
            ("surplus",): "surplus",
        }
        self.refused_each("simulate", table={
            **{(*arguments, "--json", "r.json"): word for arguments, word in mistakes.items()},
            ("--report", "r.html"): "--json",
            **{(option, path): "cannot write" for option in ("--json", "--csv")
               for path in ("/proc/nothing/r", "/dev/null/r", ".")}})

    def test_a_command_without_a_simulator_says_so(self) -> None:
        lonely = self.folder / "bin"
        lonely.mkdir()
        shutil.copy(COMMAND, lonely / "espalier")
        done = subprocess.run([lonely / "espalier", "simulate"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        self.assertIn("without the simulator", done.stderr)

    def test_a_map_without_validation_runs_beside_no_writer(self) -> None:
        for mix in ("90/5/5", "0/50/50", "ycsb-a"):
            done = self.ended(2, "simulate", "--maps", "occ_avl_2/unsafe", "--mix", mix, "--threads", "2", *SMALL)
            self.assertIn("its reads are right only while no thread writes", done.stderr)
        self.simulated("--maps", "occ_avl_2/unsafe", "--mix", "100/0/0", "--threads", "2", *SMALL)


class Words(SimulateTest):
    def test_machines_wide_tables_and_threads_by_default(self) -> None:
        wide = self.simulated("--maps", "ticket", "--threads", "1", "--wide", *SMALL).stdout
        self.assertIn("back", wide)
        self.assertGreater(max(map(len, wide.splitlines())), 120)
        lines = self.simulated("--machines").stdout.splitlines()
        names = [line.split()[0] for line in lines if not line.startswith(" ")]
        self.assertEqual(names, [*PRESETS, "this"])
        self.assertTrue(all("SIMULATED" in line or "unavailable" in line for line in lines if line[0] != " "))
        self.assertLessEqual(max(map(len, lines)), 120)
        results = self.results("--maps", "ticket", *SMALL)
        self.assertEqual([b["threads"] for b in results["benchmarks"]], [1, 10, 40, 80])
        results = self.results("--maps", "ticket", "--machine", "i7_4770", *SMALL)
        self.assertEqual([b["threads"] for b in results["benchmarks"]], [1, 4, 8])

    def test_a_machine_with_another_part_of_the_model(self) -> None:
        self.assertIn("    e7_4850:no-window: ", self.simulated("--machines").stdout)
        overlapping, waiting = (self.results("--maps", "olc_btree", "--machine", machine, "--threads", "1", *SMALL)
                                for machine in ("e7_4850", "e7_4850:no-window:no-links"))
        self.assertEqual(waiting["context"]["machine"]["name"], "e7_4850:no-window:no-links")
        cycles = [r["benchmarks"][0]["counts"]["cycles"] for r in (overlapping, waiting)]
        self.assertLess(cycles[0], cycles[1])


class Results(SimulateTest):
    def runs(self, maps: str, wanted: list[str], *how: str, under: tuple[str, ...] = ()) -> list[dict]:
        """The maps that are wanted, with one thread and several."""
        entries = self.results("--maps", maps, "--mix", "50/25/25", "--keys", "100", "--operations", "400" if LONG else "80",
                               *how, under=under)["benchmarks"]
        self.assertEqual(sorted(b["map"] for b in entries), sorted(wanted * 2))
        for entry in entries:
            counts = entry["counts"]
            self.assertGreater(counts["accesses"], 1, entry["name"])
            self.assertAlmostEqual(counts["accesses"], sum(counts[name] for name in SERVED), 6)
            self.assertGreater(entry["items_per_second"], 0)
        return entries

    # Reads of this one are right only while no thread writes.
    MAPS = [name for name in listed() if name != "occ_avl_2/unsafe"]

    def test_every_map_is_the_same_to_the_last_byte_in_every_run_and_its_table_fits(self) -> None:
        fixed = ("setarch", "-R")
        usable = shutil.which("setarch") and subprocess.run([*fixed, "true"], capture_output=True).returncode == 0
        first, *others = [self.runs("every", self.MAPS, "--threads", "1,80" if LONG else "1,8", under=prefix)
                          for prefix in ((), fixed if usable else (), *([()] if LONG else []))]
        for other in others:
            self.assertEqual(json.dumps(first), json.dumps(other))
        lines = self.done.stdout.splitlines()
        self.assertTrue(lines[0].startswith("SIMULATED e7_4850 "), lines[0])
        self.assertLessEqual(max(map(len, lines)), 120)
        self.assertIn("absolute throughput does not", self.done.stdout)
        self.assertNotIn("\033", self.done.stdout + self.done.stderr)

    def test_maps_run_on_every_machine(self) -> None:
        maps = self.MAPS if LONG else self.MAPS[:1]
        for machine in PRESETS:
            with self.subTest(machine):
                self.runs(",".join(maps), maps, "--threads", "1,7", "--machine", machine)

    def test_results_say_what_was_simulated_and_the_table_has_every_count(self) -> None:
        results = self.results("--machine", "haswell", "--maps", "ticket", "--threads", "2,3", *SMALL, "--csv", "r.csv")
        context = results["context"]
        self.assertIs(context["simulated"], True)
        self.assertEqual(context["machine"]["name"], "haswell")
        self.assertEqual(context["machine"]["cores_per_socket"], 12)
        self.assertEqual(context["machine"]["latency_cycles"]["l1"], 4)
        self.assertEqual(context["num_cpus"], 48)
        rows = csv.DictReader((self.folder / "r.csv").read_text().splitlines())
        for threads, row, entry in zip((2, 3), rows, results["benchmarks"], strict=True):
            self.assertIs(entry["simulated"], True)
            self.assertEqual(entry["iterations"], 300)
            self.assertAlmostEqual(entry["real_time"] * entry["items_per_second"], 1e9, delta=1)
            self.assertAlmostEqual(entry["cpu_time"], threads * entry["real_time"])
            self.assertEqual((row["threads"], row["simulated_machine"]), (str(threads), "haswell"))
            for name, count in entry["counts"].items():
                self.assertAlmostEqual(float(row[f"{name}_per_op"]), count)

    def test_one_thread_transfers_nothing_and_scattered_ones_over_sockets(self) -> None:
        def counts(*arguments: str) -> dict:
            return self.results("--maps", "global_lock_bst", *SMALL, *arguments)["benchmarks"][0]["counts"]

        alone = counts("--threads", "1")
        self.assertEqual((alone["local_transfers"], alone["remote_transfers"]), (0, 0))
        near = counts("--threads", "2")
        self.assertEqual(near["remote_transfers"], 0)
        self.assertGreater(near["local_transfers"], 0)
        far = counts("--threads", "2", "--pin", "scatter")
        self.assertEqual(far["local_transfers"], 0)
        self.assertGreater(far["remote_transfers"], 0)

    def test_the_surroundings_change_nothing_and_another_seed_the_counts(self) -> None:
        runs = [json.dumps(self.results("--maps", "ticket,locked_map", "--threads", "5", *SMALL,
                                        under=under)["benchmarks"])
                for under in ((), ("env", "-i", "PADDING=" + "x" * 5000), ("env", "MALLOC_PERTURB_=77"))]
        self.assertEqual(len(set(runs)), 1)
        runs = [self.results("--maps", "ticket", "--threads", "2", "--seed", seed, *SMALL)["benchmarks"][0]["counts"]
                for seed in ("1", "2")]
        self.assertNotEqual(*runs)

    def test_transactions_by_region_and_why_they_aborted(self) -> None:
        entries = self.results("--maps", "htm_btree,euno_btree,olc_btree", "--machine", "e5_2650_htm", "--threads", "8",
                               "--mix", "ycsb-a", "--order", "sequential", *SMALL)["benchmarks"]
        by_map = {entry["map"]: entry for entry in entries}
        self.assertEqual(by_map.pop("olc_btree")["transactions"], "unavailable")
        for name, regions in ("htm_btree", ["whole"]), ("euno_btree", ["upper", "lower"]):
            entry = by_map[name]
            counted = entry["transactions"]
            self.assertEqual(list(counted["regions"]), regions)
            aborts = counted["aborts"]
            conflicts = sum(aborts[cause] for cause in ("true conflict", "false conflict", "metadata"))
            self.assertGreater(conflicts, 0)
            self.assertAlmostEqual(conflicts, sum(region["conflict"] for region in counted["regions"].values()))
            self.assertAlmostEqual(counted["committed"], sum(region["commits"] for region in counted["regions"].values()))
            self.assertGreater(entry["bytes_per_key"], 8)

    def test_several_mixes_and_keys_of_the_users(self) -> None:
        (self.folder / "keys.txt").write_text("".join(f"{7 * i}\n" for i in range(400)))
        entries = self.results("--maps", "ticket", "--threads", "2", "--keys-from", "keys.txt", "--mix", "100/0/0",
                               "--mix", "0/50/50", "--operations", "500")["benchmarks"]
        self.assertEqual([(b["mix"], b["keys"]) for b in entries], [("100/0/0", 200), ("0/50/50", 200)])


class Calibration(SimulateTest):
    def test_ratios_of_this_machine_beside_simulated_ones(self) -> None:
        done = self.simulated("--calibrate", "--maps", "ticket,edge_ext_lf", "--threads", "1", *SMALL, "--out", "o")
        self.assertIn("deviation", done.stdout)
        results = json.loads((self.folder / "o" / "results.json").read_text())
        self.assertEqual(results["context"]["machine"]["name"], "this")
        first, second = results["calibration"]
        self.assertEqual((first["map"], first["native_ratio"], first["simulated_ratio"], first["deviation"]),
                         ("edge_ext_lf", 1, 1, 0))
        speeds = {b["map"]: b["items_per_second"] for b in results["benchmarks"]}
        self.assertAlmostEqual(second["simulated_ratio"], speeds["ticket"] / speeds["edge_ext_lf"])
        self.assertAlmostEqual(second["deviation"], second["simulated_ratio"] / second["native_ratio"] - 1)
        self.assertTrue(all(b["simulated"] for b in results["benchmarks"]))
        self.assertEqual(sorted(p.name for p in (self.folder / "o").iterdir()),
                         ["report.html", "results.csv", "results.json"])
        page = (self.folder / "o" / "report.html").read_text()
        self.assertIn("<title>Simulated on this", page)
        self.assertIn("Calibration", page)


if __name__ == "__main__":
    unittest.main()
