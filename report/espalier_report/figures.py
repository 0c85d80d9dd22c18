"""Describes every chart as Plotly traces; colours are names that the page resolves per theme."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier_report import summary, text, workloads
from espalier_report.results import Latency, Measurement, Results, Role, Spread

Json = dict[str, Any]

COLOURS = 10
SHOWN_AT_FIRST = 10
# With at least this many curves, each initially has a small chart.
PANELS_FROM = 4
BAR_WIDTH = 0.65
BEFORE_BAR = "\u00a0\u00a0"
# A bar's fill shows its role independently of its colour.
PATTERNS = {Role.BASELINE: "/", Role.PEER: "."}
SYMBOLS = {Role.OURS: "circle", Role.BASELINE: "square-open", Role.PEER: "diamond-open"}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass
class View:
    """One choice of a figure: what is drawn, its height, and what could not be drawn."""
    label: str
    traces: list[Json]
    layout: Json
    height: int
    absent: list[str] = field(default_factory=list)

    def json(self) -> Json:
        note = f"Unavailable, not measured: {', '.join(self.absent)}." if self.absent else ""
        return {"label": self.label, "traces": self.traces, "layout": self.layout,
                "height": self.height, "note": note}


@dataclass
class Figure:
    id: str
    title: str
    heading: str | None
    caption: str
    views: list[View]
    series: bool = False
    # What the workload does.
    about: str | None = None
    # Whether curves can be drawn in small charts, one each, which needs logarithmic axes with ranges.
    panels: bool = False

    def json(self) -> Json:
        return {"series": self.series, "panels": self.panels, "views": [view.json() for view in self.views]}


class Palette:
    """A map has the same colour and dash in every chart, and no two maps share both."""

    def __init__(self, results: Results) -> None:
        self._roles = {entry.label: entry.role for entry in results.latencies}
        self._roles |= {m.label: m.role for m in results.measurements}
        # The best come first and are drawn initially: few of them share a colour.
        best = [row.label for row in summary.rows(results)]
        labels = best + sorted(set(self._roles) - set(best))
        dashes = [dash(index) for index in range(max(len(DASHES), math.ceil(len(labels) / COLOURS)))]
        self._styles: dict[str, tuple[str, str]] = {}
        for index, label in enumerate(labels):
            turn, place = divmod(index, COLOURS)
            self._styles[label] = f"series{place}", dashes[(place + turn) % len(dashes)]

    def line(self, label: str) -> Json:
        colour, dash_ = self._styles[label]
        return {"color": colour, "dash": dash_, "width": 2}

    def marker(self, label: str) -> Json:
        return {"color": self._styles[label][0], "size": 8, "symbol": SYMBOLS[self._roles[label]]}

    def named(self, label: str) -> Json:
        """The name of the map's trace, on its button and for Plotly."""
        role = self._roles[label]
        return {"name": text.plotly_text(label) + role.mark, "label": label, "mark": role.mark}


def dash(index: int) -> str:
    """Plotly's own dashes, then longer and longer ones."""
    return DASHES[index] if index < len(DASHES) else f"{2 * index}px,{index}px"


def throughput(results: Results) -> list[Figure]:
    figures = []
    for index, workload in enumerate(results.workloads):
        group = results.at_most_threads(workload)
        if not group:
            continue
        scale = scale_of(group)
        rows = [Row(m.label, m.role, scaled(m.throughput, scale.of),
                    None if m.throughput is None else scale.text(m.throughput.median))
                for m in group]
        roles = {m.label: m.role for m in results.of(workload)}
        rows += [Row(label, roles[label], None, None)
                 for label in results.absent_at_most_threads(workload)]
        threads = text.plural(group[0].threads, "thread")
        figures.append(Figure(
            f"throughput-{index}", f"Throughput of {workload}", workload,
            f"Median throughput of {workload} at {threads}, longer is better. The number is the median; the whisker "
            "reaches from the slowest to the fastest repetition.",
            [bars("", rows, scale.unit, best_is_greatest=True)], about=workloads.explained(results.of(workload))))
    return figures


