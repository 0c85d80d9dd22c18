"""The page of a layout: every number from the data, sentences that agree with it, nothing made up."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import pathlib
import re
import unittest
from typing import Any

import fixture
import layout_fixture as made
from case import Case, Page
from espalier_report import cli, grids, layout, layout_file, results, text
from fixture import GONE


def spaced(words: str) -> str:
    return words.replace(text.THIN, " ")


class LayoutCase(Case):
    def page_of(self, document: Any = None) -> Page:
        loaded = layout_file.load([self.write(document or made.nasty(), "layout.json")])
        self.html = layout.render(loaded)
        return Page(self.html)

    def table(self, page: Page, caption: str) -> list[list[str]]:
        return [[spaced(cell) for cell in row] for row in page.captioned(caption)]

    def cell(self, page: Page, caption: str, row: str, column: str) -> str:
        rows = self.table(page, caption)
        return next(found for found in rows if found[0] == row)[rows[0].index(column)]


class Input(LayoutCase):
    def refused(self, document: Any, *expected: str) -> None:
        target = self.folder / "page.html"
        err = io.StringIO()
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            status = cli.main([str(self.write(document, "layout.json")), "-o", str(target)])
        self.assertEqual((status, err.getvalue().count("\n"), target.exists()), (2, 1, False), err.getvalue())
        for words in (*expected, "layout.json", "`espalier inspect` writes"):
            self.assertIn(words, err.getvalue())

    def test_what_is_missing_or_wrong_is_named_with_its_place(self) -> None:
        heat = "types[0].caches.l2.physical.heat"
        self.refused_at(
            made.nasty, ("schema", "espalier-inspect/2", "' must be espalier-inspect/1"),
            ("page_map", GONE, "' must be an object"),
            ("types[1].blocks", -1, "' must be a whole number, not negative"),
            ("types[1].blocks", True, "' must be a whole number"),
            ("types[0].crossing", math.inf, "' must be a number"),
            ("types[0].crossing", -0.5, "' must be a number, not negative"),
            ("types[0].crossing", "0", "' must be a number"), ("types[0].written", 1, "' must be true or false"),
            ("findings[0].text", None, "' must be a text"), ("facts", {}, "' must be a list"),
            (heat, lambda cells: {**cells, "most": [1]}, "' must be 1024 cells"),
            (f"{heat}.sets_per_cell", 0, "' must be at least 1"),
            ("page_map", lambda cells: {**cells, "pages": [1]}, "' must be lists of one length"),
            ("page_map.pages_per_cell", 0, "' must be at least 1"),
            ("page_map.first_page", [16, 16, 19, 20], "' must be ascending"),
            *(("page_map.most", lambda most, bad=bad: [bad, *most[1:]], "' must be lists of") for bad in ([[3, 1]], [[1]])))

    def test_one_layout_makes_one_page(self) -> None:
        paths = [self.write(made.nasty(), name) for name in ("a.json", "b.json")]
        with self.assertRaisesRegex(results.ResultsError, "a.json: is a layout, .*report it alone"):
            layout_file.load(paths)
        with self.assertRaisesRegex(results.ResultsError, "b.json: is a layout"):
            layout_file.load([self.write(fixture.document()), paths[1]])
        self.assertIsNone(layout_file.load([self.write(fixture.document())]))

    def test_the_command_writes_the_page_and_says_what_it_holds(self) -> None:
        target, out = self.folder / "page.html", io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(cli.main([str(self.write(made.nasty())), "-o", str(target)]), 0)
        self.assertIn("page.html: 2 findings, 3 types, 0.", out.getvalue())
        html = target.read_text(encoding="utf-8")
        self.assertTrue(html.startswith("<!DOCTYPE html>") and html.endswith("</html>\n"))
        self.assertNotIn("plotly", html.lower())


class Structure(LayoutCase):

    def test_the_page_is_well_formed_and_draws_what_it_has_data_for(self) -> None:
        page = self.page_of()
        self.assertEqual(page.problems, [])
        self.assertEqual(len(page.all("h1")), 1)
        data = json.loads(re.search(r'id="figures">(.*?)</script>', self.html, re.S)[1])
        drawn = [one["data-grid"] for one in page.all("div") if "data-grid" in one]
        self.assertEqual(sorted(drawn), sorted(data))
        self.assertEqual(drawn, ["page-map", "sets-l1", "sets-l2", "sets-llc"])
        self.assertLessEqual({link["href"].removeprefix("#") for link in page.all("a")}, page.ids())
        self.assertEqual(page.texts("h2"), [
            "What to change", "Conditions", "What was looked at", "Page map", "Cache sets", "Neighbours", "Types",
            "Children", "How to read this"])
        self.assertNotIn(fixture.NASTY, self.html)
        self.assertNotIn("<leaf>", self.html)
        self.assertNotIn("<i>fact", self.html)
        self.assertNotIn("<b>rights", self.html)
        self.assertEqual(len(page.all("script")), 2)
        self.assertIn(f"map of {fixture.NASTY}: 2 findings", page.texts("h1"))
        self.assertIn(fixture.NASTY, [row[0] for row in self.table(page, "Blocks by type")])
        for one in page.all("div", **{"class": "grid"}) + page.all("div", **{"class": "grid tall"}):
            self.assertEqual(one["tabindex"], "0")
            self.assertIn("Arrow keys", one["aria-label"])

    def test_of_nothing(self) -> None:
        page = self.page_of(made.document())
        self.assertEqual(page.problems, [])
        self.assertEqual(page.texts("h1"), ["a map: there are no blocks to look at"])
        self.assertEqual(page.texts("h2"), ["What to change", "What was looked at", "How to read this"])
        # Types without blocks say no more.
        page = self.page_of(made.document(made.block_type("none", 0)))
        self.assertEqual(page.texts("h2"), ["What to change", "What was looked at", "How to read this"])
        self.assertIn("0 blocks of 0 types in 0 pages", page.texts("li")[0])

    def test_many_types_are_cut_and_the_cut_is_told(self) -> None:
        types = [made.block_type(f"type {index}", 200 - index) for index in range(150)]
        page = self.page_of(made.document(*types))
        self.assertEqual(len(self.table(page, "Blocks by type")), 1 + 100)
        self.assertIn("And 50 more rows, which the JSON holds.", page.texts("p"))
        self.assertEqual(len(self.table(page, "Pages of 4 KiB")), 1 + 100)
        self.assertEqual(self.table(page, "Pages of 4 KiB")[-1][0], "all together")
        self.assertIn("And 51 more types, which the JSON holds.", page.texts("p"))
        for caption in ("Lines by sets of the L2", "in their line"):
            self.assertEqual(len(self.table(page, caption)), 1 + 12)
        self.assertEqual(page.texts("p").count("The 12 types with the most bytes, of 150."), 2)
        page = self.page_of(made.document(*(made.block_type(f"type {index}", 9) for index in range(12))))
        self.assertEqual([words for words in page.texts("p") if re.search("most bytes, of|more (row|type)", words)], [])


class Words(LayoutCase):
    def test_the_head_findings_and_conditions_are_said(self) -> None:
        page = self.page_of()
        self.assertEqual([spaced(words) for words in page.texts("li")][:3], [
            "1,110 blocks of 3 types in 1,110 pages: 66.2 KiB asked for, 66.2 KiB held.",
            "Judged by the caches of haswell: a Haswell.",
            "Sets are judged by virtual addresses: no <b>rights</b>."])
        self.assertEqual(len(page.all("ul", **{"class": "cautions"})), 1)
        self.assertIn(f"segregate node alternates with {fixture.NASTY}. Segregate them.", page.texts("li"))
        self.assertIn("reorder fields <leaf> crosses lines.", page.texts("li"))
        self.assertIn("fails crossing<1% fails: <b>5 %</b>", page.texts("li"))
        self.assertEqual(page.texts("span", **{"class": "badge agrees"}), ["holds"])
        self.assertEqual(page.texts("span", **{"class": "badge differs"}), ["fails"])
        self.assertEqual(page.texts("span", **{"class": "badge undecided"}), ["unavailable"])

    def test_many_findings_are_folded_and_counted_on(self) -> None:
        document = made.document(made.block_type("node", 1))
        document["findings"] = [{"kind": "crossing", "type": "node", "other": None, "figure": 1, "advice": "pad",
                                 "text": f"Finding {index}."} for index in range(1, 104)]
        page = self.page_of(document)
        self.assertEqual(page.texts("h1"), ["a map: 103 findings"])
        self.assertEqual(page.texts("summary"), ["3 more findings"])
        self.assertEqual([one.get("start") for one in page.all("ol")], [None, "101"])
        self.assertIn("pad Finding 103.", page.texts("li"))

    def test_nothing_to_change_is_said(self) -> None:
        page = self.page_of(made.document(made.block_type("node", 10)))
        self.assertEqual(page.texts("h1"), ["a map: nothing to change"])
        self.assertIn("No rule has anything to say about this layout.", page.texts("p"))
        self.assertEqual(page.all("ol"), [])
        blind = self.page_of(made.document(made.block_type("node", 10), blind_spots=["Dark."]))
        self.assertIn("could not be told stands above", " ".join(blind.texts("p")))

    def test_geometry_and_what_is_not_known(self) -> None:
        known = {row[0]: row[1] for row in self.table(self.page_of(), "map of")}
        self.assertEqual(known["<i>fact</i>"], fixture.NASTY)
        self.assertEqual(known["L2"], "1,024 sets × 8 ways")
        self.assertEqual(known["LLC"], "2,048 sets × 20 ways × 4 slices")
        self.assertEqual(known["physical frames"], "unavailable: no <b>rights</b>")
        self.assertEqual(known["pointers between blocks"], "known")
        self.assertEqual(known["TLB"], "first level 64 entries for ordinary pages and 32 entries for huge ones; "
                                       "second level 1,536 entries, huge pages too")
        document = fixture.put(made.nasty(), {
            "geometry.llc.sets": 0, "geometry.tlb": {"l1_small": 64, "l1_huge": 0, "l2": 0, "l2_holds_huge": True}})
        known = {row[0]: row[1] for row in self.table(self.page_of(document), "map of")}
        self.assertEqual(known["LLC"], "unavailable")
        self.assertEqual(known["TLB"], "first level 64 entries for ordinary pages and entries unavailable for huge "
                                       "ones; second level entries unavailable")


class Numbers(LayoutCase):
    def test_of_types_those_with_the_most_bytes_first(self) -> None:
        one = made.block_type("node", 200, 40, bytes_held=200 * 48, straddling=50, crossing=0.0004, lines_per_visit=1.25,
                              size_classes=made.frequencies((48, 150), (64, 50)),
                              strides=made.frequencies((64, 99), (128, 50), distinct=7), written=True)
        rows = self.table(self.page_of(made.document(one, made.block_type("leaf", 1, 9600))), "Blocks by type")
        self.assertEqual(rows[0], [
            "Type", "Blocks", "Bytes asked, mean", "Size class, bytes", "Stride, bytes", "Held", "Of all bytes",
            "Unused L1 sets", "Unused L2 sets", "Unused LLC sets", "Straddle lines", "Visits to two lines",
            "Lines a visit", "Written by others"])
        self.assertEqual(rows[1], ["node", "200", "40.0", "48 (75 %)", "64 (66.4 %)", "9.38 KiB", "50 %", "0 %", "0 %",
                                   "0 %", "25 %", "<0.1 %", "1.25", "yes"])
        self.assertEqual(rows[2][3:7], ["9,600", "none", "9.38 KiB", "50 %"])
        rows = self.table(self.page_of(made.document(made.block_type("small", 9, 8), made.block_type("large", 9, 64))),
                          "Blocks by type")
        self.assertEqual([row[0] for row in rows[1:]], ["large", "small"])

    def test_of_pages(self) -> None:
        one = made.block_type("node", 10, pages=made.pages(
            8, scatter=2.0, mixed_pages=6, runs=3, longest_run=4, small=6, huge=2, tlb_entries=8, l1_tlb_load=0.125,
            tlb_load=0.0052, run_distances=made.frequencies((3, 1), (9, 1))))
        rows = self.table(self.page_of(made.document(one, pages=made.pages(8, mixed_pages=6))), "Pages of 4 KiB")
        self.assertEqual(rows[1], ["node", "8", "2.00", "75 %", "3", "4", "3 (50 %)", "6", "2", "8", "0.125", "0.00520"])
        self.assertEqual(rows[2][:4], ["all together", "8", "1.00", "75 %"])

    def test_what_is_not_known_is_a_word_and_never_nothing(self) -> None:
        page = self.page_of()
        for caption, columns in (
                ("Blocks by type", ("Visits to two lines", "Lines a visit", "Unused LLC sets")),
                ("Pages of 4 KiB", ("Ordinary pages", "Huge pages", "Translations", "Over the first TLB",
                                    "Over the second TLB")),
                ("sets of the LLC", ("Lines", "Sets", "Unused", "Unused share", "Overloaded", "Most lines in a set"))):
            for column in columns:
                with self.subTest(column):
                    self.assertEqual(self.cell(page, caption, fixture.NASTY, column), "unavailable")
                    self.assertNotEqual(self.cell(page, caption, "node", column), "unavailable")

    def test_shares_of_nothing_and_sets_of_no_cache_are_not_known_and_few_lines_not_judged(self) -> None:
        one = made.block_type("node", 10)
        one["caches"]["llc"] = {"virtual": made.sets(0, 0, [], [], []), "physical": None}
        page = self.page_of(made.document(one))
        self.assertIn("Sets of the LLC are unavailable.", page.texts("p"))
        self.assertEqual(page.all("div", id="sets-llc"), [])
        one = made.block_type("empty", 3, 0, pages=made.pages(0, scatter=None))
        page = self.page_of(made.document(one, pages=made.pages(0, scatter=None)))
        self.assertEqual(self.cell(page, "Blocks by type", "empty", "Of all bytes"), "unavailable")
        self.assertEqual(self.cell(page, "Pages of 4 KiB", "all together", "With other types"), "unavailable")
        self.assertEqual(self.cell(page, "Pages of 4 KiB", "empty", "Over the fewest"), "unavailable")
        def unused(lines: int) -> str:
            one = made.block_type("node", 10)
            one["caches"]["l1"]["virtual"] = made.sets(64, 1, [lines] + [0] * 63, [0] + [1] * 63, [lines] + [0] * 63)
            return self.cell(self.page_of(made.document(one)), "sets of the L1", "node", "Unused share")

        self.assertEqual(unused(127), "98.4 % too few lines to judge")
        self.assertEqual(unused(128), "98.4 %")

    def test_of_neighbours_and_false_sharing(self) -> None:
        rows = self.table(self.page_of(), "in their pair of lines")
        self.assertEqual(rows[0], ["Type", "1", "2", "3", "any other"])  # for one name is long
        self.assertEqual(rows[1], ["1 node", "30 %", "0 %", "25 %", "25 %"])
        self.assertEqual(rows[3][0], f"3 {fixture.NASTY}")
        self.assertEqual(self.table(self.page_of(), "in their line")[1][1:], ["10 %", "0 %", "0 %", "0 %"])
        self.assertEqual(self.table(self.page_of(), "in their page")[1][1:], ["100 %", "0 %", "50 %", "50 %"])
        self.assertEqual(len(self.page_of().all("span", **{"class": "shade"})), 3 * 3 * 4)
        self.assertIn("--share:0.300", self.html)
        short = self.page_of(made.document(made.block_type("node", 1), made.block_type("leaf", 1)))
        self.assertEqual(self.table(short, "in their line")[0], ["Type", "node", "leaf", "any other"])
        self.assertEqual(self.table(self.page_of(), "are written")[1], ["node", fixture.NASTY, "250", "25 %"])
        self.page_of(made.document(made.block_type("node", 1)))
        self.assertNotIn("False sharing", self.html)

    def test_of_children(self) -> None:
        rows = self.table(self.page_of(), "children of blocks")
        self.assertEqual(rows[1:], [["node", "node", "800", "10 %", "25 %", "30 %", "50 %"]])
        document = fixture.put(made.nasty(), {"unknown.pointers": "the pointers were not read"})
        self.assertIn("Where children lie is unavailable: the pointers were not read.", self.page_of(document).texts("p"))
        self.assertIn("No block holds a pointer to another.",
                      self.page_of(made.document(made.block_type("node", 1))).texts("p"))


class PageMap(LayoutCase):
    def grid(self, given: Any, types: int = 3) -> grids.Grid:
        document = made.document(*(made.block_type(f"t{index}", 10) for index in range(types)), page_map=given)
        return grids.page_map(document, range(min(types, 12)))

    def cells(self, grid: grids.Grid) -> list[grids.Cell]:
        return [cell for row in grid.rows for cell in row.cells]

    def test_cells_are_filled_by_bytes_and_gaps_are_open(self) -> None:
        grid = self.grid(made.nasty()["page_map"])
        cells = self.cells(grid)
        self.assertEqual([cell.parts for cell in cells], [
            ((0, 0.5), (1, 0.25)), ((2, 1.0),), (), ((1, 0.01),), ((grids.GAP, 1.0),), ((0, 0.016),)])
        self.assertEqual([cell.text for cell in cells], [
            "0x10000: 3,072 of 4,096 bytes: t0 2,048, t1 1,024", "0x11000: 4,096 of 4,096 bytes: t2 4,096",
            "0x12000: no blocks", "0x13000: 40 of 4,096 bytes: t1 40", "0x14000: 980 pages without blocks",
            "0x3e8000: 64 of 4,096 bytes: t0 64"])
        self.assertEqual(spaced(grid.caption), (
            "4 pages of 4 KiB with blocks, a cell each, in the order of addresses, 64 to a row. A cell is filled by the "
            "bytes of each type, from the bottom; what stays open is not in use. 1 gap of more than 64 cells without "
            "blocks is folded into a dash each."))

    def test_several_pages_to_a_cell(self) -> None:
        given = made.page_map((64, [[0, 8192], [1, 100]]), (72, [[1, 32768]]), (96, [[1, 8]]), per_cell=8)
        given["pages"] = [3, 8, 1]
        given["types"][0], given["bytes"][0] = 5, 8492
        grid = self.grid(given)
        self.assertEqual(self.cells(grid)[0].text, "0x40000: 3 of 8 pages have blocks, 1 of several types; 8,492 of "
                                                   "32,768 bytes: t0 8,192, t1 100, 3 more types 200")
        # What a cell does not list by type is other types'.
        self.assertEqual(self.cells(grid)[0].parts, ((0, 0.25), (1, 0.003), (3, 0.006)))
        self.assertEqual([cell.text for cell in self.cells(grid)[2:4]], ["0x50000: no blocks", "0x58000: no blocks"])
        self.assertIn("12 pages of 4 KiB with blocks in 3 cells: a cell sums up 8 neighbouring pages, 32 KiB,",
                      spaced(grid.caption))
        self.assertNotIn("folded", grid.caption)

    def test_rows_of_64_begin_with_their_addresses_and_types_beyond_those_drawn_are_others(self) -> None:
        grid = self.grid(made.page_map(*((page, [[0, 1]]) for page in range(256, 256 + 130))))
        self.assertEqual([(row.label, len(row.cells)) for row in grid.rows],
                         [("0x100000", 64), ("0x140000", 64), ("0x180000", 2)])
        grid = self.grid(made.page_map((1, [[12, 1024], [0, 512], [13, 512]])), types=14)
        self.assertEqual(self.cells(grid)[0].parts, ((0, 0.125), (12, 0.375)))
        self.assertEqual([key.colour for key in grid.keys], [f"type{index}" for index in range(6)] + ["other"] * 7)

    def test_gaps_are_folded_so_that_cells_stay_bounded(self) -> None:
        for count, distance, cells, folded in (
                (4096, 1, 4096, None), (4096, 2, 8191, None), (4096, 3, 8191, "4,095 gaps of more than 1 cell "),
                (4096, 66, 8191, "4,095 gaps of more than 1 cell "), (500, 11, 5490, None),
                (1000, 11, 1999, "999 gaps of more than 8 cells ")):
            with self.subTest(count=count, distance=distance):
                grid = self.grid(made.page_map(*((1 + distance * index, [[0, 1]]) for index in range(count))))
                self.assertEqual(len(self.cells(grid)), cells)
                self.assertEqual("folded" in grid.caption, folded is not None)
                self.assertIn(folded or "", grid.caption)
        few = self.grid(made.page_map((1, [[0, 1]]), (66, [[0, 1]]), (132, [[0, 1]])))
        self.assertEqual(len(self.cells(few)), 3 + 64 + 1)  # 64 are drawn, 65 folded

    def test_keys_are_those_that_occur(self) -> None:
        page = self.page_of(made.document(made.block_type("a", 9), made.block_type("b", 9), made.block_type("c", 9),
                                          page_map=made.page_map((1, [[0, 9], [2, 9]]))))
        figure = [words for words in page.texts("button") if len(words) == 1]
        self.assertEqual(figure, ["a", "c"])
        self.assertNotIn("other types", page.texts("button"))


class CacheSets(LayoutCase):
    def grid(self, given: Any, level: str = "l1") -> grids.Grid:
        one = made.block_type("node", 10)
        one["caches"][level] = {"virtual": given, "physical": None}
        return grids.heat_map([one], level, "Sets", "Guessed.")

    def test_a_cell_each_where_there_are_few(self) -> None:
        lines = [200, 0] * 32
        grid = self.grid(made.sets(64, 1, lines, [0, 1] * 32, lines))
        cells = grid.rows[0].cells
        self.assertEqual((len(cells), grid.columns), (64, 64))
        self.assertEqual([cells[0].parts, cells[1].parts], [((2, 1.0),), ()])
        self.assertEqual([cells[0].text, cells[1].text], ["set 0: 200 lines", "set 1: unused"])
        self.assertIn("Guessed. 64 sets, a cell each; an open cell is an unused set.", grid.caption)

    def test_neighbouring_sets_are_summed_up(self) -> None:
        # 1000 sets in cells of 3, the last of which has one; four cells become one of 12 sets.
        count, per_cell = 1000, 3
        cells = -(-count // per_cell)
        heat = made.sets(count, per_cell, [30] * cells, [1] * (cells - 1) + [0], [20] + [15] * (cells - 1))
        grid = self.grid(heat, "l2")
        drawn = grid.rows[0].cells
        self.assertEqual(len(drawn), -(-cells // 3))
        self.assertLessEqual(len(drawn), 128)
        self.assertEqual(drawn[0].text, "sets 0 to 8: 3 of 9 unused, 90 lines, at most 20 in one")
        self.assertEqual(drawn[0].parts, ((1, 0.667),))
        self.assertEqual(drawn[-1].text, "set 999: 30 lines")
        self.assertEqual(drawn[-1].parts, ((2, 1.0),))
        self.assertIn("1,000 sets, 9 neighbouring sets to a cell", grid.caption)

    def test_fill_says_how_many_lines_the_used_sets_have(self) -> None:
        # The mean is 4 lines a set; what a set has over that decides.
        lines = [2, 4, 5, 6, 11, 12] + [4] * 58
        lines[-1] += 256 - sum(lines)
        heat = made.sets(64, 1, lines, [0] * 64, lines)
        self.assertEqual([cell.parts[0][0] for cell in self.grid(heat).rows[0].cells[:6]], [0, 1, 1, 2, 2, 3])
        lines = [100] + [0] * 63
        heat = made.sets(64, 1, lines, [int(not line) for line in lines], lines)
        grid = self.grid(heat)
        self.assertEqual(grid.keys[grid.rows[0].cells[0].parts[0][0]].name, "too few lines to judge")
        heat = made.sets(256, 1, [0] * 256, [1] * 256, [0] * 256)
        self.assertEqual(self.grid(heat).rows[0].cells[127], grids.Cell("sets 254 to 255: unused"))

    def test_physical_addresses_and_types_with_cells_are_drawn(self) -> None:
        one = made.block_type("node", 10)
        self.assertIn("at most 3 in one", grids.heat_map([one], "l2", "", "").rows[0].cells[0].text)
        one["caches"]["l2"]["physical"] = None
        self.assertIn("at most 4 in one", grids.heat_map([one], "l2", "", "").rows[0].cells[0].text)
        small = made.block_type("small", 10)
        small["caches"]["l1"]["virtual"]["heat"] = None
        rows = grids.heat_map([made.block_type("node", 10), small], "l1", "", "").rows
        self.assertEqual([row.label for row in rows], ["node"])
        self.assertIsNone(grids.heat_map([small], "l1", "", ""))

    def caption(self, level: str, *guessed: bool, frames: str | None = "no rights", l1_sets: int = 64) -> str:
        types = [made.block_type(f"t{index}", 10) for index in range(len(guessed))]
        for type_, is_guessed in zip(types, guessed):
            if is_guessed:
                type_["caches"]["l2"]["physical"] = None
        document = made.document(*types, unknown={"frames": frames, "huge_pages": None, "pointers": None})
        document["geometry"]["l1"]["sets"] = l1_sets
        return layout.sets_caption(document, types, level)

    def test_the_addresses_are_said_in_captions_and_tables(self) -> None:
        self.assertIn("agree with physical ones", self.caption("l1", False))
        self.assertEqual(self.caption("l1", False, l1_sets=128), "By virtual addresses, which is a guess: no rights.")
        self.assertEqual(self.caption("l2", False, False), "By physical addresses, as the hardware chooses sets.")
        self.assertEqual(self.caption("l2", True, True), "By virtual addresses, which is a guess: no rights.")
        self.assertEqual(self.caption("l2", False, True),
                         "By physical addresses; by virtual ones, which is a guess, for t1: no rights.")
        self.assertIn("not known", self.caption("l2", True, frames=None))
        page = self.page_of()
        self.assertEqual(self.cell(page, "sets of the L2", "node", "Addresses"), "physical")
        self.assertEqual(self.cell(page, "sets of the L2", fixture.NASTY, "Addresses"), "virtual")
        self.assertEqual(self.cell(page, "sets of the L2", "node", "Lines"), "3,072")
        self.assertEqual(self.cell(page, "sets of the L2", fixture.NASTY, "Lines"), "4,096")
        self.assertIn(f"a guess, for {fixture.NASTY}: no <b>rights</b>.", " ".join(page.texts("p")))


class Fixture(LayoutCase):
    def test_the_fixture_is_not_changed_by_rendering(self) -> None:
        document = made.nasty()
        before = copy.deepcopy(document)
        layout.render(document)
        self.assertEqual(document, before)

    def test_it_has_what_the_command_writes(self) -> None:
        """Each name that the reader wants stands in the format's description."""
        described = (pathlib.Path(fixture.ROOT) / "src/espalier/inspect/result.hpp").read_text(encoding="utf-8")
        wanted: set[str] = set()

        def names(shape: Any) -> None:
            if isinstance(shape, layout_file.OrNull):
                names(shape.shape)
            elif isinstance(shape, list):
                names(shape[0])
            elif isinstance(shape, dict):
                wanted.update(shape)
                for member in shape.values():
                    names(member)

        names(layout_file.LAYOUT)
        self.assertEqual([name for name in sorted(wanted) if not re.search(rf"\b{name}\b", described)], [])


if __name__ == "__main__":
    unittest.main()
