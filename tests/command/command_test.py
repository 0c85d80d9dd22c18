#!/usr/bin/env python3
"""The espalier command as a user meets it: what it shows, what it refuses, what it leaves behind."""

import csv
import json
import os
import pathlib
import subprocess
import unittest

from case import COMMAND, LONG, SIMULATOR, Case, StudyCase, listed, study_files

MAPS = ["edge_ext_lf", "global_lock_bst", "hand_over_hand_bst", "locked_map", "ticket"]
TREES = ["occ_avl", "occ_avl_2", "edge_int_lf", "log_int", "citrus", "int_lf", "edge_ext_lf", "edge_ext_lf_2",
         "ticket", "ext_lf"]
FIGURES = ["figure-1", "table-1", "figure-2", "mixes", "figure-3", "table-4", "figure-4", "baselines", "threads"]
FAST = ["--runs", "2", "--operations", "200", "--threads", "2"]
COMPARE = pathlib.Path("/usr/share/benchmark/compare.py")


class CommandTest(Case):
    def bench(self, *arguments: str, verb: str = "bench") -> subprocess.CompletedProcess[str]:
        return self.ended(0, verb, *arguments)

    def results(self, *arguments: str) -> dict:
        self.bench(*arguments, "--json", "r.json")
        return json.loads((self.folder / "r.json").read_text())


