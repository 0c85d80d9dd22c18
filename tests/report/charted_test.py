"""The pages of a study whose figures have charts over the sizes of nodes."""

from __future__ import annotations

import re
import unittest
from typing import Any

import fixture
from case import Case, Page, STUB
from espalier_report import charted, results, simulated, study
from fixture import CHARTED_MALLOCS, GONE, NASTY, Json

NODES, LOADS = "study.figures[0].charts[0]", "study.figures[0].charts[1]"


class ChartedCase(Case):
    document = staticmethod(fixture.charted_document)

    def loaded(self, changes: Json = {}, simulated_: bool = False) -> results.Results:
        document = self.document(True) if simulated_ else self.document()
        return results.load([self.write(fixture.put(document, changes))])

    def pages(self, changes: Json = {}, simulated_: bool = False) -> dict[str, Page]:
        self.html = {one.name: one.content for one in
                     study.files(self.loaded(changes, simulated_), "index.html", STUB) if one.name.endswith(".html")}
        return {name: Page(html) for name, html in self.html.items()}

    def drawn(self, changes: Json = {}, figure: int = 0) -> dict[str, Any]:
        """What a figure's page draws, by id."""
        loaded = self.loaded(changes)
        shown = loaded.study.figures[figure]
        _, everything = charted.parts(loaded.study, shown, [p for p in loaded.placed if p.figure == shown.id])
        return {one.id: one for one in everything}


