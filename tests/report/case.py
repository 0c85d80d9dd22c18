"""What the tests of the report share: a page taken apart, and a scratch folder for each test."""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import unittest
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import fixture
from espalier_report import page, plotly_bundle, results

COMMAND = [sys.executable, "-B", str(fixture.ROOT / "report" / "espalier_report")]
STUB = "/* plotly.js v1.23.4, and no library in this test */"
VOID = {"meta", "br", "wbr", "img", "link", "input", "hr"}


def has_plotly() -> bool:
    try:
        plotly_bundle.find()
    except plotly_bundle.PlotlyMissing:
        return False
    return True


class Page(HTMLParser):
    """The page as a flat list of elements with their attributes and their own text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.problems: list[str] = []
        self.feed(html)
        self.close()
        self.problems += [self.elements[index][0] + " left open" for index in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.elements[self.open[-1]][0] != tag:
            self.problems.append(f"unexpected </{tag}>")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.elements[self.open[-1]][0] in ("script", "style"):
            self.elements[self.open[-1]][2].append(data)
        else:
            for index in self.open:
                self.elements[index][2].append(data)

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs, _ in self.elements if name == tag
                and all(attrs.get(key) == value for key, value in attributes.items())]

    def texts(self, tag: str, **attributes: str) -> list[str]:
        return [" ".join("".join(words).split()) for name, attrs, words in self.elements
                if name == tag and all(attrs.get(key) == value
                                       for key, value in attributes.items())]

    def ids(self) -> set[str]:
        """Which are unique, and what labels refer to is among them."""
        ids = [str(attrs["id"]) for _, attrs, _ in self.elements if "id" in attrs]
        labelled = {str(value) for _, attrs, _ in self.elements for key, value in attrs.items()
                    if key in ("aria-labelledby", "for")}
        if len(ids) != len(set(ids)) or not labelled <= set(ids):
            raise AssertionError(f"ids {sorted(ids)}, labels {sorted(labelled)}")
        return set(ids)

    def captioned(self, words: str) -> list[list[str]]:
        """The rows of the first table whose caption has these words."""
        return self.rows(next(index for index, caption in enumerate(self.texts("caption")) if words in caption))

    def rows(self, table: int = 0) -> list[list[str]]:
        found: list[list[str]] = []
        tables = -1
        for tag, _, words in self.elements:
            tables += tag == "table"
            if tables != table:
                continue
            if tag == "tr":
                found.append([])
            elif tag in ("td", "th"):
                found[-1].append(" ".join("".join(words).split()))
        return found


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, document: Any, name: str = "results.json") -> pathlib.Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return path

    def refused(self, document: Any, *expected: str) -> str:
        """What is said of a document that is damaged: a line with its file, and with these words."""
        with self.assertRaises(results.ResultsError) as raised:
            results.load([self.write(document)])
        message = str(raised.exception)
        self.assertNotIn("\n", message)
        for words in ("results.json: ", *expected):
            self.assertIn(words, message)
        return message

    def refused_at(self, made: Callable[[], fixture.Json], *damages: tuple[str, Any, str]) -> None:
        """Each value at a place of a document that is made anew: the place is named, and these words follow."""
        for place, value, words in damages:
            with self.subTest(place, value=value):
                self.refused(fixture.put(made(), {place: value}), f"'{place}{words}")

    def load(self, *entries: list[fixture.Json], **more: Any) -> results.Results:
        benchmarks = [entry for family in entries for entry in family]
        return results.load([self.write({"context": fixture.context(), "benchmarks": benchmarks, **more})])

    def medians(self, workload: str = "w", threads: int = 4, **times: float | list[float | str]) -> list[fixture.Json]:
        """Entries of maps by their names, with all of their times, or with times around a median."""
        return [entry for map_, given in times.items() for entry in fixture.family(
            workload, map_, given if isinstance(given, list) else fixture.around(given), threads)]

    def page_of(self, document: Any = None) -> Page:
        loaded = results.load([self.write(document or fixture.document())])
        return Page(page.render(loaded, STUB))
