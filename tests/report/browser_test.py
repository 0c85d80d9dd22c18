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
DESKTOP, PHONE, TURNED = (1280, 900), (390, 844), (844, 390)

SETTLED = """
return document.readyState === "complete" && [...document.querySelectorAll("[data-figure]")]
  .every((plot) => plot.querySelector(".main-svg, .note"));
"""
COUNTED = """
const count = (plot, selector) => plot.querySelectorAll(selector).length;
return Object.fromEntries([...document.querySelectorAll("[data-figure]")].map((plot) => [
  plot.dataset.figure, {
    svg: count(plot, ".main-svg > *"),
    bars: [...plot.querySelectorAll(".bars .point path")]
      .filter((bar) => bar.getBBox().width > 0).length,
    lines: [...plot.querySelectorAll(".scatterlayer .js-line")]
      .filter((line) => line.getBBox().width > 0 || line.getBBox().height > 0).length,
    labels: [...plot.querySelectorAll(".yaxislayer-above .ytick text")]
      .map((label) => label.textContent),
    words: [...plot.querySelectorAll(".textpoint text")].map((word) => word.textContent.trim()),
    clipped: [...plot.querySelectorAll(".ytick text, .xtick text, .textpoint text")]
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
# Upper and lower ends of the bars of each plot, from top to bottom.
BARS = """
return [...document.querySelectorAll("[data-figure]")].map((plot) => [...plot.querySelectorAll(".bars .point path")]
  .map((bar) => bar.getBoundingClientRect()).map((box) => [box.top, box.bottom]).sort((one, other) => one[0] - other[0]));
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


def study_pages(document: dict[str, Any]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "results.json"
        source.write_text(json.dumps(document), encoding="utf-8")
        return {one.name: one.html for one in study.pages(
            results.load([source]), "index.html", plotly_bundle.load())}


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
        loaded = self.driver.execute_script(
            "return performance.getEntriesByType('resource').map((entry) => entry.name)")
        return found + [f"loads {name}" for name in loaded if not name.startswith("data:")]

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
        cls.pages = study_pages(cls.document())
        cls.html = cls.pages[next(iter(cls.drawn()))]

    def test_draws_what_the_fixture_holds(self) -> None:
        for name, wanted in self.drawn().items():
            self.browser.open(self.pages[name])
            self.assertEqual(self.browser.faults(self.pages[name]), [])
            self.assertEqual({id_: (drawing["bars"], drawing["lines"])
                              for id_, drawing in self.browser.drawings().items()}, wanted)

    def index_faults(self) -> list[str]:
        """Of an index without pictures."""
        return self.browser.errors()

    def test_the_index_fits_a_phone_and_has_no_fault(self) -> None:
        for size in (DESKTOP, PHONE):
            self.browser.emulate(size)
            self.browser.open(self.pages["index.html"])
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
        return fixture.study_document(cls.simulated)

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
        return self.browser.faults(self.pages["index.html"])

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


class SimulatedChartedPage(ReportPage):
    """The same of a simulation, whose titles are longer."""

    called = "simulated-charted-"

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.html = study_pages(fixture.charted_document(True))["ring-16.html"]

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
    cases = [ReportPage] if OPTIONS.report else [ReportPage, FixturePage, SimulatedPage,
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