class Pages(ChartedCase):
    def test_a_page_for_each_figure_and_an_index_last(self) -> None:
        pages = self.pages()
        self.assertEqual(list(pages), ["ring-16.html", "fresh.html", "index.html"])
        self.assertLess(len(self.html["index.html"]), 100_000, "it has no line to draw")
        for name, shown in pages.items():
            self.assertEqual(shown.problems, [], name)
            shown.ids()
        self.assertEqual(pages["ring-16.html"].texts("h1"), ["A ring of 16 nodes"])
        self.assertEqual(pages["ring-16.html"].texts("h2"), [
            "The paper and here", "Where the nodes lie", "By the bytes of a node", "All numbers", "Context",
            "How to read this"])
        self.assertEqual(pages["index.html"].texts("h2")[:2], ["A ring of 16 nodes", "Fresh blocks"])
        self.assertLessEqual({"ring-16.html", "fresh.html"},
                             {link.get("href") for link in pages["index.html"].all("a")})
        self.assertIn(f"Missing, it is not installed: {NASTY}.", pages["fresh.html"].texts("p"))
        for name in pages:
            self.assertNotIn(NASTY, self.html[name], name)

    def test_what_is_the_papers_is_told_from_what_is_beyond_it(self) -> None:
        pages = self.pages()
        rows = pages["ring-16.html"].rows()
        self.assertEqual(rows[0], ["Verdict", "The paper", "Measured here"])
        self.assertEqual(rows[1], ["agrees", "With glibc, sizes are slow.", "At 496 bytes."])
        self.assertEqual(rows[2], ["differs", f"Beyond the paper: {NASTY} has none.", f"{NASTY} has."])
        self.assertEqual(pages["index.html"].texts("li")[1:3], [
            "Of 1 finding of the paper, measured here: 1 agree, 0 differ and 0 could not be measured here.",
            "Of 2 claims beyond the paper, measured here: 0 agree, 1 differ and 1 could not be measured here."])
        self.assertFalse([line for line in pages["fresh.html"].texts("li") if "of the paper" in line])

    def test_a_study_says_its_result_first_and_how_to_read_it(self) -> None:
        bars = {"title": "Speed", "caption": "More is better.", "y": "op/s", "of": "Way", "more_is_better": True,
                "bars": [{"name": "fast", "value": 9}, {"name": "slow", "value": 1}]}
        changes = {"study.result": ["The fast one wins."], "study.reading": ["Read me."], "study.figures[0].charts": [bars],
                   "study.figures[*].findings": []}
        pages = self.pages(changes)
        self.assertEqual(pages["index.html"].texts("li")[0], "The fast one wins.")
        self.assertNotIn("0 findings", self.html["index.html"])
        self.assertEqual(pages["index.html"].rows()[:3], [["Way", "op/s"], ["fast", "9.00 one run"], ["slow", "1.00 one run"]])
        for name in ("index.html", "ring-16.html"):
            self.assertEqual(pages[name].texts("li")[-1], "Read me.")
            self.assertNotIn("mutex", self.html[name])
        drawn = self.drawn(changes)["chart-0"].views[0].traces
        self.assertEqual(drawn[0]["x"], [9, 1], "the best is on top")
        for wrong in ("one", [1], [""]):
            with self.assertRaisesRegex(results.ResultsError, "study.reading' must be a list of sentences"):
                self.loaded({"study.reading": wrong})

    def test_only_a_study_of_mallocs_explains_them(self) -> None:
        loaded = self.loaded()
        self.assertIn("mutex", " ".join(charted.reading(loaded, loaded.study)))
        loaded.placed = []
        self.assertEqual(charted.reading(loaded, loaded.study), (charted.BEYOND,))

    def test_what_several_findings_lack_is_said_once(self) -> None:
        for verdict, ours, said, more in (
                ("not measurable here", "this processor has no transactions.",
                 "{} findings could not be measured here: this processor has no transactions.", []),
                ("not judged: the run is too short", "1.2 times. Too short: 7 operations (a).",
                 "{} findings were not judged: the run is too short.", ["1.2 times. Too short: 7 operations (a)."])):
            undecided = [{"paper": f"Claim {index}", "verdict": verdict, "ours": ours} for index in range(4)]
            pages = self.pages({"study.figures[*].findings": undecided})
            self.assertIn(said.format(8), pages["index.html"].texts("li"))
            for name in ("ring-16.html", "fresh.html"):
                self.assertIn(said.format(4), pages[name].texts("summary"))
                self.assertEqual(pages[name].captioned("undecided")[1:], [[f"Claim {index}.", *more] for index in range(4)])

    def test_simulated_pages_and_axes_say_so_everywhere(self) -> None:
        for name, shown in self.pages(simulated_=True).items():
            self.assertIn("simulated", shown.texts("title")[0], name)
            self.assertIn("simulated on i7_4770", shown.texts("p", **{"class": "kicker"})[0], name)
            self.assertIn(simulated.TRUST, shown.texts("li"))
            self.assertIn(f"{NASTY} is a model of {NASTY}.", shown.texts("li"))
            said = [*shown.texts("h3"), *shown.texts("summary"), *(
                str(drawn["aria-label"]) for role in ("img", "application") for drawn in shown.all("div", role=role))]
            self.assertGreater(len(said), 0, name)
            for words in said:
                self.assertIn("(simulated on i7_4770)", words)
            self.assertGreater(len(shown.texts("figcaption")), 0, name)
            self.assertIn("Simulated here", shown.texts("th"), name)
            self.assertNotIn("Measured here", shown.texts("th"), name)
            for words in shown.texts("caption"):
                if "context" not in words and "paper" not in words and "Where and how" not in words:
                    self.assertIn("(simulated on i7_4770)", words)
        loaded = self.loaded(simulated_=True)
        _, drawn = charted.parts(loaded.study, loaded.study.figures[0], loaded.placed)
        axes = [one.views[0].layout["yaxis"]["title"]["text"] for one in drawn if one.id.startswith("chart-")]
        self.assertEqual(axes, ["x index-aware under tts (simulated on i7_4770)",
                                "lines (simulated on i7_4770) (logarithmic)"])

    def test_each_simulated_figure_names_machine_cores_threads_and_models(self) -> None:
        pages = self.pages(simulated_=True)
        both = f"Models: {NASTY} and glibc."
        for page, threads, models in (("ring-16.html", "1 thread", [both, both]),
                                      ("fresh.html", "2 threads", ["Models: glibc."]), ("index.html", "1 thread", [both])):
            captions = [text for text in pages[page].texts("figcaption") if text]
            self.assertEqual([f"Simulated on i7_4770, 4 cores, {threads}. {one}" in caption
                              for caption, one in zip(captions, models, strict=True)], [True] * len(models), captions)
        placement = next(text for text in pages["ring-16.html"].texts("p") if text.startswith("One cell for"))
        self.assertIn(f"Simulated on i7_4770, 4 cores, 1 thread. {both}", placement)
        page = self.pages({"study.models": GONE, "context.machine.sockets": GONE}, simulated_=True)["ring-16.html"]
        self.assertTrue(page.texts("figcaption")[-1].endswith("Simulated on i7_4770, 1 thread."))
        self.assertNotIn("Models", self.html["ring-16.html"])
        self.assertEqual(pages["index.html"].texts("h2")[:2], [
            "A ring of 16 nodes (simulated on i7_4770)", "Fresh blocks (simulated on i7_4770)"])

    def test_a_simulation_counts_lines_and_no_times_of_a_machine(self) -> None:
        page = self.pages(simulated_=True)["ring-16.html"]
        self.assertIn("index 1: 8 lines, 4 more than ways", self.html["ring-16.html"])
        self.assertNotIn("8 nodes", self.html["ring-16.html"])
        self.assertEqual(page.captioned("Where the nodes lie")[0], [
            "Malloc", "Lines", "Indices with lines", "Lines at the fullest", "Indices with more than 4 lines"])
        rows = page.captioned("All mallocs, locks and sizes, 1 thread (simulated on i7_4770)")
        self.assertEqual(rows[0], ["Malloc, locks", "Bytes of a node", "x index-aware under tts", "Simulated ns/op",
                                   "Lines at the fullest index", "Sections elided", "Aborts for capacity an operation"])
        self.assertEqual(rows[1][3], "152")
        for words in ("in turns, round by round", "whisker"):
            self.assertNotIn(words, self.html["ring-16.html"])
            self.assertFalse([text for text in page.texts("li") if words in text])

    def test_a_run_of_few_rounds_or_more_threads_than_processors_is_warned_of(self) -> None:
        def cautions(changes: Json) -> list[str]:
            page = self.pages(changes)["fresh.html"]
            return [text for text in page.texts("li") if "round only" in text or "threads ran" in text]

        self.assertEqual(cautions({}), [])
        self.assertEqual(cautions({"benchmarks[*].rounds_cpu_ns": [1.0], "benchmarks[*].rounds_wall_ns": [1.0]}),
                         ["Some programs ran 1 round only; the spread cannot be trusted below three."])
        self.assertIn("2 threads ran on 1 CPU", cautions({"context.num_cpus": 1})[0])


