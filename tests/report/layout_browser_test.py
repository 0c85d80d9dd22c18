"""Lets the command make pages of layouts, opens them in Chromium and checks what a reader sees.

    layout_browser_test.py COMMAND  of a map, and of a program

Exits with 77 (skipped) where Chromium, its driver or selenium is missing.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import browser_test  # goes on under the python that has selenium
from browser_test import DESKTOP, LOADED, OVERFLOWING, PHONE, BrowserCase, declared, luminance
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

GRID_CELLS, MATRIX_ROWS = 128, 12
COUNTED = """
return Object.fromEntries([...document.querySelectorAll("[data-grid]")].map((grid) => {
  const seen = (part) => {
    const box = part.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };
  const all = (selector) => [...grid.querySelectorAll(selector)];
  return [grid.dataset.grid, {
    rows: all("svg").length, cells: all(".cell").filter(seen).length, gaps: all(".gap").filter(seen).length,
    parts: all(".part").filter(seen).length,
    fills: [...new Set(all(".part").map((part) => getComputedStyle(part).fill))],
    labels: all(".label").map((label) => label.textContent),
  }];
}));
"""
MATRIX = """
return ["in-pair", "in-line", "in-page"].map((unit) => [...document.querySelectorAll(
  `.scroll:has(#table-${unit}) .shade`)].map((cell) => [cell.textContent, getComputedStyle(cell).backgroundColor]));
"""
COMMAND = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "espalier").resolve()


def made(*arguments: str) -> tuple[dict[str, Any], str]:
    """The layout in JSON, and the page that the command made of it."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([COMMAND, "inspect", "--json", "layout.json", "--report", "layout.html", *arguments],
                              cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return tuple(read((pathlib.Path(folder) / name).read_text(encoding="utf-8"))
                     for read, name in ((json.loads, "layout.json"), (str, "layout.html")))


