"""Checks the report without a browser: its words, its structure, its errors."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from typing import Any

sys.dont_write_bytecode = True

import fixture  # noqa: E402
from espalier_report import (  # noqa: E402
    cli, figures, page, plotly_bundle, results, simulated, study, text, verdict)

COMMAND = [sys.executable, "-B", str(fixture.ROOT / "report" / "espalier_report")]
STUB = "/* no library in this test */"
VOID = {"meta", "br", "img", "link", "input", "hr"}


def has_plotly() -> bool:
    try:
        plotly_bundle.find()
    except plotly_bundle.PlotlyMissing:
        return False
    return True


class Page(HTMLParser):
    """The page as a flat list of elements with their attributes and their own text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.problems: list[str] = []
        self.feed(html)
        self.close()
        self.problems += [self.elements[index][0] + " left open" for index in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.elements[self.open[-1]][0] != tag:
            self.problems.append(f"unexpected </{tag}>")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.elements[self.open[-1]][0] in ("script", "style"):
            self.elements[self.open[-1]][2].append(data)
        else:
            for index in self.open:
                self.elements[index][2].append(data)

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs, _ in self.elements if name == tag
                and all(attrs.get(key) == value for key, value in attributes.items())]

    def texts(self, tag: str, **attributes: str) -> list[str]:
        return [" ".join("".join(words).split()) for name, attrs, words in self.elements
                if name == tag and all(attrs.get(key) == value
                                       for key, value in attributes.items())]

    def rows(self, table: int = 0) -> list[list[str]]:
        found: list[list[str]] = []
        tables = -1
        for tag, _, words in self.elements:
            tables += tag == "table"
            if tables != table:
                continue
            if tag == "tr":
                found.append([])
            elif tag in ("td", "th"):
                found[-1].append(" ".join("".join(words).split()))
        return found


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, document: Any, name: str = "results.json") -> pathlib.Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document),
                        encoding="utf-8")
        return path

    def load(self, *entries: list[fixture.Json], **more: Any) -> results.Results:
        benchmarks = [entry for family in entries for entry in family]
        return results.load([self.write({"context": fixture.context(),
                                         "benchmarks": benchmarks, **more})])

    def page_of(self, document: Any = None) -> Page:
        loaded = results.load([self.write(document or fixture.document())])
        return Page(page.render(loaded, STUB))


class Numbers(unittest.TestCase):
    def test_three_significant_digits_without_exponent(self) -> None:
        for value, expected in ((0, "0"), (1.3, "1.30"), (9.996, "10.0"), (0.6993, "0.699"),
                                (0.00012345, "0.000123"), (99.96, "100"), (999.7, "1,000"),
                                (1234567.8, "1,234,568"), (None, "unavailable")):
            self.assertEqual(text.number(value), expected)

    def test_durations_have_units(self) -> None:
        for value, expected in ((300, "300 ns"), (1.5, "1.50 ns"), (2000, "2 µs"),
                                (2500, "2.50 µs"), (90000, "90 µs"), (3.2e6, "3.20 ms"),
                                (4e9, "4 s"), (None, "unavailable")):
            self.assertEqual(text.duration(value).replace(text.THIN, " "), expected)

    def test_percentiles_keep_their_nines(self) -> None:
        self.assertEqual([text.percentile(p).replace(text.THIN, "")
                          for p in (0.0, 0.5, 0.999, 0.99999)], ["0%", "50%", "99.9%", "99.999%"])

    def test_labels_wrap_and_end(self) -> None:
        self.assertEqual(text.wrapped("edge_ext_lf"), ["edge_ext_lf"])
        self.assertEqual(text.wrapped("edge_ext_lf (second.json)"),
                         ["edge_ext_lf", "(second.json)"])
        endless = text.wrapped("x" * 500)
        self.assertEqual(len(endless), 3)
        self.assertTrue(endless[-1].endswith("…"))
        self.assertLessEqual(max(map(len, endless)), 18)
        self.assertEqual(text.plotly_label("a<b>&c"), "a&lt;b&gt;&amp;c")


