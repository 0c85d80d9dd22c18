"""The page without a browser: its figures, its structure, what it says where something is missing."""

from __future__ import annotations

import copy
import json
import re
import unittest

import fixture
from case import Case, Page, STUB
from espalier_report import figures, page, results, text
from espalier_report.results import Role


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
        self.assertAlmostEqual(ours["x"][0] - ours["error_x"]["arrayminus"][0], 1e3 / (220 * 1.02))
        numbers = view.traces[-1]
        self.assertEqual(list(zip(numbers["x"], numbers["text"], numbers["textposition"]))[::4], [
            (0, "4.55" + figures.BEFORE_BAR, "middle left"), (0, " unavailable", "middle right")])
        ticks = figures.memory(loaded)[0].views[0].layout["yaxis"]["ticktext"]
        self.assertEqual((ticks[0], ticks[-2:]), ("ticket", ["absent_peer", "locked_std_map"]))

    def test_scaling_needs_several_thread_counts_and_starts_with_the_leaders(self) -> None:
        loaded = self.load(fixture.family("w", "a", fixture.around(400)))
        self.assertEqual(figures.scaling(loaded, figures.Palette(loaded)), [])
        loaded = self.load(*(self.medians("w", threads, **{f"map{index:02}": 400 + index for index in range(25)})
                             for threads in (1, 2)))
        traces = figures.scaling(loaded, figures.Palette(loaded))[0].views[0].traces
        self.assertEqual([trace["label"] for trace in traces if trace["visible"]],
                         [f"map{index:02}" for index in range(figures.SHOWN_AT_FIRST)])

    def test_from_four_curves_on_each_has_a_small_chart_at_first(self) -> None:
        for maps, panels in ((3, False), (4, True)):
            loaded = self.load(self.medians(**{f"map{index}": 400 for index in range(maps)}),
                               latency=[fixture.latency("w", f"map{index}", 300) for index in range(maps)])
            figure = figures.latency(loaded, figures.Palette(loaded))[0]
            self.assertEqual((figure.panels, figure.json()["panels"]), (panels, panels))
            ways = [one["data-panels"] for one in Page(str(page.chart(figure))).all("button") if "data-panels" in one]
            self.assertEqual(ways, ["true", "false"] if panels else [])
            # Both ways of drawing share one set of points.
            self.assertEqual(len(figure.views[0].traces), maps)

    def test_a_curve_says_its_percentiles_as_far_as_they_are_known(self) -> None:
        entry = {**fixture.latency("w", "a", 300), "p999": fixture.UNAVAILABLE}
        loaded = self.load(fixture.family("w", "a", fixture.around(400)), latency=[entry])
        trace = figures.latency(loaded, figures.Palette(loaded))[0].views[0].traces[0]
        self.assertEqual(trace["said"].replace(text.THIN, " "), "50 %: 314 ns")

    def test_no_two_curves_have_the_same_colour_and_dash(self) -> None:
        for count in (10, 25, 83):
            loaded = self.load(self.medians(**{f"map{index:02}": 400 + index for index in range(count)}))
            palette = figures.Palette(loaded)
            styles = [palette.line(m.label) for m in loaded.measurements]
            self.assertEqual(len({(style["color"], style["dash"]) for style in styles}), count)
            first = styles[:figures.COLOURS]
            self.assertEqual(len({style["color"] for style in first}), figures.COLOURS)
            for one, next_ in zip(first, first[1:]):
                self.assertNotEqual(one["dash"], next_["dash"])


