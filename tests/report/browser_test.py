"""Opens the report in Chromium and checks what a reader sees.

    browser_test.py                       a page made from the fixture, and the broken controls
    browser_test.py --report report.html  an existing page instead of the fixture

Exits with 77 (skipped) where Chromium, its driver or selenium is missing.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import importlib.util
import json
import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

SKIPPED = 77
LONG = float(os.environ.get("ESPALIER_STRESS_SCALE", "1")) > 1  # as in `./check --long`


def require_browser() -> None:
    if importlib.util.find_spec("selenium") is None:
        skip("python3-selenium, or this is not the python that it is for,")
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            skip(program)


def skip(missing: str) -> None:
    print(f"skipped: {missing} is not installed")
    sys.exit(SKIPPED)


require_browser()

import fixture  # noqa: E402
from espalier_report import page, plotly_bundle, results, study  # noqa: E402
from selenium import webdriver  # noqa: E402
from selenium.common.exceptions import TimeoutException  # noqa: E402
from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

FLAGS = ("--no-sandbox", "--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--hide-scrollbars")
DESKTOP, PHONE, TURNED = (1400, 900), (390, 844), (844, 390)

SETTLED = """
return document.readyState === "complete" && [...document.querySelectorAll("[data-figure]")]
  .every((plot) => plot.querySelector(".main-svg, .panels, .note"));
"""
COUNTED = """
const count = (plot, selector) => plot.querySelectorAll(selector).length;
return Object.fromEntries([...document.querySelectorAll("[data-figure]")].map((plot) => [
  plot.dataset.figure, {
    svg: count(plot, ".main-svg > *, .panel path"),
    bars: [...plot.querySelectorAll(".bars .point path")]
      .filter((bar) => bar.getBBox().width > 0).length,
    lines: [...plot.querySelectorAll(".scatterlayer .js-line, .panel .own")]
      .filter((line) => line.getBBox().width > 0 || line.getBBox().height > 0).length,
    labels: [...plot.querySelectorAll(".yaxislayer-above .ytick text")]
      .map((label) => label.textContent),
    words: [...plot.querySelectorAll(".textpoint text")].map((word) => word.textContent.trim()),
    clipped: [...plot.querySelectorAll(".ytick text, .xtick text, .textpoint text, .panel .tick:not([hidden])")]
      .filter((word) => {
        const box = word.getBoundingClientRect(), frame = plot.getBoundingClientRect();
        return box.left < frame.left - 1 || box.right > frame.right + 1;
      }).map((word) => word.textContent),
    overlapping: [...plot.querySelectorAll(".panel")].flatMap((panel) => [
      ...panel.querySelectorAll(".tick:not([hidden])")].map((tick) => [tick.textContent, tick.getBoundingClientRect()])
      .filter(([, box], index, all) => all.slice(0, index).some(([, other]) => box.left < other.right &&
        other.left < box.right && box.top < other.bottom && other.top < box.bottom)).map(([words]) => words)),
  }]));
"""
# Of each bar of the first plot from top to bottom: where its number ends, and where it begins, each with its middle.
NUMBERS = """
const boxes = (selector) => [...document.querySelectorAll(`#throughput-0 ${selector}`)]
  .map((one) => one.getBoundingClientRect()).sort((one, other) => one.top - other.top);
const middle = (box) => (box.top + box.bottom) / 2, numbers = boxes(".textpoint text");
return boxes(".bars .point path").map((bar, index) => [
  numbers[index].right, bar.left, Math.abs(middle(numbers[index]) - middle(bar))]);
