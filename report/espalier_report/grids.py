"""Figures of many cells: which types lie where in memory, and how full the sets of a cache are.

A cell is filled from its bottom, by the shares of its contents; the open part is unused. So nothing depends on
distinguishing colours: heights show use, one kind at a time can be selected, every cell states its numbers, and
tables hold them by type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from espalier_report import text
from espalier_report.figures import Json
from espalier_report.markup import Content, Markup, element
from espalier_report.results import Object

PAGE_BYTES = 4096
COLOURED = 6
MAP_COLUMNS, MAP_CELLS = 64, 6000
GAPS = (64, 32, 16, 8, 4, 2, 1)
HEAT_COLUMNS = 128
GAP = -1
# Lines in a used set, relative to an equal share for each set.
LOADS = ((0.75, "load0", "below ¾ of an even share"), (1.5, "load1", "¾ to 1½ times an even share"),
         (3.0, "load2", "1½ to 3 times an even share"), (None, "load3", "3 times an even share and more"))
TOO_FEW = "too few lines to judge"


@dataclass(frozen=True)
class Key:
    name: str
    colour: str


@dataclass(frozen=True)
class Cell:
    """Parts are indices of keys with shares of the height, from the bottom; or a GAP of any length."""
    text: str
    parts: tuple[tuple[int, float], ...] = ()

    def json(self) -> list[Any]:
        return [self.text, *(value for part in self.parts for value in part)]


@dataclass(frozen=True)
class Row:
    label: str
    cells: list[Cell]


@dataclass(frozen=True)
class Grid:
    id: str
    title: str
    caption: str
    columns: int
    keys: list[Key]
    rows: list[Row]
    tall: bool = False
    told: str = "the table below holds the numbers by type"

    def json(self) -> Json:
        return {"columns": self.columns, "colours": [key.colour for key in self.keys],
                "rows": [{"label": row.label, "cells": [cell.json() for cell in row.cells]}
                         for row in self.rows]}


def chart(grid: Grid) -> Markup:
    used = {place for row in grid.rows for cell in row.cells for place, _ in cell.parts}
    keys = [element("button", element("i", style=f"--fill: var(--{key.colour})", aria_hidden="true"), key.name,
                    type="button", data_key=str(place), aria_pressed="false")
            for place, key in enumerate(grid.keys) if place in used]
    return element(
        "figure", element("figcaption", element("p", grid.caption)) if grid.caption else None,
        element("div", keys, class_="series", role="group", aria_label=f"Show one kind of {grid.title}"),
        element("div", class_="grid tall" if grid.tall else "grid", id=grid.id, data_grid=grid.id,
                tabindex="0", role="application",
                aria_label=f"{grid.title}. Arrow keys go from cell to cell; {grid.told}."),
        element("p", "Point at a cell, or go to it with the arrow keys.", class_="note reading",
                aria_live="polite"),
        element("noscript", element("p", "The figure needs JavaScript; the tables hold the numbers.",
                                    class_="note")))


# The page map ---------------------------------------------------------------------------------------


def page_map(layout: Object, shown: Sequence[int]) -> Grid | None:
    """Cells in address order, with the empty ones between them; `shown` are types in order of their colours."""
    given = layout["page_map"]
    if not given["first_page"]:
        return None
    keys = [Key(layout["types"][type_]["name"], f"type{place}" if place < COLOURED else "other")
            for place, type_ in enumerate(shown)]
    keys.append(Key("other types", "other"))
    place_of = {type_: place for place, type_ in enumerate(shown)}
    longest = longest_gap(given)
    line: list[tuple[int, Cell]] = []
    behind = given["first_page"][0]
    for index, first in enumerate(given["first_page"]):
        line += gap(behind, first, given["pages_per_cell"], longest)
        line.append((first, map_cell(layout, index, place_of, len(keys) - 1)))
        behind = first + given["pages_per_cell"]
    rows = [Row(address(line[start][0]), [cell for _, cell in line[start:start + MAP_COLUMNS]])
            for start in range(0, len(line), MAP_COLUMNS)]
    return Grid("page-map", "Page map", map_caption(given, longest), MAP_COLUMNS, keys, rows)


def gaps(given: Object) -> list[int]:
    """The number of cells without blocks before each cell but the first."""
    numbers = [first // given["pages_per_cell"] for first in given["first_page"]]
    return [after - before - 1 for before, after in zip(numbers, numbers[1:])]


def longest_gap(given: Object) -> int:
    """The longest gap that is drawn cell by cell. Folding a gap of one cell would save nothing."""
    lengths = gaps(given)

    def cells(limit: int) -> int:
        return len(given["first_page"]) + sum(length if length <= limit else 1 for length in lengths)

    return next((limit for limit in GAPS if cells(limit) <= MAP_CELLS), GAPS[-1])


def gap(first: int, behind: int, pages_per_cell: int, longest: int) -> Iterable[tuple[int, Cell]]:
    cells = (behind - first) // pages_per_cell
    if cells > longest:
        return [(first, Cell(f"{address(first)}: {text.plural(behind - first, 'page')} without blocks",
                             ((GAP, 1.0),)))]
    return [(page, Cell(f"{address(page)}: no blocks")) for page in range(first, behind, pages_per_cell)]


def map_cell(layout: Object, index: int, place_of: dict[int, int], other: int) -> Cell:
    given = layout["page_map"]
    size = given["pages_per_cell"] * PAGE_BYTES
    bytes_ = given["bytes"][index]
    filled: dict[int, int] = {}
    for type_, part in given["most"][index]:
        place = place_of.get(type_, other)
        filled[place] = filled.get(place, 0) + part
    unlisted = bytes_ - sum(part for _, part in given["most"][index])
    if unlisted > 0:
        filled[other] = filled.get(other, 0) + unlisted
    return Cell(map_text(layout, index),
                tuple((place, round(part / size, 3)) for place, part in sorted(filled.items())))


def map_text(layout: Object, index: int) -> str:
    given = layout["page_map"]
    per_cell, bytes_ = given["pages_per_cell"], given["bytes"][index]
    names = [f"{layout['types'][type_]['name']} {part:,}" for type_, part in given["most"][index]]
    unlisted = given["types"][index] - len(names)
    if unlisted > 0:
        names.append(f"{text.plural(unlisted, 'more type')} "
                     f"{bytes_ - sum(part for _, part in given['most'][index]):,}")
    pages = "" if per_cell == 1 else \
        f"{given['pages'][index]:,} of {per_cell:,} pages have blocks, {given['mixed_pages'][index]:,} of " \
        "several types; "
    return f"{address(given['first_page'][index])}: {pages}{bytes_:,} of {per_cell * PAGE_BYTES:,} bytes: " \
        f"{', '.join(names)}"


def map_caption(given: Object, longest: int) -> str:
    per_cell, count = given["pages_per_cell"], len(given["first_page"])
    pages = text.plural(sum(given["pages"]), "page")
    cell = f"{pages} of 4{text.THIN}KiB with blocks, a cell each" if per_cell == 1 else \
        f"{pages} of 4{text.THIN}KiB with blocks in {text.plural(count, 'cell')}: a cell sums up " \
        f"{per_cell:,} neighbouring pages, {text.size(per_cell * PAGE_BYTES)}"
    said = f"{cell}, in the order of addresses, {MAP_COLUMNS} to a row. A cell is filled by the bytes of " \
           "each type, from the bottom; what stays open is not in use."
    folded = [length for length in gaps(given) if length > longest]
    if folded:
        said += f" {text.plural(len(folded), 'gap')} of more than {text.plural(longest, 'cell')} without " \
                f"blocks {'is' if len(folded) == 1 else 'are'} folded into a dash each."
    return said


def address(page: int) -> str:
    return f"{page * PAGE_BYTES:#x}"


# Sets of caches -------------------------------------------------------------------------------------


def best(type_: Object, level: str) -> Object:
    """By physical addresses if they are known."""
    cache = type_["caches"][level]
    return cache["physical"] or cache["virtual"]


def is_judged(sets: Object) -> bool:
    """Whether there are enough lines that a good layout would use every set."""
    return sets["sets"] > 0 and sets["lines"] >= 2 * sets["sets"]


def heat_map(types: Sequence[Object], level: str, title: str, caption: str) -> Grid | None:
    drawn = [type_ for type_ in types if best(type_, level)["heat"]]
    if not drawn:
        return None
    keys = [Key(name, colour) for _, colour, name in LOADS] + [Key(TOO_FEW, "other")]
    rows = [Row(type_["name"], heat_cells(best(type_, level))) for type_ in drawn]
    return Grid(f"sets-{level}", title, f"{caption} {heat_caption(best(drawn[0], level))}",
                max(len(row.cells) for row in rows), keys, rows, tall=True)


def heat_caption(sets: Object) -> str:
    per_cell = sets["heat"]["sets_per_cell"] * cells_together(sets)
    return f"{text.plural(sets['sets'], 'set')}, " + \
        ("a cell each; an open cell is an unused set." if per_cell == 1 else
         f"{per_cell:,} neighbouring sets to a cell, which is filled as far as they are used: "
         "what stays open is unused.") + " The fill says how many lines the used sets have."


def cells_together(sets: Object) -> int:
    return -(-len(sets["heat"]["lines"]) // HEAT_COLUMNS)


def heat_cells(sets: Object) -> list[Cell]:
    heat, together = sets["heat"], cells_together(sets)
    per_cell = heat["sets_per_cell"] * together
    found = []
    for index, start in enumerate(range(0, len(heat["lines"]), together)):
        lines, unused = (sum(heat[column][start:start + together]) for column in ("lines", "unused"))
        most = max(heat["most"][start:start + together])
        first = index * per_cell
        count = min(per_cell, sets["sets"] - first)
        used = count - unused
        parts = ((load_of(sets, lines, used), round(used / count, 3)),) if used else ()
        found.append(Cell(heat_text(first, count, used, lines, most), parts))
    return found


def load_of(sets: Object, lines: int, used: int) -> int:
    if not is_judged(sets):
        return len(LOADS)
    ratio = lines / used / (sets["lines"] / sets["sets"])
    return next(place for place, (limit, _, _) in enumerate(LOADS) if limit is None or ratio < limit)


def heat_text(first: int, count: int, used: int, lines: int, most: int) -> str:
    if count == 1:
        return f"set {first:,}: {text.plural(lines, 'line') if used else 'unused'}"
    where = f"sets {first:,} to {first + count - 1:,}"
    if not used:
        return f"{where}: unused"
    return f"{where}: {count - used:,} of {count:,} unused, {text.plural(lines, 'line')}, at most {most:,} in one"


# The matrix of neighbours ---------------------------------------------------------------------------


def shaded(value: float) -> Content:
    """A share as text on a background that is darker for larger shares."""
    return element("span", text.share(value), class_="shade", style=f"--share:{value:.3f}")
