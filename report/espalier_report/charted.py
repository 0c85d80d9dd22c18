"""A study's figures with charts of their own: of mallocs, where they put nodes, and the cost of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from espalier_report import figures, grids, page, tables, text
from espalier_report.figures import COLOURS, Figure, Json, View
from espalier_report.grids import Cell, Grid, Key, Row
from espalier_report.markup import Content, Markup, element
from espalier_report.page import Drawn, Part
from espalier_report.results import Chart, Cost, Limit, Placed, Results, Role, Spread, Study, StudyFigure
from espalier_report.tables import Column

TURNS = (
    "A malloc is looked at through what it does to programs: the same program runs under each, in turns, round by "
    "round. A ratio is the median of the rounds' ratios, so that what slows the machine for a while slows both sides.")
INDEX = (
    "bits 6 and up of its address. Lines of one index share a set of the cache, which holds as many of them as it has "
    "ways. A transaction is over when a line that it wrote has to leave.")
BEYOND = "A finding beyond the paper is a claim of this library, judged alike."
READING = (
    TURNS, f"The index of a node is that of the line where it begins: {INDEX}",
    "Under tts a mutex is taken by test and test-and-set. Under tle its critical sections run as hardware "
    "transactions that only read it, and take it where these fail; under tle-learnt sections that keep failing are passed "
    "over. The share elided is of all sections.",
    "glibc has 8 bytes of its own before each block and rounds to 16: its blocks follow each other at multiples of "
    "512 where 496 or 504 bytes are asked for.", BEYOND)
SIMULATED_READING = (
    "Nothing ran on such a machine: a model of its caches and transactions did what the programs would. The same seed "
    "gives the same counts to the last one, so there is no spread.",
    f"The index of a line is {INDEX}",
    "Under tts the lock is taken by test and test-and-set. Under tle each section is attempted as a simulated "
    "transaction, and takes the lock where that fails; under tle-learnt sections of a lock that keeps failing are passed "
    "over. The share elided is of all sections.", BEYOND)
COST_READING = (
    TURNS, "Time is that of the processors, of the whole process. Memory is what was resident at its most.",
    "A bar is the median of the rounds' ratios, a whisker reaches from the least to the most of them; shorter is better. "
    "A geometric mean is over all benchmarks, and missing where one of them is.",
    "What classes cost is counted, not measured: bytes from one block to the next over bytes asked for.")
MAPS_READING = (
    "Maps of one workload were measured in turns; a number is the median of the runs. All keys are in the map, in order, "
    "and the frequent ones lie beside one another. A get finds a key, a put overwrites it.",
    "Aborts are those of transactions, for each operation.", BEYOND)
SIMULATED_MAPS_READING = (
    SIMULATED_READING[0],
    "All keys are in the map, in order, and the frequent ones lie beside one another. A get finds a key, a put overwrites "
    "it.",
    "Aborts are those of transactions, for each operation. A conflict is true if two threads use the same record or the "
    "same bytes, false if their data only share a line, and about metadata if they share counts, versions or locks.",
    BEYOND)


@dataclass(frozen=True)
class Ways:
    """The ways of the cache, and what is compared with them: nodes, or lines."""
    count: float
    noun: str

    @property
    def there(self) -> str:
        return "nodes that begin there" if self.noun == "node" else f"{self.noun}s of nodes there"


LOCKS_DASHES = {"": "solid", "tts": "solid", "tle": "dash"}
OTHER_LOCKS_DASH = "dashdot"
TICK_BYTES, TICKS = 512, 9
LINE_BYTES = 64
STRIDES = (512, 1024, 2048, 4096)


def parts(study: Study, figure: StudyFigure, placed: Sequence[Placed]) -> tuple[list[Part | None], list[Drawn]]:
    said = said_of(study)
    colours = colours_of(study)
    drawn = [drawing(f"chart-{index}", chart, colours, said, where_of(study, placed, (s.malloc for s in chart.series)))
             for index, chart in enumerate(figure.charts)]
    ways = ways_of(figure)
    lies = layouts(placed, ways, said) if ways else []
    where = where_of(study, placed, (one.malloc for _, rows in lies for one in rows))
    over = "By the bytes of a node" if placed else "Charts"
    return [
        Part("placement", f"Where the nodes lie{said}", placement(lies, ways, said, where)) if ways and lies else None,
        Part("charts", f"{over}{said}", [page.key(bar for chart in figure.charts for bar in chart.bars), page.charts(drawn)])
        if drawn else None,
        Part("tables", f"All numbers{said}", shown) if (shown := numbers(figure, placed, study.simulated, said))
        else None], \
        [*(shown for shown, _ in lies), *drawn]


def reading(results: Results, study: Study) -> tuple[str, ...]:
    if study.reading:
        return tuple(study.reading)
    if results.measurements:
        return SIMULATED_MAPS_READING if study.simulated else MAPS_READING
    if study.simulated:
        return SIMULATED_READING if results.placed else (SIMULATED_READING[0], BEYOND)
    if results.costs:
        return COST_READING
    # Those of mallocs have measurements of nodes; any other study says itself how to read it.
    return READING if results.placed else (BEYOND,) if study.has_paper else ()


def ranking(study: Study, figure: StudyFigure) -> Markup | None:
    """For the index of a study that has a result: the bars of the first chart, as they are ordered."""
    first = next((chart for chart in figure.charts if chart.bars), None)
    return chart_table(f"table-{figure.id}-ranking", first, said_of(study)) if study.result and first else None


# What a simulation says of itself ---------------------------------------------------------------


def said_of(study: Study) -> str:
    """Appended to every title."""
    return f" (simulated on {study.place.partition(',')[0]})" if study.simulated else ""


def where_of(study: Study, placed: Sequence[Placed], mallocs: Iterable[str]) -> str:
    """Appended to every caption: the machine, and the parts of the figure that are models."""
    if not study.simulated:
        return ""
    threads = f", {text.plural(placed[0].threads, 'thread')}" if placed else ""
    models = text.listing(sorted(set(mallocs) & set(study.models)))
    return f" Simulated on {study.place}{threads}.{f' Models: {models}.' if models else ''}"


# Charts -----------------------------------------------------------------------------------------


def colours_of(study: Study) -> dict[str, str]:
    """A malloc, or a map, has the same colour in all figures."""
    mallocs = dict.fromkeys(one.malloc for figure in study.figures for chart in figure.charts for one in chart.series)
    return {malloc: f"series{index % COLOURS}" for index, malloc in enumerate(mallocs)}


def drawing(id_: str, chart: Chart, colours: dict[str, str], said: str, where: str) -> Figure:
    """Lines; or bars if there is no x, or if all points are of one size without a limit."""
    of_one_size = bool(chart.bars) or len(sizes_of(chart)) == 1 and chart.limit is None
    view = bars(chart, said) if of_one_size else lines(chart, colours, said)
    return Figure(id_, f"{chart.title}{said}", f"{chart.title}{said}", f"{chart.caption}{where}", [view],
                  series=not of_one_size)


def bars(chart: Chart, said: str) -> View:
    if not chart.bars:
        rows = [bar_row(series.name, Role.OURS, Spread(series.points[0][1])) for series in chart.series]
        size = f"{chart.x}: {text.count(sizes_of(chart)[0])}"
        return figures.bars("", rows, text.plotly_text(f"{chart.y}{said} ({size})"), best_is_greatest=True)
    view = figures.bars("", [bar_row(bar.name, bar.role, bar.value) for bar in chart.bars],
                        text.plotly_text(f"{chart.y}{said}"), best_is_greatest=chart.more_is_better)
    if chart.limit:
        axis = view.layout["xaxis"]
        axis["range"] = [0, max(axis["range"][1], chart.limit.y * 1.1)]
        view.traces.append(limit_line(chart.limit, [chart.limit.y] * 2, view.layout["yaxis"]["range"]))
    return view


def bar_row(name: str, role: Role, value: Spread) -> figures.Row:
    return figures.Row(name, role, value, text.number(value.median))


def lines(chart: Chart, colours: dict[str, str], said: str) -> View:
    """Of many curves those of the paper's locks are drawn initially."""
    sizes = sizes_of(chart)
    few = len(chart.series) <= figures.SHOWN_AT_FIRST
    traces = [curve(chart, series.name, sizes, dict(series.points), few or series.locks in LOCKS_DASHES, {
        "color": colours[series.malloc], "dash": LOCKS_DASHES.get(series.locks, OTHER_LOCKS_DASH), "width": 2})
        for series in chart.series]
    if chart.limit:
        traces.append(limit_line(chart.limit, [axis_start(sizes), axis_end(chart.x, sizes)], [chart.limit.y] * 2))
    return View("", traces, figures.line_layout(size_axis(chart.x, sizes), value_axis(chart, f"{chart.y}{said}")), 440)


