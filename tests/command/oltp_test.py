#!/usr/bin/env python3
"""`espalier oltp`: the database under TPC-C and YCSB."""

import json
import resource
import signal
import subprocess
import time
import unittest

from case import LONG, Case

SMALL = ("--threads", "3", "--transactions-each")
TPCC = ("oltp", "--cardinalities", "whole" if LONG else "small", *SMALL, "100")
YCSB = ("oltp", "--rows", "2000", *SMALL, "300")
INDEXES = "all" if LONG else "ordered_map,edge_int_lf,olc_btree"


class Oltp(Case):
    def test_every_condition_holds_after_each_run(self) -> None:
        self.ended(0, *TPCC, "--index", INDEXES, "--cc", "all", "--out", "o")
        runs = json.loads((self.folder / "o/oltp.json").read_text())["benchmarks"]
        self.assertGreaterEqual(len(runs), 9)
        for run in runs:
            with self.subTest(run["name"]):
                self.assertEqual(len(run["conditions"]), 12)
                self.assertTrue(all(run["conditions"].values()))
                done = run["transactions"]
                self.assertLessEqual(set(done), {"new-order", "payment", "order-status", "delivery", "stock-level"})
                # The first thread that is done ends the run, and may be the only one that ran.
                self.assertGreaterEqual(sum(kind["committed"] + kind["rolled_back"] for kind in done.values()), 100)
                self.assertGreater(run["index_operations"], 1000)
                self.assertLess(abs(run["loaded_bytes"] / run["forecast_bytes"] - 1), 0.10)
        page = (self.folder / "o/index.html").read_text()
        self.assertLess(page.index(" is first with "), page.index("Sources: "), "the first sentence is the winner")
        self.assertNotIn("malloc", page[page.rindex("How to read this"):page.rindex("</main>")].lower())
        self.assertIn("Index, protocol", page)

    def test_the_ranking_comes_first_and_details_when_asked_for(self) -> None:
        some = (*YCSB, "--workload", "ycsb-a", "--row-bytes", "100", "--index", "ordered_map,ticket", "--cc", "all")
        lines = self.ended(0, *some).stdout.splitlines()
        self.assertRegex(lines[1], r"3 threads: \w+ with \w+ is first with [\d,]+ transactions a second")
        self.assertIn("the order may be chance", " ".join(lines[1:4]), "one run each does not tell")
        head = next(at for at, line in enumerate(lines) if line.startswith("index "))
        rates = [int(line.split()[3]) for line in lines[head + 1:head + 7]]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertLess(len(lines), 20, "a line each")
        whole = self.ended(0, *some, "--details").stdout
        self.assertEqual(whole.count("conditions: 3 of 3 hold"), 6)

    def test_what_is_asked_for_twice_is_measured_once(self) -> None:
        done = self.ended(0, "oltp", "--rows", "100", "--workload", "ycsb-a", "--threads", "1,1", "--transactions-each", "100",
                          "--index", "ticket,ticket", "--cc", "silo,silo")
        self.assertIn("conditions: 3 of 3 hold", done.stdout)
        self.assertEqual(done.stdout.count("ticket  silo"), 1)

    def test_without_memory(self) -> None:
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, limits[1]))
        try:
            done = self.ended(1, "oltp", "--workload", "ycsb-a", "--rows", "1000000", *SMALL, "300")
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
        self.assertIn("espalier: the system gives no more memory\n", done.stderr)

    def test_reads_see_whole_rows(self) -> None:
        for workload in "abcdef":
            for protocol in ("no_wait", "silo") if not LONG else ("no_wait", "wait_die", "silo"):
                with self.subTest(workload=workload, protocol=protocol):
                    done = self.ended(0, *YCSB, "--workload", f"ycsb-{workload}", "--cc", protocol)
                    self.assertIn("conditions: 3 of 3 hold", done.stdout)
        done = self.ended(0, *YCSB, "--workload", "ycsb-atc", "--row-bytes", "100", "--cc", "all", "--row-locks", "192",
                          "--index-placement", "shared_heap")
        self.assertIn("All 9 conditions of consistency hold", done.stdout)

    def test_the_newest_rows_that_are_read_have_committed(self) -> None:
        # Few rows and many threads: a number that is known before its insert has committed is asked for many times.
        for protocol in ("no_wait", "silo"):
            done = self.ended(0, "oltp", "--workload", "ycsb-d", "--rows", "100", "--row-bytes", "100", "--threads", "8",
                              "--transactions-each", "10000", "--cc", protocol)
            self.assertIn("conditions: 3 of 3 hold", done.stdout)

    def test_each_protocol_ends_where_attempts_abort(self) -> None:
        done = self.ended(0, "oltp", "--workload", "ycsb-atc", "--rows", "100", "--accesses", "16", "--theta", "0.99",
                          "--threads", "8", "--transactions-each", "1000", "--cc", "all")
        self.assertIn("All 9 conditions of consistency hold", done.stdout)

    def test_parts_of_the_mix(self) -> None:
        done = self.ended(0, *TPCC, "--transactions", "payment,new-order", "--placement", "shared_heap", "--warehouses", "1")
        self.assertNotIn("delivery", done.stdout)
        self.assertIn("unavailable", done.stdout, "rows and indexes share a placement")
        self.assertIn("12 of 12 hold", done.stdout)

    def layout(self, *arguments: str) -> dict:
        self.ended(0, "oltp", "--workload", "ycsb-atc", "--rows-as", "dbx", "--rows", "6000", "--threads", "1",
                   "--transactions-each", "50", "--inspect", "haswell", "--out", "o", *arguments)
        run, = json.loads((self.folder / "o/oltp.json").read_text())["benchmarks"]
        self.assertTrue(all(run["conditions"].values()))
        return run["layout"]

    def test_rows_of_the_study_and_nodes_of_their_size_class_lie_in_a_third_of_the_sets(self) -> None:
        shared = self.layout("--index", "occ_avl", "--placement", "chunked_heap")
        self.assertEqual(set(shared), {"row", "data", "lock", "lock wrapper", "value", "node"})
        self.assertTrue(all(kind["blocks"] == 6000 for kind in shared.values()))
        for kind in ("row", "lock wrapper", "node"):
            self.assertAlmostEqual(shared[kind]["unused_l2"], 0.6719, 3)
        self.assertGreater(shared["node"]["runs"], 5)
        own = self.layout("--index", "occ_avl", "--row-placement", "chunked_heap")["node"]
        self.assertEqual(own["unused_l2"], 0)
        self.assertLess(own["runs"], shared["node"]["runs"])
        # With two nodes an insert there is no such pattern. Routers and leaves are nodes.
        two = self.layout("--index", "ticket/published", "--placement", "chunked_heap")["node"]
        self.assertEqual(two["blocks"], 2 * 6000 - 1)
        self.assertLess(two["unused_l2"], 0.05)

    def test_tpcc_as_dbx1000_has_it(self) -> None:
        done = self.ended(0, *TPCC, "--tpcc-as", "dbx", "--index", "ticket/published", "--cc", "all", "--rows-as", "dbx",
                          "--details")
        self.assertNotIn("slower with each order", done.stderr, "inserted keys make no list of a tree")
        self.assertEqual(done.stdout.count("conditions: 12 of 12 hold"), 3)
        self.assertNotRegex(done.stdout, "delivery|order-status|stock-level")

    def test_a_transaction_of_the_study_has_different_rows(self) -> None:
        # All of 16 rows, of which nearly all draws are the same one; and no more than there are.
        for rows in ("16", "3"):
            done = self.ended(0, "oltp", "--workload", "ycsb-atc", "--rows", rows, "--theta", "20", "--threads", "1",
                              "--transactions-each", "20", "--look-ups", "batch" if rows == "3" else "single")
            self.assertIn("conditions: 3 of 3 hold", done.stdout)

    def test_indexes_that_are_slow_by_design_are_named(self) -> None:
        done = self.ended(0, *YCSB, "--workload", "ycsb-a", "--index", "locked_map,ordered_map,partitioned")
        self.assertTrue(done.stderr.startswith("slow by design: locked_map, partitioned; "), done.stderr)
        self.assertNotIn("slow", self.ended(0, *YCSB, "--workload", "ycsb-c", "--index", "ticket,ordered_map").stderr)
        done = self.ended(0, *TPCC, "--index", "ticket,ordered_map,int_lf,occ_avl,olc_btree")
        self.assertTrue(done.stderr.startswith("slower with each order: ticket, int_lf; "), done.stderr)

    def test_what_is_refused(self) -> None:
        self.refused_each("oltp", table={
            ("--workload", "ycsb-g"): "did you mean 'ycsb-", ("--index", "tickt"): "did you mean 'ticket'?",
            ("--cc", "occ"): "no_wait, wait_die, silo", ("--rows", "5"): "has no effect on tpcc",
            ("--workload", "ycsb-a", "--warehouses", "2"): "has no effect on ycsb-a",
            ("--workload", "ycsb-a", "--accesses", "2"): "has no effect on ycsb-a",
            ("--cardinalities", "big"): "whole or small", ("--transactions", "pay"): "payment",
            ("--row-locks", "64"): "48 or 192", ("--rows-as", "three"): "plain or dbx",
            ("--tpcc-as", "own"): "standard or dbx", ("--tpcc-as", "dbx", "--transactions", "delivery"): "new-order",
            ("--workload", "ycsb-a", "--tpcc-as", "dbx"): "has no effect on ycsb-a",
            ("--workload", "ycsb-a", "--look-ups", "single"): "has no effect on ycsb-a",
            ("--workload", "ycsb-atc", "--look-ups", "two"): "single or batch", ("--inspect", "pdp11"): "haswell",
            ("--placement", "segregated", "--row-placement", "segregated"): "has no effect with",
            ("--index", "ticket/publishd"): "did you mean 'ticket",
            ("--placement", "heap"): "shared_heap",
            ("--placement", "segregated", "--index-placement", "segregated"): "has no effect with",
            ("--time", "1", "--transactions-each", "5"): "has no effect with",
            ("--runs", "2", "--transactions-each", "5"): "has no effect with"})

    def test_numbers_out_of_range_are_refused_before_the_load(self) -> None:
        # With a file, of which nothing is left.
        self.refused_each("oltp", "--out", "o", table={
            **{("--time", text): "--time" for text in ("nan", "inf", "0", "-1", "1e-9", "1e9")},
            **{("--threads", text): "--threads" for text in ("0", "-1", "99999", "1,0", "4294967297")},
            **{(option, text): text for option, texts in {
                "--runs": ("0", "-1", "4294967297"), "--transactions-each": ("0", "-1"), "--warehouses": ("0", "60001"),
                "--memory-limit": ("0", "-1", "18446744073709551615")}.items() for text in texts},
            **{("--workload", "ycsb-atc", option, text): text for option, texts in {
                "--rows": ("0", "-1", "18446744073709551615"), "--theta": ("nan", "inf", "-0.5", "65"),
                "--accesses": ("0", "33"), "--reads": ("101", "-1")}.items() for text in texts},
            ("--workload", "ycsb-d", "--theta", "0"): "on ycsb-d above 0"})

    def test_memory_is_forecast_and_limited(self) -> None:
        done = self.ended(1, "oltp", "--warehouses", "4", "--memory-limit", "10")
        self.assertIn("more than the limit of 10 MB", done.stderr)
        done = self.ended(0, "oltp", "--cardinalities", "small", "--memory-limit", "24", "--time", "60", "--runs", "1")
        self.assertIn("the run ended early: rows and indexes take more than 24 MB", done.stdout)

    def test_pages_of_files_are_no_reason_to_refuse(self) -> None:
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs a mount namespace, for a machine whose memory is full of files")
        machine = self.folder / "meminfo"
        for memory, status in (("MemFree: 1 kB\nMemAvailable: 4000000 kB", 0), ("MemFree: 4000000 kB\nMemAvailable: 1 kB", 1)):
            with self.subTest(memory):
                machine.write_text(f"MemTotal: 8000000 kB\n{memory}\n")
                done = self.ended(status, *YCSB, "--workload", "ycsb-c", under=(
                    "unshare", "--mount", "sh", "-c", f"mount --bind {machine} /proc/meminfo && exec \"$@\"", "sh"))
                self.assertEqual("more than the limit of 0 MB" in done.stderr, status == 1, done.stderr)

    def test_a_full_disk_is_a_failure_and_no_invalid_request(self) -> None:
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs a mount namespace, for a small file system")
        (self.folder / "o").mkdir()
        # Of one page not even the results fit, of 32 the library of plots does not.
        for pages, lost in ((1, "oltp.json"), (32, "plotly-")):
            with self.subTest(pages=pages):
                done = self.ended(1, *YCSB, "--workload", "ycsb-c", "--cc", "all", "--out", "o", under=(
                    "unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o nr_blocks={pages} none o && exec \"$@\"", "sh"))
                said = done.stderr.splitlines()
                fault = [line for line in said if "No space left on device" in line]
                self.assertEqual((len(fault), lost in fault[0]), (1, True), done.stderr)
                self.assertNotIn("-o ", done.stderr)

    def test_an_interrupted_run_writes_what_there_is(self) -> None:
        for arguments in (("--cardinalities", "small", "--time", "60"), ("--warehouses", "10")):
            with self.subTest(arguments):
                running = subprocess.Popen([self.command, "oltp", *arguments], cwd=self.folder, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True)
                line = ""
                while "run 1" not in line and "load" not in line:
                    line = running.stderr.readline()
                running.send_signal(signal.SIGINT)
                said = running.communicate()
                self.assertEqual(running.returncode, 130, said)


if __name__ == "__main__":
    unittest.main()
