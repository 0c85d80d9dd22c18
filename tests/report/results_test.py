"""What is read out of result files and said of it in words: numbers, workloads, verdicts and the first screen."""

from __future__ import annotations

import unittest
from typing import Any

import fixture
from case import Case, Page
from espalier_report import results, summary, text, verdict, workloads

CAPTION = "over the best map of each workload"


class Reading(Case):
    """What is read out of result files."""

    def test_medians_are_computed_where_aggregates_are_missing_and_taken_where_they_are_stated(self) -> None:
        for run_type, bytes_per_key in (("iteration", None), ("aggregate", 64)):
            entries = [entry for entry in self.medians(a=[500, 100, 200]) if entry["run_type"] == run_type]
            measured = self.load(entries).measurements[0]
            self.assertEqual(measured.wall, results.Spread(200, 100, 500))
            self.assertEqual(measured.repetitions, 3)
            self.assertEqual(measured.bytes_per_key, bytes_per_key)

    def test_units_become_nanoseconds_and_failures_unavailable(self) -> None:
        measured = self.load(fixture.family("w", "a", [3.0, 1.0, 2.0], time_unit="us"))
        self.assertEqual(measured.measurements[0].wall, results.Spread(2000, 1000, 3000))
        throughput = self.load(fixture.family("w", "a", [500, 100, 250])).measurements[0].throughput
        self.assertEqual(throughput, results.Spread(4e6, 2e6, 1e7))
        measured = self.load(fixture.family("w", "a", [1, 2, 3], error_occurred=True))
        self.assertIsNone(measured.measurements[0].wall)

    def test_placements_of_one_map_get_their_own_names_and_latencies_follow_them(self) -> None:
        placements = ("shared_heap", "segregated")
        loaded = self.load(
            *(fixture.family("w", "a", fixture.around(400), placement=p) for p in placements),
            latency=[{**fixture.latency("w", "a", 300), "placement": p} for p in placements])
        for labelled in loaded.measurements, loaded.latencies:
            self.assertEqual([one.label for one in labelled], ["a (shared_heap)", "a (segregated)"])

    def merged(self, first: str, second: str, *, second_map: str = "a", threads: int = 4) -> results.Results:
        return results.load([self.write({
            "context": fixture.context(), "benchmarks": fixture.family("w", map_, fixture.around(time), number),
            "latency": [fixture.latency("w", map_, 300, number)]}, name)
            for name, map_, time, number in ((first, "a", 400, 4), (second, second_map, 500, threads))])

    def test_maps_of_several_files_carry_its_name_where_they_clash(self) -> None:
        for loaded in (self.merged("x.json", "y.json", second_map="b"), self.merged("x.json", "y.json", threads=8)):
            self.assertEqual(len(loaded.measurements), 2)
            self.assertFalse([m.label for m in loaded.measurements if "json" in m.label])
            self.assertFalse([e.label for e in loaded.latencies if "json" in e.label])
        loaded = self.merged("x.json", "y.json")
        self.assertEqual([m.label for m in loaded.measurements], ["a (x.json)", "a (y.json)"])
        self.assertEqual([e.label for e in loaded.latencies], ["a (x.json)", "a (y.json)"])
        labels = [m.label for m in self.merged("one/r.json", "two/r.json").measurements]
        self.assertEqual(len(set(labels)), 2)
        self.assertIn("one/r.json", labels[0])
        path = self.write(fixture.document())
        loaded = results.load([path, path])
        self.assertIn("#1", loaded.files[0])
        self.assertEqual(len({(m.workload, m.label, m.threads) for m in loaded.measurements}), len(loaded.measurements))