class Charts(ChartedCase):
    def traces(self, id_: str = "chart-0", changes: Json = {}, figure: int = 0) -> dict[str, Json]:
        return {trace["label"]: trace for trace in self.drawn(changes, figure)[id_].views[0].traces}

    def axis(self, id_: str, axis: str, changes: Json = {}) -> Json:
        return self.drawn(changes)[id_].views[0].layout[axis]

    def test_a_malloc_has_one_colour_everywhere_and_its_locks_have_dashes(self) -> None:
        ratios, loads = self.traces(), self.traces("chart-1")
        colours = {malloc: ratios[f"{malloc}, tts"]["line"]["color"] for malloc in CHARTED_MALLOCS}
        self.assertEqual(len(set(colours.values())), 3)
        for malloc, colour in colours.items():
            self.assertEqual(ratios[f"{malloc}, tts"]["line"]["dash"], "solid")
            self.assertEqual((ratios[f"{malloc}, tle"]["line"]["color"], ratios[f"{malloc}, tle"]["line"]["dash"]),
                             (colour, "dash"))
            self.assertEqual((loads[malloc]["line"]["color"], loads[malloc]["line"]["dash"]), (colour, "solid"))
        # Without the first of all names.
        self.assertEqual(CHARTED_MALLOCS[2], min(CHARTED_MALLOCS))
        self.assertEqual(self.traces("chart-1", {f"{LOADS}.series[2]": GONE})["glibc"]["line"]["color"], colours["glibc"])
        renamed = self.traces("chart-0", {f"{NODES}.series[0].name": "glibc, mcs"})
        self.assertNotIn(renamed["glibc, mcs"]["line"]["dash"], ("solid", "dash"))

    def test_of_many_curves_those_of_other_locks_are_hidden_at_first(self) -> None:
        def shown(mallocs: int) -> dict[str, bool]:
            series = [{"name": f"m{malloc}, {locks}", "points": [[64, 1.0], [128, 1.0]]}
                      for malloc in range(mallocs) for locks in ("tts", "tle", "tle-learnt")]
            return {name: trace["visible"] for name, trace in self.traces("chart-0", {f"{NODES}.series": series}).items()}

        self.assertTrue(all(shown(3).values()))
        self.assertEqual(shown(4), {f"m{malloc}, {locks}": locks != "tle-learnt" for malloc in range(4)
                                    for locks in ("tts", "tle", "tle-learnt")})

    def test_a_size_that_is_missing_is_a_gap_and_never_zero(self) -> None:
        trace = self.traces()[f"{NASTY}, tts"]
        self.assertEqual((trace["x"], trace["y"]), ([64, 496, 512, 2048], [1.0, 1.0, 0.25, None]))
        self.assertNotIn("<b>", trace["name"])
        self.assertIn("&lt;b&gt;", trace["name"])

    def test_ticks_are_multiples_of_512_and_ever_fewer_and_axes_begin_at_zero(self) -> None:
        self.assertEqual(self.axis("chart-0", "xaxis")["tickvals"], [0, 512, 1024, 1536, 2048])
        self.assertEqual(self.axis("chart-0", "xaxis")["ticktext"][-1], "2,048")
        self.assertEqual(self.axis("chart-0", "xaxis")["title"]["text"], "Bytes of a node")

        def up_to(size: int) -> list[int]:
            series = [{"name": "glibc, tts", "points": [[16, 1.0], [size, 1.0]]}]
            return self.axis("chart-0", "xaxis", {f"{NODES}.series": series})["tickvals"]

        self.assertEqual(up_to(4096), list(range(0, 4097, 512)))
        self.assertEqual(up_to(8192), list(range(0, 8193, 1024)))
        self.assertEqual(up_to(1 << 20), list(range(0, (1 << 20) + 1, 1 << 17)))
        self.assertEqual(up_to(100), [0])
        self.assertEqual(self.axis("chart-0", "yaxis")["rangemode"], "tozero")
        self.assertEqual(list(self.traces()), [f"{malloc}, {locks}" for malloc in CHARTED_MALLOCS
                                               for locks in ("tle", "tts")])
        nothing = {f"{LOADS}.series[0].points[0][1]": 0}
        self.assertEqual(self.axis("chart-1", "yaxis", nothing)["rangemode"], "tozero")

    def test_a_limit_is_a_line_across_on_a_logarithmic_axis(self) -> None:
        limit = self.traces("chart-1")["4 ways of the L1 cache"]
        span = self.axis("chart-1", "xaxis")["range"]
        self.assertEqual((limit["x"], limit["y"]), (span, [4, 4]))
        axis = self.axis("chart-1", "yaxis")
        self.assertEqual(axis["type"], "log")
        self.assertIn("nodes (logarithmic)", axis["title"]["text"])
        low, high = (10 ** end for end in axis["range"])
        self.assertTrue(1 < low < 2 and 8 < high < 16, axis["range"])
        axis = self.axis("chart-1", "yaxis", {f"{LOADS}.series[0].points[0][1]": 640})
        self.assertLessEqual({2, 5, 10, 20, 200, 500}, set(axis["tickvals"]))
        self.assertEqual(axis["ticktext"][axis["tickvals"].index(1000)], "1,000")

    def test_points_of_one_size_are_bars(self) -> None:
        view = self.drawn(figure=1)["chart-0"].views[0]
        self.assertEqual([trace["type"] for trace in view.traces], ["bar", "scatter"])
        self.assertEqual(view.traces[0]["x"], [1.0, 0.5])
        self.assertEqual(view.layout["xaxis"]["title"]["text"], "x index-aware under tts (Bytes of a node: 1,008)")
        traces = self.traces("chart-0", {"study.figures[1].charts[0].limit": {"y": 4, "name": "ways"}}, 1)
        self.assertEqual(list(traces), ["glibc, tts", "index-aware, tts", "4 ways"])
        self.assertEqual(len(traces["4 ways"]["x"]), 2)


