"""A study's figures whose charts are over the sizes of nodes: where a malloc puts them, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from espalier_report import figures, grids, page, simulated, tables, text
from espalier_report.figures import COLOURS, Figure, Json, View
from espalier_report.grids import Cell, Grid, Key, Row
from espalier_report.markup import Content, Markup, element
from espalier_report.page import Drawn, Part
from espalier_report.results import Chart, Limit, Placed, Spread, Study, StudyFigure
from espalier_report.tables import Column

READING = (
    "A malloc is looked at through what it does to programs: the same program runs under each, in turns, round by "
    "round. A ratio is the median of the rounds' ratios, so that what slows the machine for a while slows both sides.",
    "The index of a node is that of the line where it begins: bits 6 and up of its address. Lines of one index share "
    "a set of the cache, which holds as many of them as it has ways. A transaction is over when a line that it wrote "
    "has to leave.",
    "Under tts a mutex is taken by test and test-and-set. Under tle its critical sections run as hardware "
    "transactions that only read it, and take it where these fail. The share elided is of all sections.",
    "glibc has 8 bytes of its own before each block and rounds to 16: its blocks follow each other at multiples of "
    "512 where 496 or 504 bytes are asked for.",
    "A finding beyond the paper is a claim of this library, judged alike.")

LOCKS_DASHES = {"": "solid", "tts": "solid", "tle": "dash"}
OTHER_LOCKS_DASH = "dashdot"
TICK_BYTES, TICKS = 512, 9
LINE_BYTES = 64
STRIDES = (512, 1024, 2048, 4096)


def parts(study: Study, figure: StudyFigure, placed: Sequence[Placed]) -> tuple[list[Part | None], list[Drawn]]:
    said = " (simulated)" if study.simulated else ""
    colours = colours_of(study)
    drawn = [drawing(f"chart-{index}", chart, colours, said) for index, chart in enumerate(figure.charts)]
    limit = limit_of(figure)
    lies = layouts(placed, limit, said) if limit else []
    return [
        Part("placement", f"Where the nodes lie{said}", placement(lies, limit, said)) if limit and lies else None,
        Part("charts", f"By the bytes of a node{said}", page.charts(drawn)) if drawn else None,
        Part("tables", f"All numbers{said}", numbers(figure, placed, said))], [*(shown for shown, _ in lies), *drawn]


# Charts -----------------------------------------------------------------------------------------


def colours_of(study: Study) -> dict[str, str]:
    """A malloc has one colour in all figures."""
    mallocs = sorted({one.malloc for figure in study.figures for chart in figure.charts for one in chart.series})
    return {malloc: f"series{index % COLOURS}" for index, malloc in enumerate(mallocs)}


def drawing(id_: str, chart: Chart, colours: dict[str, str], said: str) -> Figure:
    """Lines, or bars where all points are of one size, with nothing to hold them against."""
    of_one_size = len(sizes_of(chart)) == 1 and chart.limit is None
    view = bars(chart, said) if of_one_size else lines(chart, colours, said)
    return Figure(id_, f"{chart.title}{said}", f"{chart.title}{said}", f"{chart.caption}{simulated_too(said)}",
                  [view], series=not of_one_size)


def bars(chart: Chart, said: str) -> View:
    rows = [figures.Row(series.name, False, Spread(series.points[0][1]), text.number(series.points[0][1]))
            for series in chart.series]
    size = f"{chart.x}: {text.count(sizes_of(chart)[0])}"
    return figures.bars("", rows, text.plotly_text(f"{chart.y}{said} ({size})"), best_is_greatest=True)


def lines(chart: Chart, colours: dict[str, str], said: str) -> View:
    sizes = sizes_of(chart)
    traces = [curve(chart, series.name, sizes, dict(series.points), {
        "color": colours[series.malloc], "dash": LOCKS_DASHES.get(series.locks, OTHER_LOCKS_DASH), "width": 2})
        for series in chart.series]
    if chart.limit:
        traces.append(limit_line(chart.limit, sizes))
    return View("", traces, figures.line_layout(size_axis(chart.x, sizes), value_axis(chart, f"{chart.y}{said}")), 440)


def sizes_of(chart: Chart) -> list[float]:
    return sorted({x for series in chart.series for x, _ in series.points})


def curve(chart: Chart, name: str, sizes: Sequence[float], values: dict[float, float], line: Json) -> Json:
    """With a gap where a size is missing."""
    return {"type": "scatter", "mode": "lines+markers", "name": text.plotly_text(name), "label": name,
            "visible": True, "line": line, "marker": {"color": line["color"], "size": 4},
            "x": list(sizes), "y": [values.get(size) for size in sizes],
            "text": [f"{text.count(size)}: {text.number(values.get(size))} {text.plotly_text(chart.y)}"
                     for size in sizes],
            "hovertemplate": "%{fullData.name}<br>%{text}<extra></extra>"}


def limit_line(limit: Limit, sizes: Sequence[float]) -> Json:
    name = f"{text.count(limit.y)} {limit.name}"
    return {"type": "scatter", "mode": "lines", "name": text.plotly_text(name), "label": name, "visible": True,
            "line": {"color": "text", "dash": "dot", "width": 1.5}, "x": [axis_start(sizes), axis_end(sizes)],
            "y": [limit.y, limit.y], "hovertemplate": "%{fullData.name}<extra></extra>"}


def size_axis(title: str, sizes: Sequence[float]) -> Json:
    """Ticks at multiples of 512, where strides go wrong; fewer where those would be too many."""
    step = TICK_BYTES
    while sizes[-1] > step * TICKS:
        step *= 2
    ticks = range(0, int(sizes[-1]) + 1, step)
    return {"title": {"text": text.plotly_text(title)}, "tickvals": list(ticks),
            "ticktext": [text.count(tick) for tick in ticks], "range": [axis_start(sizes), axis_end(sizes)]}


def axis_start(sizes: Sequence[float]) -> float:
    return -0.02 * sizes[-1]


def axis_end(sizes: Sequence[float]) -> float:
    return max(1.02 * sizes[-1], TICK_BYTES)


def value_axis(chart: Chart, title: str) -> Json:
    """A limit tells what is below it from what is above: logarithmic, or it would lie on the axis."""
    values = [y for series in chart.series for _, y in series.points]
    if chart.limit and min(*values, chart.limit.y) > 0:
        return figures.logarithmic_axis(f"{text.plotly_text(title)} (logarithmic)", [*values, chart.limit.y],
                                        text.count, 4)
    return {"title": {"text": text.plotly_text(title)}, "rangemode": "tozero"}


def simulated_too(said: str) -> str:
    return " All of it is simulated." if said else ""


# Where the nodes lie ----------------------------------------------------------------------------


def limit_of(figure: StudyFigure) -> Limit | None:
    """The ways of the cache, where a chart is held against them."""
    return next((chart.limit for chart in figure.charts if chart.limit and chart.limit.y > 0), None)


def layouts(placed: Sequence[Placed], limit: Limit, said: str) -> list[tuple[Grid, list[Placed]]]:
    """What each malloc does at strides that are powers of two, or where one of them does worst."""
    known = [one for one in placed if one.loads]
    if not known:
        return []
    found = [(f"Nodes of {stride - LINE_BYTES + 1:,} to {stride:,} bytes", rows) for stride in STRIDES
             if (rows := worst([one for one in known if stride - LINE_BYTES < one.size <= stride]))]
    if not found:
        size = max(known, key=lambda one: (max(one.loads), -one.size)).size
        found = [(f"Nodes of {size:,} bytes", worst([one for one in known if one.size == size]))]
    return [(grid(f"placement-{index}", f"{title}{said}", rows, limit), rows)
            for index, (title, rows) in enumerate(found)]


def worst(known: Sequence[Placed]) -> list[Placed]:
    """Of each malloc that with the fullest index, and of those that are alike the largest, by tts if there is that."""
    rows: dict[str, Placed] = {}
    for one in known:
        best = rows.get(one.malloc)
        if best is None or (max(one.loads), one.size) > (max(best.loads), best.size):
            rows[one.malloc] = one
    return [rows[malloc] for malloc in sorted(rows)]


def grid(id_: str, title: str, rows: Sequence[Placed], limit: Limit) -> Grid:
    keys = [Key(f"up to {text.plural(int(limit.y), 'node')}", "load1"), Key("more than ways", "type3")]
    return Grid(id_, title, "", max(len(one.loads) for one in rows), keys,
                [Row(sized(one), [cell(index, load, limit) for index, load in enumerate(one.loads)]) for one in rows],
                tall=True, told="the table below holds the numbers by malloc")


def cell(index: int, load: int, limit: Limit) -> Cell:
    """Filled as far as the ways of the set are taken."""
    if load == 0:
        return Cell(f"index {index}: no node")
    over = load > limit.y
    beyond = f", {text.count(load - limit.y)} more than ways" if over else ""
    return Cell(f"index {index}: {text.plural(load, 'node')}{beyond}",
                ((1, 1.0) if over else (0, round(load / limit.y, 3)),))


def sized(one: Placed) -> str:
    return f"{one.malloc}, {one.size:,} bytes"


def placement(lies: Sequence[tuple[Grid, list[Placed]]], limit: Limit, said: str) -> Content:
    return [element("p", f"One cell for each index of the cache, filled as far as the nodes that begin there take its "
                         f"{text.count(limit.y)} ways: what stays open is free, what another colour fills has more "
                         "nodes than ways. Of the sizes that take as many lines each malloc is shown at the one that is "
                         f"worst for it.{simulated_too(said)}", class_="note"),
            [[element("h3", shown.title), grids.chart(shown)] for shown, _ in lies],
            folded(f"Where the nodes lie, in numbers{said}",
                   placement_table([one for _, rows in lies for one in rows], limit, said))]


def overview(figure: StudyFigure, placed: Sequence[Placed], said: str) -> Grid | None:
    """The first of these pictures, for the index."""
    limit = limit_of(figure)
    lies = layouts([one for one in placed if one.figure == figure.id], limit, said) if limit else []
    if not limit or not lies:
        return None
    shown, _ = lies[0]
    return replace(shown, id=f"{figure.id}-{shown.id}", told="the figure's page holds the numbers by malloc",
                   caption=f"{shown.title}: one cell for each index of the cache, filled as far as the nodes that "
                           f"begin there take its {text.count(limit.y)} ways.")


def placement_table(rows: Sequence[Placed], limit: Limit, said: str) -> Markup:
    return tables.table("table-placement", f"Where the nodes lie{said}", "Malloc", rows, [
        Column("Nodes", lambda one: text.count(sum(one.loads))),
        Column("Indices with nodes", lambda one: f"{sum(load > 0 for load in one.loads):,} of {len(one.loads):,}"),
        Column("Nodes at the fullest", lambda one: text.count(max(one.loads))),
        Column(f"Indices with more than {text.plural(int(limit.y), 'node')}",
               lambda one: text.count(sum(load > limit.y for load in one.loads)))], sized)


# Tables -----------------------------------------------------------------------------------------


def numbers(figure: StudyFigure, placed: Sequence[Placed], said: str) -> list[Content]:
    """A table for each chart, mallocs side by side; and what was measured, one by one."""
    found = [folded(f"{chart.title}{said}", chart_table(f"table-chart-{index}", chart, said))
             for index, chart in enumerate(figure.charts)]
    if placed:
        found.append(folded(f"{text.plural(len(placed), 'measurement')}, one by one{said}",
                            placed_table(figure, placed, said)))
    return found


def folded(summary: str, content: Content) -> Markup:
    return element("details", element("summary", summary), content)


def chart_table(id_: str, chart: Chart, said: str) -> Markup:
    columns = [Column(series.name, at(dict(series.points))) for series in chart.series]
    limit = f"; {text.count(chart.limit.y)} {chart.limit.name}" if chart.limit else ""
    return tables.table(id_, f"{chart.title}{said}: {chart.y}{limit}", chart.x, sizes_of(chart), columns, text.count)


def at(values: dict[float, float]) -> Callable[[Any], Content]:
    return lambda size: tables.value(text.number(values.get(size)))


def placed_table(figure: StudyFigure, placed: Sequence[Placed], said: str) -> Markup:
    rows = sorted(placed, key=lambda one: (one.size, one.malloc, one.locks))
    columns = [Column("Bytes of a node", lambda one: text.count(one.size)),
               *(Column(chart.y, of_chart(chart)) for chart in figure.charts
                 if any(series.locks for series in chart.series)),
               Column("CPU ns/op", lambda one: tables.spread_cell(one.cpu)),
               Column("Wall ns/op", lambda one: tables.spread_cell(one.wall)),
               Column("Nodes at the fullest index", counted("largest_load")),
               Column("Sections elided", lambda one: tables.value(text.share(one.committed))),
               Column("Aborts for capacity an operation", counted("capacity_aborts")),
               Column("Resident KiB", counted("resident_kib"))]
    how = text.plural(placed[0].threads, "thread")
    return tables.table("table-placed", f"All mallocs, locks and sizes, {how}: medians with min to max{said}",
                        "Malloc, locks", rows, columns)


def of_chart(chart: Chart) -> Callable[[Any], Content]:
    values = {(series.name, x): y for series in chart.series for x, y in series.points}
    return lambda one: tables.value(text.number(values.get((one.label, float(one.size)))))


def counted(name: str) -> Callable[[Any], Content]:
    return lambda one: tables.value(text.count(getattr(one, name)))