class Verdicts(Case):
    def verdict(self, *families: list[fixture.Json]) -> verdict.Verdict:
        found = verdict.verdicts(self.load(*families))
        self.assertEqual(len(found), 1)
        return found[0]

    def test_names_winner_and_ratio(self) -> None:
        found = self.verdict(fixture.family("w", "slow", fixture.around(532)),
                             fixture.family("w", "fast", fixture.around(400)),
                             fixture.family("w", "slower", fixture.around(900)))
        self.assertEqual(found.winner, "fast")
        self.assertEqual(found.short, "fast won w, 1.33 times slow")
        # 400 ns is 2.50 M; from 392 to 408 ns.
        self.assertIn("2.50 [2.45 to 2.55] against 1.88 [1.84 to 1.92]", found.sentence)
        self.assertEqual(verdict.headline([found]), "fast won w, 1.33 times slow")

    def test_ranks_by_medians_not_by_means(self) -> None:
        found = self.verdict(fixture.family("w", "a", [100, 100, 100, 5000, 5000]),
                             fixture.family("w", "b", [200, 200, 200, 200, 200]))
        self.assertIn("a has the highest median, 2.00 times b", found.sentence)

    def test_overlapping_spreads_have_no_clear_winner(self) -> None:
        found = self.verdict(fixture.family("w", "a", [400, 410, 430, 450, 460]),
                             fixture.family("w", "b", [440, 450, 455, 460, 470]))
        self.assertIsNone(found.winner)
        self.assertEqual(found.short, "no clear winner in w")
        self.assertIn("the spread of b overlaps its own (", found.sentence)

    def test_touching_spreads_overlap_and_separate_ones_do_not(self) -> None:
        touching = self.verdict(fixture.family("w", "a", [400, 410, 420]),
                                fixture.family("w", "b", [420, 430, 440]))
        self.assertIsNone(touching.winner)
        apart = self.verdict(fixture.family("w", "a", [400, 410, 420]),
                             fixture.family("w", "b", [420.5, 430, 440]))
        self.assertEqual(apart.winner, "a")

    def test_the_spread_of_a_third_counts_too(self) -> None:
        found = self.verdict(fixture.family("w", "a", [400, 401, 402]),
                             fixture.family("w", "b", [500, 501, 502]),
                             fixture.family("w", "c", [390, 600, 900]))
        self.assertIsNone(found.winner)
        self.assertIn("1.25 times b, but the spread of c overlaps", found.sentence)

    def test_single_runs_win_nothing(self) -> None:
        found = self.verdict(fixture.family("w", "a", [100]), fixture.family("w", "b", [900]))
        self.assertIsNone(found.winner)
        self.assertIn("without repetitions", found.sentence)

    def test_one_map_or_none_is_no_contest(self) -> None:
        alone = self.verdict(fixture.family("w", "a", fixture.around(400)),
                             fixture.family("w", "b", [fixture.UNAVAILABLE] * 5))
        self.assertIsNone(alone.winner)
        self.assertIn("only a was measured in w at 4 threads", alone.sentence.lower())
        none = self.verdict(fixture.family("w", "b", [fixture.UNAVAILABLE] * 5))
        self.assertEqual(none.sentence, "Nothing was measured in w.")

    def test_a_peer_that_wins_is_called_one(self) -> None:
        found = self.verdict(fixture.family("w", "ours", fixture.around(800)),
                             fixture.family("w", "theirs", fixture.around(400), kind="peer"))
        self.assertEqual(verdict.headline([found]), "The peer theirs won w, 2.00 times ours")

    def test_the_greatest_thread_count_decides(self) -> None:
        found = self.verdict(fixture.family("w", "a", fixture.around(100), threads=1),
                             fixture.family("w", "b", fixture.around(900), threads=1),
                             fixture.family("w", "a", fixture.around(100), threads=8),
                             fixture.family("w", "b", fixture.around(50), threads=8))
        self.assertEqual(found.winner, "b")
        self.assertIn("at 8 threads", found.sentence)

    def test_headline_counts_where_there_are_many_workloads(self) -> None:
        families = []
        for index, (a, b) in enumerate(((400, 900), (400, 900), (900, 400), (400, 401))):
            families += [fixture.family(f"w{index}", "a", fixture.around(a)),
                         fixture.family(f"w{index}", "b", fixture.around(b))]
        self.assertEqual(verdict.headline(verdict.verdicts(self.load(*families))),
                         "a won 2 of 4 workloads, b 1, 1 without a clear winner")

    def test_different_settings_are_said(self) -> None:
        found = self.verdict(fixture.family("w", "a", fixture.around(400), keys=100),
                             fixture.family("w", "b", fixture.around(900), keys=100000))
        self.assertIn("settings of these entries differ", found.sentence)


class Reading(Case):
    def test_medians_are_computed_where_aggregates_are_missing(self) -> None:
        entries = [entry for entry in fixture.family("w", "a", [500, 100, 200])
                   if entry["run_type"] == "iteration"]
        measured = self.load(entries).measurements[0]
        self.assertEqual(measured.wall, results.Spread(200, 100, 500))
        self.assertEqual(measured.repetitions, 3)

    def test_stated_aggregates_are_taken(self) -> None:
        entries = [entry for entry in fixture.family("w", "a", [500, 100, 200])
                   if entry["run_type"] == "aggregate"]
        measured = self.load(entries).measurements[0]
        self.assertEqual(measured.wall, results.Spread(200, 100, 500))
        self.assertEqual(measured.bytes_per_key, 64)

    def test_units_become_nanoseconds(self) -> None:
        measured = self.load(fixture.family("w", "a", [3.0, 1.0, 2.0], time_unit="us"))
        self.assertEqual(measured.measurements[0].wall, results.Spread(2000, 1000, 3000))

    def test_throughput_turns_the_spread_round(self) -> None:
        throughput = self.load(fixture.family("w", "a", [500, 100, 250])).measurements[0].throughput
        self.assertEqual(throughput, results.Spread(4e6, 2e6, 1e7))

    def test_failed_entries_are_unavailable(self) -> None:
        measured = self.load(fixture.family("w", "a", [1, 2, 3], error_occurred=True))
        self.assertIsNone(measured.measurements[0].wall)

    def test_placements_of_one_map_get_their_own_names(self) -> None:
        loaded = self.load(fixture.family("w", "a", fixture.around(400), placement="shared_heap"),
                           fixture.family("w", "a", fixture.around(300), placement="segregated"))
        self.assertEqual([m.label for m in loaded.measurements],
                         ["a (shared_heap)", "a (segregated)"])

    def test_latencies_follow_their_placement(self) -> None:
        placements = ("shared_heap", "segregated")
        loaded = self.load(
            *(fixture.family("w", "a", fixture.around(400), placement=p) for p in placements),
            latency=[{**fixture.latency("w", "a", 300), "placement": p} for p in placements])
        self.assertEqual([entry.label for entry in loaded.latencies],
                         ["a (shared_heap)", "a (segregated)"])

    def merged(self, first: str, second: str, *, second_map: str = "a",
               threads: int = 4) -> results.Results:
        one = {"context": fixture.context(),
               "benchmarks": fixture.family("w", "a", fixture.around(400)),
               "latency": [fixture.latency("w", "a", 300)]}
        two = {"context": fixture.context(),
               "benchmarks": fixture.family("w", second_map, fixture.around(500), threads),
               "latency": [fixture.latency("w", second_map, 300, threads)]}
        return results.load([self.write(one, first), self.write(two, second)])

    def test_files_are_merged_without_suffix_where_nothing_clashes(self) -> None:
        for loaded in (self.merged("x.json", "y.json", second_map="b"),
                       self.merged("x.json", "y.json", threads=8)):
            self.assertEqual(len(loaded.measurements), 2)
            self.assertFalse([m.label for m in loaded.measurements if "json" in m.label])
            self.assertFalse([e.label for e in loaded.latencies if "json" in e.label])

    def test_clashing_maps_carry_the_file_name(self) -> None:
        loaded = self.merged("x.json", "y.json")
        self.assertEqual([m.label for m in loaded.measurements], ["a (x.json)", "a (y.json)"])
        self.assertEqual([e.label for e in loaded.latencies], ["a (x.json)", "a (y.json)"])

    def test_files_of_one_name_carry_their_paths(self) -> None:
        labels = [m.label for m in self.merged("one/r.json", "two/r.json").measurements]
        self.assertEqual(len(set(labels)), 2)
        self.assertIn("one/r.json", labels[0])

    def test_a_file_given_twice_is_numbered(self) -> None:
        path = self.write(fixture.document())
        loaded = results.load([path, path])
        self.assertIn("#1", loaded.files[0])
        self.assertEqual(len({(m.workload, m.label, m.threads) for m in loaded.measurements}),
                         len(loaded.measurements))