class Placement(ChartedCase):
    def grids(self, changes: Json = {}) -> dict[str, Any]:
        return {id_: one for id_, one in self.drawn(changes).items() if id_.startswith("placement-")}

    def test_each_malloc_is_shown_at_its_worst_size_of_a_stride(self) -> None:
        grids = self.grids()
        self.assertEqual([one.title for one in grids.values()],
                         ["Nodes of 449 to 512 bytes", "Nodes of 1,985 to 2,048 bytes"])
        self.assertEqual([row.label for row in grids["placement-0"].rows],
                         [f"{NASTY}, 512 bytes", "glibc, 496 bytes", "index-aware, 512 bytes"])
        self.assertEqual([row.label for row in grids["placement-1"].rows],
                         ["glibc, 2,048 bytes", "index-aware, 2,048 bytes"])

    def test_cells_are_filled_as_far_as_ways_are_taken_and_another_kind_beyond(self) -> None:
        _, glibc, ours = self.grids()["placement-0"].rows
        self.assertEqual([one.parts for one in glibc.cells], [(), ((1, 1.0),)] * 2 + [()] * 4)
        self.assertEqual([one.parts for one in ours.cells], [((0, 0.5),)] * 8)
        self.assertEqual([one.text for one in glibc.cells[:2]],
                         ["index 0: no node", "index 1: 8 nodes, 4 more than ways"])
        self.assertEqual(ours.cells[7].text, "index 7: 2 nodes")

    def test_as_many_nodes_as_ways_are_not_too_many_and_the_worst_size_is_shown(self) -> None:
        for row in self.grids({"benchmarks[*].loads": [4] * 8})["placement-0"].rows:
            self.assertEqual([one.parts for one in row.cells], [((0, 1.0),)] * 8)
        grids = self.grids({"benchmarks[*].size": lambda size: {496: 100, 512: 200, 2048: 300}.get(size, 64)})
        self.assertEqual([one.title for one in grids.values()], ["Nodes of 100 bytes"])
        self.assertEqual([row.label.rpartition(", ")[2] for row in grids["placement-0"].rows], ["100 bytes"] * 3)

    def test_nothing_is_drawn_where_ways_or_loads_are_not_known(self) -> None:
        self.assertEqual(self.grids({f"{LOADS}.limit": GONE}), {})
        unavailable = {"benchmarks[*].loads": fixture.UNAVAILABLE}
        self.assertEqual(self.grids(unavailable), {})
        self.assertNotIn("Where the nodes lie", self.pages(unavailable)["ring-16.html"].texts("h2"))
        self.assertEqual(self.drawn(figure=1).keys(), {"chart-0"})

    def test_the_index_has_the_first_picture_of_each_figure_and_of_no_other(self) -> None:
        index = self.pages()["index.html"]
        self.assertEqual([one["data-grid"] for one in index.all("div", role="application")], ["ring-16-placement-0"])
        self.assertIn("449 to 512", index.texts("figcaption")[0])
        self.assertIn("class Grid", self.html["index.html"])
        self.assertIn("class Grid", self.html["ring-16.html"])
        self.pages({f"benchmarks[{at}].{key}": value for at in (-1, -2)
                    for key, value in (("size", 512), ("loads", [0] * 7 + [16]))})
        for name in ("index.html", "ring-16.html"):
            self.assertIn("index 1: 8 nodes", self.html[name])
            self.assertNotIn("16 nodes", self.html[name].partition('id="figures"')[2])

    def test_a_table_holds_what_the_pictures_show(self) -> None:
        rows = self.pages()["ring-16.html"].captioned("Where the nodes lie")
        self.assertEqual(rows[0], ["Malloc", "Nodes", "Indices with nodes", "Nodes at the fullest",
                                   "Indices with more than 4 nodes"])
        self.assertEqual(rows[2], ["glibc, 496 bytes", "16", "2 of 8", "8", "2"])
        self.assertEqual(rows[3], ["index-aware, 512 bytes", "16", "8 of 8", "2", "0"])
        self.assertEqual(len(rows), 1 + 3 + 2)


