"""The pages of a study, and how simulated results are shown."""

from __future__ import annotations

import re
import subprocess
import unittest

import fixture
from case import COMMAND, Case, Page, STUB, has_plotly
from espalier_report import figures, page, plotly_bundle, results, simulated, study
from fixture import GONE


class Simulated(Case):
    """Simulated results: shown as such, and never beside measured ones."""

    def page(self, document: fixture.Json | None = None) -> Page:
        return self.page_of(document or fixture.calibrated_document())

    def test_everything_says_so(self) -> None:
        shown = self.page()
        self.assertEqual(shown.problems, [])
        self.assertTrue(shown.texts("title")[0].startswith("Simulated on e7_4850: "))
        self.assertIn("Simulated on e7_4850: ticket leads read-mostly", shown.texts("h1")[0])
        for text_ in (*shown.texts("figcaption"), *shown.texts("caption"),
                      *(plot["aria-label"] or "" for plot in shown.all("div", role="img"))):
            self.assertIn("simulated", text_.lower())
        loaded = results.load([self.write(fixture.calibrated_document())])
        self.assertNotIn(fixture.NASTY, page.render(loaded, STUB))

    def test_its_sections_and_tables_are_of_what_was_simulated(self) -> None:
        shown = self.page()
        self.assertEqual([part["id"] for part in shown.all("section")],
                         ["throughput", "served", "stalls", "calibration", "tables", "context",
                          "reading"])
        self.assertNotIn("latency", " ".join(shown.texts("h2")).lower())
        self.assertNotIn("calibration", [part["id"] for part in self.page(fixture.simulated_document()).all("section")])
        self.assertEqual(shown.texts("p", **{"class": "key"}), ["Espalier baseline"] * 2)
        rows = shown.captioned("read-mostly: simulated counts")
        self.assertEqual(len(rows), 6)
        self.assertEqual(rows[1][:6], ["ticket", "40", "50.0", "59.8", "50.0", "3.00"])
        self.assertIn("locked_map baseline", [row[0] for row in rows])
        self.assertEqual(len(rows[0]), 3 + len(results.COUNTS))
        self.assertEqual(shown.captioned("measured and simulated")[2],
                         ["locked_map", "read-mostly", "1", "1.25", "1.00", "-20 %"])

    def test_figures_hold_the_places_beyond_a_cores_own_caches_and_stalls_with_their_unit(self) -> None:
        loaded = results.load([self.write(fixture.simulated_document())])
        busiest, single = simulated.served(loaded)[0].views
        self.assertEqual((busiest.label, single.label), ("40 threads", "1 thread"))
        self.assertEqual(busiest.layout["barmode"], "stack")
        self.assertEqual({trace["name"]: trace["x"] for trace in busiest.traces},
                         {"last-level cache": [3, 6, 6], "local transfer": [0.5, 1, 16],
                          "remote transfer": [1.25, 2, 29], "local DRAM": [1, 1, 1],
                          "remote DRAM": [1, 1, 1]})
        view = simulated.stalls(loaded)[0].views[0]
        self.assertEqual(view.layout["xaxis"]["title"]["text"], "simulated thousand stall cycles per operation")
        self.assertEqual([trace["x"] for trace in view.traces if trace["type"] == "bar"], [[1.0, 20.0], [344.833]])
        drawn = (simulated.throughput(loaded, figures.Palette(loaded)) + simulated.served(loaded)
                 + simulated.stalls(loaded))
        for figure in drawn:
            for view in figure.views:
                titles = [view.layout[axis].get("title", {}).get("text", "") for axis in ("xaxis", "yaxis")]
                self.assertIn("simulated", " ".join(titles), figure.title)

    def test_no_page_or_file_mixes_simulated_and_measured(self) -> None:
        paths = [self.write(fixture.document(), "a.json"), self.write(fixture.simulated_document(), "b.json")]
        for order in (paths, paths[::-1]):
            with self.assertRaisesRegex(results.ResultsError, "cannot share a page"):
                results.load(order)
        for made, place, value in ((fixture.simulated_document, "benchmarks[1].simulated", GONE),
                                   (fixture.document, "benchmarks[0].simulated", True)):
            self.refused(fixture.put(made(), {place: value}), place, "never both")
        self.refused(fixture.document() | {"calibration": [{}]}, "calibration[0]", "simulated")

    def test_damaged_counts_are_named(self) -> None:
        self.refused_at(
            fixture.calibrated_document, ("benchmarks[2].counts", GONE, "' must be an object"),
            ("benchmarks[2].counts.llc_hits", GONE, "'"), ("benchmarks[2].counts.cycles", -1, "'"),
            ("benchmarks[2].counts.reads", "many", "'"), ("calibration[1].native_ratio", 0, "' must be a positive"))

    def test_two_machines_are_both_named(self) -> None:
        other = fixture.put(fixture.simulated_document(), {"context.machine.name": "haswell"})
        loaded = results.load([self.write(fixture.simulated_document(), "a.json"), self.write(other, "b.json")])
        self.assertIn("Simulated on e7_4850 and haswell", simulated.headline(loaded))
        self.assertIn("ticket (a.json)", {m.label for m in loaded.measurements})