"""
# Rows and cells of each grid, and the kinds of its parts.
STRIPS = """
return Object.fromEntries([...document.querySelectorAll("[data-grid]")].map((grid) => [grid.dataset.grid, [
  grid.querySelectorAll("svg").length,
  [...grid.querySelectorAll(".cell")].filter((cell) => cell.getBoundingClientRect().width > 0).length,
  [...new Set([...grid.querySelectorAll(".part")].map((part) => part.getAttribute("class")))].sort(),
]]));
"""
# Titles of vertical axes, and whether they lie within their plot.
TITLES = """
return [...document.querySelectorAll("[data-figure]")].map((plot) => {
  const title = plot.querySelector(".ytitle"), box = title.getBoundingClientRect(), frame = plot.getBoundingClientRect();
  return [title.textContent, box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1];
});
"""
# What the page loads: Chromium does not tell of files that it found.
LOADED = """
const named = [...document.querySelectorAll("[src], link[href]")].map((one) => one.src || one.href);
return [...new Set([...named, ...performance.getEntriesByType("resource").map((entry) => entry.name)])]
  .filter((name) => !name.startsWith("data:"));
"""
# Upper and lower ends of the bars of each plot, from top to bottom.
BARS = """
return [...document.querySelectorAll("[data-figure]")].map((plot) => [...plot.querySelectorAll(".bars .point path")]
  .map((bar) => bar.getBoundingClientRect()).map((box) => [box.top, box.bottom]).sort((one, other) => one[0] - other[0]));
"""
# Where the parts of the first screen lie, and how many rows of the matrix are wholly on it.
FIRST_SCREEN = """
const box = (selector) => document.querySelector(selector).getBoundingClientRect();
const rows = [...document.querySelectorAll("header > .matrix tbody tr")];
return {
  title: box("h1").bottom, facts: box(".facts").bottom, matrix: box(".matrix").bottom, verdicts: box(".verdicts").top,
  rows: rows.filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length,
  wider: document.querySelector(".matrix").scrollWidth - document.querySelector(".matrix").clientWidth,
};
"""
# The first box of a table that is much wider than it, at its left or right end: where an edge without text lies.
SCROLLED = """
const box = [...document.querySelectorAll(".scroll")]
  .find((one) => one.scrollWidth > one.clientWidth + 60 && !one.closest("details:not([open])"));
if (!box) return null;
box.scrollLeft = arguments[0] ? box.scrollWidth : 0;
const frame = box.getBoundingClientRect(), row = box.querySelector("tbody tr").getBoundingClientRect();
const [first, head] = ["tbody th", "thead th"].map((one) => box.querySelector(one).getBoundingClientRect());
return { right: frame.right + scrollX, top: row.top + scrollY + 3, first: first.left - frame.left,
  head: head.left - frame.left };
"""
PIXELS = """
const bytes = Uint8Array.from(atob(arguments[0]), (one) => one.charCodeAt(0)), done = arguments[1];
createImageBitmap(new Blob([bytes])).then((image) => {
  const context = new OffscreenCanvas(image.width, 1).getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, 1);
  done(Array.from({ length: image.width }, (_, index) => [...data.slice(4 * index, 4 * index + 3)]));
});
"""
# Colours and dashes of the curves of a plot.
STROKES = """
return [...document.querySelectorAll("#latency-1 .scatterlayer .js-line")].map((line) => getComputedStyle(line))
  .map((style) => [style.stroke, style.strokeDasharray]);
"""
WATCH_FOCUS = "window.focused = []; document.addEventListener('focusin', ({ target }) => focused.push(target));"
UNFOLD, FOLD = (f"for (const one of document.querySelectorAll('details')) one.open = {is_open};"
                for is_open in ("true", "false"))
# Whether each plot is nearly as wide as the column that a window of this width leaves it.
WIDE = """
return innerWidth === arguments[0] && [...document.querySelectorAll("[data-figure] .main-svg")].every((svg) => {
  const width = svg.getBoundingClientRect().width, column = svg.closest("[data-figure]").clientWidth;
  return width === 0 || Math.abs(width - column) < 2;
});
"""
# The width of a page that is wider than its window, and the elements that make it so.
OVERFLOWING = """
const width = document.documentElement.scrollWidth;
return width <= arguments[0] ? [] : [width, ...[...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > arguments[0] + 1)
  .map((one) => `${one.tagName}.${one.className}`)];