class Numbers(ChartedCase):
    def test_charts_and_measurements_are_tables(self) -> None:
        page = self.pages()["ring-16.html"]
        rows = page.captioned("Throughput: x index-aware under tts")
        self.assertEqual(rows[0], ["Bytes of a node", *(f"{malloc}, {locks}" for malloc in CHARTED_MALLOCS
                                                        for locks in ("tle", "tts"))])
        self.assertEqual(rows[2], ["496", "0.250", "0.250", "1.00", "1.00", "1.00", "1.00"])
        self.assertEqual(rows[4], ["2,048", "1.00", "1.00", "1.00", "1.00", "unavailable", "unavailable"])
        self.assertEqual(page.captioned("4 ways of the L1 cache")[2], ["496", "8.00", "2.00", "4.00"])
        rows = page.captioned("All mallocs, locks and sizes, 1 thread")
        self.assertEqual(rows[0], ["Malloc, locks", "Bytes of a node", "x index-aware under tts", "CPU ns/op",
                                   "Wall ns/op", "Nodes at the fullest index", "Sections elided",
                                   "Aborts for capacity an operation", "Resident KiB"])
        self.assertEqual(len(rows), 1 + 22)
        found = {(row[0], row[1]): row[2:] for row in rows[1:]}
        self.assertEqual(found["glibc, tle", "496"], ["0.250", "101 100 to 104", "152 150 to 156", "8", "0 %",
                                                      "0.250", "4,096"])
        self.assertEqual(found["glibc, tts", "512"][3:], ["2", "unavailable", "unavailable", "4,096"])
        stated = {"rounds_cpu_ns": GONE, "rounds_wall_ns": [7.0], "cpu_time": 90.0, "real_time": 0.12, "time_unit": "us"}
        first = self.loaded({f"benchmarks[0].{key}": value for key, value in stated.items()}).placed[0]
        self.assertEqual((first.cpu, first.wall), (results.Spread(90000.0), results.Spread(120.0)))