class Studies(Case):
    """The pages of a study."""

    def pages(self, simulated_: bool = False, document: fixture.Json | None = None) -> dict[str, Page]:
        loaded = results.load([self.write(document or fixture.study_document(simulated_))])
        self.files = study.files(loaded, "index.html", STUB)
        return {one.name: Page(one.content) for one in self.files if one.name.endswith(".html")}

    def test_a_page_for_each_figure_and_an_index_last(self) -> None:
        pages = self.pages()
        self.assertEqual(list(pages), ["figure-2.html", "figure-3.html", "index.html"])
        links = [link.get("href") for link in pages["index.html"].all("a")]
        self.assertLessEqual({"figure-2.html", "figure-3.html"}, set(links))
        for name, shown in pages.items():
            self.assertEqual(shown.problems, [], name)
            if name != "index.html":
                self.assertIn("index.html", [link.get("href") for link in shown.all("a")])
        for name in ("figure-2.html", "index.html"):
            self.assertIn("Missing, not in this build: citrus.", pages[name].texts("p", **{"class": "note"}))
        shown = pages["figure-3.html"]  # of which nothing was measured
        self.assertEqual(shown.all("figure"), [])
        self.assertEqual(shown.texts("span", **{"class": "badge undecided"}), ["not measurable here"])

    def test_the_paper_stands_beside_what_was_found_with_a_badge(self) -> None:
        shown = self.pages()["figure-2.html"]
        rows = shown.rows()
        self.assertEqual(rows[0], ["Verdict", "Keys", "The paper", "Measured here"])
        self.assertEqual(rows[1], ["agrees", "1,000", "Smaller nodes gain 23 %.", "They gain 1.30 times."])
        self.assertEqual(rows[2][2], f"A {fixture.NASTY} loses.")
        self.assertEqual(shown.texts("span", **{"class": "badge differs"}), ["differs"])
        self.assertIn("Of 2 findings of the paper, measured here: 1 agree, 1 differ and 0 could not be measured "
                      "here.", shown.texts("li"))

    def test_the_library_is_one_file_that_pages_with_charts_load(self) -> None:
        pages = self.pages()
        self.assertEqual((self.files[0].name, self.files[0].content), ("plotly-1.23.4.js", STUB))
        self.assertEqual([one.name for one in self.files if STUB in one.content], ["plotly-1.23.4.js"])
        for name, sources in (("figure-2.html", ["plotly-1.23.4.js"]), ("figure-3.html", []), ("index.html", [])):
            scripts = [attrs for attrs in pages[name].all("script") if attrs.get("type") != "application/json"]
            self.assertEqual([attrs["src"] for attrs in scripts if "src" in attrs], sources, name)
            policy = str(pages[name].all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"])
            self.assertIn("default-src 'none'", policy)
            inline = re.findall(r"'sha256-[^']+'", policy)
            self.assertEqual(len(inline), len(scripts) - len(sources), name)
            allowed = [*(["'self'"] if sources else []), *inline] or ["'none'"]
            self.assertIn(f"script-src {' '.join(allowed)};", policy)

    def test_without_a_chart_there_is_no_library(self) -> None:
        document = fixture.put(fixture.study_document(), {"study.figures[0]": GONE})
        found = study.files(results.load([self.write(document)]), "index.html", STUB)
        self.assertEqual([one.name for one in found], ["figure-3.html", "index.html"])

    def test_a_key_tells_baselines_from_contenders(self) -> None:
        for simulated_ in (False, True):
            document = fixture.put(fixture.study_document(simulated_), {
                "benchmarks[*].map": lambda map_: map_.replace("ext_lf/published", "global_lock_bst")})
            keys = self.pages(document=document)["figure-2.html"].texts("p", **{"class": "key"})
            self.assertEqual(keys, ["Espalier baseline"] * 2)

    def test_published_and_compact_nodes_stand_in_pairs_with_their_sizes(self) -> None:
        loaded = results.load([self.write(fixture.study_document())])
        assert loaded.study is not None
        figure = loaded.study.figures[0]
        drawn = study.pairs(study.part_of(loaded, loaded.study, figure), figure)
        published, compact = drawn[0].views[0].traces
        self.assertEqual((published["text"], compact["text"]), (["64", "64"], ["32", "32"]))
        self.assertTrue(all(map(float.__lt__, published["x"], compact["x"])))

    def test_what_several_findings_lack_is_said_once_with_their_number_and_others_stay_lines(self) -> None:
        pages = self.pages(document=fixture.undecided_document())
        for name, elsewhere in (("index.html", 23), ("figure-2.html", 12)):
            said = pages[name].texts("li" if name == "index.html" else "summary")
            self.assertEqual([words for words in said if "findings could not be measured here: " in words], [
                f"{elsewhere} findings could not be measured here: the paper has them at 1,000,000 keys.",
                "2 findings could not be measured here: this processor has no transactions.",
                "2 findings could not be measured here: the runs spread too much to tell.",
                f"2 findings could not be measured here: there are no measurements of {fixture.NASTY}."], name)
        self.assertNotIn("The paper has it at 1,000,000 keys", "".join(one.content for one in self.files))
        self.assertEqual(sum(one.content.count("this processor has no transactions") for one in self.files), 2)
        for name in ("index.html", "figure-2.html"):
            rows = pages[name].captioned("What the paper found, and what was found here")
            self.assertEqual([row[0] for row in rows[1:]], ["agrees", "differs", *["not measurable here"] * 2])
            self.assertEqual([row[3] for row in rows[3:]], [
                "Not measured: log_int.", "A mean. The paper has it on abu_dhabi, which this machine is not."])
        notes = pages["index.html"].texts("p", **{"class": "note"})
        self.assertIn("18 more findings could not be measured here; the causes stand at the top.", notes)
        page = self.pages(document=fixture.undecided_document(True))["figure-2.html"]
        self.assertEqual(page.captioned("undecided for this cause")[0],
                         ["The paper", "Keys", "Simulated on", "Simulated here"])
        page = pages["figure-2.html"]
        first = page.captioned("What the paper found, undecided for this cause")
        self.assertEqual(first[:2], [["The paper", "Keys", "Measured here"],
                                     ["Claim 0 on ticket do.", "1,000", "ticket does 0.50 Mop/s."]])
        self.assertEqual(len(first), 1 + 12)
        tables = [page.rows(index) for index, caption in enumerate(page.texts("caption")) if "undecided" in caption]
        self.assertEqual(tables[1][0], ["The paper", "Keys"])
        self.assertTrue(tables[2][1][2].endswith("anything from 0.90 to 1.20, which does not tell."))
        self.assertEqual(page.problems, [])

    def test_the_machine_of_a_paper_may_be_the_cause(self) -> None:
        document = fixture.put(fixture.study_document(), {"study.figures[*].findings": [
            {"paper": "A", "keys": 1000, "verdict": "not measurable here",
             "ours": "A mean. The paper has it on abu_dhabi, which this machine is not."}]})
        self.assertIn("2 findings could not be measured here: the paper has them on abu_dhabi, which this machine is "
                      "not.", self.pages(document=document)["index.html"].texts("li"))

    def test_simulated_pages_say_so_everywhere(self) -> None:
        for name, shown in self.pages(True).items():
            self.assertIn("simulated", shown.texts("title")[0], name)
            self.assertIn("simulated on haswell", shown.texts("p", **{"class": "kicker"})[0], name)
            self.assertIn(simulated.TRUST, shown.texts("li"))
            for heading in shown.texts("h3"):
                self.assertIn("(simulated)", heading)
            self.assertNotIn("Measured here", shown.texts("th"), name)

    def test_damaged_studies_are_named_with_their_place(self) -> None:
        figure = "study.figures[0]"
        self.refused_at(
            fixture.study_document, ("study.figures", 7, "'"), (f"{figure}.id", "../index", "'"),
            (f"{figure}.findings[1].verdict", "maybe", "'"), (f"{figure}.findings[0].keys", GONE, "'"),
            (f"{figure}.node_bytes", [1], "'"), (f"{figure}.panels", [1], ""))
        self.refused(fixture.put(fixture.study_document(), {"study.figures[1].id": "figure-2"}), "an id each")
        self.refused(fixture.put(fixture.study_document(), {"study.figures": []}), "interrupted before its first one")
        with self.assertRaisesRegex(results.ResultsError, "alone"):
            results.load([self.write(fixture.study_document(), "a.json"), self.write(fixture.document(), "b.json")])

    @unittest.skipUnless(has_plotly(), "python3-plotly is not installed")
    def test_the_command_writes_all_pages_or_refuses_a_name_that_clashes(self) -> None:
        source = self.write(fixture.study_document())
        done = subprocess.run([*COMMAND, source, "-o", self.folder / "o.html"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 figures", done.stdout)
        library = plotly_bundle.file_name(plotly_bundle.load())
        self.assertRegex(library, r"^plotly-\d+\.\d+\.\d+\.js$")
        self.assertEqual({path.name for path in self.folder.iterdir()},
                         {"results.json", "o.html", "figure-2.html", "figure-3.html", library})
        self.assertLess(sum(path.stat().st_size for path in self.folder.glob("*.html")), 300_000)
        for taken in ("figure-2.html", library):
            clash = subprocess.run([*COMMAND, source, "-o", self.folder / taken], capture_output=True, text=True)
            self.assertEqual(clash.returncode, 2)
            self.assertIn("another name", clash.stderr)


if __name__ == "__main__":
    unittest.main()