class Roles(Case):
    """Contenders, baselines and peers are told apart wherever maps are compared."""

    def setUp(self) -> None:
        super().setUp()
        self.loaded = results.load([self.write(fixture.many_document())])

    def test_names_tell_a_baseline_and_results_a_peer(self) -> None:
        for map_, kind, role in (
                ("ticket", "espalier", Role.OURS), ("locked_map", "espalier", Role.BASELINE),
                ("locked_map/shared_heap", "espalier", Role.BASELINE), ("global_lock_bst", "espalier", Role.BASELINE),
                ("hand_over_hand_bst/line", "espalier", Role.BASELINE), ("locked_tree", "espalier", Role.BASELINE),
                ("unlocked_map", "espalier", Role.OURS), ("ticket/locked_", "espalier", Role.OURS),
                ("cds_bronson", "peer", Role.PEER), ("locked_map", "peer", Role.PEER)):
            self.assertEqual(results.role_of(map_, kind), role, map_)

    def test_bars_and_curves_tell_their_role(self) -> None:
        bars = {trace["name"]: trace for trace in figures.throughput(self.loaded)[0].views[0].traces
                if trace["type"] == "bar"}
        self.assertEqual(list(bars), ["Espalier", "baseline", "peer"])
        self.assertEqual(len({trace["marker"]["color"] for trace in bars.values()}), 3)
        fills = [trace["marker"].get("pattern", {}).get("shape", "") for trace in bars.values()]
        self.assertEqual(len(set(fills)), 3, fills)
        self.assertEqual({len(bars[name]["x"]) for name in ("baseline", "peer")}, {3})
        self.assertIn("locked_map (baseline)<br>", bars["baseline"]["hovertext"][0])
        traces = {trace["label"]: trace for trace in figures.scaling(
            self.loaded, figures.Palette(self.loaded))[0].views[0].traces}
        for label, mark in (("ticket", ""), ("locked_map", " (baseline)"), ("cds_bronson", " (peer)")):
            self.assertEqual((traces[label]["name"], traces[label]["mark"]), (label + mark, mark))
        self.assertEqual(len({traces[label]["marker"]["symbol"] for label in (
            "ticket", "locked_map", "cds_bronson")}), 3)

    def test_the_key_the_tables_and_the_reading_name_it(self) -> None:
        built = self.page_of(fixture.many_document())
        self.assertEqual(built.texts("p", **{"class": "key"})[0], "Espalier baseline peer")
        for caption in ("lookups: medians", "lookups: latency percentiles"):
            names = {row[0] for row in built.captioned(caption)}
            self.assertLessEqual({"ticket", "hand_over_hand_bst baseline", "cds_bronson peer"}, names)
        self.assertTrue([item for item in built.texts("li") if item.startswith("Baselines lock in every operation")])
        alone = self.page_of({"context": fixture.context(), "benchmarks": fixture.family("w", "a", [1, 2, 3])})
        self.assertNotIn("Baselines", " ".join(alone.texts("li")))
        self.assertEqual(alone.texts("p", **{"class": "key"}), [])


class Structure(Case):
    def test_sections_come_in_order(self) -> None:
        self.assertEqual(self.page_of().texts("h2"), [
            "Throughput", "Latency", "Memory per key", "Scaling over threads", "All numbers",
            "Context", "How to read this"])

    def test_the_page_is_well_formed_and_accessible(self) -> None:
        built = self.page_of()
        self.assertEqual(built.problems, [])
        self.assertEqual(built.all("html"), [{"lang": "en"}])
        self.assertEqual(len(built.all("h1")), 1)
        self.assertEqual(len(built.all("main")), 1)
        self.assertTrue(built.all("meta", name="viewport"))
        self.assertTrue(built.all("meta", charset="utf-8"))
        self.assertLessEqual({str(attrs["href"])[1:] for attrs in built.all("a")}, built.ids())
        levels = [int(tag[1]) for tag, _, _ in built.elements if re.fullmatch(r"h[1-6]", tag)]
        self.assertEqual(levels[0], 1)
        self.assertTrue(all(after <= before + 1 for before, after in zip(levels, levels[1:])))
        self.assertEqual(len(built.all("table")), len(built.all("caption")))
        self.assertTrue(all(attrs.get("scope") in ("row", "col") for attrs in built.all("th")))
        boxes = [box for box in built.all("div") if "scroll" in str(box.get("class")).split()]
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

    def test_drawn_numbers_have_six_digits_and_words_their_letters(self) -> None:
        built = self.page_of(fixture.many_document())
        data = built.texts("script", id="figures")[0]
        numbers = re.findall(r"[\[,:](-?\d+\.\d+(?:e[-+]?\d+)?)(?=[,\]}])", data)
        self.assertGreater(len(numbers), 1000)
        self.assertEqual([one for one in numbers if float(f"{float(one):.6g}") != float(one)], [])
        self.assertIn("µs", data)

    def test_the_table_holds_every_number(self) -> None:
        rows = self.page_of().captioned("read-mostly: medians")
        head = rows[0]
        self.assertEqual(head[:7], ["Map", "Threads", "Throughput, M op/s", "Wall ns/op",
                                    "CPU ns/op", "Bytes/key", "Leaked bytes"])
        self.assertEqual(rows[1][:7], ["edge_ext_lf", "4", "4.55 4.46 to 4.64",
                                       "220 216 to 224", "858 841 to 875", "64.0", "0"])
        self.assertEqual(len(rows), 1 + 10)

    def test_maps_that_count_transactions_have_a_column_for_each_region(self) -> None:
        plain = self.page_of()
        self.assertNotIn("Transactions", " ".join(plain.captioned("read-mostly: medians")[0] + plain.texts("li")))
        counts = dict.fromkeys(results.TRANSACTIONS, 0.0)
        regions = {"upper": counts | {"commits": 1.0},
                   "lower": counts | {"commits": 0.5, "conflict": 0.25, "lock_held": 0.125, "skipped": 0.5}}
        document = fixture.document()
        for entry in document["benchmarks"]:
            entry["transactions"] = regions if entry["map"] == "ticket" else fixture.UNAVAILABLE
        built = self.page_of(document)
        head, *rows = built.captioned("read-mostly: medians")
        at = head.index("Transactions/op, upper")
        self.assertEqual(head[at + 1], "Transactions/op, lower")
        self.assertEqual({row[0]: row[at:at + 2] for row in rows if row[0] in ("ticket", "edge_ext_lf")}, {
            "ticket": ["1.00 0 aborts, 0 under the lock",
                       "0.500 0.375 aborts (conflict 0.250, lock held 0.125), 0.500 under the lock"],
            "edge_ext_lf": ["unavailable", "unavailable"]})
        self.assertIn("Transactions: the sections", " ".join(built.texts("li")))

    def test_context_is_shown_in_words(self) -> None:
        built = self.page_of()
        rows = dict((row[0], row[1]) for row in built.rows(len(built.all("table")) - 1))
        self.assertEqual(rows["Commit"], "unavailable")
        self.assertEqual(rows["Context switches"], "voluntary 12, involuntary 3")
        self.assertEqual(rows["Caches"].replace(text.THIN, " "), "L1 data 48 KiB; L3 unified 33 MiB, shared by 8")
        self.assertEqual(rows["Frequency scaling"], "off")

    def test_cautions_are_given_where_due(self) -> None:
        self.assertEqual(self.page_of().all("ul", **{"class": "cautions"}), [])
        document = fixture.put(fixture.document(), {
            "context.library_build_type": "debug", "context.num_cpus": 2, "context.cpu_scaling_enabled": True})
        words = " ".join(self.page_of(document).texts("ul", **{"class": "cautions"}))
        for expected in ("a debug build", "4 threads ran on 2 CPUs", "frequency scaling was on"):
            self.assertIn(expected, words)

    def test_no_latency_no_memory_or_latency_alone_are_said(self) -> None:
        document = fixture.document()
        del document["latency"]
        for entry in document["benchmarks"]:
            entry.pop("bytes_per_key", None)
        built = self.page_of(document)
        self.assertNotIn("latency-0", built.texts("script", id="figures")[0])
        notes = " ".join(built.texts("p", **{"class": "note"}))
        self.assertIn("Latency is unavailable", notes)
        self.assertIn("Bytes per key are unavailable", notes)
        document = fixture.document()
        document["latency"].append(fixture.latency("other", "a", 300))
        self.assertIn("Nothing was measured in other.", self.page_of(document).texts("li"))