def sizes_of(chart: Chart) -> list[float]:
    return sorted({x for series in chart.series for x, _ in series.points})


def curve(chart: Chart, name: str, sizes: Sequence[float], values: dict[float, float], visible: bool,
          line: Json) -> Json:
    """Has a gap where a size is missing."""
    return {"type": "scatter", "mode": "lines+markers", "name": text.plotly_text(name), "label": name,
            "visible": visible, "line": line, "marker": {"color": line["color"], "size": 4},
            "x": list(sizes), "y": [values.get(size) for size in sizes],
            "text": [f"{text.count(size)}: {text.number(values.get(size))} {text.plotly_text(chart.y)}"
                     for size in sizes],
            "hovertemplate": "%{fullData.name}<br>%{text}<extra></extra>"}


def limit_line(limit: Limit, x: Sequence[float], y: Sequence[float]) -> Json:
    name = f"{text.count(limit.y)} {limit.name}"
    return {"type": "scatter", "mode": "lines", "name": text.plotly_text(name), "label": name, "visible": True,
            "line": {"color": "text", "dash": "dot", "width": 1.5}, "x": list(x), "y": list(y),
            "hovertemplate": "%{fullData.name}<extra></extra>"}


def size_axis(title: str, sizes: Sequence[float]) -> Json:
    """Of bytes: ticks at multiples of 512, where strides go wrong; fewer if those would be too many."""
    ticks: Sequence[float] = sizes
    if is_bytes(title):
        step = TICK_BYTES
        while sizes[-1] > step * TICKS:
            step *= 2
        ticks = range(0, int(sizes[-1]) + 1, step)
    return {"title": {"text": text.plotly_text(title)}, "tickvals": list(ticks),
            "ticktext": [text.count(tick) if is_bytes(title) else f"{tick:g}" for tick in ticks],
            "range": [axis_start(sizes), axis_end(title, sizes)]}