"""
# Of each small chart of a figure: its name, its words, the colour of its curve, and where its ticks stand in it.
PANELS = """
return [...document.querySelectorAll(`#${arguments[0]} .panel`)].map((panel) => {
  const frame = panel.querySelector(".frame").getBoundingClientRect(), own = panel.querySelector(".own");
  return { name: panel.querySelector(".name").textContent, said: panel.querySelector(".said").textContent,
    colour: getComputedStyle(own).stroke, width: own.getBoundingClientRect().width,
    others: document.querySelectorAll(panel.querySelector("use").getAttribute("href")).length,
    ticks: [...panel.querySelectorAll(".tick:not([hidden])")]
      .map((tick) => [tick.textContent, tick.getBoundingClientRect()])
      .map(([words, box]) => [words, Math.round(box.left - frame.left), Math.round(box.top - frame.top)]) };
});
"""
# Bars of each trace of the first plot, and whether they are filled with a pattern.
FILLS = """
return [...document.querySelectorAll("#throughput-0 .bars")].map((trace) => [...trace.querySelectorAll(".point path")])
  .map((bars) => [bars.length, bars.every((bar) => getComputedStyle(bar).fill.startsWith("url("))]);
"""
LOOK = """
const plot = document.querySelector("[data-figure] .ytick text");
const font = plot ? getComputedStyle(plot).fill : "";
return [getComputedStyle(document.body).backgroundColor, font];
"""

OPTIONS = argparse.Namespace(report=None)


@functools.cache
def fixture_page(document: Callable[[], dict[str, Any]] = fixture.document) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "results.json"
        source.write_text(json.dumps(document()), encoding="utf-8")
        return page.render(results.load([source]), plotly_bundle.load())


def write_study(folder: pathlib.Path, document: dict[str, Any]) -> None:
    source = folder / "results.json"
    source.write_text(json.dumps(document), encoding="utf-8")
    for one in study.files(results.load([source]), "index.html", plotly_bundle.load()):
        (folder / one.name).write_text(one.content, encoding="utf-8")


def without_policy(html: str) -> str:
    """That which stops scripts and files that are not the page's own."""
    return re.sub(r"<meta http-equiv.*?>", "", html)


def text_of(page_: str | pathlib.Path) -> str:
    return page_ if isinstance(page_, str) else page_.read_text(encoding="utf-8")


def luminance(colour: str) -> float:
    red, green, blue = (float(part) for part in re.findall(r"[\d.]+", colour)[:3])
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def declared(html: str) -> dict[str, Any]:
    """What the page's own data block says that each figure draws at first."""
    block = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.S)
    return json.loads(block[1]) if block else {}


def lengths_of_bars(figure: dict[str, Any]) -> list[float]:
    return [value for trace in figure["views"][0]["traces"] if trace["type"] == "bar" for value in trace["x"] if value > 0]


def narrow_bars(figure: dict[str, Any]) -> int:
    """How many may be less than half a pixel long on a phone, where they are not drawn."""
    lengths = lengths_of_bars(figure)
    return sum(length < max(lengths) / 200 for length in lengths)


def expected_drawing(figure: dict[str, Any]) -> tuple[int, int]:
    traces = figure["views"][0]["traces"]
    bars = len(lengths_of_bars(figure))
    lines = sum("lines" in trace["mode"] and trace["visible"] and len(trace["x"]) > 1
                for trace in traces if trace["type"] == "scatter")
    return bars, lines