class Numbers(unittest.TestCase):
    """Numbers, durations and labels in words."""

    def test_numbers_durations_percentiles_and_shares(self) -> None:
        for value, expected in ((0, "0"), (1.3, "1.30"), (9.996, "10.0"), (0.6993, "0.699"),
                                (0.00012345, "0.000123"), (99.96, "100"), (999.7, "1,000"),
                                (1234567.8, "1,234,568"), (None, "unavailable")):
            self.assertEqual(text.number(value), expected)
        for value, expected in ((300, "300 ns"), (1.5, "1.50 ns"), (2000, "2 µs"),
                                (2500, "2.50 µs"), (90000, "90 µs"), (3.2e6, "3.20 ms"),
                                (4e9, "4 s"), (None, "unavailable")):
            self.assertEqual(text.duration(value).replace(text.THIN, " "), expected)
        self.assertEqual([text.percentile(p).replace(text.THIN, "")
                          for p in (0.0, 0.5, 0.999, 0.99999)], ["0%", "50%", "99.9%", "99.999%"])
        for value, expected in ((0, "0 %"), (0.0004, "<0.1 %"), (0.001, "0.1 %"), (0.1234, "12.3 %"), (0.5, "50 %"),
                                (0.999, "99.9 %"), (0.9996, ">99.9 %"), (1, "100 %"), (12.5, "1,250 %"),
                                (None, "unavailable")):
            self.assertEqual(text.share(value).replace(text.THIN, " "), expected)

    def test_labels_wrap_and_end(self) -> None:
        self.assertEqual(text.wrapped("edge_ext_lf"), ["edge_ext_lf"])
        self.assertEqual(text.wrapped("edge_ext_lf (second.json)"), ["edge_ext_lf", "(second.json)"])
        endless = text.wrapped("x" * 500)
        self.assertEqual(len(endless), 3)
        self.assertTrue(endless[-1].endswith("…"))
        self.assertLessEqual(max(map(len, endless)), 18)
        self.assertEqual(text.plotly_label("a<b>&c"), "a&lt;b&gt;&amp;c")


class Verdicts(Case):
    """Who has won, by how much, and when nobody has."""

    def verdict(self, *families: list[fixture.Json], **times: float | list[float | str]) -> verdict.Verdict:
        found = verdict.verdicts(self.load(*families, self.medians(**times)))
        self.assertEqual(len(found), 1)
        return found[0]

    def test_names_winner_and_ratio_of_medians(self) -> None:
        found = self.verdict(slow=532, fast=400, slower=900)
        self.assertEqual(found.winner, "fast")
        self.assertEqual(found.short, "fast won w, 1.33 times slow")
        # 400 ns is 2.50 M; from 392 to 408 ns.
        self.assertIn("2.50 [2.45 to 2.55] against 1.88 [1.84 to 1.92]", found.sentence)
        self.assertEqual(verdict.headline([found]), "fast won w, 1.33 times slow")
        found = self.verdict(a=[100, 100, 100, 5000, 5000], b=[200] * 5)
        self.assertIn("a has the highest median, 2.00 times b", found.sentence)

    def test_overlapping_spreads_and_single_runs_have_no_clear_winner(self) -> None:
        found = self.verdict(a=[400, 410, 430, 450, 460], b=[440, 450, 455, 460, 470])
        self.assertIsNone(found.winner)
        self.assertEqual(found.short, "no clear winner in w")
        self.assertIn("the spread of b overlaps its own (", found.sentence)
        for least, winner in ((420, None), (420.5, "a")):
            self.assertEqual(self.verdict(a=[400, 410, 420], b=[least, 430, 440]).winner, winner)
        found = self.verdict(a=[400, 401, 402], b=[500, 501, 502], c=[390, 600, 900])
        self.assertIsNone(found.winner)
        self.assertIn("1.25 times b, but the spread of c overlaps", found.sentence)
        found = self.verdict(a=[100], b=[900])
        self.assertIsNone(found.winner)
        self.assertIn("without repetitions", found.sentence)

    def test_one_map_or_none_is_no_contest(self) -> None:
        alone = self.verdict(a=400, b=[fixture.UNAVAILABLE] * 5)
        self.assertIsNone(alone.winner)
        self.assertIn("only a was measured in w at 4 threads", alone.sentence.lower())
        self.assertEqual(self.verdict(b=[fixture.UNAVAILABLE] * 5).sentence, "Nothing was measured in w.")

    def test_a_peer_or_a_baseline_that_wins_is_called_one(self) -> None:
        peer = self.verdict(fixture.family("w", "theirs", fixture.around(400), kind="peer"), ours=800)
        self.assertEqual(verdict.headline([peer]), "The peer theirs won w, 2.00 times ours")
        baseline = self.verdict(ticket=800, locked_map=400)
        self.assertEqual(verdict.headline([baseline]), "The baseline locked_map won w, 2.00 times ticket")

    def test_the_greatest_thread_count_decides_and_different_settings_are_said(self) -> None:
        found = self.verdict(self.medians(threads=1, a=100, b=900), self.medians(threads=8, a=100, b=50))
        self.assertEqual(found.winner, "b")
        self.assertIn("at 8 threads", found.sentence)
        found = self.verdict(fixture.family("w", "a", fixture.around(400), keys=100),
                             fixture.family("w", "b", fixture.around(900), keys=100000))
        self.assertIn("settings of these entries differ", found.sentence)

    def test_headline_counts_where_there_are_many_workloads(self) -> None:
        families = [self.medians(f"w{index}", a=a, b=b)
                    for index, (a, b) in enumerate(((400, 900), (400, 900), (900, 400), (400, 401)))]
        self.assertEqual(verdict.headline(verdict.verdicts(self.load(*families))),
                         "a won 2 of 4 workloads, b 1, 1 without a clear winner")