def memory(results: Results) -> list[Figure]:
    views = []
    for workload in results.workloads:
        rows = [Row(m.label, m.role,
                    None if m.bytes_per_key is None else Spread(m.bytes_per_key),
                    None if m.bytes_per_key is None else text.number(m.bytes_per_key))
                for m in results.at_most_threads(workload)]
        if any(row.value for row in rows):
            views.append(bars(workload, rows, "bytes per key", best_is_greatest=False))
    if not views:
        return []
    return [Figure("memory-0", "Memory per key", None,
                   "Bytes of memory for each key in the map, shorter is better.", views)]


def scaling(results: Results, palette: Palette) -> list[Figure]:
    figures = []
    for index, workload in enumerate(results.workloads):
        counts = results.thread_counts(workload)
        if len(counts) < 2:
            continue
        group = [m for m in results.of(workload) if m.throughput]
        if not group:
            continue
        scale = scale_of(group)
        figures.append(Figure(
            f"scaling-{index}", f"Scaling of {workload}", workload,
            f"Median throughput of {workload} at {text.listing(map(str, counts))} threads, "
            "higher is better. The whiskers reach from the slowest to the fastest repetition.",
            [scaling_view(results.of(workload), counts, scale, scale.unit, palette)],
            series=True, about=workloads.explained(results.of(workload))))
    return figures


def latency(results: Results, palette: Palette) -> list[Figure]:
    figures = []
    for index, workload in enumerate(results.workloads):
        entries = [entry for entry in results.latencies if entry.workload == workload]
        views = latency_views(results, workload, entries, palette)
        if views:
            figures.append(Figure(
                f"latency-{index}", f"Latency of {workload}", workload,
                f"Latency of {workload} by percentile, lower is better. Both axes are "
                "logarithmic; each step to the right is a tenfold rarer operation. The last "
                "point of a curve is its slowest operation.",
                views, series=True, about=workloads.explained(results.of(workload)),
                panels=max(len(view.traces) for view in views) >= PANELS_FROM))
    return figures


# Bars -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    label: str
    role: Role
    value: Spread | None
    text: str | None


def bars(view: str, rows: Iterable[Row], unit: str, best_is_greatest: bool) -> View:
    """Horizontal bars, the best on top; a row without a value is a word without a bar."""
    sign = -1 if best_is_greatest else 1
    ordered = sorted(rows, key=lambda row: (row.value is None,
                                            sign * row.value.median if row.value else 0,
                                            row.label))
    traces = [bar_trace(ordered, role) for role in Role]
    traces = [trace for trace in traces if trace["y"]]
    traces.append(row_texts(ordered))
    ends = [row.value.median if row.value.high is None else row.value.high for row in ordered if row.value]
    longest = max(len(row.text or "") for row in ordered)
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": unit}, "range": [0, max(ends, default=1.0) * 1.04], "fixedrange": True},
        # Between a name and its bar there is room for the number.
        "yaxis": {"tickvals": list(range(len(ordered))), "ticks": "outside", "tickcolor": "rgba(0,0,0,0)",
                  "ticklen": 8 * longest + 12, "ticktext": [text.plotly_label(row.label) for row in ordered],
                  "range": [len(ordered) - 0.4, -0.6], "fixedrange": True, "showgrid": False},
    }
    lines = max(len(text.wrapped(row.label)) for row in ordered)
    return View(view, traces, layout, 70 + len(ordered) * max(30, 4 + 15 * lines))


def rows_layout(mode: str, unit: str, labels: Sequence[str]) -> Json:
    """Of bars in several traces, from top to bottom."""
    return {"barmode": mode, "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
            "yaxis": {"tickvals": list(range(len(labels))), "ticktext": [text.plotly_label(label) for label in labels],
                      "range": [len(labels) - 0.4, -0.6], "showgrid": False}}


def bar_trace(ordered: Sequence[Row], role: Role) -> Json:
    mine = [(position, row) for position, row in enumerate(ordered)
            if row.value is not None and row.role == role]
    colour = role.name.lower()
    marker: Json = {"color": colour}
    if role in PATTERNS:
        marker |= {"pattern": {"shape": PATTERNS[role], "size": 7, "solidity": 0.5},
                   "line": {"color": colour, "width": 1.5}}
    # Without an explicit width the bars of a trace are as wide as the distance of its rows.
    trace: Json = {
        "type": "bar", "orientation": "h", "name": role, "width": BAR_WIDTH,
        "y": [position for position, _ in mine],
        "x": [row.value.median for _, row in mine if row.value],
        "marker": marker,
        "hovertext": [hover(row) for _, row in mine], "hoverinfo": "text"}
    spreads = [row.value for _, row in mine if row.value]
    if any(spread.known for spread in spreads):
        trace["error_x"] = whiskers(spreads)
    return trace