class Unavailable(Case):
    def test_is_the_word_in_every_cell_of_the_row_and_zero_stays_zero(self) -> None:
        rows = self.page_of().captioned("read-mostly: medians")
        absent = [row for row in rows if row[0] == "absent_peer peer"]
        self.assertEqual(len(absent), 2)
        for row in absent:
            self.assertEqual(row[2:7], ["unavailable"] * 5)
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
        rows = [row for row in self.page_of(document).captioned("read-mostly: medians") if row[0] == "absent_peer peer"]
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

    def test_no_string_of_the_file_becomes_markup_on_the_page_or_in_plots(self) -> None:
        html = self.nasty_page()
        built = Page(html)
        self.assertEqual(built.problems, [])
        self.assertEqual(len(built.all("script")), 3)
        self.assertEqual(built.all("img") + built.all("b") + built.all("link"), [])
        self.assertFalse([attrs for _, attrs, _ in built.elements if any(key.startswith("on") for key in attrs)])
        self.assertIn("&lt;b&gt;a&amp;b&lt;/b&gt;", html)
        for figure in json.loads(built.texts("script", id="figures")[0]).values():
            for view in figure["views"]:
                shown = view["layout"]["yaxis"].get("ticktext", []) + \
                    [name for trace in view["traces"] for name in
                     [trace.get("name", ""), *trace.get("hovertext", [])]]
                for label in shown:
                    self.assertNotRegex(label.replace("<br>", ""), "[<>]")


class SelfContained(Case):
    def test_nothing_refers_to_a_network_and_the_policy_allows_exactly_the_scripts_of_the_page(self) -> None:
        built = self.page_of()
        for tag, attrs, words in built.elements:
            for key in ("src", "href", "srcset", "data", "action", "poster"):
                value = attrs.get(key) or ""
                self.assertTrue(value == "" or value.startswith("#"), f"<{tag} {key}={value}>")
            if tag == "style":
                self.assertNotRegex("".join(words), r"url\(|@import")
        self.assertEqual(built.all("link"), [])
        policy = built.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
        self.assertIn("default-src 'none'", str(policy))
        allowed = re.findall(r"'sha256-([^']+)'", str(policy))
        scripts = ["".join(words) for tag, attrs, words in built.elements if tag == "script" and "type" not in attrs]
        self.assertEqual(allowed, [page.digest(script) for script in scripts])


if __name__ == "__main__":
    unittest.main()