class Figures(Case):
    def test_latency_axis_is_logarithmic_in_the_rarity(self) -> None:
        loaded = self.load(fixture.family("w", "a", fixture.around(400)),
                           latency=[{**fixture.latency("w", "a", 300), "curve": [
                               [0.0, 0], [0.5, 300], [0.9, 400], [0.99, 500], [1.0, 9000]]}])
        points = figures.points(loaded.latencies[0])
        self.assertEqual([round(x) for x, _, _ in points], [2, 10, 100, 100000])
        self.assertEqual([y for _, y, _ in points], [300, 400, 500, 9000])
        axis = figures.latency(loaded, figures.Palette(loaded))[0].views[0].layout["xaxis"]
        self.assertEqual(axis["ticktext"], ["0%", "90%", "99%", "99.9%", "99.99%", "99.999%"])
        self.assertEqual(axis["type"], "log")

    def test_bars_are_sorted_and_have_whiskers(self) -> None:
        loaded = results.load([self.write(fixture.document())])
        view = figures.throughput(loaded)[0].views[0]
        ours = view.traces[0]
        self.assertEqual(ours["x"], sorted(ours["x"], reverse=True))
        self.assertEqual(ours["y"], [0, 1, 2])
        self.assertAlmostEqual(ours["x"][0], 1e3 / 220)
        self.assertAlmostEqual(ours["x"][0] + ours["error_x"]["array"][0], 1e3 / (220 * 0.98))
        self.assertAlmostEqual(ours["x"][0] - ours["error_x"]["arrayminus"][0],
                               1e3 / (220 * 1.02))

    def test_memory_has_the_least_on_top_and_the_unavailable_below(self) -> None:
        loaded = results.load([self.write(fixture.document())])
        ticks = figures.memory(loaded)[0].views[0].layout["yaxis"]["ticktext"]
        self.assertEqual((ticks[0], ticks[-2:]), ("ticket", ["absent_peer", "locked_std_map"]))

    def test_scaling_needs_several_thread_counts(self) -> None:
        loaded = self.load(fixture.family("w", "a", fixture.around(400)))
        self.assertEqual(figures.scaling(loaded, figures.Palette(loaded)), [])

    def test_many_lines_start_with_the_leaders_only(self) -> None:
        families = [fixture.family("w", f"map{index:02}", fixture.around(400 + index), threads)
                    for index in range(25) for threads in (1, 2)]
        loaded = self.load(*families)
        traces = figures.scaling(loaded, figures.Palette(loaded))[0].views[0].traces
        self.assertEqual([trace["label"] for trace in traces if trace["visible"]],
                         [f"map{index:02}" for index in range(figures.SHOWN_AT_FIRST)])
        self.assertEqual(len({(t["line"]["color"], t["line"]["dash"]) for t in traces[:20]}), 20)