def map_cells(layout: dict[str, Any]) -> tuple[int, int]:
    """Cells of the page map, and how many of these stand for a gap of more than 64 cells."""
    given = layout["page_map"]
    numbers = [first // given["pages_per_cell"] for first in given["first_page"]]
    gaps = [after - before - 1 for before, after in zip(numbers, numbers[1:])]
    return len(numbers) + sum(gap if gap <= 64 else 1 for gap in gaps), sum(gap > 64 for gap in gaps)


def heat_cells(layout: dict[str, Any], level: str) -> list[int]:
    """Cells of each row of a cache's figure."""
    types = sorted((one for one in layout["types"] if one["blocks"]), key=lambda one: -one["bytes_held"])
    found = []
    for one in types[:MATRIX_ROWS]:
        cache = one["caches"][level]
        given = len((cache["physical"] or cache["virtual"])["heat"]["lines"])
        found.append(-(-given // -(-given // GRID_CELLS)))
    return found


class LayoutPage:
    """Holds for the page of whatever was looked at."""

    arguments: tuple[str, ...]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.layout, cls.html = made(*cls.arguments)

    def assert_whole(self) -> None:
        """Every figure with the cells that the JSON asks for, and nothing that the browser complains of."""
        self.assertEqual(self.browser.errors(), [])
        self.assertEqual(self.script(LOADED), [])
        self.assertEqual(self.script(OVERFLOWING, self.script("return innerWidth")), [])
        drawn = self.script(COUNTED)
        self.assertEqual(sorted(drawn), sorted(declared(self.html)))
        cells, gaps = map_cells(self.layout)
        self.assertEqual((drawn["page-map"]["cells"], drawn["page-map"]["gaps"]), (cells, gaps))
        self.assertEqual(drawn["page-map"]["rows"], -(-cells // 64))
        for level in ("l1", "l2", "llc"):
            with self.subTest(level):
                rows = heat_cells(self.layout, level)
                self.assertEqual((drawn[f"sets-{level}"]["cells"], drawn[f"sets-{level}"]["rows"]),
                                 (sum(rows), len(rows)))
        for name, grid in drawn.items():
            with self.subTest(name):
                self.assertGreater(grid["parts"], 0)
                self.assertEqual({"rgb(0, 0, 0)", "none"} & set(grid["fills"]), set())

    def test_is_whole_on_a_desk_and_on_a_phone_in_the_dark(self) -> None:
        fills = []
        self.browser.open(self.html)
        for size, dark in ((DESKTOP, False), (PHONE, True)):
            with self.subTest(size):
                self.browser.emulate(size, dark)
                self.assert_whole()
                back = luminance(self.script("return getComputedStyle(document.body).backgroundColor"))
                self.assertEqual(back < 0.2, dark)
                fills.append(self.script(COUNTED)["page-map"]["fills"])
                self.assert_matrix()
        self.assertNotEqual(*fills)

    def assert_matrix(self) -> None:
        """It has a cell for each pair of types, and for others."""
        types = min(MATRIX_ROWS, sum(one["blocks"] > 0 for one in self.layout["types"]))
        for cells in self.script(MATRIX):
            self.assertEqual(len(cells), types * (types + 1))
            shades = {colour for text, colour in cells if text.startswith("0")}
            self.assertFalse(shades & {colour for text, colour in cells if text.startswith("100")})


class MapPage(LayoutPage, BrowserCase):
    arguments = ("--map", "int_lf/studied", "--keys", "20000")

    def note(self, name: str) -> str:
        return self.script(f"return document.querySelector('figure:has(#{name}) p.note').textContent")

    def text_of(self, name: str, row: int, column: int) -> str:
        return declared(self.html)[name]["rows"][row]["cells"][column][0]

    def test_cells_and_kinds_answer_the_keyboard_and_the_pointer(self) -> None:
        self.browser.open(self.html)
        self.go_from_cell_to_cell()
        self.point_at_a_cell()
        self.show_one_kind_alone()

    def go_from_cell_to_cell(self) -> None:
        self.assertLessEqual({"page-map", "sets-l1", "sets-l2", "sets-llc"}, self.focused(40, "one.id"))
        grid = self.find("#page-map")
        for keys, row, column in (((), 0, 0), ((Keys.RIGHT, Keys.RIGHT), 0, 2), ((Keys.DOWN,), 1, 2),
                                  ((Keys.END,), 1, 63), ((Keys.RIGHT,), 2, 0), ((Keys.LEFT,), 1, 63),
                                  ((Keys.HOME, Keys.UP), 0, 0), ((Keys.LEFT, Keys.UP), 0, 0)):
            self.script("document.getElementById('page-map').focus()")
            if keys:
                grid.send_keys(*keys)
            self.assertEqual(self.note("page-map"), self.text_of("page-map", row, column))
            self.assertEqual(self.script("return document.querySelectorAll('#page-map .cursor').length"), 1)
        self.script("document.getElementById('sets-l1').focus()")
        label = declared(self.html)["sets-l1"]["rows"][0]["label"]
        self.assertEqual(self.note("sets-l1"), f"{label}, {self.text_of('sets-l1', 0, 0)}")

    def point_at_a_cell(self) -> None:
        driver = self.browser.driver
        strip = self.find("#page-map").find_elements(By.TAG_NAME, "svg")[3]
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", strip)
        browser_test.webdriver.ActionChains(driver).move_to_element(strip).perform()
        self.assertIn(self.note("page-map"), {self.text_of("page-map", 3, column) for column in (31, 32)})
        box = self.script("const box = document.querySelector('figure:has(#page-map) p.note')"
                          ".getBoundingClientRect(); return [box.top, box.bottom, innerHeight]")
        self.assertTrue(0 <= box[0] and box[1] <= box[2], box)  # it sticks to the window's edge

    def show_one_kind_alone(self) -> None:
        both = self.script(COUNTED)["page-map"]
        button = next(one for one in self.browser.driver.find_elements(By.CSS_SELECTOR, "button[data-key]")
                      if one.text == "node")
        for pressed, classes in (("true", ["rest", "type"]), ("false", ["type"])):
            button.send_keys(Keys.ENTER)
            self.assertEqual(button.get_attribute("aria-pressed"), pressed)
            kinds = self.script("return [...document.querySelectorAll('#page-map .part')].map((part) => "
                                "part.getAttribute('class').replace('part ', ''))")
            self.assertEqual(sorted({kind.rstrip("012345") for kind in kinds}), classes)
            alone = sum(kind != "rest" for kind in kinds)
            holds = sum(any(self.layout["types"][place]["name"] == "node" for place, _ in cell)
                        for cell in self.layout["page_map"]["most"])
            self.assertEqual(alone, holds if pressed == "true" else both["parts"])

    def test_a_broken_page_is_noticed(self) -> None:
        html = browser_test.without_policy(self.html)
        self.browser.open(html.replace('data-grid="sets-l2"', 'data-grid="sets-l9"'))
        self.assertIn("no data for the figure sets-l9", " ".join(self.browser.errors()))
        self.browser.open(self.html.replace("this.draw();\n    }\n\n    choose", "}\n\n    choose"))
        self.assertTrue(self.browser.errors())  # the policy stops a script that is not the page's own
        self.assertEqual(self.script(COUNTED)["page-map"]["cells"], 0)


class ProgramPage(LayoutPage, BrowserCase):
    arguments = ("--", "/usr/bin/git", "--version")


if __name__ == "__main__":
    unittest.main()