class Sentences(Case):
    """What a workload does, in a sentence."""

    def assert_said(self, expected: str | None, mix: str, distribution: str, keys: str) -> None:
        said = workloads.sentence(mix, distribution, keys)
        self.assertEqual(said and said.replace(text.THIN, " "), expected)

    def test_a_plain_mix_names_twice_the_keys_loaded_and_a_trace_its_order(self) -> None:
        self.assert_said("90 % look-ups, 5 % insertions, 5 % erasures, keys drawn uniformly from 200,000; half of the "
                         "keys are in the map at the start.", "90/5/5", "uniform", "100,000")
        self.assert_said("100 % look-ups, keys taken in turn from 20; half of the keys are in the map at the start.",
                         "100/0/0", "sequential", "10")
        trace = "The operations of a recorded trace in their order"
        self.assert_said(f"{trace}; the map is empty at the start.", "trace", "trace", "0")
        self.assert_said(f"{trace}; 1,000 keys are in the map at the start.", "trace", "trace", "1,000")
        self.assert_said(f"{trace}.", "trace", "trace", text.UNAVAILABLE)

    def test_hits_and_loads_name_their_keys(self) -> None:
        self.assert_said("100 % look-ups, keys drawn uniformly from 1,000; all keys are in the map at the start.", "hits",
                         "uniform", "1,000")
        self.assert_said("Insertions of 1,000 keys, in random order, into an empty map.", "load", "uniform", "1,000")
        self.assert_said("Insertions of all keys, in random order, into an empty map.", "load", "uniform",
                         text.UNAVAILABLE)

    def test_ycsb_is_told_in_words_and_loads_all(self) -> None:
        rest = ", keys drawn from 1,000 by Zipf's law (exponent 0.99), the frequent ones scattered; all keys are in " \
               "the map at the start."
        for letter, words in (("a", "50 % look-ups, 50 % updates"), ("b", "95 % look-ups, 5 % updates"),
                              ("c", "100 % look-ups"), ("e", "95 % scans of 1 to 100 entries, 5 % insertions"),
                              ("f", "50 % look-ups, 50 % read-modify-writes")):
            self.assert_said(f"YCSB {letter.upper()}: {words}{rest}", f"ycsb-{letter}", "scrambled-zipfian:0.99",
                             "1,000")
        self.assert_said("YCSB D: 95 % look-ups, 5 % insertions, keys drawn from 1,000 by Zipf's law (exponent 0.99), "
                         "the newest most often; all keys are in the map at the start.", "ycsb-d", "latest:0.99",
                         "1,000")

    def test_every_distribution_is_told_in_words(self) -> None:
        for distribution, words in (
                ("zipfian:1.2", " by Zipf's law (exponent 1.2)"),
                ("hotspot:0.2,0.8", ", 80 % of the draws from 20 % of the keys"),
                ("self-similar:0.2", ", 80 % of the draws from 20 % of the keys, and so within these"),
                ("normal:0.125", " by a normal distribution (standard deviation 12.5 % of the range)"),
                ("poisson:0.5", " by a Poisson distribution (mean at 50 % of the range)"),
                ("poisson:0.5,215", ", from 215 ranges of them by a Poisson distribution (mean at 50 %)"),
                ("novel:3", " by novel:3"), ("zipfian", " by zipfian"), ("hotspot:0.2", " by hotspot:0.2")):
            self.assert_said(f"50 % insertions, 50 % erasures, keys drawn from 20{words}; half of the keys are in the "
                             "map at the start.", "0/50/50", distribution, "10")

    def test_what_is_not_known_is_not_said(self) -> None:
        self.assert_said("90 % look-ups, 5 % insertions, 5 % erasures, keys drawn uniformly.", "90/5/5", "uniform",
                         text.UNAVAILABLE)
        self.assert_said("90 % look-ups, 10 % erasures.", "90/0/10", text.UNAVAILABLE, text.UNAVAILABLE)
        self.assert_said(None, text.UNAVAILABLE, "uniform", "10")
        self.assert_said(None, fixture.NASTY, fixture.NASTY, fixture.NASTY)