class Costs(ChartedCase):
    """Of a study without a paper: bars of mallocs, and measurements of benchmarks."""

    document = staticmethod(fixture.cost_document)

    def test_there_is_no_word_of_a_paper_and_no_empty_table(self) -> None:
        pages = self.pages()
        self.assertEqual(list(pages), ["time.html", "classes.html", "memory.html", "index.html"])
        for name, shown in pages.items():
            self.assertEqual(shown.problems, [], name)
            self.assertNotIn("paper", re.sub(r"(?s)<style>.*?</style>|<script.*?</script>", "", self.html[name]))
            self.assertNotIn(NASTY, self.html[name], name)
        rows = pages["time.html"].rows()
        self.assertEqual(rows, [["Verdict", "To be shown", "Measured here"], ["agrees", "It is faster.", "It is."]])
        self.assertEqual(pages["index.html"].texts("li")[:2], [
            "Sources: Larson, 1998.", "Of 2 claims, measured here: 1 agree, 0 differ and 1 could not be measured here."])
        self.assertIn("Missing, it is not installed: tcmalloc.", pages["time.html"].texts("p"))
        self.assertEqual(pages["classes.html"].texts("h2"), ["Charts", "All numbers", "Context", "How to read this"])
        self.assertEqual(pages["memory.html"].texts("h2"),
                         ["Claims, and what was found", "Context", "How to read this"])
        self.assertFalse([text for text in pages["classes.html"].texts("li") if text.startswith("Of 0")])
        self.assertEqual(len([text for text in pages["index.html"].texts("caption") if "to be shown" in text]), 2)
        self.assertEqual(len(self.loaded().timed), 8)
        rows = pages["index.html"].captioned("All benchmarks and mallocs")
        self.assertEqual(rows[0], ["Benchmark, malloc", "Threads", "CPU ns/op", "Wall ns/op",
                                   "Resident KiB at its most"])
        self.assertEqual(rows[2], ["larson, index-aware", "2", "22.0 20.0 to 24.0", "44.0 one run", "81,920"])
        self.assertEqual(len(rows), 1 + 8)
        rows = pages["time.html"].captioned(f"{NASTY}: x glibc")
        self.assertEqual(rows[0], ["Malloc", "x glibc"])
        self.assertIn(["random", "3.00 2.50 to 3.50"], rows)
        rows = pages["time.html"].captioned("Geometric mean: x glibc; 1.15 x glibc")
        self.assertIn(["glibc", "1.00 one run"], rows)

    def test_bars_are_of_ours_and_peers_the_shortest_on_top(self) -> None:
        view = self.drawn()["chart-1"].views[0]
        self.assertEqual(view.layout["yaxis"]["ticktext"], ["index-aware", "mimalloc", "glibc", "random"])
        ours, peers = view.traces[:2]
        self.assertEqual((ours["name"], ours["y"], ours["x"]), ("Espalier", [0, 3], [0.5, 3.0]))
        self.assertEqual((peers["name"], peers["y"], peers["x"]), ("peer", [1, 2], [0.75, 1.0]))
        self.assertEqual([round(one, 9) for one in ours["error_x"]["arrayminus"]], [0.1, 0.5])
        # Otherwise those of a trace would be as wide as its rows lie apart.
        self.assertEqual((ours["width"], peers["width"]), (0.65, 0.65))
        self.assertEqual(view.layout["xaxis"]["title"]["text"], "x glibc")
        self.assertIn("Espalier", self.pages()["time.html"].texts("p", **{"class": "key"})[0])
        self.assertIn("Some programs ran 2 rounds only; the spread cannot be trusted below three.",
                      self.pages({"benchmarks[0].rounds_cpu_ns": [1.0, 2.0]})["time.html"].texts("li"))

    def test_a_limit_of_bars_is_a_line_down_within_the_axis(self) -> None:
        def limit(changes: Json = {}) -> tuple[Json, list[float]]:
            view = self.drawn(changes)["chart-0"].views[0]
            return view.traces[-1], view.layout["xaxis"]["range"]

        line, _ = limit()
        self.assertEqual((line["x"], line["y"], line["label"]), ([1.15, 1.15], [3.6, -0.6], "1.15 x glibc"))
        line, axis = limit({f"{NODES}.limit.y": 100})
        self.assertEqual((line["x"], axis), ([100, 100], [0, 100 * 1.1]))
        # It is no number of ways.
        self.assertNotIn("Where the nodes lie", self.pages()["time.html"].texts("h2"))

    def test_damage_is_named_with_its_place(self) -> None:
        bars, entry = f"{LOADS}.bars", "benchmarks[2]"
        self.refused_at(
            self.document, (bars, 7, "' must be a list"), (bars, [], "' must hold"),
            (bars, [{"name": "a", "value": 1}] * 2, "' must have a name each"),
            (bars, [{"value": 1}], "[0].name'"), (bars, [{"name": "a"}], "[0].value'"),
            (bars, [{"name": "a", "value": -1}], "[0].value'"),
            (bars, [{"name": "a", "value": 1, "least": 1}], "[0]' must have its value between"),
            (bars, [{"name": "a", "value": 1, "least": 2, "most": 3}], "[0]' must have"),
            (bars, [{"name": "a", "value": 1, "peer": 1}], "[0].peer'"),
            (f"{entry}.benchmark", 7, "' must be a name"), (f"{entry}.malloc", None, "'"), (f"{entry}.threads", 0, "'"),
            (f"{entry}.peak_kib", -1, "'"), (f"{entry}.rounds_cpu_ns", 7, "'"))


