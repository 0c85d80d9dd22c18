"""The pages of a study."""

from __future__ import annotations

import subprocess
import sys
import unittest
from typing import Any

sys.dont_write_bytecode = True

import fixture  # noqa: E402
from case import Case, Page, STUB, has_plotly  # noqa: E402
from espalier_report import results, simulated, study  # noqa: E402

COMMAND = [sys.executable, "-B", str(fixture.ROOT / "report" / "espalier_report")]


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
        self.assertIn(f"{figure}.findings[0].keys", damage(lambda s: s["figures"][0]["findings"][0].pop("keys")))
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


if __name__ == "__main__":
    unittest.main()