def whiskers(spreads: Sequence[Spread]) -> Json:
    return {"type": "data", "symmetric": False, "color": "text", "thickness": 1.2, "width": 4,
            "array": [0 if s.high is None else s.high - s.median for s in spreads],
            "arrayminus": [0 if s.low is None else s.median - s.low for s in spreads]}


def row_texts(ordered: Sequence[Row]) -> Json:
    """The value before its bar, where no whisker ends. In place of a bar that is missing stands the word."""
    return {"type": "scatter", "mode": "text", "cliponaxis": False, "hoverinfo": "skip",
            "y": list(range(len(ordered))), "x": [0] * len(ordered),
            "text": [f"{row.text}{BEFORE_BAR}" if row.text else f" {text.UNAVAILABLE}" for row in ordered],
            "textposition": ["middle left" if row.text else "middle right" for row in ordered],
            "textfont": {"color": "text"}}


def hover(row: Row) -> str:
    name = text.plotly_text(row.label) + row.role.mark
    if row.value is None or not row.value.known:
        return f"{name}<br>{row.text}"
    return (f"{name}<br>median {row.text}, min {text.number(row.value.low)}, "
            f"max {text.number(row.value.high)}")


# Lines ------------------------------------------------------------------------------------------


def ranked(measurements: Iterable[Measurement]) -> list[str]:
    """Labels by their best median; unmeasured ones last."""
    best: dict[str, float] = {}
    for m in measurements:
        best[m.label] = max(best.get(m.label, 0.0), m.median)
    return sorted(best, key=lambda label: (-best[label], label))


def at_first(labels: Sequence[str]) -> set[str]:
    return set(labels[:SHOWN_AT_FIRST])


def scaling_view(group: Sequence[Measurement], counts: Sequence[int], scale: text.Scale, unit: str,
                 palette: Palette) -> View:
    known = [m for m in group if m.throughput]
    labels = ranked(known)
    drawn = at_first(labels)
    traces = [scaling_trace(label, sorted((m for m in known if m.label == label), key=lambda m: m.threads), scale,
                            palette, label in drawn) for label in labels]
    return View("", traces, line_layout(thread_axis(counts), {"title": {"text": unit}, "rangemode": "tozero"}), 420,
                sorted({m.label for m in group} - set(labels)))


def scaling_trace(label: str, points: Sequence[Measurement], scale: text.Scale, palette: Palette,
                  visible: bool) -> Json:
    spreads = [scaled(m.throughput, scale.of) or Spread(0.0) for m in points]
    trace: Json = {
        "type": "scatter", "mode": "lines+markers", **palette.named(label), "visible": visible,
        "line": palette.line(label), "marker": palette.marker(label),
        "x": [m.threads for m in points], "y": [s.median for s in spreads],
        "text": [f"{text.plural(m.threads, 'thread')}: {text.number(s.median)}"
                 for m, s in zip(points, spreads)],
        "hovertemplate": "%{fullData.name}<br>%{text}<extra></extra>"}
    if any(s.known for s in spreads):
        trace["error_y"] = {**whiskers(spreads), "color": palette.line(label)["color"]}
    return trace


def latency_views(results: Results, workload: str, entries: Sequence[Latency],
                  palette: Palette) -> list[View]:
    order = ranked(results.at_most_threads(workload))
    rank = {label: index for index, label in enumerate(order)}
    choices = sorted({(entry.threads, entry.operation) for entry in entries if points(entry)},
                     key=lambda choice: (-choice[0], choice[1] != "all", choice[1]))
    views = []
    for threads, operation in choices:
        chosen = sorted((e for e in entries if points(e)
                         and (e.threads, e.operation) == (threads, operation)),
                        key=lambda e: (rank.get(e.label, len(rank)), e.label))
        drawn = at_first([entry.label for entry in chosen])
        traces = [latency_trace(entry, palette, entry.label in drawn) for entry in chosen]
        known = {m.label for m in results.of(workload)} | {e.label for e in entries}
        name = "all operations" if operation == "all" else operation
        views.append(View(
            f"{name}, {text.plural(threads, 'thread')}", traces,
            line_layout(percentile_axis(traces), duration_axis(traces)), 440,
            sorted(known - {entry.label for entry in chosen})))
    return views


