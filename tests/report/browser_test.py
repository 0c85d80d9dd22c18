"""Opens the report in Chromium and checks what a reader sees.

    browser_test.py                       a page made from the fixture, and the broken controls
    browser_test.py --report report.html  an existing page instead of the fixture
    browser_test.py --screenshots FOLDER  also saves how each page looks

Exits with 77 (skipped) where Chromium, its driver or selenium is missing.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from typing import Any

SKIPPED = 77
DEBIAN_PYTHON = "/usr/bin/python3"


def require_browser() -> None:
    """Debian's selenium belongs to Debian's python: goes on under that one if need be."""
    if importlib.util.find_spec("selenium") is None:
        probe = [DEBIAN_PYTHON, "-c", "import selenium"]
        if os.path.realpath(sys.executable) != os.path.realpath(DEBIAN_PYTHON) and \
                os.access(DEBIAN_PYTHON, os.X_OK) and \
                subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])
        skip("python3-selenium")
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
    clipped: [...plot.querySelectorAll(".ytick text, .xtick text, .textpoint text, .panel .tick")]
      .filter((word) => {
        const box = word.getBoundingClientRect(), frame = plot.getBoundingClientRect();
        return box.left < frame.left - 1 || box.right > frame.right + 1;
      }).map((word) => word.textContent),
  }]));
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
UNFOLD = "for (const one of document.querySelectorAll('details')) one.open = true;"
# The elements that make the page wider than its window.
OVERFLOWING = """
const width = document.documentElement.scrollWidth;
return width <= arguments[0] ? [] : [...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > arguments[0] + 1)
  .map((one) => `${one.tagName}.${one.className}`);
