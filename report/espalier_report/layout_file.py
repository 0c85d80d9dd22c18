"""Reads and checks the output of `espalier inspect --json`: where blocks of memory lie, by type."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from espalier_report import results
from espalier_report.results import Object, ResultsError

SCHEMA = "espalier-inspect/1"
EXPECTED = "a layout is the JSON that `espalier inspect` writes"


@dataclass(frozen=True)
class OrNull:
    shape: Any


# The shapes that the page reads: a type, a list of one shape, the members of an object, or a shape that may be null.
COUNT, FIGURE = int, float
FREQUENCIES = {"distinct": COUNT, "total": COUNT, "most": [{"value": COUNT, "count": COUNT}]}
SHAPE = {"sets": COUNT, "ways": COUNT, "slices": COUNT}
HEAT = {"sets_per_cell": COUNT, "lines": [COUNT], "unused": [COUNT], "most": [COUNT]}
SETS = {"sets": COUNT, "lines": COUNT, "unused": COUNT, "unused_share": FIGURE, "overloaded": COUNT,
        "overloaded_share": FIGURE, "most_loaded": COUNT, "heat": OrNull(HEAT)}
CACHE = {"virtual": SETS, "physical": OrNull(SETS)}
NEAR = {"in_line": COUNT, "in_pair": COUNT, "in_page": COUNT}
PAGES = {"pages": COUNT, "fewest_pages": COUNT, "mixed_pages": COUNT, "scatter": OrNull(FIGURE),
         "small": OrNull(COUNT), "huge": OrNull(COUNT), "tlb_entries": OrNull(COUNT),
         "l1_tlb_load": OrNull(FIGURE), "tlb_load": OrNull(FIGURE), "runs": COUNT, "longest_run": COUNT,
         "run_distances": FREQUENCIES}
TYPE = {"name": str, "written": bool, "searched": bool, "blocks": COUNT, "bytes_asked": COUNT,
        "bytes_held": COUNT, "size_classes": FREQUENCIES, "strides": FREQUENCIES, "straddling": COUNT,
        "crossing": OrNull(FIGURE), "lines_per_visit": OrNull(FIGURE),
        "caches": {"l1": CACHE, "l2": CACHE, "llc": CACHE},
        "neighbours": [{"type": str, **NEAR}], "mixed": NEAR,
        "children": OrNull([{"type": str, "parents": COUNT, **NEAR, "in_adjacent_line": COUNT}]),
        "pages": PAGES}
LAYOUT = {"subject": str, "facts": [{"name": str, "value": str}],
          "geometry": {"name": str, "description": str, "adjacent_line_prefetch": bool, "l1": SHAPE,
                       "l2": SHAPE, "llc": SHAPE,
                       "tlb": {"l1_small": COUNT, "l1_huge": COUNT, "l2": COUNT, "l2_holds_huge": bool}},
          "unknown": {"frames": OrNull(str), "huge_pages": OrNull(str), "pointers": OrNull(str)},
          "blind_spots": [str], "blocks": COUNT, "bytes_asked": COUNT, "bytes_held": COUNT, "pages": PAGES,
          "page_map": {"pages_per_cell": COUNT, "first_page": [COUNT], "pages": [COUNT],
                       "mixed_pages": [COUNT], "bytes": [COUNT], "types": [COUNT], "most": [[[COUNT]]]},
          "types": [TYPE], "false_sharing": [{"written": str, "other": str, "blocks": COUNT}],
          "findings": [{"kind": str, "type": str, "advice": str, "text": str}],
          "assertions": [{"text": str, "result": str}]}
CALLED = {str: "a text", bool: "true or false", COUNT: "a whole number, not negative",
          FIGURE: "a number, not negative"}


def load(paths: Sequence[pathlib.Path]) -> Object | None:
    """The layout in the file; None if the files are results. Throws ResultsError."""
    documents = [results.read(path) for path in paths]
    layouts = [path for path, document in zip(paths, documents) if _has_schema(document)]
    if not layouts:
        return None
    if len(documents) > 1:
        raise ResultsError(f"{layouts[0]}: is a layout, which has a page of its own; report it alone")
    return _Checker(str(paths[0])).layout(documents[0])


def _has_schema(document: Object) -> bool:
    return str(document.get("schema", "")).startswith("espalier-inspect/")


class _Checker:
    """Every message names the file and the place in it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def fail(self, where: str, expectation: str) -> NoReturn:
        raise ResultsError(f"{self.path}: '{where}' must be {expectation}; {EXPECTED}")

    def layout(self, document: Object) -> Object:
        if document["schema"] != SCHEMA:
            self.fail("schema", SCHEMA)
        self.value(document, LAYOUT, "")
        self.page_map(document["page_map"], len(document["types"]))
        for index, one in enumerate(document["types"]):
            for level, cache in one["caches"].items():
                for kind in ("virtual", "physical"):
                    if cache[kind] and cache[kind]["heat"]:
                        self.heat(cache[kind], f"types[{index}].caches.{level}.{kind}.heat")
        return document

    def value(self, value: Any, shape: Any, where: str) -> None:
        if isinstance(shape, OrNull):
            if value is not None:
                self.value(value, shape.shape, where)
        elif isinstance(shape, dict):
            if not isinstance(value, dict):
                self.fail(where, "an object")
            for name, member in shape.items():
                self.value(value.get(name), member, f"{where}.{name}" if where else name)
        elif isinstance(shape, list):
            if not isinstance(value, list):
                self.fail(where, "a list")
            for index, entry in enumerate(value):
                self.value(entry, shape[0], f"{where}[{index}]")
        elif not _is(value, shape):
            self.fail(where, CALLED[shape])

    def page_map(self, given: Object, types: int) -> None:
        if given["pages_per_cell"] == 0:
            self.fail("page_map.pages_per_cell", "at least 1")
        columns = {name: column for name, column in given.items() if isinstance(column, list)}
        if len({len(column) for column in columns.values()}) > 1:
            self.fail("page_map", "lists of one length")
        numbers = [first // given["pages_per_cell"] for first in given["first_page"]]
        if any(one >= other for one, other in zip(numbers, numbers[1:])):
            self.fail("page_map.first_page", "ascending by whole cells")
        if any(len(part) != 2 or part[0] >= types for cell in given["most"] for part in cell):
            self.fail("page_map.most", "lists of [place in 'types', bytes]")

    def heat(self, sets: Object, where: str) -> None:
        heat = sets["heat"]
        if heat["sets_per_cell"] == 0:
            self.fail(f"{where}.sets_per_cell", "at least 1")
        cells = -(-sets["sets"] // heat["sets_per_cell"])
        if any(len(heat[column]) != cells for column in ("lines", "unused", "most")):
            self.fail(where, f"{cells} cells")


def _is(value: Any, kind: type) -> bool:
    if kind is FIGURE:
        return results.is_finite(value) and value >= 0
    if kind is COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return isinstance(value, kind)