class Refusals(CommandTest):
    def test_unknown_names_and_what_was_meant(self) -> None:
        line = self.refused("bench", "--maps", "nosuch", "--json", "r.json")
        self.assertIn("'nosuch'", line)
        for name in MAPS:
            self.assertIn(name, line)
        self.refused()
        line = self.refused("prune")
        self.assertIn("'prune'", line)
        self.assertIn("bench, ", line)
        self.assertNotIn("did you mean", line)
        self.assertIn("did you mean 'bench'?", self.refused("bnech", "--quick"))
        self.assertIn("did you mean 'edge_ext_lf'?", self.refused("bench", "--maps", "edge-ext-lf"))
        self.assertIn("did you mean 'ticket'?", self.refused("bench", "--maps", "Tickets"))

    def test_mistakes(self) -> None:
        self.refused_each("bench", table={
            ("--threads", "0", "--json", "r.json"): "from 1 to",
            ("--mix", "50/50/50", "--json", "r.json"): "150",
            ("--mix", "50/50/50"): "90/5/5",
            **{("--json", path): "cannot write" for path in ("/proc/nothing/r.json", "/dev/null/r.json", ".")},
            ("--distribution", "zipf"): "zipfian",
            ("--keys", "0"): "at least 1",
            ("--keys", "1000000000000"): "fewer",
            ("--keys", "-1"): "-1 is negative",
            ("--seed", "-1"): "-1 is negative",
            ("--runs", "0"): "at least 1",
            ("--time", "0"): "0.000001 to 86400",
            ("--pin", "tight"): "scatter",
            ("--order", "random"): "scrambled",
            ("--placement", "nosuch"): "segregated",
            ("--trace", "absent.trace"): "absent.trace",
            ("--keys-from", "absent.txt"): "absent.txt",
            ("--keys-from", "/dev/zero"): "is a device",
            ("--key-type", "text", "--keys-from", "/etc/passwd"): "integer or string",
            ("--key-type", "string"): "--keys-from",
            ("--maps", "ordered_map,ticket", "--keys-from", "/etc/passwd"): "ticket takes no strings",
            ("--maps", "ticket", "--keys-from", "/etc/passwd"): "locked_map, ordered_map",
            ("--keys-from", "/etc/passwd", "--record", "r.trace"): "integers",
            ("--report", "r.html"): "--report has no effect without --json or --out",
            ("--nosuch",): "--nosuch",
            ("--threads", "1,x"): "--threads",
            **{("--threads", threads): f"--threads {threads} has an empty item" for threads in ("1,,2", ",1", "1,", ",")},
            ("--threads=1,,2",): "has an empty item",
            ("--threads", ""): "--threads '' has an empty item",
            ("--study", "nosuch"): "atc18",
            ("--study", "atc18", "--mix", "90/5/5"): "--mix",
            ("--study", "atc18", "--maps", "ticket"): "--maps",
            ("--study", "atc18", "--quick"): "--quick",
            ("--study", "atc18", "--json", "r.json"): "--out",
            ("--study", "atc18", "--threads", "1,2"): "one number",
            ("--study", "atc18", "--keys", "0"): "at least 1",
            ("--study", "atc18", "--keys", "1000000000000"): "fewer",
            ("--study", "atc18", "--out", "/proc/nothing"): "cannot write"})
        self.refused_each(table={("inspect", "--keys", "-1"): "-1 is negative", ("man", "nosuch"): "bench"})

    def test_a_value_is_a_whole_one_of_its_kind(self) -> None:
        self.refused_each("bench", table={
            ("--keys", "99999999999999999999"): "--keys: 99999999999999999999 is too large",
            ("--operations", "99999999999999999999"): "99999999999999999999 is too large",
            ("--threads", "1,-99999999999999999999"): "-99999999999999999999 is too small",
            **{("--keys", text): f"--keys: '{text}' is not a whole number" for text in ("0x10", "1e3", "5 ", "+5", "-x")},
            **{("--time", text): f"--time: '{text}' is not a number" for text in ("1s", "0x1", "one")},
            **{("--time", text): f"--time: '{text}' is not a finite number" for text in ("nan", "-nan", "inf", "-infinity")},
            **{("--time", text): "out of range" for text in ("0", "-1", "1e-300", "86401", "1e300")},
            ("--runs", "4294967296"): "is too large; at most 1000000", ("--latency-every", "4294967296"): "is too large",
            ("--threads", "99999"): "out of range",
            **{(option, ""): f"{option}: the value is empty" for option in ("--keys", "--time", "--json", "--out", "--mix")},
            ("--json", "--csv", "x"): "--json: the value is missing before --csv",
            ("--json=", "--quick"): "--json: the value is missing before --quick",
            ("--keys",): "--keys needs a value"})
        self.refused_each(table={
            ("inspect", "--model", "ndnd", "--assert", ""): "--assert: the value is empty",
            ("inspect", "--model", "ndnd", "--types", "-3"): "--types: -3 is negative",
            ("inspect", "--map", "ticket", "--threads", "99999"): "--threads: 99999 is too large; at most",
            ("run", "--malloc", "--", "true"): "--malloc: the value is missing before --",
            ("report", "r.json", "-o", ""): "--output: the value is empty",
            ("man", "--out", ""): "--out: the value is empty"})
        for keys, loaded in ("010", 10), ("0000", None), ("8", 8):
            done = self.espalier("bench", "--maps", "ticket", "--keys", keys, *FAST)
            self.assertIn(f" {loaded} keys" if loaded else "at least 1 key", done.stdout + done.stderr)

    def test_an_option_without_effect_is_refused(self) -> None:
        for verb, *options in (("bench", "--sizes", "64"), ("bench", "--mallocs", "glibc"), ("bench", "--figure", "improved"),
                               ("bench", "--mix", "90/5/5", "--trace", "t"), ("bench", "--distribution", "uniform", "--quick"),
                               ("bench", "--trace", "t", "--quick"), ("bench", "--keys-from", "k", "--quick"),
                               ("bench", "--keys", "5", "--keys-from", "k"), ("bench", "--order", "scrambled", "--keys-from", "k"),
                               ("bench", "--time", "1", "--operations", "5"), ("bench", "--time", "1", "--trace", "t"),
                               ("bench", "--operations", "5", "--trace", "t"), ("bench", "--hgrm", "h", "--latency-every", "0"),
                               *((("inspect", option, value, "--model", "ndnd")) for option, value in
                                 (("--threads", "2"), ("--keys", "5"), ("--order", "scrambled"), ("--keys-from", "k"))),
                               ("inspect", "--placement", "segregated", "--file", "f"),
                               *((("inspect", option, value, "--map", "ticket")) for option, value in
                                 (("--at", "end"), ("--every", "1"), ("--sample", "all"), ("--frames", "6"),
                                  ("--follow", "none"))),
                               ("inspect", "--pointers", "--map", "ticket"),
                               ("inspect", "--assert", "crossing<1%", "--model", "all"), ("run", "--stats", "--", "true"),
                               *([("simulate", "--sizes", "64"), ("simulate", "--pin", "cores", "--calibrate"),
                                  ("simulate", "--figure", "skew"), ("simulate", "--machine", "this", "--calibrate"), ("simulate", "--wide", "--machines"),
                                  ("simulate", "--keys", "5", "--keys-from", "k")] if SIMULATOR else [])):
            with self.subTest((verb, *options)):
                self.assertIn(f": {options[0]} has no effect with", self.refused(verb, *options))
        self.refused_each(table={
            ("bench", "--operations", "0"): "at least 1", ("bench", "--study", "atc18", "--operations", "0"): "at least 1",
            ("inspect", "--every", "0", "--", "true"): "at least 1", ("inspect", "--threads", "0", "--map", "ticket"): "at least 1",
            ("bench", "--study", "atc18", "--time", "1", "--operations", "5"): "--time has no effect with --operations",
            ("man", "bench", "--out", "o"): "command has no effect with --out",
            ("inspect", "--mix", "90/5/5", "--map", "ticket"): "has no option '--mix'"})

    def test_what_is_not_understood_is_said_in_the_words_of_the_command_line(self) -> None:
        self.refused_each(table={
            ("bench", "--keys", "5", "--keys", "6"): ": --keys is given more than once; give it once; espalier bench --help",
            ("bench", "--key", "5"): ": espalier bench has no option '--key'; did you mean '--keys'?; espalier bench --help",
            ("bench", "--jsn=x"): "has no option '--jsn'; did you mean '--json'?",
            ("list", "5"): ": espalier list has no argument '5'; espalier list --help",
            (): ": espalier needs a command; espalier --help",
            ("--verson",): ": espalier has no option '--verson'; did you mean '--version'?",
            ("run", "ls", "-la", "/"): "has no option '-la'; if it is for ls, write -- before that: espalier run -- ls",
            ("inspect", "--at", "end", "ls", "--all"): "write -- before that: espalier inspect -- ls"})

    def test_keys_that_do_not_fit_and_damaged_files_are_refused(self) -> None:
        for command in ("bench", "--maps", "ticket"), ("inspect", "--map", "ticket"):
            with self.subTest(command):
                line = self.refused(*command, "--keys", "100000000000")
                self.assertRegex(line, r"may take [0-9.]+ GiB and [0-9.]+ GiB are free")
        huge = self.folder / "keys.u64"
        with open(huge, "wb") as file:
            file.truncate(1 << 42)  # no block of it is on the disk
        self.assertRegex(self.refused("bench", "--keys-from", str(huge)), r"would take [0-9.]+ GiB")
        bad = self.folder / "bad.trace"
        bad.write_text("insert 1 2\nfrobnicate 3\n")
        self.assertIn(f"{bad.name}:2:", self.refused("bench", "--trace", str(bad)))
        bad.write_text("12\nthirteen\n")
        self.assertIn(f"{bad.name}:2:", self.refused("bench", "--keys-from", str(bad)))

    def test_lists_are_refused_or_left_out_where_keys_are_too_many(self) -> None:
        for command in ("bench", "--maps", "michael_list"), ("simulate", "--maps", "michael_list"):
            with self.subTest(command):
                self.assertIn("michael_list is a list", self.refused(*command, "--keys", "1000000"))
        self.assertIn("--rows is at most", self.refused("oltp", "--workload", "ycsb-a", "--index", "lazy_list"))
        done = self.ended(0, "bench", "--maps", "all", "--keys", "20001", "--operations", "1", "--runs", "1",
                          "--mix", "100/0/0", "--threads", "1")
        self.assertIn("left out: lazy_list, mcs_list, michael_list, optik_list, parsec_list, rlu_list;", done.stderr)
        self.assertNotIn("lazy_list", done.stdout)