class Browser:
    """One headless Chromium with a profile of its own, for all pages of this run."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="espalier-browser-")
        options = Options()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--user-data-dir={self.folder.name}/profile"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        try:
            socket.getaddrinfo("localhost", None)
        except OSError as error:
            raise SystemExit("this machine does not know 'localhost', by which the browser is driven: add the line "
                             f"'127.0.0.1 localhost' to /etc/hosts ({error.strerror})") from None
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver") or ""), options=options)
        self.said: list[str] = []

    def quit(self) -> None:
        self.driver.quit()
        self.folder.cleanup()

    def errors(self) -> list[str]:
        """All since the page was opened."""
        self.said += [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return self.said

    def emulate(self, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1,
            "mobile": size in (PHONE, TURNED)})
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": size in (PHONE, TURNED)})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def open(self, page_: str | pathlib.Path, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        path = pathlib.Path(self.folder.name) / "page.html"
        if isinstance(page_, pathlib.Path):
            path = page_
        else:
            path.write_text(page_, encoding="utf-8", errors="replace")
        self.emulate(size, dark)
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.said = []
        self.driver.get(path.resolve().as_uri())
        # A page that never settles is judged as it stands: what is missing is then a fault.
        with contextlib.suppress(TimeoutException):
            WebDriverWait(self.driver, 30).until(lambda driver: driver.execute_script(SETTLED))

    def drawings(self) -> dict[str, dict[str, Any]]:
        return self.driver.execute_script(COUNTED)

    def faults(self, page_: str | pathlib.Path) -> list[str]:
        """Everything wrong with the open page; the broken controls must not pass this."""
        html = text_of(page_)
        found = [f"console: {message}" for message in self.errors()]
        figures_ = {name: data for name, data in declared(html).items() if "views" in data}
        grids_ = set(declared(html)) - set(figures_)
        strips = self.driver.execute_script(STRIPS)
        if set(strips) != grids_:
            found.append(f"grids {sorted(strips)} drawn for data of {sorted(grids_)}")
        found += [f"{name}: no cell" for name, (_, cells, _) in strips.items() if cells == 0]
        drawings = self.drawings()
        if not (drawings or strips) or set(drawings) != set(figures_):
            found.append(f"figures {sorted(drawings)} drawn for data of {sorted(figures_)}")
        for name, drawing in drawings.items():
            wanted = expected_drawing(figures_[name]) if name in figures_ else (0, 0)
            if drawing["svg"] == 0 or wanted == (0, 0) and name not in figures_:
                found.append(f"{name}: no plot")
            elif not (wanted[0] - narrow_bars(figures_[name]) <= drawing["bars"] <= wanted[0] and
                      drawing["lines"] == wanted[1]):
                found.append(f"{name}: {drawing['bars']} bars and {drawing['lines']} lines "
                             f"instead of {wanted[0]} and {wanted[1]}")
            if drawing["clipped"]:
                found.append(f"{name}: text cut off: {drawing['clipped']}")
            if drawing["overlapping"]:
                found.append(f"{name}: ticks overlap: {drawing['overlapping']}")
        loaded = self.driver.execute_script(LOADED)
        beside = re.findall(r'<script src="(plotly-[\d.]+\.js)"></script>', html)
        return found + [f"loads {name}" for name in loaded
                        if not (name.startswith("file:") and name.rpartition("/")[2] in beside)]

    def colours(self, left: float, top: float, width: int) -> list[list[int]]:
        """Of the pixels of a line of the page."""
        clip = {"x": round(left), "y": round(top), "width": width, "height": 1, "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return self.driver.execute_async_script(PIXELS, shot["data"])


@functools.cache
def the_browser() -> Browser:
    started = Browser()
    atexit.register(started.quit)
    return started


class BrowserCase(unittest.TestCase):
    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = the_browser()

    def script(self, text: str, *arguments: Any) -> Any:
        return self.browser.driver.execute_script(text, *arguments)

    def find(self, selector: str) -> Any:
        return self.browser.driver.find_element(By.CSS_SELECTOR, selector)

    def focused(self, tabs: int, what: str) -> set[str]:
        """What each element is called that the keyboard comes to."""
        self.script(WATCH_FOCUS)
        webdriver.ActionChains(self.browser.driver).send_keys(Keys.TAB * tabs).perform()
        return set(self.script(f"return focused.map((one) => {what})"))


class ReportPage(BrowserCase):
    """Holds for every report, here for the one given with --report."""

    document: Callable[[], dict[str, Any]]
    # Bars and lines of each figure of some pages, by file. The first of these is the page that every test is made with.
    drawn: dict[str, dict[str, tuple[int, int]]] = {}
    without_figures: tuple[str, ...] = ()
    sizes = (DESKTOP, PHONE)  # it is opened in the first, which then becomes the other
    known_kinds = False  # another class has figures of the same kinds: this page is turned in the long form
    pages: dict[str, str | pathlib.Path]
    page: str | pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.page = OPTIONS.report or fixture_page(cls.document)
        cls.pages = {"": cls.page}

    def look(self, name: str, size: tuple[int, int]) -> None:
        """At what only this page has."""

    def test_every_page_is_whole_and_no_wider_than_its_window_even_unfolded(self) -> None:
        for name, page_ in self.pages.items():
            self.browser.open(page_, self.sizes[0])
            for size in self.sizes:
                with self.subTest(name, size=size):
                    self.browser.emulate(size)
                    self.wait_for_width(size)
                    self.assertEqual(self.script("return innerWidth"), size[0])
                    self.assertEqual(self.script(OVERFLOWING, size[0]), [])
                    self.assertEqual(
                        self.browser.errors() if name in self.without_figures else self.browser.faults(page_), [])
                    if size == PHONE:
                        self.assert_tables_show_what_is_hidden()
                        if page_ == self.page and (LONG or not self.known_kinds):
                            self.assert_that_it_can_be_turned_and_changes_its_colours()
                    if name in self.drawn:
                        self.assertEqual({id_: (drawing["bars"], drawing["lines"])
                                          for id_, drawing in self.browser.drawings().items()}, self.drawn[name])
                    self.look(name, size)
                    self.script(UNFOLD)
                    self.assertEqual(self.script(OVERFLOWING, size[0]), [])
                    self.assertEqual(self.browser.errors(), [])
                    self.script(FOLD)

    def assert_that_it_can_be_turned_and_changes_its_colours(self) -> None:
        self.assert_scheme(dark=False)
        for size, dark in (TURNED, True), (PHONE, False):
            self.browser.emulate(size, dark)
            self.assert_scheme(dark)
            self.wait_for_width(size)
        self.assertEqual(self.browser.faults(self.page), [])

    def wait_for_width(self, size: tuple[int, int]) -> None:
        """The plots hear of a new width a moment later. A page that never settles is judged as it stands."""
        with contextlib.suppress(TimeoutException):
            WebDriverWait(self.browser.driver, 20).until(lambda driver: driver.execute_script(WIDE, size[0]))

    def assert_tables_show_what_is_hidden(self) -> None:
        """A table that is wider than the phone fades where more of it is, and keeps its first column."""
        for at_end in (False, True):
            found = self.script(SCROLLED, at_end)
            if found is None:
                return
            self.assertLessEqual(max(abs(found["first"]), abs(found["head"])), 2)
            edge = [sum(colour) for colour in self.browser.colours(found["right"] - 45, found["top"], 42)]
            shade = abs(edge[-1] - edge[0])
            self.assertTrue(shade < 12 if at_end else shade > 90, f"{shade} at {'the end' if at_end else 'first'}")

    def assert_scheme(self, dark: bool) -> None:
        """The page hears of a change a moment later, hence the wait."""
        look: list[str] = []

        def settled(driver: webdriver.Chrome) -> bool:
            look[:] = driver.execute_script(LOOK)
            back, font = map(luminance, look)
            return back < 0.2 and font > 0.7 if dark else back > 0.8 and font < 0.3

        with contextlib.suppress(TimeoutException):
            WebDriverWait(self.browser.driver, 15).until(settled)
        self.assertTrue(settled(self.browser.driver), f"background and font are {look}")


class FixturePage(ReportPage):
    document = staticmethod(fixture.document)
    drawn = {"": fixture.DRAWN}

    def look(self, name: str, size: tuple[int, int]) -> None:
        drawing = self.browser.drawings()["throughput-0"]
        self.assertEqual(len(drawing["labels"]), 5)
        self.assertIn("<b>a&b</b>", "".join(drawing["labels"]))  # names stay text
        self.assertEqual(drawing["labels"][-1], "absent_peer")
        self.assertEqual(drawing["words"][-1], fixture.UNAVAILABLE)
        self.assertNotIn(fixture.UNAVAILABLE, drawing["words"][:-1])
        # The median stands before its bar, not at the whisker's end.
        for number_ends, bar_begins, apart in self.script(NUMBERS):
            self.assertTrue(bar_begins - 12 < number_ends <= bar_begins, (number_ends, bar_begins))
            self.assertLess(apart, 3)

    def test_views_and_lines_can_be_chosen_and_the_keyboard_reaches_all(self) -> None:
        self.browser.open(self.page)
        seen = self.focused(60, "one.className || one.localName")
        self.assertLessEqual({"a", "select", "button", "scroll", "summary"}, seen)
        driver = self.browser.driver
        frame = self.find("figure:has(#latency-0)")
        Select(frame.find_element(By.TAG_NAME, "select")).select_by_visible_text("lookup, 4 threads")
        button = frame.find_element(By.CSS_SELECTOR, "button[data-label=ticket]")
        self.assertEqual(button.get_attribute("aria-pressed"), "true")
        button.send_keys(Keys.ENTER)
        button = driver.switch_to.active_element
        self.assertEqual(button.get_attribute("data-label"), "ticket")
        self.assertEqual(button.get_attribute("aria-pressed"), "false")
        self.assertEqual(self.browser.drawings()["latency-0"]["lines"], 2)
        note = frame.find_element(By.CSS_SELECTOR, "p.note").text
        self.assertIn("Unavailable, not measured: ", note)
        self.assertIn("absent_peer", note)
        Select(self.find("#memory-0-view")).select_by_visible_text("update-heavy")
        self.assertEqual(self.browser.drawings()["memory-0"]["bars"], 2)
        self.assertEqual(self.browser.errors(), [])


class ManyPage(ReportPage):
    """Thirty maps in four workloads, and a first screen that holds the comparison."""

    document = staticmethod(fixture.many_document)
    sizes = (PHONE, DESKTOP)

    def look(self, name: str, size: tuple[int, int]) -> None:
        found = self.script(FIRST_SCREEN)
        if size == PHONE:
            self.assertGreaterEqual(found["rows"], 5)
            self.assertGreater(found["wider"], 0)
        else:
            ends = [found[part] for part in ("title", "facts", "matrix", "verdicts")]
            self.assertEqual(ends, sorted(ends))
            self.assertLess(found["verdicts"], DESKTOP[1])
            self.assertEqual((found["rows"], found["wider"]), (12, 0))
            self.look_at_roles_and_the_best()
        # Each of many curves has a small chart with the same axes.
        panels = self.panels()
        self.assertEqual(len(panels), 10)
        self.assertEqual(len({panel["name"] for panel in panels}), 10)
        self.assertGreaterEqual(len({panel["colour"] for panel in panels}), 8)
        self.assertTrue(all(panel["others"] == 1 and panel["width"] > 50 for panel in panels))
        self.assertTrue(all(panel["ticks"] == panels[0]["ticks"] for panel in panels), panels[0])
        self.assertGreaterEqual(len(panels[0]["ticks"]), 4)
        self.assertRegex(panels[0]["said"], r"^50\u202f%: .+, 99\.9\u202f%: .+$")
        if size == DESKTOP:
            self.use_small_charts()

    def look_at_roles_and_the_best(self) -> None:
        self.assertEqual(self.script(FILLS), [[24, False], [3, True], [3, True]])
        marks = self.browser.driver.find_elements(By.CSS_SELECTOR, ".matrix .role")
        self.assertEqual({mark.get_attribute("textContent") for mark in marks}, {"baseline", "peer"})
        for best in self.browser.driver.find_elements(By.CSS_SELECTOR, ".matrix .best"):
            self.assertGreaterEqual(int(best.value_of_css_property("font-weight")), 600)
            self.assertNotEqual(best.value_of_css_property("background-color"), "rgba(0, 0, 0, 0)")

    def panels(self) -> list[dict[str, Any]]:
        return self.script(PANELS, "latency-1")

    def button(self, words: str) -> Any:
        return self.find("figure:has(#latency-1)").find_element(By.XPATH, f".//button[contains(., '{words}')]")

    def use_small_charts(self) -> None:
        """One tells the pointer its numbers, and all can share one."""
        before = self.panels()[0]["said"]
        webdriver.ActionChains(self.browser.driver).move_to_element(self.find("#latency-1 .frame")).perform()
        said = self.panels()[0]["said"]
        self.assertRegex(said, r"^99\.5\u202f%: [\d.]+\u202f.s$|^99\.9\u202f%: [\d.]+\u202f.s$")
        self.assertNotEqual(said, before)
        self.assertTrue(self.find("#latency-1 .dot").is_displayed())
        self.button("One chart").click()
        self.assertEqual(self.panels(), [])
        self.assertEqual(self.browser.drawings()["latency-1"]["lines"], 10)
        self.assertEqual(self.button("One chart").get_attribute("aria-pressed"), "true")
        strokes = self.script(STROKES)
        self.assertEqual(len(strokes), 10)
        self.assertEqual(len(set(map(tuple, strokes))), 10, strokes)
        self.button("A chart for each map").click()
        self.assertEqual(len(self.panels()), 10)
        self.button("Show all").click()
        self.assertEqual(len(self.panels()), 30)
        self.assertEqual(self.browser.errors(), [])


class SimulatedPage(ReportPage):
    """The page of simulated results, with bars in stacks and in groups."""

    known_kinds = True
    document = staticmethod(fixture.calibrated_document)
    drawn = {"": fixture.SIMULATED_DRAWN}

    def look(self, name: str, size: tuple[int, int]) -> None:
        # A place is hidden and shown again.
        for bars in (12, 15):
            self.find("figure:has(#served-0) button[data-label='remote transfer']").click()
            self.assertEqual(self.browser.drawings()["served-0"]["bars"], bars)


class FigurePages(ReportPage):
    """The pages of a study's figures, by file, with their index."""

    @classmethod
    def setUpClass(cls) -> None:
        super(ReportPage, cls).setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="espalier-study-")
        cls.addClassCleanup(folder.cleanup)
        write_study(pathlib.Path(folder.name), cls.document())
        cls.pages = {path.name: path for path in sorted(pathlib.Path(folder.name).glob("*.html"))}
        cls.page = cls.pages[next(iter(cls.drawn))]