class Structure(Case):
    def test_sections_come_in_order(self) -> None:
        self.assertEqual(self.page_of().texts("h2"), [
            "Throughput", "Latency", "Memory per key", "Scaling over threads", "All numbers",
            "Context", "How to read this"])

    def test_the_page_is_well_formed_and_has_its_landmarks(self) -> None:
        built = self.page_of()
        self.assertEqual(built.problems, [])
        self.assertEqual(built.all("html"), [{"lang": "en"}])
        self.assertEqual(len(built.all("h1")), 1)
        self.assertEqual(len(built.all("main")), 1)
        self.assertTrue(built.all("meta", name="viewport"))
        self.assertTrue(built.all("meta", charset="utf-8"))
        ids = [attrs["id"] for _, attrs, _ in built.elements if "id" in attrs]
        self.assertEqual(len(ids), len(set(ids)))
        links = [str(attrs["href"])[1:] for attrs in built.all("a")]
        self.assertLessEqual(set(links), set(ids))
        labelled = [str(value) for _, attrs, _ in built.elements for key, value in attrs.items()
                    if key in ("aria-labelledby", "for")]
        self.assertLessEqual(set(labelled), set(ids))

    def test_headings_never_skip_a_level(self) -> None:
        levels = [int(tag[1]) for tag, _, _ in self.page_of().elements
                  if re.fullmatch(r"h[1-6]", tag)]
        self.assertEqual(levels[0], 1)
        self.assertTrue(all(after <= before + 1 for before, after in zip(levels, levels[1:])))

    def test_tables_are_accessible(self) -> None:
        built = self.page_of()
        self.assertEqual(len(built.all("table")), len(built.all("caption")))
        self.assertTrue(all(attrs.get("scope") in ("row", "col") for attrs in built.all("th")))
        boxes = built.all("div", class_="scroll") or built.all("div", **{"class": "scroll"})
        self.assertEqual(len(boxes), len(built.all("table")))
        self.assertTrue(all(box["tabindex"] == "0" and box["role"] == "region" for box in boxes))

    def test_every_figure_has_its_data_and_its_caption(self) -> None:
        built = self.page_of()
        data = json.loads(built.texts("script", id="figures")[0])
        drawn = [attrs["data-figure"] for attrs in built.all("div", role="img")]
        self.assertEqual(set(drawn), set(data))
        self.assertEqual(set(drawn), set(fixture.DRAWN))
        self.assertEqual(len(built.all("figcaption")), len(drawn))
        self.assertEqual(len(built.all("select")), len(built.all("label")))

    def test_the_table_holds_every_number(self) -> None:
        rows = self.page_of().rows(0)
        head = rows[0]
        self.assertEqual(head[:7], ["Map", "Threads", "Throughput, M op/s", "Wall ns/op",
                                    "CPU ns/op", "Bytes/key", "Leaked bytes"])
        self.assertEqual(rows[1][:7], ["edge_ext_lf", "4", "4.55 4.46 to 4.64",
                                       "220 216 to 224", "858 841 to 875", "64.0", "0"])
        self.assertEqual(len(rows), 1 + 10)

    def test_context_is_shown_in_words(self) -> None:
        built = self.page_of()
        rows = dict((row[0], row[1]) for row in built.rows(len(built.all("table")) - 1))
        self.assertEqual(rows["Commit"], "unavailable")
        self.assertEqual(rows["Context switches"], "voluntary 12, involuntary 3")
        self.assertEqual(rows["Caches"].replace(text.THIN, " "),
                         "L1 data 48 KiB; L3 unified 33 MiB, shared by 8")
        self.assertEqual(rows["Frequency scaling"], "off")

    def test_cautions_are_given_where_due(self) -> None:
        self.assertEqual(self.page_of().all("ul", **{"class": "cautions"}), [])
        document = fixture.document()
        document["context"] |= {"library_build_type": "debug", "num_cpus": 2,
                                "cpu_scaling_enabled": True}
        words = " ".join(self.page_of(document).texts("ul", **{"class": "cautions"}))
        for expected in ("a debug build", "4 threads ran on 2 CPUs", "frequency scaling was on"):
            self.assertIn(expected, words)

    def test_no_latency_and_no_memory_are_said(self) -> None:
        document = fixture.document()
        del document["latency"]
        for entry in document["benchmarks"]:
            entry.pop("bytes_per_key", None)
        built = self.page_of(document)
        self.assertNotIn("latency-0", built.texts("script", id="figures")[0])
        notes = " ".join(built.texts("p", **{"class": "note"}))
        self.assertIn("Latency is unavailable", notes)
        self.assertIn("Bytes per key are unavailable", notes)

    def test_a_workload_with_latency_only_is_no_error(self) -> None:
        document = fixture.document()
        document["latency"].append(fixture.latency("other", "a", 300))
        self.assertIn("Nothing was measured in other.", self.page_of(document).texts("li"))


class Unavailable(Case):
    def test_is_the_word_in_every_cell_of_the_row(self) -> None:
        rows = [row for row in self.page_of().rows(0) if row[0] == "absent_peer"]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertEqual(row[2:7], ["unavailable"] * 5)

    def test_zero_stays_zero(self) -> None:
        rows = self.page_of().rows(0)
        leaked = rows[0].index("Leaked bytes")
        self.assertEqual({row[0]: row[leaked] for row in rows[1:]}["edge_ext_lf"], "0")

    def test_has_no_bar_and_no_point(self) -> None:
        loaded = results.load([self.write(fixture.document())])
        view = figures.throughput(loaded)[0].views[0]
        place = view.layout["yaxis"]["ticktext"].index("absent_peer")
        bars = [trace for trace in view.traces if trace["type"] == "bar"]
        self.assertFalse([trace for trace in bars if place in trace["y"]])
        self.assertEqual(view.traces[-1]["text"][place].strip(), "unavailable")
        scaling = figures.scaling(loaded, figures.Palette(loaded))[0].views[0]
        self.assertNotIn("absent_peer", [trace["label"] for trace in scaling.traces])
        self.assertEqual(scaling.absent, ["absent_peer"])

    def test_null_and_missing_mean_the_same(self) -> None:
        document = fixture.document()
        for entry in document["benchmarks"]:
            if entry["map"] == "absent_peer":
                entry["real_time"] = None
                del entry["cpu_time"]
        rows = [row for row in self.page_of(document).rows(0) if row[0] == "absent_peer"]
        self.assertEqual(rows[0][2:5], ["unavailable"] * 3)