class Maps(ChartedCase):
    """Charts over exponents and threads, from measurements of maps."""

    def document(self, simulated_: bool = False) -> Json:
        found = fixture.simulated_document() if simulated_ else fixture.document()
        thetas = [[0, 1.5], [0.9, 2.5], [0.99, 0]]
        found["study"] = {"name": "s", "title": "T", "paper": "P", "figures": [
            {"id": "skew", "title": "Skew", "summary": "Over theta.", "missing": [], "findings": [], "charts": [
                {"title": "Throughput", "caption": "Higher is better.", "x": "theta", "y": "Mop/s",
                 "series": [{"name": "ticket", "points": thetas}]}]}]}
        return found

    def test_ticks_are_the_points_and_the_text_is_about_maps(self) -> None:
        for simulated_, words in ((False, "in turns"), (True, "A conflict is true")):
            loaded = self.loaded(simulated_=simulated_)
            self.assertEqual((len(loaded.placed), len(loaded.costs)), (0, 0))
            self.assertGreater(len(loaded.measurements), 0)
            _, (chart,) = charted.parts(loaded.study, loaded.study.figures[0], [])
            axis = chart.views[0].layout["xaxis"]
            self.assertEqual((axis["tickvals"], axis["ticktext"]), ([0, 0.9, 0.99], ["0", "0.9", "0.99"]))
            self.assertLess(axis["range"][1], 1.1)
            said = " ".join(self.pages(simulated_=simulated_)["skew.html"].texts("li"))
            self.assertIn(words, said)
            self.assertNotIn("malloc", said)