def latency_trace(entry: Latency, palette: Palette, visible: bool) -> Json:
    drawn = points(entry)
    return {
        "type": "scatter", "mode": "lines", **palette.named(entry.label), "visible": visible,
        "line": palette.line(entry.label),
        "x": [x for x, _, _ in drawn], "y": [y for _, y, _ in drawn],
        "text": [f"{where}: {text.duration(y)}" for _, y, where in drawn],
        "said": ", ".join(f"{text.percentile(p)}: {text.duration(entry.quantiles[key])}"
                          for p, key in ((0.5, "p50"), (0.999, "p999")) if entry.quantiles[key] is not None),
        "hovertemplate": "%{fullData.name}<br>%{text}<extra></extra>"}


def points(entry: Latency) -> list[tuple[float, float, str]]:
    """(1/(1-p), ns, percentile in words). A logarithmic axis cannot show 0 ns. The slowest of n operations is placed at
    n, as if it were the last rank but one, for which 1/(1-p) is n."""
    finite = [(1 / (1 - p), y, text.percentile(p)) for p, y in entry.curve if p < 1 and y > 0]
    slowest = [y for p, y in entry.curve if p == 1 and y > 0]
    if slowest:
        last = finite[-1][0] if finite else 1.0
        finite.append((max(entry.samples or 0.0, last), slowest[-1], "slowest"))
    return finite


def line_layout(xaxis: Json, yaxis: Json) -> Json:
    return {"xaxis": xaxis, "yaxis": yaxis, "hovermode": "closest"}


def thread_axis(counts: Sequence[int]) -> Json:
    low, high = math.log10(counts[0]), math.log10(counts[-1])
    pad = (high - low) * 0.05
    return {"type": "log", "title": {"text": "threads (logarithmic)"}, "tickvals": list(counts),
            "ticktext": [str(count) for count in counts], "range": [low - pad, high + pad]}


def percentile_axis(traces: Sequence[Json]) -> Json:
    greatest = max(x for trace in traces for x in trace["x"])
    decades = max(1, math.ceil(math.log10(greatest) - 1e-9))
    return {"type": "log", "title": {"text": "percentile"}, "range": [0, decades],
            "tickvals": [10.0 ** power for power in range(decades + 1)],
            "ticktext": [text.percentile(1 - 10.0 ** -power).replace(text.THIN, "")
                         for power in range(decades + 1)]}


def duration_axis(traces: Sequence[Json]) -> Json:
    return logarithmic_axis("latency", [y for trace in traces for y in trace["y"]],
                            lambda tick: text.duration(tick, 1), 2)


def logarithmic_axis(title: str, values: Iterable[float], shown: Callable[[float], str], decades: float) -> Json:
    """Below this number of decades, there are ticks between the powers of ten too."""
    logarithms = [math.log10(value) for value in values]
    low, high = min(logarithms), max(logarithms)
    powers = range(math.floor(low), math.ceil(high) + 1)
    steps = (1, 2, 5) if high - low < decades else (1,)
    ticks = [step * 10.0 ** power for power in powers for step in steps]
    pad = max(0.08, (high - low) * 0.04)
    return {"type": "log", "title": {"text": title}, "tickvals": ticks,
            "ticktext": [shown(tick) for tick in ticks],
            "range": [low - pad, high + pad]}


def scale_of(measurements: Iterable[Measurement]) -> text.Scale:
    return text.Scale(max((m.throughput.median for m in measurements if m.throughput),
                          default=1.0))


def scaled(spread: Spread | None, by: Callable[[float], float]) -> Spread | None:
    if spread is None:
        return None
    return Spread(by(spread.median), None if spread.low is None else by(spread.low),
                  None if spread.high is None else by(spread.high))