class Escaping(Case):
    def nasty_page(self) -> str:
        evil = fixture.NASTY + "</script><!--<img src=x onerror=alert(1)>\u2028\x00\ud800"
        document = copy.deepcopy(fixture.document())
        for entry in document["benchmarks"] + document["latency"]:
            entry["workload"] += evil
            entry["map"] += evil
            if "operation" in entry:
                entry["operation"] += evil
            else:
                entry |= {key: evil for key in results.SETTINGS}
        document["context"] = {key: evil for key in document["context"]} | {evil: evil}
        path = self.write(document, "<i>'name\".json")
        return page.render(results.load([path]), STUB)

    def test_no_string_of_the_file_becomes_markup(self) -> None:
        built = Page(self.nasty_page())
        self.assertEqual(built.problems, [])
        self.assertEqual(len(built.all("script")), 3)
        self.assertEqual(built.all("img") + built.all("b") + built.all("link"), [])
        self.assertFalse([attrs for _, attrs, _ in built.elements
                          if any(key.startswith("on") for key in attrs)])
        json.loads(built.texts("script", id="figures")[0])

    def test_the_strings_are_still_there(self) -> None:
        self.assertIn("&lt;b&gt;a&amp;b&lt;/b&gt;", self.nasty_page())

    def test_plots_get_no_markup_either(self) -> None:
        data = Page(self.nasty_page()).texts("script", id="figures")[0]
        for figure in json.loads(data).values():
            for view in figure["views"]:
                shown = view["layout"]["yaxis"].get("ticktext", []) + \
                    [name for trace in view["traces"] for name in
                     [trace.get("name", ""), *trace.get("hovertext", [])]]
                for label in shown:
                    self.assertNotRegex(label.replace("<br>", ""), "[<>]")


class Simulated(Case):
    def page(self, document: fixture.Json | None = None) -> Page:
        return self.page_of(document or fixture.calibrated_document())

    def refused(self, document: fixture.Json, *expected: str) -> None:
        with self.assertRaises(results.ResultsError) as caught:
            results.load([self.write(document)])
        for words in expected:
            self.assertIn(words, str(caught.exception))

    def test_everything_says_so(self) -> None:
        shown = self.page()
        self.assertEqual(shown.problems, [])
        self.assertTrue(shown.texts("title")[0].startswith("Simulated on e7_4850: "))
        self.assertIn("Simulated on e7_4850: ticket leads read-mostly", shown.texts("h1")[0])
        for text_ in (*shown.texts("figcaption"), *shown.texts("caption"),
                      *(plot["aria-label"] or "" for plot in shown.all("div", role="img"))):
            self.assertIn("simulated", text_.lower())

    def test_axes_say_so_too(self) -> None:
        loaded = results.load([self.write(fixture.simulated_document())])
        drawn = (simulated.throughput(loaded, figures.Palette(loaded)) + simulated.served(loaded)
                 + simulated.stalls(loaded))
        for figure in drawn:
            for view in figure.views:
                titles = [view.layout[axis].get("title", {}).get("text", "")
                          for axis in ("xaxis", "yaxis")]
                self.assertIn("simulated", " ".join(titles), figure.title)

    def test_nothing_is_measured(self) -> None:
        shown = self.page()
        self.assertEqual([part["id"] for part in shown.all("section")],
                         ["throughput", "served", "stalls", "calibration", "tables", "context",
                          "reading"])
        self.assertNotIn("latency", " ".join(shown.texts("h2")).lower())
        self.assertNotIn("calibration", [part["id"] for part in self.page(
            fixture.simulated_document()).all("section")])

    def test_stacks_hold_the_places_beyond_a_cores_own_caches(self) -> None:
        loaded = results.load([self.write(fixture.simulated_document())])
        busiest, single = simulated.served(loaded)[0].views
        self.assertEqual((busiest.label, single.label), ("40 threads", "1 thread"))
        self.assertEqual(busiest.layout["barmode"], "stack")
        self.assertEqual({trace["name"]: trace["x"] for trace in busiest.traces},
                         {"last-level cache": [3, 6, 6], "local transfer": [0.5, 1, 16],
                          "remote transfer": [1.25, 2, 29], "local DRAM": [1, 1, 1],
                          "remote DRAM": [1, 1, 1]})

    def test_large_stalls_are_scaled_with_their_unit(self) -> None:
        loaded = results.load([self.write(fixture.simulated_document())])
        view = simulated.stalls(loaded)[0].views[0]
        self.assertEqual(view.layout["xaxis"]["title"]["text"],
                         "simulated thousand stall cycles per operation")
        self.assertEqual(view.traces[0]["x"], [1.0, 20.0, 344.833])

    def test_the_table_holds_every_count(self) -> None:
        rows = self.page().rows(1)
        self.assertEqual(len(rows), 6)
        self.assertEqual(rows[1][:6], ["ticket", "40", "50.0", "59.8", "50.0", "3.00"])
        self.assertEqual(len(rows[0]), 3 + len(results.COUNTS))

    def test_calibration_shows_ratios_and_deviation(self) -> None:
        self.assertEqual(self.page().rows(0)[2],
                         ["locked_map", "read-mostly", "1", "1.25", "1.00", "-20 %"])

    def test_no_page_mixes_simulated_and_measured(self) -> None:
        paths = [self.write(fixture.document(), "a.json"),
                 self.write(fixture.simulated_document(), "b.json")]
        for order in (paths, paths[::-1]):
            with self.assertRaisesRegex(results.ResultsError, "cannot share a page"):
                results.load(order)

    def test_no_file_mixes_them(self) -> None:
        document = fixture.simulated_document()
        document["benchmarks"][1].pop("simulated")
        self.refused(document, "benchmarks[1].simulated", "never both")
        measured = fixture.document()
        measured["benchmarks"][0]["simulated"] = True
        self.refused(measured, "benchmarks[0].simulated", "never both")
        self.refused(fixture.document() | {"calibration": [{}]}, "calibration[0]", "simulated")

    def test_damaged_counts_are_named(self) -> None:
        for change, expected in (
                (lambda e: e.pop("counts"), "benchmarks[2].counts' must be an object"),
                (lambda e: e["counts"].pop("llc_hits"), "benchmarks[2].counts.llc_hits"),
                (lambda e: e["counts"].update(cycles=-1), "benchmarks[2].counts.cycles"),
                (lambda e: e["counts"].update(reads="many"), "benchmarks[2].counts.reads")):
            document = fixture.simulated_document()
            change(document["benchmarks"][2])
            with self.subTest(expected):
                self.refused(document, expected)
        document = fixture.calibrated_document()
        document["calibration"][1]["native_ratio"] = 0
        self.refused(document, "calibration[1].native_ratio", "positive")

    def test_no_string_becomes_markup(self) -> None:
        loaded = results.load([self.write(fixture.calibrated_document())])
        html = page.render(loaded, STUB)
        self.assertNotIn(fixture.NASTY, html)
        self.assertEqual(Page(html).problems, [])

    def test_two_machines_are_both_named(self) -> None:
        other = fixture.simulated_document()
        other["context"]["machine"]["name"] = "haswell"
        loaded = results.load([self.write(fixture.simulated_document(), "a.json"),
                               self.write(other, "b.json")])
        self.assertIn("Simulated on e7_4850 and haswell", simulated.headline(loaded))
        self.assertIn("ticket (a.json)", {m.label for m in loaded.measurements})