class Help(CommandTest):
    def test_help_teaches_and_is_a_command_too(self) -> None:
        for words, same in ((["help"], ["--help"]), (["help", "bench"], ["bench", "--help"]),
                            (["version"], ["--version"])):
            with self.subTest(words):
                done, like = self.espalier(*words), self.espalier(*same)
                self.assertEqual((done.returncode, done.stdout), (0, like.stdout))
                self.assertTrue(done.stdout)
        self.assertRegex(done.stdout, r"^\d+\.\d+\.\d+\n$")
        self.assertIn("did you mean 'bench'?", self.espalier("help", "bensh").stderr)
        for arguments, taught in (([], ("simulate",)), (["bench"], ("Examples",)), (["list"], ()), (["report"], ()),
                                  (["run"], ("Examples", "index-aware", "random", "tts", "tle", "--stats")),
                                  (["simulate"], ("Examples", "--calibrate", "--machine", "espalier simulate"))):
            if SIMULATOR or arguments != ["simulate"]:
                done = self.ended(0, *arguments, "--help")
                for words in taught:
                    self.assertIn(words, done.stdout)

    def test_completion_offers_files_where_a_value_is_one(self) -> None:
        (self.folder / "a file").touch()
        for verb in ("bench --json", "bench --csv=", "bench --hgrm", "bench --keys-from", "bench --baseline-command", "inspect --save", "inspect --file",
                     "report -o", "report", "man --out", "simulate --report"):
            typed = verb.removesuffix("=").split() + ["="] * verb.endswith("=")
            self.assertEqual(self.offered("espalier", *typed, f"{self.folder}/a", whole=True), [f"{self.folder}/a file"], verb)
            self.assertEqual(self.offered("espalier", *typed, "", whole=True), ["a file"], verb)

    def test_completion_offers_verbs_options_and_names(self) -> None:
        for typed, among in (("b", "bench"), ("bench --di", "--distribution"), ("bench --maps all-", "all-bst"),
                             ("simulate --study d", "dps"), ("bench --maps ticket,ed", "ticket,edge_ext_lf"),
                             ("inspect --model ndnd", "ndnd-paged"), ("inspect --placement se", "segregated"),
                             ("oltp --index ticket,ed", "ticket,edge_ext_lf"), ("oltp --inspect th", "this"),
                             ("ru", "run"), ("run --malloc random -- printe", "printenv"),
                             ("run -- cat /etc/passw", "/etc/passwd")):
            self.assertIn(among, self.offered("espalier", *typed.split(" ")))
        for typed, all_of_them in (("bench --study ", "atc18 cache dps eunomia malloc-speed malloc-tsx oltp"), ("inspect --machine th", "this"),
                                   ("inspect --rep", "--report"), ("run --malloc i", "index-aware"),
                                   ("run --locks t", "tts tle"), ("sim", "simulate"), ("simulate --cal", "--calibrate"),
                                   ("oltp --cc silo,w", "silo,wait_die"), ("oltp --workload t", "tpcc"),
                                   ("oltp --workload ycsb-a", "ycsb-a ycsb-atc"), ("oltp --placement a", ""),
                                   ("oltp --index all", "all"), ("bench --placement a", "all"),
                                   ("oltp --row-placement num", "numa_local"), ("oltp --tpcc-as d", "dbx"),
                                   ("simulate --pin com", "compact"), ("bench --pin com", "")):
            self.assertEqual(all_of_them.split(), self.offered("espalier", *typed.split(" ")))
        if SIMULATOR:
            self.assertEqual(self.offered(str(COMMAND), "simulate", "--machine", "e"),
                             ["e7_4850", "e5_2650_htm", "emerald_rapids"])
            self.assertEqual(self.offered(str(COMMAND), "simulate", "--study", "calibration", "--figure", "la"), ["latencies"])