"""
# Of each small chart of a figure: its name, its words, the colour of its curve, and where its ticks stand in it.
PANELS = """
return [...document.querySelectorAll(`#${arguments[0]} .panel`)].map((panel) => {
  const frame = panel.querySelector(".frame").getBoundingClientRect(), own = panel.querySelector(".own");
  return { name: panel.querySelector(".name").textContent, said: panel.querySelector(".said").textContent,
    colour: getComputedStyle(own).stroke, width: own.getBoundingClientRect().width,
    others: document.querySelectorAll(panel.querySelector("use").getAttribute("href")).length,
    ticks: [...panel.querySelectorAll(".tick")].map((tick) => [tick.textContent, tick.getBoundingClientRect()])
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

OPTIONS = argparse.Namespace(report=None, screenshots=None)


def fixture_page(document: dict[str, Any] | None = None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "results.json"
        source.write_text(json.dumps(document or fixture.document()), encoding="utf-8")
        return page.render(results.load([source]), plotly_bundle.load())


def write_study(folder: pathlib.Path, document: dict[str, Any]) -> None:
    source = folder / "results.json"
    source.write_text(json.dumps(document), encoding="utf-8")
    for one in study.files(results.load([source]), "index.html", plotly_bundle.load()):
        (folder / one.name).write_text(one.content, encoding="utf-8")


def luminance(colour: str) -> float:
    red, green, blue = (float(part) for part in re.findall(r"[\d.]+", colour)[:3])
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def declared(html: str) -> dict[str, Any]:
    """What the page's own data block says that each figure draws at first."""
    block = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.S)
    return json.loads(block[1]) if block else {}


def expected_drawing(figure: dict[str, Any]) -> tuple[int, int]:
    traces = figure["views"][0]["traces"]
    bars = sum(sum(value > 0 for value in trace["x"]) for trace in traces
               if trace["type"] == "bar")
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
        self.driver = webdriver.Chrome(
            service=Service(shutil.which("chromedriver") or ""), options=options)

    def quit(self) -> None:
        self.driver.quit()
        self.folder.cleanup()

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE"]

    def emulate(self, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1,
            "mobile": size in (PHONE, TURNED)})
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled",
                                    {"enabled": size in (PHONE, TURNED)})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def open(self, html: str | pathlib.Path) -> None:
        if isinstance(html, pathlib.Path):
            path = html
        else:
            path = pathlib.Path(self.folder.name) / "page.html"
            path.write_text(html, encoding="utf-8", errors="replace")
        self.driver.get("about:blank")
        self.errors()
        self.driver.get(path.resolve().as_uri())
        # A page that never settles is judged as it stands: what is missing is then a fault.
        with contextlib.suppress(TimeoutException):
            WebDriverWait(self.driver, 30).until(lambda driver: driver.execute_script(SETTLED))

    def drawings(self) -> dict[str, dict[str, Any]]:
        return self.driver.execute_script(COUNTED)

    def faults(self, html: str) -> list[str]:
        """Everything wrong with the open page; the broken controls must not pass this."""
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
            elif (drawing["bars"], drawing["lines"]) != wanted:
                found.append(f"{name}: {drawing['bars']} bars and {drawing['lines']} lines "
                             f"instead of {wanted[0]} and {wanted[1]}")
            if drawing["clipped"]:
                found.append(f"{name}: text cut off: {drawing['clipped']}")
        loaded = self.driver.execute_script(LOADED)
        beside = re.findall(r'<script src="(plotly-[\d.]+\.js)"></script>', html)
        return found + [f"loads {name}" for name in loaded
                        if not (name.startswith("file:") and name.rpartition("/")[2] in beside)]

    def colours(self, left: float, top: float, width: int) -> list[list[int]]:
        """Of the pixels of a line of the page."""
        clip = {"x": round(left), "y": round(top), "width": width, "height": 1, "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return self.driver.execute_async_script(PIXELS, shot["data"])

    def screenshot(self, name: str) -> None:
        if OPTIONS.screenshots:
            OPTIONS.screenshots.mkdir(parents=True, exist_ok=True)
            shot = self.driver.execute_cdp_cmd("Page.captureScreenshot",
                                               {"captureBeyondViewport": True})
            (OPTIONS.screenshots / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


class BrowserCase(unittest.TestCase):
    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self) -> None:
        self.browser.emulate()


class ReportPage(BrowserCase):
    """Holds for every report: the fixture's, or the one given with --report."""

    html: str
    called = ""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.html = OPTIONS.report.read_text(encoding="utf-8") if OPTIONS.report \
            else fixture_page()

    def open(self) -> None:
        self.browser.open(OPTIONS.report or self.html)

    def test_draws_every_plot_without_an_error(self) -> None:
        self.open()
        self.assertEqual(self.browser.faults(self.html), [])
        self.browser.screenshot(f"{self.called}desktop-light")

    def test_fits_a_phone(self) -> None:
        self.browser.emulate(PHONE)
        self.open()
        driver = self.browser.driver
        self.assertEqual(driver.execute_script("return innerWidth"), PHONE[0])
        self.assertLessEqual(
            driver.execute_script("return document.documentElement.scrollWidth"), PHONE[0])
        self.assertEqual(self.browser.faults(self.html), [])
        self.browser.screenshot(f"{self.called}phone-light")

    def pages(self) -> list[str | pathlib.Path]:
        return [OPTIONS.report or self.html]

    def test_no_page_is_wider_than_its_window_with_all_that_is_folded_open(self) -> None:
        for one in self.pages():
            for size in (DESKTOP, PHONE):
                self.browser.emulate(size)
                self.browser.open(one)
                self.browser.driver.execute_script(UNFOLD)
                self.assertEqual(self.browser.driver.execute_script(OVERFLOWING, size[0]), [])
                self.assertEqual(self.browser.errors(), [])

    def test_a_table_shows_where_more_of_it_is_hidden_and_keeps_its_first_column(self) -> None:
        for dark in (False, True):
            self.browser.emulate(PHONE, dark)
            self.open()
            for at_end in (False, True):
                found = self.browser.driver.execute_script(SCROLLED, at_end)
                if found is None:
                    self.skipTest("no table of this page is much wider than a phone")
                self.assertLessEqual(max(abs(found["first"]), abs(found["head"])), 2)
                edge = [sum(colour) for colour in self.browser.colours(found["right"] - 45, found["top"], 42)]
                shade = abs(edge[-1] - edge[0])
                self.assertTrue(shade < 12 if at_end else shade > 90, f"{shade} at {'the end' if at_end else 'first'}")

    def test_fits_a_phone_that_is_turned(self) -> None:
        self.browser.emulate(PHONE)
        self.open()
        self.browser.emulate(TURNED)
        wide = "return document.querySelector('.main-svg').getBoundingClientRect().width > 600"
        WebDriverWait(self.browser.driver, 20).until(lambda d: d.execute_script(wide))
        self.browser.emulate(PHONE)
        narrow = ("return [...document.querySelectorAll('.main-svg')]"
                  ".every((svg) => svg.getBoundingClientRect().width < 390)")
        WebDriverWait(self.browser.driver, 20).until(lambda d: d.execute_script(narrow))
        self.assertEqual(self.browser.faults(self.html), [])

    def test_is_dark_in_dark_mode(self) -> None:
        self.browser.emulate(dark=True)
        self.open()
        self.assert_scheme(dark=True)
        self.assertEqual(self.browser.faults(self.html), [])
        self.browser.screenshot(f"{self.called}desktop-dark")
        self.browser.emulate(PHONE, dark=True)
        self.browser.screenshot(f"{self.called}phone-dark")

    def test_follows_the_colour_scheme_while_open(self) -> None:
        self.open()
        self.assert_scheme(dark=False)
        for dark in (True, False):
            self.browser.emulate(dark=dark)
            self.assert_scheme(dark)
        self.assertEqual(self.browser.errors(), [])

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


class FixturePage(BrowserCase):
    """Holds for the fixture, whose contents are known."""

    def setUp(self) -> None:
        super().setUp()
        self.browser.open(fixture_page())

    def test_draws_what_the_fixture_holds(self) -> None:
        drawn = {name: (drawing["bars"], drawing["lines"])
                 for name, drawing in self.browser.drawings().items()}
        self.assertEqual(drawn, fixture.DRAWN)

    def test_unavailable_is_a_word_and_no_bar(self) -> None:
        drawing = self.browser.drawings()["throughput-0"]
        self.assertEqual(len(drawing["labels"]), 5)
        self.assertEqual(drawing["labels"][-1], "absent_peer")
        self.assertEqual(drawing["words"][-1], fixture.UNAVAILABLE)
        self.assertNotIn(fixture.UNAVAILABLE, drawing["words"][:-1])

    def test_names_stay_text_in_plots(self) -> None:
        labels = "".join(self.browser.drawings()["throughput-0"]["labels"])
        self.assertIn("<b>a&b</b>", labels)

    def test_views_and_lines_can_be_chosen(self) -> None:
        driver = self.browser.driver
        frame = driver.find_element(By.CSS_SELECTOR, "figure:has(#latency-0)")
        Select(frame.find_element(By.TAG_NAME, "select")).select_by_visible_text(
            "lookup, 4 threads")
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
        self.assertEqual(self.browser.errors(), [])

    def test_memory_view_of_one_workload(self) -> None:
        driver = self.browser.driver
        Select(driver.find_element(By.ID, "memory-0-view")).select_by_visible_text("update-heavy")
        self.assertEqual(self.browser.drawings()["memory-0"]["bars"], 2)

    def test_the_keyboard_reaches_links_choices_and_tables(self) -> None:
        driver, seen = self.browser.driver, set()
        for _ in range(60):
            driver.switch_to.active_element.send_keys(Keys.TAB)
            element = driver.switch_to.active_element
            seen.add(element.get_attribute("class") or element.tag_name)
        self.assertLessEqual({"a", "select", "button", "scroll", "summary"}, seen)


class ManyPage(ReportPage):
    """Thirty maps in four workloads, and a first screen that holds the comparison."""

    called = "many-"

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.html = fixture_page(fixture.many_document())

    def first_screen(self, size: tuple[int, int]) -> dict[str, float]:
        self.browser.emulate(size)
        self.open()
        return self.browser.driver.execute_script(FIRST_SCREEN)

    def test_the_first_screen_of_a_desk_holds_the_whole_matrix(self) -> None:
        found = self.first_screen(DESKTOP)
        ends = [found[part] for part in ("title", "facts", "matrix", "verdicts")]
        self.assertEqual(ends, sorted(ends))
        self.assertLess(found["verdicts"], DESKTOP[1])
        self.assertEqual((found["rows"], found["wider"]), (12, 0))

    def test_the_first_screen_of_a_phone_holds_the_best_and_the_matrix_scrolls_in_its_box(self) -> None:
        found = self.first_screen(PHONE)
        self.assertGreaterEqual(found["rows"], 5)
        self.assertGreater(found["wider"], 0)

    def test_roles_are_told_by_fills_and_words(self) -> None:
        self.open()
        fills = self.browser.driver.execute_script(FILLS)
        self.assertEqual([(count, pattern) for count, pattern in fills], [(24, False), (3, True), (3, True)])
        marks = self.browser.driver.find_elements(By.CSS_SELECTOR, ".matrix .role")
        self.assertEqual({mark.get_attribute("textContent") for mark in marks}, {"baseline", "peer"})

    def panels(self) -> list[dict[str, Any]]:
        return self.browser.driver.execute_script(PANELS, "latency-1")

    def button(self, words: str) -> Any:
        frame = self.browser.driver.find_element(By.CSS_SELECTOR, "figure:has(#latency-1)")
        return frame.find_element(By.XPATH, f".//button[contains(., '{words}')]")

    def test_each_of_many_curves_has_a_small_chart_with_the_same_axes(self) -> None:
        for size in (DESKTOP, PHONE):
            self.browser.emulate(size)
            self.open()
            panels = self.panels()
            self.assertEqual(len(panels), 10)
            self.assertEqual(len({panel["name"] for panel in panels}), 10)
            self.assertGreaterEqual(len({panel["colour"] for panel in panels}), 8)
            self.assertTrue(all(panel["others"] == 1 and panel["width"] > 50 for panel in panels))
            self.assertTrue(all(panel["ticks"] == panels[0]["ticks"] for panel in panels), panels[0])
            self.assertGreaterEqual(len(panels[0]["ticks"]), 4)
            self.assertRegex(panels[0]["said"], r"^50\u202f%: .+, 99\.9\u202f%: .+$")

    def test_the_curves_can_share_one_chart(self) -> None:
        self.open()
        self.button("One chart").click()
        self.assertEqual(self.panels(), [])
        self.assertEqual(self.browser.drawings()["latency-1"]["lines"], 10)
        self.assertEqual(self.button("One chart").get_attribute("aria-pressed"), "true")
        strokes = self.browser.driver.execute_script(STROKES)
        self.assertEqual(len(strokes), 10)
        self.assertEqual(len(set(map(tuple, strokes))), 10, strokes)
        self.button("A chart for each map").click()
        self.assertEqual(len(self.panels()), 10)
        self.button("Show all").click()
        self.assertEqual(len(self.panels()), 30)
        self.assertEqual(self.browser.errors(), [])

    def test_the_pointer_asks_a_small_chart_for_its_numbers(self) -> None:
        self.open()
        frame = self.browser.driver.find_element(By.CSS_SELECTOR, "#latency-1 .frame")
        before = self.panels()[0]["said"]
        webdriver.ActionChains(self.browser.driver).move_to_element(frame).perform()
        said = self.panels()[0]["said"]
        self.assertRegex(said, r"^99\.5\u202f%: [\d.]+\u202f.s$|^99\.9\u202f%: [\d.]+\u202f.s$")
        self.assertNotEqual(said, before)
        self.assertTrue(self.browser.driver.find_element(By.CSS_SELECTOR, "#latency-1 .dot").is_displayed())

    def test_the_best_of_a_workload_is_bold_and_shaded(self) -> None:
        self.open()
        for best in self.browser.driver.find_elements(By.CSS_SELECTOR, ".matrix .best"):
            self.assertGreaterEqual(int(best.value_of_css_property("font-weight")), 600)
            self.assertNotEqual(best.value_of_css_property("background-color"), "rgba(0, 0, 0, 0)")


class SimulatedPage(ReportPage):
    """The page of simulated results, with bars in stacks and in groups."""

    called = "simulated-"

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.html = fixture_page(fixture.calibrated_document())

    def test_draws_what_the_fixture_holds(self) -> None:
        self.open()
        drawn = {name: (drawing["bars"], drawing["lines"])
                 for name, drawing in self.browser.drawings().items()}
        self.assertEqual(drawn, fixture.SIMULATED_DRAWN)

    def test_a_place_is_hidden_and_shown_again(self) -> None:
        self.open()
        for bars in (12, 15):
            frame = self.browser.driver.find_element(By.CSS_SELECTOR, "figure:has(#served-0)")
            frame.find_element(By.CSS_SELECTOR, "button[data-label='remote transfer']").click()
            self.assertEqual(self.browser.drawings()["served-0"]["bars"], bars)
        self.assertEqual(self.browser.errors(), [])


class FigurePages(ReportPage):
    """The pages of a study's figures, by file, with their index."""

    @classmethod
    def document(cls) -> dict:
        raise NotImplementedError

    @classmethod
    def drawn(cls) -> dict:
        """What some pages draw; the first is the one that every page is tried with."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="espalier-study-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        write_study(cls.folder, cls.document())
        cls.page = cls.folder / next(iter(cls.drawn()))
        cls.html = cls.page.read_text(encoding="utf-8")

    def open(self) -> None:
        self.browser.open(self.page)

    def pages(self) -> list[str | pathlib.Path]:
        return sorted(self.folder.glob("*.html"))

    def test_draws_what_the_fixture_holds(self) -> None:
        for name, wanted in self.drawn().items():
            self.browser.open(self.folder / name)
            self.assertEqual(self.browser.faults((self.folder / name).read_text(encoding="utf-8")), [])
            self.assertEqual({id_: (drawing["bars"], drawing["lines"])
                              for id_, drawing in self.browser.drawings().items()}, wanted)

    def test_the_library_is_one_file_beside_the_pages(self) -> None:
        library, = self.folder.glob("*.js")
        self.assertRegex(library.name, r"^plotly-\d+\.\d+\.\d+\.js$")
        for one in self.folder.glob("*.html"):
            self.assertLess(one.stat().st_size, 200_000, one.name)
        self.open()
        self.assertEqual(self.browser.driver.execute_script(LOADED), [library.as_uri()])

    def test_without_the_library_the_page_names_it(self) -> None:
        self.browser.open(self.html)
        notes = self.browser.driver.find_elements(By.CSS_SELECTOR, ".plot .note")
        self.assertEqual(len(notes), len(next(iter(self.drawn().values()))))
        for note in notes:
            self.assertRegex(note.text, r"needs the file plotly-[\d.]+\.js beside the page; the tables hold the same")

    def index_faults(self) -> list[str]:
        """Of an index without pictures."""
        return self.browser.errors()

    def test_the_index_fits_a_phone_and_has_no_fault(self) -> None:
        for size in (DESKTOP, PHONE):
            self.browser.emulate(size)
            self.browser.open(self.folder / "index.html")
            self.assertEqual(self.index_faults(), [])
            self.assertLessEqual(self.browser.driver.execute_script(
                "return document.documentElement.scrollWidth"), size[0])
            self.browser.screenshot(f"{self.called}index-{size[0]}")


class StudyPage(FigurePages):
    """The page of a study's figure, with bars in pairs."""

    called = "study-"
    simulated = False

    @classmethod
    def document(cls) -> dict:
        return fixture.undecided_document(cls.simulated)

    @classmethod
    def drawn(cls) -> dict:
        return {"figure-2.html": fixture.SIMULATED_STUDY_DRAWN if cls.simulated else fixture.STUDY_DRAWN}


class SimulatedStudyPage(StudyPage):
    called = "simulated-study-"
    simulated = True


class ChartedPage(FigurePages):
    """The page of a figure over the sizes of nodes: pictures of indices, and lines."""

    called = "charted-"

    @classmethod
    def document(cls) -> dict:
        return fixture.charted_document()

    @classmethod
    def drawn(cls) -> dict:
        return {"ring-16.html": fixture.CHARTED_DRAWN, "fresh.html": fixture.CHARTED_ALONE_DRAWN}

    def index_faults(self) -> list[str]:
        return self.browser.faults((self.folder / "index.html").read_text(encoding="utf-8"))

    def test_draws_every_index_of_every_malloc(self) -> None:
        self.open()
        strips = self.browser.driver.execute_script(STRIPS)
        self.assertEqual({name: (rows, cells) for name, (rows, cells, _) in strips.items()}, fixture.CHARTED_GRIDS)
        self.assertEqual([kinds for *_, kinds in strips.values()], [["part load1", "part type3"], ["part load1"]])

    def test_the_keyboard_asks_a_cell_for_its_numbers(self) -> None:
        self.open()
        grid = self.browser.driver.find_element(By.ID, "placement-0")
        grid.send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        note = grid.find_element(By.XPATH, "following-sibling::p")
        self.assertEqual(note.text, "glibc, 496 bytes, index 1: 8 nodes, 4 more than ways")

    def test_a_curve_is_hidden_and_shown_again(self) -> None:
        self.open()
        for lines in (5, 6):
            frame = self.browser.driver.find_element(By.CSS_SELECTOR, "figure:has(#chart-0)")
            frame.find_element(By.CSS_SELECTOR, "button[data-label='glibc, tle']").click()
            self.assertEqual(self.browser.drawings()["chart-0"]["lines"], lines)
        self.assertEqual(self.browser.errors(), [])

    def test_a_missing_picture_is_noticed(self) -> None:
        self.browser.open(self.html.replace('data-grid="placement-1"', ""))
        self.assertIn("grids [", " ".join(self.browser.faults(self.html)))


class SimulatedChartedPage(FigurePages):
    """The same of a simulation, whose titles are longer."""

    called = "simulated-charted-"

    @classmethod
    def document(cls) -> dict:
        return fixture.charted_document(True)

    @classmethod
    def drawn(cls) -> dict:
        return {"ring-16.html": fixture.CHARTED_DRAWN, "fresh.html": fixture.CHARTED_ALONE_DRAWN}

    def index_faults(self) -> list[str]:
        return self.browser.faults((self.folder / "index.html").read_text(encoding="utf-8"))

    def test_axes_and_titles_say_what_was_simulated_and_fit(self) -> None:
        for size in (DESKTOP, PHONE):
            self.browser.emulate(size)
            self.open()
            titles = self.browser.driver.execute_script(TITLES)
            self.assertGreater(len(titles), 0)
            for words, fits in titles:
                self.assertIn("simulated on i7_4770", words)
                self.assertTrue(fits, f"{words} is cut off at {size}")


class CostPage(FigurePages):
    """Bars of mallocs with what they are held against."""

    called = "cost-"

    @classmethod
    def document(cls) -> dict:
        return fixture.cost_document()

    @classmethod
    def drawn(cls) -> dict:
        return {"time.html": fixture.COST_DRAWN, "classes.html": fixture.COST_CLASSES_DRAWN}

    def test_bars_lie_beside_each_other(self) -> None:
        self.open()
        for bars in self.browser.driver.execute_script(BARS):
            self.assertEqual(len(bars), 4)
            for (_, bottom), (top, _) in zip(bars, bars[1:]):
                self.assertLess(bottom, top, bars)


class BrokenControls(BrowserCase):
    """The checks above are worth something only if they catch pages that are broken."""

    def faults(self, html: str) -> str:
        self.browser.open(html)
        return " ".join(self.browser.faults(html))

    def test_a_foreign_script_is_stopped_and_noticed(self) -> None:
        html = fixture_page().replace("</body>", "<script>window.ran = 1;</script></body>")
        self.assertIn("console: ", self.faults(html))
        self.assertIsNone(self.browser.driver.execute_script("return window.ran ?? null"))

    def test_an_exception_is_noticed(self) -> None:
        html = re.sub(r"<meta http-equiv.*?>", "", fixture_page())
        self.assertEqual(self.faults(html), "")
        html = html.replace("</body>", "<script>throw new Error('broken')</script></body>")
        self.assertIn("broken", self.faults(html))

    def test_a_missing_plot_is_noticed(self) -> None:
        html = fixture_page()
        figures_ = declared(html)
        whole = json.dumps(figures_["memory-0"], separators=(",", ":")).replace("<", "\\u003c")
        self.assertIn(f'"memory-0":{whole},', html)
        self.assertIn("memory-0: no plot", self.faults(html.replace(f'"memory-0":{whole},', "")))

    def test_a_missing_container_is_noticed(self) -> None:
        html = fixture_page().replace('data-figure="memory-0"', "")
        self.assertIn("figures [", self.faults(html))

    def test_a_loaded_resource_is_noticed(self) -> None:
        html = re.sub(r"<meta http-equiv.*?>", "", fixture_page())
        html = html.replace("<body>", '<body><img src="no-such-file.png" alt="">')
        self.assertIn("no-such-file.png", self.faults(html))

    def test_a_foreign_file_beside_the_page_is_noticed(self) -> None:
        (pathlib.Path(self.browser.folder.name) / "other.js").write_text("window.ran = 1;", encoding="utf-8")
        html = re.sub(r"<meta http-equiv.*?>", "", fixture_page())
        self.assertIn("other.js", self.faults(html.replace("</body>", '<script src="other.js"></script></body>')))

    def test_a_missing_curve_of_a_small_chart_is_noticed(self) -> None:
        html = re.sub(r"<meta http-equiv.*?>", "", fixture_page(fixture.many_document(4)))
        self.assertEqual(self.faults(html), "")
        self.assertIn("latency-0: 0 bars and 0 lines", self.faults(html.replace('class: "own"', 'class: "none"')))

    def test_a_missing_library_is_noticed(self) -> None:
        html = re.sub(r"<meta http-equiv.*?>", "", fixture_page())
        html = html.replace("return Plotly.react(", "return Nothing.react(")
        self.assertIn("memory-0: no plot", self.faults(html))

    def test_overflow_is_noticed(self) -> None:
        html = fixture_page().replace("<main>", "<main><p style='width:600px'>wide</p>")
        self.browser.emulate(PHONE)
        self.browser.open(html)
        self.assertGreater(self.browser.driver.execute_script(
            "return document.documentElement.scrollWidth"), PHONE[0])


def load_tests(loader: unittest.TestLoader, _: unittest.TestSuite,
               __: str | None) -> unittest.TestSuite:
    cases = [ReportPage] if OPTIONS.report else [ReportPage, FixturePage, ManyPage, SimulatedPage,
                                                     StudyPage, SimulatedStudyPage, ChartedPage,
                                                     SimulatedChartedPage, CostPage, BrokenControls]
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=pathlib.Path, metavar="REPORT.html")
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="FOLDER")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    if OPTIONS.report and not OPTIONS.report.is_file():
        parser.error(f"{OPTIONS.report}: no such file; give --report a page that was written")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