class Places(Case):
    def test_it_stands_over_each_chart_of_the_workload(self) -> None:
        built = self.page_of(fixture.many_document())
        said = [words.replace(text.THIN, " ") for words in built.texts("p", **{"class": "about"})]
        charts = [attrs["data-figure"] for attrs in built.all("div", role="img") if attrs["data-figure"] != "memory-0"]
        self.assertEqual(len(said), len(charts))
        self.assertEqual(len(said), 3 * len(fixture.WORKLOADS))
        self.assertTrue(said[2].startswith("50 % look-ups, 25 % insertions, 25 % erasures, keys drawn from 200,000 by"))
        self.assertEqual(said[3], "YCSB E: 95 % scans of 1 to 100 entries, 5 % insertions, keys drawn from 100,000 by "
                                  "Zipf's law (exponent 0.99), the frequent ones scattered; all keys are in the map at "
                                  "the start.")
        built = self.page_of(fixture.simulated_document())
        self.assertEqual(len(built.texts("p", **{"class": "about"})), 6)

    def test_settings_that_differ_are_not_told_as_one(self) -> None:
        loaded = self.load(fixture.family("w", "a", fixture.around(400), keys=100),
                           fixture.family("w", "b", fixture.around(900), keys=100000))
        self.assertEqual(workloads.explained(loaded.measurements), workloads.DIFFERENT)
        self.assertIsNone(workloads.explained([]))


class Conditions(Case):
    """The first screen: where and how maps were compared, and the matrix of maps and workloads."""

    def said(self, document: fixture.Json) -> str:
        return summary.conditions(results.load([self.write(document)]))

    def test_machines_keys_threads_and_runs_are_one_line(self) -> None:
        line = "Example CPU (8 cores, 8 threads); 100,000 keys; 1 and 4 threads; 5 runs each"
        self.assertEqual(self.said(fixture.many_document()), line)
        self.assertEqual(self.page_of(fixture.many_document()).texts("p", **{"class": "facts"}), [line])
        document = fixture.simulated_document()
        rest = "; 100,000 keys; 1 and 40 threads; 1 run each"
        self.assertEqual(self.said(document), f"Simulated on e7_4850{rest}")
        document["context"]["machine"]["cores_per_socket"] = 10
        self.assertEqual(self.said(document), f"Simulated on e7_4850, 40 cores{rest}")
        paths = [self.write(fixture.document() | {"context": fixture.context() | {"cpu_model": model}}, f"{index}.json")
                 for index, model in enumerate(("One", "Other", "One"))]
        self.assertTrue(summary.conditions(results.load(paths)).startswith(
            "One (8 cores, 8 threads) and Other (8 cores, 8 threads); "))

    def test_what_is_not_known_is_left_out(self) -> None:
        def changed(**facts: Any) -> str:
            document = fixture.document()
            document["context"] |= facts
            return self.said(document).partition(";")[0]

        self.assertEqual(changed(topology=text.UNAVAILABLE), "Example CPU (8 CPUs)")
        self.assertEqual(changed(topology=["odd"], num_cpus=None), "Example CPU")
        self.assertEqual(changed(cpu_model=text.UNAVAILABLE), "unknown processor (8 cores, 8 threads)")
        document = fixture.document()
        for entry in document["benchmarks"]:
            del entry["keys"]
        rest = "Example CPU (8 cores, 8 threads); 2 and 4 threads; 5 runs each"
        self.assertEqual(self.said(document), rest)
        for entry in document["benchmarks"]:
            entry |= {"mix": "trace", "distribution": "trace", "keys": 0}
        self.assertEqual(self.said(document), rest)

    def test_many_numbers_are_told_by_their_ends(self) -> None:
        families = [fixture.family("w", "a", fixture.around(400)[:count], threads, keys=10 ** keys)
                    for count, keys, threads in zip((3, 3, 4, 5, 5, 5, 5), range(3, 10), (1, 2, 4, 8, 16, 32, 64))]
        self.assertEqual(summary.conditions(self.load(*families)), "Example CPU (8 cores, 8 threads); 1,000 to "
                         "1,000,000,000 keys; 1 to 64 threads; 3, 4 and 5 runs each")