class Studies(Case):
    def pages(self, simulated_: bool = False) -> dict[str, Page]:
        loaded = results.load([self.write(fixture.study_document(simulated_))])
        return {one.name: Page(one.html) for one in study.pages(loaded, "index.html", STUB)}

    def test_a_page_for_each_figure_and_an_index_last(self) -> None:
        pages = self.pages()
        self.assertEqual(list(pages), ["figure-2.html", "figure-3.html", "index.html"])
        links = [link.get("href") for link in pages["index.html"].all("a")]
        self.assertLessEqual({"figure-2.html", "figure-3.html"}, set(links))
        for name, shown in pages.items():
            self.assertEqual(shown.problems, [], name)
            if name != "index.html":
                self.assertIn("index.html", [link.get("href") for link in shown.all("a")])

    def test_the_paper_stands_beside_what_was_found_with_a_badge(self) -> None:
        shown = self.pages()["figure-2.html"]
        rows = shown.rows()
        self.assertEqual(rows[0], ["Verdict", "Keys", "The paper", "Measured here"])
        self.assertEqual(rows[1], ["agrees", "1,000", "Smaller nodes gain 23 %.", "They gain 1.30 times."])
        self.assertEqual(rows[2][2], f"A {fixture.NASTY} loses.")
        self.assertEqual(shown.texts("span", **{"class": "badge differs"}), ["differs"])
        self.assertIn("Of 2 findings of the paper, measured here: 1 agree, 1 differ and 0 could not be measured "
                      "here.", shown.texts("li"))

    def test_what_is_missing_is_named(self) -> None:
        pages = self.pages()
        for name in ("figure-2.html", "index.html"):
            self.assertIn("Missing, not in this build: citrus.", pages[name].texts("p", **{"class": "note"}))

    def test_a_figure_without_measurements_has_findings_and_no_chart(self) -> None:
        shown = self.pages()["figure-3.html"]
        self.assertEqual(shown.all("figure"), [])
        self.assertEqual(shown.texts("span", **{"class": "badge undecided"}), ["not measurable here"])

    def test_published_and_compact_nodes_stand_in_pairs_with_their_sizes(self) -> None:
        loaded = results.load([self.write(fixture.study_document())])
        assert loaded.study is not None
        figure = loaded.study.figures[0]
        drawn = study.pairs(study.part_of(loaded, loaded.study, figure), figure)
        published, compact = drawn[0].views[0].traces
        self.assertEqual((published["text"], compact["text"]), (["64", "64"], ["32", "32"]))
        self.assertTrue(all(map(float.__lt__, published["x"], compact["x"])))

    def test_simulated_pages_say_so_everywhere(self) -> None:
        for name, shown in self.pages(True).items():
            self.assertIn("simulated", shown.texts("title")[0], name)
            self.assertIn("simulated on haswell", shown.texts("p", **{"class": "kicker"})[0], name)
            self.assertIn(simulated.TRUST, shown.texts("li"))
            for heading in shown.texts("h3"):
                self.assertIn("(simulated)", heading)
            self.assertNotIn("Measured here", shown.texts("th"), name)

    def test_damaged_studies_are_named_with_their_place(self) -> None:
        def damage(change: Any) -> str:
            document = fixture.study_document()
            change(document["study"])
            with self.assertRaises(results.ResultsError) as raised:
                results.load([self.write(document)])
            return str(raised.exception)

        figure = "study.figures[0]"
        self.assertIn("study.figures'", damage(lambda s: s.update(figures=7)))
        self.assertIn(f"{figure}.id", damage(lambda s: s["figures"][0].update(id="../index")))
        self.assertIn("an id each", damage(lambda s: s["figures"][1].update(id="figure-2")))
        self.assertIn(f"{figure}.findings[1].verdict",
                      damage(lambda s: s["figures"][0]["findings"][1].update(verdict="maybe")))
        self.assertIn(f"{figure}.node_bytes", damage(lambda s: s["figures"][0].update(node_bytes=[1])))
        self.assertIn(f"{figure}.panels", damage(lambda s: s["figures"][0].update(panels=[1])))

    def test_a_study_is_reported_alone(self) -> None:
        with self.assertRaisesRegex(results.ResultsError, "alone"):
            results.load([self.write(fixture.study_document(), "a.json"), self.write(fixture.document(), "b.json")])

    @unittest.skipUnless(has_plotly(), "python3-plotly is not installed")
    def test_the_command_writes_all_pages_or_refuses_a_name_that_clashes(self) -> None:
        source = self.write(fixture.study_document())
        done = subprocess.run([*COMMAND, source, "-o", self.folder / "o.html"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 figures", done.stdout)
        self.assertEqual({path.name for path in self.folder.glob("*.html")},
                         {"o.html", "figure-2.html", "figure-3.html"})
        clash = subprocess.run([*COMMAND, source, "-o", self.folder / "figure-2.html"], capture_output=True, text=True)
        self.assertEqual(clash.returncode, 2)
        self.assertIn("another name", clash.stderr)


class SelfContained(Case):
    def test_nothing_refers_to_a_network(self) -> None:
        built = self.page_of()
        for tag, attrs, words in built.elements:
            for key in ("src", "href", "srcset", "data", "action", "poster"):
                value = attrs.get(key) or ""
                self.assertTrue(value == "" or value.startswith("#"), f"<{tag} {key}={value}>")
            if tag == "style":
                self.assertNotRegex("".join(words), r"url\(|@import")
        self.assertEqual(built.all("link"), [])

    def test_the_policy_allows_exactly_the_scripts_of_the_page(self) -> None:
        built = self.page_of()
        policy = built.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
        self.assertIn("default-src 'none'", str(policy))
        allowed = re.findall(r"'sha256-([^']+)'", str(policy))
        scripts = ["".join(words) for tag, attrs, words in built.elements
                   if tag == "script" and "type" not in attrs]
        self.assertEqual(allowed, [page.digest(script) for script in scripts])


class Library(unittest.TestCase):
    TABLE = ("/* Copyright someone */\n(function(){var x;return r})()"
             + plotly_bundle.HEAD
             + "'use strict'; // kept\n  // dropped\n  module.exports = 'bar';\n"
             + "},{}],2:[function(_dereq_,module,exports){\nmodule.exports = 'unused';\n"
             + "},{}],3:[function(_dereq_,module,exports){\n/* dropped\n   too */\ncore();\n"
             + "},{\"./dep\":4}],4:[function(_dereq_,module,exports){\n"
             + "/* MIT License */\nvar s = '/* text */';\n"
             + "},{}],5:[function(_dereq_,module,exports){\nall();\n"
             + "},{\"./bar\":1,\"./core\":3,\"./other\":2}]},{},[5])(5)\n});\n")

    def test_keeps_what_is_reached_and_drops_the_rest(self) -> None:
        reduced = plotly_bundle.reduced(self.TABLE) or ""
        for kept in ("'bar'", "core();", "'/* text */'", "MIT License", "Copyright someone",
                     "'use strict'; // kept", "_dereq_('./core')", "},{},[5])(5)\n});"):
            self.assertIn(kept, reduced)
        for gone in ("unused", "all();", "dropped"):
            self.assertNotIn(gone, reduced)

    def test_another_form_is_left_whole(self) -> None:
        for other in ("", "!function(){minified()}();", self.TABLE.replace("],4:[", "],9:["),
                      self.TABLE.replace("./bar", "./baz"),
                      self.TABLE.replace('"./dep":4', '"./dep":77')):
            self.assertIsNone(plotly_bundle.reduced(other))

    def test_cannot_end_its_script_element(self) -> None:
        self.assertEqual(plotly_bundle.as_inline_script("'</script><!--'"),
                         "'<\\/script><\\!--'")

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_the_installed_one_fits_a_mail(self) -> None:
        source = plotly_bundle.load()
        self.assertLess(len(source), 5_000_000)
        self.assertIn("plotly.js v", source)
        self.assertNotIn("</script", source)


class Command(Case):
    def run_main(self, *arguments: str | os.PathLike[str]) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main([str(argument) for argument in arguments])
            except SystemExit as stop:
                code = int(stop.code or 0)
        return code, out.getvalue(), err.getvalue()

    def refused(self, document: Any, *expected: str) -> None:
        source, target = self.write(document), self.folder / "report.html"
        target.write_text("before", encoding="utf-8")
        self.complains([source, "-o", target], *expected)
        self.assertEqual(target.read_text(encoding="utf-8"), "before")

    def complains(self, arguments: list[Any], *expected: str) -> None:
        before = sorted(self.folder.rglob("*"))
        code, out, err = self.run_main(*arguments)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        for words in expected:
            self.assertIn(words, err)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def altered(self, change: Any) -> fixture.Json:
        document = fixture.document()
        change(document)
        return document

    def test_missing_file(self) -> None:
        self.complains([self.folder / "none.json"], "none.json: cannot be read (No such file",
                       "espalier bench")

    def test_a_folder_is_no_file(self) -> None:
        self.complains([self.folder], "cannot be read (Is a directory)")

    def test_not_json(self) -> None:
        self.refused("hello", "results.json: is not JSON (line 1, column 1")
        self.refused("", "is not JSON")
        self.refused("[" * 100000, "nested too deeply")
        self.refused("[]", "is JSON but no object")

    def test_not_text(self) -> None:
        path = self.folder / "results.json"
        path.write_bytes(b"\xff\xfe\x00{")
        self.complains([path], "is not UTF-8 text")

    def test_not_this_schema(self) -> None:
        self.refused({}, "'context' must be an object")
        self.refused({"context": {}}, "'benchmarks' must be a list of objects")
        self.refused({"context": {}, "benchmarks": []}, "at least one entry")
        self.refused({"context": {}, "benchmarks": [{"name": "BM_x", "run_type": "iteration"}]},
                     "'benchmarks[0].workload' must be a name", "espalier bench")

    def test_wrong_values_are_named_with_their_place(self) -> None:
        for key, value, expected in (
                ("threads", 0, "must be a positive whole number"),
                ("threads", True, "must be a positive whole number"),
                ("kind", "other", "must be 'espalier' or 'peer'"),
                ("time_unit", "h", "must be one of ns, us, ms, s"),
                ("real_time", 0, "must be a positive number"),
                ("real_time", -1, "must be a positive number"),
                ("real_time", "fast", "or \"unavailable\""),
                ("real_time", math.nan, "must be a positive number"),
                ("real_time", 10 ** 400, "must be a positive number"),
                ("cpu_time", math.inf, "must be a non-negative number"),
                ("run_type", "guess", "must be 'iteration' or 'aggregate'"),
                ("map", " ", "must be a name")):
            with self.subTest(key=key, value=value):
                self.refused(self.altered(
                    lambda d, k=key, v=value: d["benchmarks"][0].update({k: v})),
                    f"benchmarks[0].{key}'", expected)

    def test_contradictions_are_refused(self) -> None:
        self.refused(self.altered(lambda d: d["benchmarks"].append(d["benchmarks"][5])),
                     "must not be a second median")
        self.refused(self.altered(lambda d: d["benchmarks"][5].update(real_time=9e9)),
                     "between its min and max")

    def test_wrong_curves_are_refused(self) -> None:
        for curve in ([[1.5, 3]], [[0.5]], "steep", [[0.5, -1]], [["a", 1]]):
            self.refused(self.altered(lambda d, c=curve: d["latency"][0].update(curve=c)),
                         "'latency[0].curve' must be a list of")
        self.refused(self.altered(lambda d: d["latency"].append(d["latency"][0])),
                     "must occur once")

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_unwritable_output(self) -> None:
        source = self.write(fixture.document())
        folder = self.folder / "folder"
        folder.mkdir()
        self.complains([source, "-o", self.folder / "no" / "r.html"], "cannot be written (No such")
        self.complains([source, "-o", source / "r.html"], "cannot be written (Not a directory)")
        self.complains([source, "-o", folder], "is no regular file")
        self.complains([source, "-o", "/dev/null"], "is no regular file")
        self.complains([source, "-o", source], "is one of the results")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_missing_library_names_the_package(self) -> None:
        source = self.write(fixture.document())
        known, plotly_bundle.DEBIAN = plotly_bundle.DEBIAN, pathlib.Path("/nowhere/plotly.js")
        find_spec = plotly_bundle.importlib.util.find_spec
        plotly_bundle.importlib.util.find_spec = lambda _: None
        try:
            self.complains([source, "-o", self.folder / "r.html"], "apt-get install python3-plotly")
        finally:
            plotly_bundle.DEBIAN, plotly_bundle.importlib.util.find_spec = known, find_spec

    def test_usage_errors(self) -> None:
        self.assertEqual(self.run_main()[0], 2)
        self.assertEqual(self.run_main("--nonsense", "x")[0], 2)

    def test_help_teaches(self) -> None:
        code, out, _ = self.run_main("--help")
        self.assertEqual(code, 0)
        for words in ("espalier bench", "examples:", "-o report.html", "exit status",
                      "Several files", "default: report.html"):
            self.assertIn(words, out)

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_runs_as_a_folder_and_writes_the_whole_page(self) -> None:
        source, target = self.write(fixture.document()), self.folder / "report.html"
        target.write_text("before", encoding="utf-8")
        done = subprocess.run([*COMMAND, str(source), "-o", str(target)], capture_output=True,
                              text=True, check=False, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("2 workloads, 5 maps", done.stdout)
        html = target.read_text(encoding="utf-8")
        self.assertTrue(html.startswith("<!DOCTYPE html>") and html.endswith("</html>\n"))
        self.assertIn("plotly.js v", html)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["report.html", "results.json"])

    def test_runs_as_a_folder_and_fails_in_one_line(self) -> None:
        done = subprocess.run([*COMMAND, "none.json"], capture_output=True, text=True, check=False,
                              cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))


if __name__ == "__main__":
    unittest.main()