def is_bytes(title: str) -> bool:
    return title.startswith("Bytes")


def axis_start(sizes: Sequence[float]) -> float:
    return -0.02 * sizes[-1]


def axis_end(title: str, sizes: Sequence[float]) -> float:
    return max(1.02 * sizes[-1], TICK_BYTES if is_bytes(title) else 0)


def value_axis(chart: Chart, title: str) -> Json:
    """Logarithmic if there is a limit, because the limit separates low values from high ones and would lie on a linear
    axis."""
    values = [y for series in chart.series for _, y in series.points]
    if chart.limit and min(*values, chart.limit.y) > 0:
        return figures.logarithmic_axis(f"{text.plotly_text(title)} (logarithmic)", [*values, chart.limit.y],
                                        text.count, 4)
    return {"title": {"text": text.plotly_text(title)}, "rangemode": "tozero"}


# Where the nodes lie ----------------------------------------------------------------------------


def ways_of(figure: StudyFigure) -> Ways | None:
    """The limit of the first chart of curves that has one."""
    return next((Ways(chart.limit.y, chart.y.removesuffix("s")) for chart in figure.charts
                 if chart.series and chart.limit and chart.limit.y > 0), None)


def layouts(placed: Sequence[Placed], ways: Ways, said: str) -> list[tuple[Grid, list[Placed]]]:
    """The result of each malloc at strides that are powers of two, or else at the size where one of them is worst."""
    known = [one for one in placed if one.loads]
    if not known:
        return []
    found = [(f"Nodes of {stride - LINE_BYTES + 1:,} to {stride:,} bytes", rows) for stride in STRIDES
             if (rows := worst([one for one in known if stride - LINE_BYTES < one.size <= stride]))]
    if not found:
        size = max(known, key=lambda one: (max(one.loads), -one.size)).size
        found = [(f"Nodes of {size:,} bytes", worst([one for one in known if one.size == size]))]
    return [(grid(f"placement-{index}", f"{title}{said}", rows, ways), rows)
            for index, (title, rows) in enumerate(found)]