class Matrix(Case):
    def rows(self, *families: list[fixture.Json]) -> list[list[str]]:
        return Page(f"<main>{''.join(map(str, summary.matrix(self.load(*families))[:1]))}</main>").rows()

    def test_a_row_a_map_and_a_column_a_workload_and_the_best_is_marked(self) -> None:
        built = self.page_of()
        self.assertEqual(built.captioned(CAPTION), [
            ["Map", "read-mostly", "update-heavy", "Geometric mean"],
            ["edge_ext_lf", "1.00", "1.00", "1.00"], ["ticket", "0.77", "0.98", "0.87"],
            [fixture.NASTY, "0.67", "-", "-"], ["locked_std_map peer", "0.15", "-", "-"],
            ["absent_peer peer", "-", "-", "-"]])
        self.assertEqual(built.texts("caption")[0], "Throughput over the best map of each workload, at 4 threads")
        self.assertEqual(built.texts("strong", **{"class": "best"}), ["1.00", "1.00"])
        self.assertEqual(len(built.all("span", title="not measured")), 4)
        notes = " ".join(built.texts("p", **{"class": "note"}))
        for words in ("1.00 is the best median of a workload, bold and shaded.", "Cells with - were not measured",
                      "Peers are maps of other libraries."):
            self.assertIn(words, notes)

    def test_baselines_and_peers_are_marked_and_heads_lead_to_the_charts(self) -> None:
        built = self.page_of(fixture.many_document(4))
        names = [row[0] for row in built.captioned(CAPTION)]
        for name in ("locked_map baseline", "global_lock_bst/ttas baseline", "tbb_concurrent_map peer", "ticket"):
            self.assertIn(name, names)
        built = self.page_of(fixture.many_document())
        links = [attrs for attrs in built.all("a") if str(attrs["href"]).endswith("-title")]
        self.assertEqual([attrs["href"] for attrs in links[:4]], [f"#throughput-{index}-title" for index in range(4)])
        self.assertIn("95\u202f% scans of 1 to 100 entries", str(links[3]["title"]))

    def test_rows_are_ordered_by_the_geometric_mean_at_the_greatest_thread_count(self) -> None:
        rows = self.rows(self.medians("v", even=200, odd=100, half=110, fast=125),
                         self.medians("w", even=200, odd=900, fast=100))
        self.assertEqual(rows[1:], [["fast", "0.80", "1.00", "0.89"], ["even", "0.50", "0.50", "0.50"],
                                    ["odd", "1.00", "0.11", "0.33"], ["half", "0.91", "-", "-"]])
        rows = self.rows(self.medians("v", 1, a=100, b=900), self.medians("v", 8, a=100, b=50),
                         self.medians("w", 2, a=100, b=100))
        self.assertEqual(rows[1:], [["b", "1.00", "1.00", "1.00"], ["a", "0.50", "1.00", "0.71"]])
        rows = self.rows(self.medians(a=1000, b=1001, c=900000))
        self.assertEqual(rows, [["Map", "w"], ["a", "1.00"], ["b", "0.99"], ["c", "<0.01"]])

    def test_of_many_maps_the_best_are_shown_and_the_others_folded(self) -> None:
        built = self.page_of(fixture.many_document())
        first, rest = built.captioned(CAPTION), built.captioned("Throughput of the other maps")
        self.assertEqual((len(first), len(rest)), (1 + summary.SHOWN, 1 + 30 - summary.SHOWN))
        self.assertEqual(first[0], rest[0])
        means = [row[-1] for row in first[1:] + rest[1:] if row[-1] != "-"]
        self.assertEqual(means, sorted(means, reverse=True))
        self.assertEqual(rest[-1][0], "absl_shared_mutex peer")
        self.assertEqual(built.texts("summary")[0], "18 more maps")
        self.assertNotIn("6 more maps", self.page_of(fixture.many_document(6)).texts("summary"))
        self.assertEqual(len(self.page_of(fixture.many_document(6)).captioned(CAPTION)), 1 + summary.SHOWN)

    def test_what_was_not_measured_or_stands_alone_has_no_place(self) -> None:
        document = fixture.document()
        document["latency"].append(fixture.latency("other", "a", 300))
        self.assertNotIn("other", self.page_of(document).captioned(CAPTION)[0])
        for alone in {"a": 400}, {"a": [fixture.UNAVAILABLE] * 5, "b": [fixture.UNAVAILABLE] * 5}:
            self.assertIsNone(summary.matrix(self.load(self.medians(**alone))))

    def test_a_simulation_has_one_too(self) -> None:
        built = self.page_of(fixture.simulated_document())
        self.assertEqual(built.captioned("Simulated throughput over the best map of each workload, at 40 threads"), [
            ["Map", "read-mostly", "scans", "Geometric mean"], ["ticket", "1.00", "1.00", "1.00"],
            [fixture.NASTY, "0.20", "-", "-"], ["locked_map baseline", "0.01", "-", "-"]])


