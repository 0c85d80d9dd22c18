#!/usr/bin/env python3
"""`espalier simulate` as a user meets it: what it shows, what it refuses, and that it says the same every time."""

import csv
import json
import shutil
import subprocess
import unittest

from case import COMMAND, COMPARE, LONG, Case

PRESETS = ["abu_dhabi", "haswell", "e7_4850", "e5_2650_htm", "i7_4770", "emerald_rapids"]
SMALL = ["--keys", "500", "--operations", "1000"]
SERVED = ["l1_hits", "l2_hits", "llc_hits", "local_transfers", "remote_transfers", "local_dram", "remote_dram"]


def listed_maps() -> list[str]:
    done = subprocess.run([COMMAND, "list", "--json"], capture_output=True, text=True, check=True)
    return [entry["map"] for entry in json.loads(done.stdout)]


class SimulateTest(Case):
    def simulate(self, *arguments: str, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return self.espalier("simulate", *arguments, under=under)

    def simulated(self, *arguments: str, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        done = self.simulate(*arguments, under=under)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def results(self, *arguments: str, under: tuple[str, ...] = ()) -> dict:
        self.simulated(*arguments, "--json", "r.json", under=under)
        return json.loads((self.folder / "r.json").read_text())


class Refusals(SimulateTest):
    def refused(self, *arguments: str) -> str:
        line = super().refused("simulate", *arguments)
        self.assertTrue(line.startswith("espalier simulate: "), line)
        return line

    def test_mistakes(self) -> None:
        mistakes = {
            ("--machine", "pdp11"): "e7_4850",
            ("--threads", "0"): "from 1 to 80",
            ("--threads", "81"): "from 1 to 80",
            ("--machine", "i7_4770", "--threads", "9"): "from 1 to 8 is possible on i7_4770",
            ("--threads", "1,x"): "--threads",
            ("--threads", "1,,2"): "--threads 1,,2 has an empty item",
            ("--keys", "-1"): "-1 is negative",
            ("--keys", "100000000000"): "GiB are free",
            ("--pin", "none"): "compact",
            ("--maps", "nosuch"): "'nosuch'",
            ("--placement", "nosuch"): "segregated",
            ("--mix", "50/50/50"): "150",
            ("--distribution", "zipf"): "zipfian",
            ("--order", "random"): "scrambled",
            ("--keys", "0"): "at least 1",
            ("--keys-from", "absent.txt"): "absent.txt",
            ("--operations", "0"): "at least 1",
            ("--operations", "-5"): "at least 1",
            ("--study", "nosuch"): "'nosuch'",
            ("--calibrate", "--machine", "haswell"): "this",
            ("--calibrate", "--maps", "ticket"): "two",
            ("--calibrate", "--study", "objects"): "--study",
            ("--report", "r.html"): "--json",
            ("--nosuch",): "--nosuch",
            ("surplus",): "surplus",
        }
        for arguments, word in mistakes.items():
            with self.subTest(arguments):
                self.assertIn(word, self.refused(*arguments, *(() if "--report" in arguments else
                                                               ("--json", "r.json"))))

    def test_unwritable_results(self) -> None:
        for option in ("--json", "--csv"):
            for path in ("/proc/nothing/r", "/dev/null/r", "."):
                with self.subTest(option, path=path):
                    self.assertIn("cannot write", self.refused(option, path))

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
            done = self.simulate("--maps", "occ_avl_2/unsafe", "--mix", mix, "--threads", "2", *SMALL)
            self.assertEqual(done.returncode, 2, mix)
            self.assertIn("its reads are right only while no thread writes", done.stderr)
        self.simulated("--maps", "occ_avl_2/unsafe", "--mix", "100/0/0", "--threads", "2", *SMALL)


class Words(SimulateTest):
    def test_help_teaches(self) -> None:
        done = self.simulate("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("Examples", "--calibrate", "--machine", "espalier simulate"):
            self.assertIn(word, done.stdout)
        everything = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=True)
        self.assertIn("simulate", everything.stdout)

    def test_machines_are_listed(self) -> None:
        lines = self.simulated("--machines").stdout.splitlines()
        names = [line.split()[0] for line in lines if not line.startswith(" ")]
        self.assertEqual(names, [*PRESETS, "this"])
        self.assertTrue(all("SIMULATED" in line or "unavailable" in line for line in lines if line[0] != " "))
        self.assertLessEqual(max(map(len, lines)), 120)

    def test_completion_offers_options_and_machines(self) -> None:
        command = str(COMMAND)
        self.assertEqual(self.offered(command, "sim"), ["simulate"])
        self.assertEqual(self.offered(command, "simulate", "--cal"), ["--calibrate"])
        self.assertEqual(self.offered(command, "simulate", "--machine", "e"),
                         ["e7_4850", "e5_2650_htm", "emerald_rapids"])
        self.assertEqual(self.offered(command, "simulate", "--pin", "com"), ["compact"])
        self.assertEqual(self.offered(command, "bench", "--pin", "com"), [])

    def test_the_table_is_called_simulated_and_fits(self) -> None:
        done = self.simulated("--maps", "every", "--threads", "1,80", *SMALL)
        lines = done.stdout.splitlines()
        self.assertTrue(lines[0].startswith("SIMULATED e7_4850 "), lines[0])
        self.assertLessEqual(max(map(len, lines)), 120)
        self.assertIn("absolute throughput does not", done.stdout)
        self.assertNotIn("\033", done.stdout + done.stderr)
        wide = self.simulated("--maps", "ticket", "--threads", "1", "--wide", *SMALL).stdout
        self.assertIn("back", wide)
        self.assertGreater(max(map(len, wide.splitlines())), 120)

    def test_threads_by_default_are_the_steps_of_the_machine(self) -> None:
        results = self.results("--maps", "ticket", *SMALL)
        self.assertEqual([b["threads"] for b in results["benchmarks"]], [1, 10, 40, 80])
        results = self.results("--maps", "ticket", "--machine", "i7_4770", *SMALL)
        self.assertEqual([b["threads"] for b in results["benchmarks"]], [1, 4, 8])


class Results(SimulateTest):
    def test_every_map_runs_on_every_machine(self) -> None:
        # Reads of this one are right only while no thread writes.
        maps = [name for name in listed_maps() if name != "occ_avl_2/unsafe"]
        for machine in PRESETS:
            with self.subTest(machine):
                every = LONG or machine == PRESETS[0]
                wanted = maps if every else maps[:2]
                results = self.results("--machine", machine, "--maps", "every" if every else ",".join(wanted), "--threads",
                                       "1,7", "--mix", "50/25/25", "--keys", "200", "--operations", "400")
                entries = results["benchmarks"]
                self.assertEqual(sorted({b["map"] for b in entries}), sorted(wanted))
                self.assertEqual(len(entries), 2 * len(wanted))
                for entry in entries:
                    counts = entry["counts"]
                    self.assertGreater(counts["accesses"], 1, entry["name"])
                    self.assertAlmostEqual(counts["accesses"], sum(counts[name] for name in SERVED), 6)
                    self.assertGreater(entry["items_per_second"], 0)

    def test_results_say_what_was_simulated(self) -> None:
        results = self.results("--machine", "haswell", "--maps", "ticket", "--threads", "2", *SMALL)
        context = results["context"]
        self.assertIs(context["simulated"], True)
        self.assertEqual(context["machine"]["name"], "haswell")
        self.assertEqual(context["machine"]["cores_per_socket"], 12)
        self.assertEqual(context["machine"]["latency_cycles"]["l1"], 4)
        self.assertEqual(context["num_cpus"], 48)
        entry = results["benchmarks"][0]
        self.assertIs(entry["simulated"], True)
        self.assertEqual(entry["iterations"], 1000)
        self.assertAlmostEqual(entry["real_time"] * entry["items_per_second"], 1e9, delta=1)
        self.assertAlmostEqual(entry["cpu_time"], 2 * entry["real_time"])

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

    def same(self, arguments: list[str], *under: tuple[str, ...]) -> None:
        runs = [json.dumps(self.results(*arguments, under=prefix)["benchmarks"]) for prefix in under]
        self.assertEqual(len(set(runs)), 1)

    def test_three_runs_are_the_same_to_the_last_byte(self) -> None:
        arguments = ["--maps", "every", "--threads", "1,3,12", "--mix", "50/25/25", *SMALL]
        fixed = ("setarch", "-R")
        usable = shutil.which("setarch") and subprocess.run([*fixed, "true"], capture_output=True).returncode == 0
        self.same(arguments, (), (), fixed if usable else ())

    def test_the_surroundings_change_nothing(self) -> None:
        self.same(["--maps", "ticket,locked_map/shared_heap", "--threads", "5", *SMALL],
                  (), ("env", "-i", "PADDING=" + "x" * 5000), ("env", "MALLOC_PERTURB_=77"))

    def test_another_seed_gives_other_counts(self) -> None:
        runs = [self.results("--maps", "ticket", "--threads", "2", "--seed", seed, *SMALL)["benchmarks"][0]["counts"]
                for seed in ("1", "2")]
        self.assertNotEqual(*runs)

    def test_csv_has_every_count(self) -> None:
        results = self.results("--maps", "ticket", "--threads", "1,2", *SMALL, "--csv", "r.csv")
        rows = list(csv.DictReader((self.folder / "r.csv").read_text().splitlines()))
        self.assertEqual([row["threads"] for row in rows], ["1", "2"])
        for row, entry in zip(rows, results["benchmarks"]):
            self.assertEqual(row["simulated_machine"], "e7_4850")
            for name, count in entry["counts"].items():
                self.assertAlmostEqual(float(row[f"{name}_per_op"]), count)

    def test_several_mixes_and_keys_of_the_users(self) -> None:
        (self.folder / "keys.txt").write_text("".join(f"{7 * i}\n" for i in range(400)))
        entries = self.results("--maps", "ticket", "--threads", "2", "--keys-from", "keys.txt", "--mix", "100/0/0",
                               "--mix", "0/50/50", "--operations", "500")["benchmarks"]
        self.assertEqual([(b["mix"], b["keys"]) for b in entries], [("100/0/0", 200), ("0/50/50", 200)])

    def test_report(self) -> None:
        self.simulated("--maps", "ticket,locked_map", "--threads", "1,4", *SMALL, "--out", "o")
        self.assertEqual(sorted(p.name for p in (self.folder / "o").iterdir()),
                         ["report.html", "results.csv", "results.json"])
        page = (self.folder / "o" / "report.html").read_text()
        self.assertIn("<title>Simulated on e7_4850", page)

    def test_simulated_and_measured_results_share_no_page(self) -> None:
        self.results("--maps", "ticket", "--threads", "1", *SMALL)
        subprocess.run([COMMAND, "bench", "--maps", "ticket", "--keys", "100", "--time", "0.02", "--runs", "2",
                        "--threads", "1", "--json", "b.json"], cwd=self.folder, capture_output=True, check=True)
        done = subprocess.run([COMMAND, "report", "r.json", "b.json"], cwd=self.folder, capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot share a page", done.stderr)

    @unittest.skipUnless(COMPARE.exists(), "Google Benchmark's tools are not installed")
    def test_compare_py_reads_the_results(self) -> None:
        for name in ("a.json", "b.json"):
            self.simulated("--maps", "ticket", "--threads", "2", *SMALL, "--json", name)
        self.assertIn("ticket/threads:2", self.compare("a.json", "b.json"))


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
        self.assertIn("Calibration", (self.folder / "o" / "report.html").read_text())


class Interruption(SimulateTest):
    def test_an_interrupted_simulation_leaves_no_file(self) -> None:
        self.interrupted("simulate", "--operations", "100000000")


if __name__ == "__main__":
    unittest.main()