class BadInput(ChartedCase):
    def test_damaged_studies_are_named_with_their_place(self) -> None:
        bad_points = (None, [], {}, [7], [[1]], [[1, 2, 3]], [[1, "2"]], [[-1, 1]], [[1, -1]], [[1, True]], [[1, 1e999]],
                      [[2, 1], [1, 1]], [[1, 1], [1, 2]])
        self.refused_at(
            self.document, *((f"{LOADS}.{key}", 7, "' must be a name") for key in ("title", "caption", "x", "y")),
            (f"{LOADS}.series", {}, "' must be a list"), (f"{LOADS}.series", [], "' must hold"),
            (f"{LOADS}.series[0].name", GONE, "'"),
            (f"{LOADS}.series", [{"name": "a", "points": [[1, 2]]}] * 2, "' must have a name each"),
            (f"{LOADS}.limit", 12, "' must be an object"), (f"{LOADS}.limit.y", GONE, "' must be a"),
            (f"{LOADS}.limit.y", -1, "' must be a"), (f"{LOADS}.limit.name", GONE, "'"),
            *((f"{NODES}.series[2].points", bad, "' must be") for bad in bad_points),
            *(("study.models", bad, "' must be") for bad in ([], {"glibc": 7}, {"glibc": " "})),
            ("study.figures[0].findings[1].of_paper", "no", "' must be true or false"),
            ("study.figures[0].findings[1].verdict", "maybe", "'"),
            # All figures have charts, or none has.
            ("study.figures[1].charts", GONE, "' must be a list"), ("study.figures[0].charts", 7, "' must be a list"))

    def test_damaged_entries_are_named_with_their_place(self) -> None:
        entry = "benchmarks[3]"
        self.refused_at(
            self.document, (f"{entry}.name", "ring-17/glibc/tts/size:64", "' must begin with the id of one"),
            (f"{entry}.name", 7, "'"), (f"{entry}.malloc", None, "' must be a name"),
            (f"{entry}.locks", " ", "' must be a name"), (f"{entry}.size", "512", "' must be"),
            (f"{entry}.size", 1.5, "' must be a whole"), (f"{entry}.size", fixture.UNAVAILABLE, "' must be a whole"),
            (f"{entry}.threads", 0, "'"), (f"{entry}.loads", 7, "' must be a list"), (f"{entry}.loads", [1, -1], "'"),
            (f"{entry}.loads", [1.5], "'"), (f"{entry}.loads", [True], "'"),
            (f"{entry}.committed", 1.5, "' must be a share"), (f"{entry}.committed", -1, "'"),
            (f"{entry}.largest_load", "x", "'"), (f"{entry}.resident_kib", -1, "'"),
            (f"{entry}.rounds_cpu_ns", 7, "' must be a list"), (f"{entry}.rounds_wall_ns", [1, None], "'"),
            (f"{entry}.rounds_cpu_ns", [-1], "'"), (f"{entry}.simulated", True, "' must be what"))
        rounds = {f"{entry}.rounds_cpu_ns": [], f"{entry}.rounds_wall_ns": []}
        self.refused_at(lambda: fixture.put(self.document(), rounds), (f"{entry}.cpu_time", "x", "'"),
                        (f"{entry}.time_unit", "h", "'"))

    def test_it_is_reported_alone(self) -> None:
        document = self.document()
        document["benchmarks"].append(fixture.family("w", "a", [1, 2, 3])[0])
        self.refused(document, "benchmarks[24].name")
        with self.assertRaisesRegex(results.ResultsError, "alone"):
            results.load([self.write(fixture.charted_document(), "a.json"), self.write(fixture.document(), "b.json")])


if __name__ == "__main__":
    unittest.main()