def worst(known: Sequence[Placed]) -> list[Placed]:
    """For each malloc the one with the fullest index; among equals the largest, under tts if that was measured."""
    rows: dict[str, Placed] = {}
    for one in known:
        best = rows.get(one.malloc)
        if best is None or (max(one.loads), one.size) > (max(best.loads), best.size):
            rows[one.malloc] = one
    return [rows[malloc] for malloc in sorted(rows)]


def grid(id_: str, title: str, rows: Sequence[Placed], ways: Ways) -> Grid:
    keys = [Key(f"up to {text.plural(int(ways.count), ways.noun)}", "load1"), Key("more than ways", "type3")]
    return Grid(id_, title, "", max(len(one.loads) for one in rows), keys,
                [Row(sized(one), [cell(index, load, ways) for index, load in enumerate(one.loads)]) for one in rows],
                tall=True, told="the table below holds the numbers by malloc")


def cell(index: int, load: int, ways: Ways) -> Cell:
    """Filled by the share of the set's ways that are used."""
    if load == 0:
        return Cell(f"index {index}: no {ways.noun}")
    over = load > ways.count
    beyond = f", {text.count(load - ways.count)} more than ways" if over else ""
    return Cell(f"index {index}: {text.plural(load, ways.noun)}{beyond}",
                ((1, 1.0) if over else (0, round(load / ways.count, 3)),))


def sized(one: Placed) -> str:
    return f"{one.malloc}, {one.size:,} bytes"


def placement(lies: Sequence[tuple[Grid, list[Placed]]], ways: Ways, said: str, where: str) -> Content:
    return [element("p", f"One cell for each index of the cache, filled as far as the {ways.there} take its "
                         f"{text.count(ways.count)} ways: what stays open is free, what another colour fills has more "
                         f"{ways.noun}s than ways. Of the sizes that take as many lines each malloc is shown at the one "
                         f"that is worst for it.{where}", class_="note"),
            [[element("h3", shown.title), grids.chart(shown)] for shown, _ in lies],
            folded(f"Where the nodes lie, in numbers{said}",
                   placement_table([one for _, rows in lies for one in rows], ways, said))]


def overview(study: Study, figure: StudyFigure, placed: Sequence[Placed]) -> Grid | None:
    """The first of these pictures, for the index."""
    ways = ways_of(figure)
    own = [one for one in placed if one.figure == figure.id]
    lies = layouts(own, ways, said_of(study)) if ways else []
    if not ways or not lies:
        return None
    shown, rows = lies[0]
    where = where_of(study, own, (one.malloc for one in rows))
    return replace(shown, id=f"{figure.id}-{shown.id}", told="the figure's page holds the numbers by malloc",
                   caption=f"{shown.title}: one cell for each index of the cache, filled as far as the {ways.there} take "
                           f"its {text.count(ways.count)} ways.{where}")