class StudyPage(FigurePages):
    """The page of a simulated study's figure, with bars in pairs. One of measurements has other words."""

    known_kinds = True
    document = staticmethod(functools.partial(fixture.undecided_document, True))
    drawn = {"figure-2.html": fixture.STUDY_DRAWN}
    without_figures = ("figure-3.html", "index.html")


class ChartedPage(FigurePages):
    """The page of a simulated figure over the sizes of nodes: pictures of indices, and lines. Its titles are longer than
    those of one of measurements."""

    known_kinds = True
    document = staticmethod(functools.partial(fixture.charted_document, True))
    drawn = {"ring-16.html": fixture.CHARTED_DRAWN, "fresh.html": fixture.CHARTED_ALONE_DRAWN}

    def look(self, name: str, size: tuple[int, int]) -> None:
        if self.pages[name] == self.page:  # it has every index of every malloc
            strips = self.script(STRIPS)
            self.assertEqual({id_: (rows, cells) for id_, (rows, cells, _) in strips.items()}, fixture.CHARTED_GRIDS)
            self.assertEqual([kinds for *_, kinds in strips.values()], [["part load1", "part type3"], ["part load1"]])
            titles = self.script(TITLES)
            self.assertGreater(len(titles), 0)
            for words, fits in titles:
                self.assertIn("simulated on i7_4770", words)
                self.assertTrue(fits, f"{words} is cut off at {size}")
            if size == DESKTOP:
                self.ask_a_cell_and_hide_a_curve()

    def ask_a_cell_and_hide_a_curve(self) -> None:
        grid = self.find("#placement-0")
        grid.send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        note = grid.find_element(By.XPATH, "following-sibling::p")
        self.assertEqual(note.text, "glibc, 496 bytes, index 1: 8 lines, 4 more than ways")
        for lines in (5, 6):
            self.find("figure:has(#chart-0) button[data-label='glibc, tle']").click()
            self.assertEqual(self.browser.drawings()["chart-0"]["lines"], lines)

    def test_without_the_library_the_page_names_it_and_a_missing_picture_is_noticed(self) -> None:
        broken = text_of(self.page).replace('data-grid="placement-1"', "")
        self.browser.open(broken)
        self.assertIn("grids [", " ".join(self.browser.faults(broken)))
        notes = self.browser.driver.find_elements(By.CSS_SELECTOR, ".plot .note")
        self.assertEqual(len(notes), len(fixture.CHARTED_DRAWN))
        for note in notes:
            self.assertRegex(note.text, r"needs the file plotly-[\d.]+\.js beside the page; the tables hold the same")