class Busy(Case):
    """Where other programs took time from the threads, CPU time ranks the maps, and the first screen says so."""

    TIMES = {"first": (100.0, 400.0), "frugal": (145.0, 300.0)}  # of the wall, of the CPU

    def document(self, load: Any, threads: int = 4, **context: Any) -> fixture.Json:
        entries = [entry | {"cpu_time": self.TIMES[map_][1]} for map_, (wall, _) in self.TIMES.items()
                   for entry in fixture.family("w", map_, fixture.around(wall), threads)]
        return {"context": fixture.context() | {"load_avg": load} | context, "benchmarks": entries}

    def test_cpu_time_ranks_the_maps_and_a_caution_says_why(self) -> None:
        document = self.document([9.25, 3.0, 1.0])
        built = self.page_of(document)
        self.assertEqual(built.captioned("Operations per second of CPU time over the best map of each workload, at 4"),
                         [["Map", "w"], ["frugal", "1.00"], ["first", "0.75"]])
        self.assertIn("frugal won w, 1.33 times first", built.texts("h1"))
        self.assertIn("3.33 [3.33 to 3.33] against 2.50 [2.50 to 2.50] million operations per second of CPU time",
                      " ".join(built.texts("li")))
        cautions = " ".join(built.texts("ul", **{"class": "cautions"}))
        for words in ("the machine was busy: its load average was 9.25 on 8 CPUs", "ranked by CPU time per operation"):
            self.assertIn(words, cautions)

    def test_throughput_ranks_them_where_the_threads_themselves_are_the_load_or_cpu_times_are_missing(self) -> None:
        lacking = self.document([9.25, 3.0, 1.0])
        for entry in lacking["benchmarks"][:8]:
            entry["cpu_time"] = fixture.UNAVAILABLE
        idle = self.document([9.25, 3.0, 1.0])
        next(entry for entry in idle["benchmarks"] if entry.get("aggregate_name") == "min")["cpu_time"] = 0
        for document, busy in ((self.document([8.25, 20.0, 20.0]), False), (self.document([9.25], threads=9), False),
                               (self.document([]), False), (self.document(text.UNAVAILABLE), False),
                               (self.document([9.25], num_cpus=None), False), (lacking, True),
                               (idle, True)):
            built = self.page_of(document)
            self.assertEqual(built.captioned(CAPTION), [["Map", "w"], ["first", "1.00"], ["frugal", "0.69"]])
            cautions = " ".join(built.texts("ul", **{"class": "cautions"}))
            self.assertEqual("the machine was busy" in cautions, busy)
            self.assertNotIn("ranked by CPU time", cautions)


class Order(Case):
    def test_title_conditions_cautions_matrix_and_sentences_follow_each_other(self) -> None:
        document = fixture.document()
        document["context"] |= {"library_build_type": "debug", "incomplete": True}
        built = self.page_of(document)
        marks = {"h1": ("h1", None), "facts": ("p", "facts"), "cautions": ("ul", "cautions"),
                 "matrix": ("div", "scroll matrix"), "verdicts": ("ul", "verdicts"), "nav": ("nav", None)}
        places = [next(index for index, (tag, attrs, _) in enumerate(built.elements)
                       if tag == wanted and class_ in (None, attrs.get("class"))) for wanted, class_ in marks.values()]
        self.assertEqual(places, sorted(places))


if __name__ == "__main__":
    unittest.main()