def placement_table(rows: Sequence[Placed], ways: Ways, said: str) -> Markup:
    noun = ways.noun.capitalize()
    return tables.table("table-placement", f"Where the nodes lie{said}", "Malloc", rows, [
        Column(f"{noun}s", lambda one: text.count(sum(one.loads))),
        Column(f"Indices with {ways.noun}s", lambda one: f"{sum(load > 0 for load in one.loads):,} of {len(one.loads):,}"),
        Column(f"{noun}s at the fullest", lambda one: text.count(max(one.loads))),
        Column(f"Indices with more than {text.plural(int(ways.count), ways.noun)}",
               lambda one: text.count(sum(load > ways.count for load in one.loads)))], sized)


# Tables -----------------------------------------------------------------------------------------


def numbers(figure: StudyFigure, placed: Sequence[Placed], simulated: bool, said: str) -> list[Content]:
    """A table for each chart, mallocs side by side; and the single measurements."""
    found = [folded(f"{chart.title}{said}", chart_table(f"table-chart-{index}", chart, said))
             for index, chart in enumerate(figure.charts)]
    if placed:
        found.append(folded(f"{text.plural(len(placed), 'measurement')}, one by one{said}",
                            placed_table(figure, placed, simulated, said)))
    return found


def folded(summary: str, content: Content) -> Markup:
    return element("details", element("summary", summary), content)


def chart_table(id_: str, chart: Chart, said: str) -> Markup:
    limit = f"; {text.count(chart.limit.y)} {chart.limit.name}" if chart.limit else ""
    caption = f"{chart.title}{said}: {chart.y}{limit}"
    if chart.bars:
        return tables.table(id_, caption, chart.of, chart.bars,
                            [Column(chart.y, lambda bar: tables.spread_cell(bar.value))], lambda bar: bar.name)
    columns = [Column(series.name, at(dict(series.points))) for series in chart.series]
    return tables.table(id_, caption, chart.x, sizes_of(chart), columns, text.count)


def at(values: dict[float, float]) -> Callable[[Any], Content]:
    return lambda size: tables.value(text.number(values.get(size)))


def placed_table(figure: StudyFigure, placed: Sequence[Placed], simulated: bool, said: str) -> Markup:
    rows = sorted(placed, key=lambda one: (one.size, one.malloc, one.locks))
    ways = ways_of(figure)
    times = [Column("Simulated ns/op", lambda one: tables.value(text.number(one.wall.median if one.wall else None)))] \
        if simulated else [Column("CPU ns/op", lambda one: tables.spread_cell(one.cpu)),
                           Column("Wall ns/op", lambda one: tables.spread_cell(one.wall))]
    columns = [Column("Bytes of a node", lambda one: text.count(one.size)),
               *(Column(chart.y, of_chart(chart)) for chart in figure.charts
                 if any(series.locks for series in chart.series)),
               *times,
               Column(f"{ways.noun.capitalize() if ways else 'Node'}s at the fullest index", counted("largest_load")),
               Column("Sections elided", lambda one: tables.value(text.share(one.committed))),
               Column("Aborts for capacity an operation", counted("capacity_aborts"))]
    if not simulated:
        columns.append(Column("Resident KiB", counted("resident_kib")))
    how = text.plural(placed[0].threads, "thread")
    spread = "" if simulated else ": medians with min to max"
    return tables.table("table-placed", f"All mallocs, locks and sizes, {how}{spread}{said}", "Malloc, locks", rows,
                        columns)


def of_chart(chart: Chart) -> Callable[[Any], Content]:
    values = {(series.name, x): y for series in chart.series for x, y in series.points}
    return lambda one: tables.value(text.number(values.get((one.label, float(one.size)))))


def counted(name: str) -> Callable[[Any], Content]:
    return lambda one: tables.value(text.count(getattr(one, name)))


def cost_table(costs: Sequence[Cost]) -> Markup:
    return tables.table("table-costs", "All benchmarks and mallocs: medians with min to max", "Benchmark, malloc", costs, [
        Column("Threads", lambda one: text.count(one.threads)),
        Column("CPU ns/op", lambda one: tables.spread_cell(one.cpu)),
        Column("Wall ns/op", lambda one: tables.spread_cell(one.wall)),
        Column("Resident KiB at its most", counted("peak_kib"))])