class CostPage(FigurePages):
    """Bars of mallocs with what they are held against."""

    known_kinds = True
    document = staticmethod(fixture.cost_document)
    drawn = {"time.html": fixture.COST_DRAWN, "classes.html": fixture.COST_CLASSES_DRAWN}
    without_figures = ("memory.html", "index.html")

    def look(self, name: str, size: tuple[int, int]) -> None:
        for bars in self.script(BARS) if self.pages[name] == self.page else ():
            self.assertEqual(len(bars), 4)
            for (_, bottom), (top, _) in zip(bars, bars[1:]):
                self.assertLess(bottom, top, bars)


class BrokenControls(BrowserCase):
    """The checks above are worth something only if they catch pages that are broken."""

    def faults(self, html: str) -> str:
        self.browser.open(html)
        return " ".join(self.browser.faults(html))

    def test_each_fault_is_noticed(self) -> None:
        html = fixture_page()
        whole = json.dumps(declared(html)["memory-0"], ensure_ascii=False, separators=(",", ":"))
        whole = whole.replace("<", "\\u003c")
        (pathlib.Path(self.browser.folder.name) / "other.js").write_text("window.ran = 1;", encoding="utf-8")
        many = without_policy(fixture_page(lambda: fixture.many_document(4)))
        self.assertEqual(self.faults(many), "")
        for page_, *changes in (
                (html, ("</body>", "<script>window.ran = 1;</script></body>", "Content Security Policy"),
                 (f'"memory-0":{whole},', "", "memory-0: no plot"),
                 ('data-figure="scaling-0"', "", "figures ["),
                 ("<main>", "<main><p style='width:2000px'>wide</p>", "")),
                (without_policy(html), ("</body>", "<script>throw new Error('broken')</script></body>", "broken"),
                 ("<body>", '<body><img src="no-such-file.png" alt="">', "no-such-file.png"),
                 ("</body>", '<script src="other.js"></script></body>', "other.js"),
                 ("return Plotly.react(", "return Nothing.react(", "memory-0: no plot")),
                (many, ('class: "own"', 'class: "none"', "latency-0: 0 bars and 0 lines"),
                 ("thin(charts, axis);", ";", "latency-0: ticks overlap"))):
            for old, broken, _ in changes:
                self.assertIn(old, page_)
                page_ = page_.replace(old, broken)
            faults = self.faults(page_)
            for _, broken, expected in changes:
                with self.subTest(broken=broken, expected=expected):
                    self.assertIn(expected, faults)
            if "width:2000px" in page_:
                self.assertGreater(len(self.script(OVERFLOWING, DESKTOP[0])), 1)
                self.assertIsNone(self.script("return window.ran ?? null"))


def load_tests(loader: unittest.TestLoader, _: unittest.TestSuite, __: str | None) -> unittest.TestSuite:
    cases = [ReportPage] if OPTIONS.report else [FixturePage, ManyPage, SimulatedPage, StudyPage, ChartedPage, CostPage,
                                                 BrokenControls]
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=pathlib.Path, metavar="REPORT.html")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    if OPTIONS.report and not OPTIONS.report.is_file():
        parser.error(f"{OPTIONS.report}: no such file; give --report a page that was written")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