class Results(CommandTest):
    def test_list_shows_every_promise(self) -> None:
        done = self.ended(0, "list")
        for head in ("progress", "balance", "scan", "bidirectional", "exchanges", "node bytes", "paper"):
            self.assertIn(head, done.stdout.splitlines()[0])
        for name in MAPS:
            for field in ("find_progress", "update_progress", "balance", "scan", "node_bytes", "paper"):
                self.assertTrue(listed()[name][field], f"{name} {field}")
        for name, field, value in (("edge_ext_lf", "node_bytes", 32), ("ticket", "node_bytes", 32),
                                   ("edge_ext_lf", "exchanges", False), ("ticket", "exchanges", True),
                                   ("edge_int_lf", "bidirectional", False), ("ticket", "bidirectional", True)):
            self.assertEqual(listed()[name][field], value, f"{name} {field}")

    @unittest.skipUnless(SIMULATOR, "the simulator counts them")
    def test_list_counts_what_a_search_reads_and_writes(self) -> None:
        done = self.ended(0, "list", "--searches", "--json")
        costs = {entry["map"]: (entry["reads_a_search"], entry["writes_a_search"]) for entry in json.loads(done.stdout)}
        # Keys and edges of at least ten levels. A search of the tree writes for its guard alone, one under a lock for that too.
        reads, writes = costs["ticket"]
        self.assertGreater(reads, 20)
        self.assertLess(writes, 10)
        self.assertEqual(costs["ticket/segregated"], costs["ticket"])
        if "hand_over_hand_bst" in costs:
            self.assertGreater(costs["hand_over_hand_bst"][1], 20)
        self.assertIn("reads a search", self.ended(0, "list", "--searches").stdout.splitlines()[0])
        self.assertIn("excludes", self.refused("list", "--searches", "--nodes"))

    def test_list_shows_nodes_side_by_side(self) -> None:
        lines = self.espalier("list", "--nodes").stdout.splitlines()
        head = next(line for line in lines if "ticket: 32 bytes" in line)
        self.assertIn("ticket/published: 64 bytes", head)
        self.assertTrue(any("(padding)" in line for line in lines), "the published node of edge_ext_lf_2 has some")
        self.assertTrue(any("members unavailable" in line for line in lines))
        self.assertTrue(any("olc_btree, leaf: 512 bytes" in line and "olc_btree, inner node: 512 bytes" in line
                            for line in lines))
        self.assertTrue(any("key[31]" in line and "key[30]" in line for line in lines))
        nodes = {(node["map"], node["node"]): node
                 for node in json.loads(self.espalier("list", "--nodes", "--json").stdout)}
        self.assertEqual(nodes["ticket", "node"]["members"][0], {"name": "key", "offset": 0, "bytes": 8, "elements": 1})
        self.assertEqual(nodes["locked_map", "node"]["members"], "unavailable")
        self.assertEqual([member["name"] for member in nodes["olc_btree", "inner node"]["members"]],
                         ["lock", "level", "children", "key", "child"])
        for name, node in nodes.items():
            end = 0
            for member in node["members"] if node["members"] != "unavailable" else []:
                self.assertGreaterEqual(member["offset"], end, name)
                end = member["offset"] + member["bytes"]
            self.assertLessEqual(end, node["node_bytes"], name)

    def test_all_bst_takes_the_trees_of_the_study_and_names_the_missing(self) -> None:
        done = self.bench("--maps", "all-bst", "--keys", "100", *FAST, "--json", "r.json")
        ran = {b["map"] for b in json.loads((self.folder / "r.json").read_text())["benchmarks"]}
        self.assertLessEqual({"edge_ext_lf", "edge_ext_lf_2", "edge_ext_lf_2/published", "ticket", "ticket/published"},
                             ran)
        self.assertNotIn("hand_over_hand_bst", ran)
        wanted = {name for tree in TREES for name in (tree, f"{tree}/published")} - {"edge_ext_lf/published"}
        self.assertEqual(ran, wanted & listed().keys())
        for name in wanted - listed().keys():
            self.assertIn(name, done.stderr)

    def test_every_map_gives_results_and_loses_nothing_but_where_it_leaks(self) -> None:
        results = self.results("--maps", "all", "--keys", "2000", "--mix", "50/25/25", "--runs", "2",
                               "--operations", "5000", "--threads", "2")
        medians = {b["map"]: b for b in results["benchmarks"] if b.get("aggregate_name") == "median"}
        self.assertEqual(sorted(medians), sorted(name for name in listed() if "/" not in name))
        for name, entry in medians.items():
            self.assertGreater(entry["items_per_second"], 0)
            self.assertEqual(entry["leaked_bytes"], 0, name)
            self.assertGreater(entry["bytes_per_key"], 16, name)
        latency = {(e["map"], e["operation"]): e for e in results["latency"]}
        for name in medians:
            for operation in ("all", "lookup", "insert", "erase"):
                entry = latency[name, operation]
                self.assertLessEqual(entry["p50"], entry["p99"])
                self.assertLessEqual(entry["p99"], entry["p999"])
                self.assertLessEqual(entry["p999"], entry["max"])
        results = self.results("--maps", "int_lf/studied", "--keys", "2000", "--mix", "50/25/25", *FAST)
        leaked = [b["leaked_bytes"] for b in results["benchmarks"] if b.get("aggregate_name") == "median"]
        self.assertGreater(leaked[0], 0)

    def test_a_peer_that_is_named_runs_once_and_all_run_quickly(self) -> None:
        shown = json.loads(self.espalier("list", "--peers", "--json").stdout)
        peers = [entry["map"] for entry in shown if entry["map"] not in listed()]
        if not peers:
            self.skipTest("this build has no peers")
        results = self.results("--maps", f"{peers[-1]},ticket", "--peers", "--keys", "100", "--mix", "100/0/0", *FAST)
        ran = [b["map"] for b in results["benchmarks"] if b.get("aggregate_name") == "median"]
        self.assertEqual(sorted(ran), sorted([*peers, "ticket"]))
        quick = self.results("--quick", "--maps", "ticket", "--keys", "100", *FAST, "--latency-every", "0")
        for workload in "inserts", "lookups":
            self.assertEqual(sorted(b["map"] for b in quick["benchmarks"]
                                    if b["workload"] == workload and b.get("aggregate_name") == "median"),
                             sorted([*peers, "ticket"]))

    def test_context_tells_the_circumstances_lines_are_plain_and_each_run_is_in_every_file(self) -> None:
        done = self.bench("--maps", "ticket,locked_map", "--keys", "500", "--csv", "r.csv", "--hgrm", "h", *FAST[:-1], "1,2",
                          "--json", "r.json")
        context = json.loads((self.folder / "r.json").read_text())["context"]
        for field in ("commit", "compiler", "build_flags", "cpu_model", "topology", "caches", "huge_pages", "rtm",
                      "membarrier", "hardware_counters", "malloc", "seed", "load_avg", "context_switches"):
            self.assertNotIn(context[field], ("", None), field)
        self.assertNotIn("\033", done.stdout + done.stderr)
        self.assertNotIn("\r", done.stdout + done.stderr)
        rows = list(csv.DictReader((self.folder / "r.csv").read_text().splitlines()))
        self.assertEqual({(r["map"], r["threads"]) for r in rows},
                         {(m, t) for m in ("ticket", "locked_map") for t in "12"})
        distributions = sorted((self.folder / "h").glob("*.hgrm"))
        self.assertEqual(len(distributions), 4)
        self.assertIn("#[Max", distributions[0].read_text())

    def test_fixed_counts_and_real_keys(self) -> None:
        results = self.results("--maps", "ticket", "--keys", "100", "--operations", "1001", "--runs", "2",
                               "--threads", "3")
        counts = [b["iterations"] for b in results["benchmarks"] if b["run_type"] == "iteration"]
        self.assertEqual(counts, [1001, 1001])
        (self.folder / "keys.txt").write_text("".join(f"{7 * i}\n" for i in range(400)))
        results = self.results("--maps", "ticket", "--keys-from", "keys.txt", *FAST)
        self.assertEqual({b["keys"] for b in results["benchmarks"]}, {200})

    def test_strings_as_keys(self) -> None:
        (self.folder / "keys.txt").write_text("".join(f"https://example.org/{'long/' * 20}{7 * i}#{i}\n" for i in range(400)))
        peers = {"absl_shared_mutex", "absl_speculative", "tbb_concurrent_map"} & {
            entry["map"] for entry in json.loads(self.espalier("list", "--peers", "--json").stdout)}
        done = self.bench("--keys-from", "keys.txt", "--peers", "--mix", "load", "--mix", "90/5/5", "--mix", "ycsb-e", *FAST,
                          "--latency-every", "1", "--json", "r.json")
        self.assertEqual(done.stdout.splitlines()[0], "keys.txt: 400 keys of the type string")
        ran: dict[str, dict[str, dict]] = {}
        for b in json.loads((self.folder / "r.json").read_text())["benchmarks"]:
            self.assertEqual((b["key_type"], b["keys"]), ("string", 200 if b["mix"] == "90/5/5" else 400))
            if b.get("aggregate_name") == "median":
                ran.setdefault(b["mix"], {})[b["map"]] = b
        all_of_them = {"ordered_map", "locked_map", *peers}
        self.assertEqual(ran["load"].keys(), all_of_them)
        self.assertEqual(ran["ycsb-e"].keys(), all_of_them)
        self.assertEqual(ran["90/5/5"].keys(), all_of_them - {"tbb_concurrent_map"})
        for name, entry in ran["load"].items():
            # The key itself is in the map.
            self.assertGreater(entry["bytes_per_key"], 100, name)
        done = self.bench("--keys-from", "keys.txt", "--maps", "ordered_map", "--key-type", "string", *FAST)
        self.assertIn("type string", done.stdout)
        (self.folder / "keys.txt").write_text("1\n2\n")
        done = self.bench("--keys-from", "keys.txt", "--maps", "ticket", *FAST)
        self.assertEqual(done.stdout.splitlines()[0], "keys.txt: 2 keys of the type integer")

    def test_all_mixes_with_names(self) -> None:
        mixes = ["hits", "load", *(f"ycsb-{letter}" for letter in "abcdef")]
        arguments = [part for mix in mixes for part in ("--mix", mix)]
        results = self.results("--maps", "edge_ext_lf", "--keys", "1000", *arguments, *FAST)
        self.assertEqual({b["mix"] for b in results["benchmarks"]}, set(mixes))

    def test_placement_varies_the_entries(self) -> None:
        results = self.results("--maps", "ticket", "--placement", "all", "--keys", "500", *FAST)
        everywhere = {"chunked_heap", "chunked_heaps", "clustered", "index_aware", "numa_local", "random_padding", "segregated",
                      "shared_heap", "shifted"}
        if results["context"]["malloc"] == "jemalloc":
            everywhere.add("jemalloc_arenas")
        self.assertEqual({b["placement"] for b in results["benchmarks"]}, everywhere)
        one = self.results("--maps", "ticket", "--placement", "index_aware", "--keys", "500", *FAST)
        self.assertEqual({b["map"] for b in one["benchmarks"]}, {"ticket/index_aware"})

    def test_a_recorded_run_can_be_replayed(self) -> None:
        self.bench("--maps", "ticket", "--keys", "200", "--mix", "20/40/40", "--operations", "3000", "--runs", "1",
                   "--threads", "2", "--record", "run.trace")
        lines = (self.folder / "run.trace").read_text().splitlines()
        operations = [line for line in lines if not line.startswith("#")]
        self.assertEqual(len(operations), 3000)
        results = self.results("--maps", "edge_ext_lf", "--trace", "run.trace", "--runs", "2", "--threads", "2")
        counts = [b["iterations"] for b in results["benchmarks"] if b["run_type"] == "iteration"]
        self.assertEqual(counts, [3000, 3000])

    @unittest.skipUnless(LONG and COMPARE.exists(), "of the long form, or Google Benchmark's tools are not installed")
    def test_compare_py_reads_the_results(self) -> None:
        for verb in ("bench", *(["simulate"] if SIMULATOR else [])):
            for name in ("a.json", "b.json"):
                self.bench("--maps", "ticket", "--keys", "100", *FAST[2:], "--json", name, verb=verb)
            done = subprocess.run(["/usr/bin/python3", COMPARE, "benchmarks", "a.json", "b.json"], cwd=self.folder,
                                  capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
            if "No module named" in done.stderr:
                self.skipTest(done.stderr.strip().splitlines()[-1])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("ticket/threads:2", done.stdout)


class Study(StudyCase):
    """With few keys: what is shown, never what is found."""

    NAME = "atc18"
    OPTIONS = ("--keys", "1000", "--operations", "50", "--runs", "1", "--threads", "2")

    def test_every_figure_has_a_page_and_says_what_the_paper_found(self) -> None:
        names = {f"{figure}.html" for figure in FIGURES}
        self.assertEqual(study_files(self.out), names | {"atc18.json", "index.html"})
        index = (self.out / "index.html").read_text()
        for name in names:
            self.assertIn(f'href="{name}"', index)
            self.assertIn("The paper and here", (self.out / name).read_text())
        figures = {figure["id"]: figure for figure in self.results["study"]["figures"]}
        self.assertEqual(list(figures), FIGURES)
        for name, figure in figures.items():
            self.assertIn(f"{name}: {figure['title']}", self.done.stdout)
            self.assertGreater(len(figure["findings"]), 0, name)
            for finding in figure["findings"]:
                # The paper has other numbers of keys.
                if "expected first" not in finding["paper"]:
                    self.assertEqual(finding["verdict"], "not measurable here", finding)

    def test_a_map_is_measured_by_lookups_or_named_as_missing(self) -> None:
        measured = {b["map"] for b in self.results["benchmarks"]}
        missing = {gap["map"] for figure in self.results["study"]["figures"] for gap in figure["missing"]}
        self.assertLessEqual(measured, listed().keys())
        self.assertEqual(missing & listed().keys(), set())
        self.assertEqual(measured & missing, set())
        trees = {name.partition("/")[0] for name in measured | missing}
        self.assertLessEqual(set(TREES), trees)
        for name in missing:
            self.assertIn(name, " ".join(self.done.stdout.split()))
        # A mix for each load with updates, and a number of threads for each that the page over threads has of two.
        loads = {(b["name"].split(",")[0], b["mix"], b["threads"]) for b in self.results["benchmarks"]}
        several = {("mixes", "90/5/5", 2), ("mixes", "70/15/15", 2), ("threads", "100/0/0", 1)}
        self.assertEqual({load for load in loads if load[1:] != ("100/0/0", 2)}, several)
        self.assertEqual({b["keys"] for b in self.results["benchmarks"]}, {1000})


class Eunomia(StudyCase):
    """With few keys and short runs: what is shown, never what is found."""

    NAME = "eunomia"
    OPTIONS = ("--keys", "100", "--operations", "50", "--runs", "1", "--threads", "1,2")
    PAGES = ["skew", "aborts", "changes", "threads", "puts", "distributions", "ladder", "verdict"]

    def test_it_ends_with_the_claims_of_the_library(self) -> None:
        self.assertLessEqual(study_files(self.out), {"eunomia.json", "index.html", *(f"{p}.html" for p in self.PAGES)})
        figures = self.results["study"]["figures"]
        self.assertEqual([figure["id"] for figure in figures], self.PAGES)
        claims = figures[-1]["findings"]
        self.assertEqual([claim["of_paper"] for claim in claims], [False] * 3)
        for claim in claims:
            # Of another number of keys, or there are no transactions.
            self.assertEqual(claim["verdict"], "not measurable here", claim)
        self.assertIn("Beyond the paper: At theta = 0.99 euno_btree aborts at most a fifth as often",
                      " ".join(self.done.stdout.split()))

    def test_each_plan_is_run_once_on_each_map(self) -> None:
        runs = [(b["map"], b["workload"], b["threads"]) for b in self.results["benchmarks"]
                if b["run_type"] == "iteration"]
        self.assertEqual(len(runs), len(set(runs)))
        self.assertEqual({threads for *_, threads in runs}, {1, 2})
        for b in self.results["benchmarks"]:
            if b["map"] in ("olc_btree", "masstree") and "transactions" in b:
                self.assertEqual(b["transactions"], "unavailable")


class Oltp(StudyCase):
    """One tree with few rows: what is measured and shown, never what is found."""

    NAME = "oltp"
    OPTIONS = ("--maps", "occ_avl", "--figure", "improved,figure-8", "--keys", "500", "--operations", "50", "--runs", "2",
               "--threads", "1")

    def test_figures_of_chosen_trees_are_measured_in_turns(self) -> None:
        self.assertEqual([figure["id"] for figure in self.results["study"]["figures"]], ["figure-8", "improved"])
        self.assertEqual({b["name"]: len(b["rounds"]) for b in self.results["benchmarks"]},
                         {f"oltp/occ_avl{tree} in {load}, {where}, locks of 192 bytes": 2 for load, tree, where in (
                             ("YCSB", "", "segregated"), ("YCSB", "/published", "one heap"), ("TPC-C", "", "segregated"),
                             ("TPC-C", "", "one heap"), ("TPC-C", "/published", "one heap"))})
        said = " ".join(self.done.stdout.split())
        self.assertRegex(said, r"times, the geometric mean of occ_avl \d+\.\d+\.")
        self.assertNotRegex(said, "Model: |Program: |Paper: ")


if __name__ == "__main__":
    unittest.main()
