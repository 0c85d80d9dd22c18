"""Simulated results: shown as such, and never beside measured ones."""

from __future__ import annotations

import sys
import unittest

sys.dont_write_bytecode = True

import fixture  # noqa: E402
from case import Case, Page, STUB  # noqa: E402
from espalier_report import figures, page, results, simulated  # noqa: E402


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

    def test_a_key_tells_the_fills_of_its_bars(self) -> None:
        self.assertEqual(self.page().texts("p", **{"class": "key"}), ["Espalier baseline"] * 2)

    def test_large_stalls_are_scaled_with_their_unit(self) -> None:
        loaded = results.load([self.write(fixture.simulated_document())])
        view = simulated.stalls(loaded)[0].views[0]
        self.assertEqual(view.layout["xaxis"]["title"]["text"],
                         "simulated thousand stall cycles per operation")
        self.assertEqual([trace["x"] for trace in view.traces if trace["type"] == "bar"], [[1.0, 20.0], [344.833]])

    def test_the_table_holds_every_count(self) -> None:
        rows = self.page().captioned("read-mostly: simulated counts")
        self.assertEqual(len(rows), 6)
        self.assertEqual(rows[1][:6], ["ticket", "40", "50.0", "59.8", "50.0", "3.00"])
        self.assertIn("locked_map baseline", [row[0] for row in rows])
        self.assertEqual(len(rows[0]), 3 + len(results.COUNTS))

    def test_calibration_shows_ratios_and_deviation(self) -> None:
        self.assertEqual(self.page().captioned("measured and simulated")[2],
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


if __name__ == "__main__":
    unittest.main()
