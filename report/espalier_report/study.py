"""The pages of a study: one for each figure of the paper, and an index that leads to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from espalier_report import charted, figures, grids, page, simulated, tables, text
from espalier_report.figures import Figure, Json, View
from espalier_report.markup import Content, Markup, element
from espalier_report.page import Drawn, Part
from espalier_report.results import Finding, Measurement, Results, Study, StudyFigure
from espalier_report.tables import Column

BADGES = {"agrees": "agrees", "differs": "differs", "not measurable here": "undecided"}
READING = (
    "A finding agrees where the difference has the paper's direction and at least half its size. It is not "
    "measurable here where a map is missing, where repeated runs do not tell, or where the paper has it on "
    "another machine or another number of keys.",
    "Bytes are those of a node. Where nodes are compared, both kinds lie in the same placement, so that the "
    "node alone differs; in the paper all came from jemalloc.",
    "Maps of one group were measured in turns, those of different groups one group after the other.")


@dataclass(frozen=True)
class Page:
    """A page and its file's name beside the index."""
    name: str
    html: str


def pages(results: Results, index: str, plotly: str) -> list[Page]:
    """Of all figures, the index last: it leads nowhere that is not yet there."""
    study = results.study
    assert study is not None
    found = [Page(f"{figure.id}.html", figure_page(results, study, figure, index, plotly))
             for figure in study.figures]
    return [*found, Page(index, index_page(results, study))]


# One figure -------------------------------------------------------------------------------------


def figure_page(results: Results, study: Study, figure: StudyFigure, index: str,
                plotly: str) -> str:
    shown = part_of(results, study, figure)
    judged = [absent_maps(figure), findings_table(study, figure.findings, "table-findings")]
    parts: list[Part | None] = [Part("findings", "The paper and here" if study.has_paper else
                                     "Claims, and what was found", judged) if any(judged) else None]
    charts: Sequence[Drawn] = []
    scripts = page.plots(plotly)
    if study.charted:
        part, charts = charted.parts(study, figure, shown.placed)
        parts += part
        scripts.append(page.script("grids.js"))
    elif shown.measurements:
        drawn = pairs(shown, figure)
        part, charts = (simulated_parts if study.simulated else measured_parts)(shown, drawn)
        parts += part
    parts += [Part("context", "Context", tables.context_table(shown, "table-context")),
              Part("reading", "How to read this", reading(results, study))]
    title = f"{figure.title}{' (simulated)' if study.simulated else ''}"
    return page.document(
        title, [element("a", study.title, href=index), f": {called_in_words(figure)}{where(shown, study)}"],
        [figure.summary, *scores(study, figure.findings)], cautions(shown, study), parts, charts, scripts)


def measured_parts(shown: Results, drawn: list[Figure]) -> tuple[list[Part | None], list[Figure]]:
    throughput, memory = figures.throughput(shown), figures.memory(shown)
    return [
        Part("pairs", "Node by node", page.charts(drawn)) if drawn else None,
        Part("throughput", "Throughput", page.charts(throughput)),
        Part("memory", "Memory per key", page.charts(memory)) if memory else None,
        Part("tables", "All numbers", page.all_tables(shown))], drawn + throughput + memory


def simulated_parts(shown: Results, drawn: list[Figure]) -> tuple[list[Part | None], list[Figure]]:
    throughput = simulated.throughput(shown, figures.Palette(shown))
    served, stalls = simulated.served(shown), simulated.stalls(shown)
    return [
        Part("pairs", "Node by node, simulated", page.charts(drawn)) if drawn else None,
        Part("throughput", "Simulated throughput", page.charts(throughput)),
        Part("served", "Where simulated accesses were served", page.charts(served)),
        Part("stalls", "Simulated stall cycles", page.charts(stalls)),
        Part("tables", "All simulated numbers", page.counts_tables(shown))], \
        drawn + throughput + served + stalls


def part_of(results: Results, study: Study, figure: StudyFigure) -> Results:
    """The measurements of one figure, each map called with the size of its node."""
    measurements = [replace(m, label=called(m, figure)) for m in results.measurements
                    if m.workload in figure.workloads]
    # Without contexts of its own the study was run in the file's one place.
    files, contexts = results.files, results.contexts
    if study.contexts:
        files = [simulated.machine_name(context) for context in study.contexts]
        contexts = study.contexts
    return Results(files, contexts, measurements,
                   placed=[one for one in results.placed if one.figure == figure.id], costs=results.costs)


def called(m: Measurement, figure: StudyFigure) -> str:
    size = figure.node_bytes.get(m.map)
    return m.map if size is None else f"{m.map} ({size} bytes)"


def pairs(shown: Results, figure: StudyFigure) -> list[Figure]:
    """Published beside compact nodes, for the trees of which a figure has both."""
    drawn = []
    for index, workload in enumerate(shown.workloads):
        group = {m.map: m for m in shown.of(workload) if m.throughput}
        published = {name.removesuffix("/published"): m for name, m in group.items()
                     if name.endswith("/published")}
        compact = {name.partition("/")[0]: m for name, m in group.items()
                   if not name.endswith("/published")}
        trees = [tree for tree in published if tree in compact]
        if not trees:
            continue
        scale = figures.scale_of(group.values())
        what = "Simulated throughput" if shown.simulated else "Median throughput"
        unit = f"simulated {scale.unit}" if shown.simulated else scale.unit
        traces = [pair_trace(name, colour, trees, by_tree, figure, scale)
                  for name, colour, by_tree in (("published", "series8", published),
                                                ("compact", "series0", compact))]
        layout = {"barmode": "group", "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
                  "yaxis": {"tickvals": list(range(len(trees))),
                            "ticktext": [text.plotly_label(tree) for tree in trees],
                            "range": [len(trees) - 0.4, -0.6], "showgrid": False}}
        drawn.append(Figure(
            f"pairs-{index}", f"Published and compact nodes of {workload}",
            f"{workload}{' (simulated)' if shown.simulated else ''}",
            f"{what} of each tree with its node as published, and with the compact one; longer is "
            "better. The number at a bar is the node's size in bytes.",
            [View("", traces, layout, 90 + 52 * len(trees))], series=True))
    return drawn


def pair_trace(name: str, colour: str, trees: Sequence[str], by_tree: dict[str, Measurement],
               figure: StudyFigure, scale: text.Scale) -> Json:
    values = [scale.of(m.throughput.median) if (m := by_tree[tree]).throughput else 0.0
              for tree in trees]
    sizes = [str(figure.node_bytes.get(by_tree[tree].map, text.UNAVAILABLE)) for tree in trees]
    return {"type": "bar", "orientation": "h", "name": name, "label": name,
            "y": list(range(len(trees))), "x": values, "marker": {"color": colour},
            "text": sizes, "textposition": "auto",
            "hovertext": [f"{text.plotly_text(by_tree[tree].map)}<br>{text.number(value)}, "
                          f"{size} bytes" for tree, value, size in zip(trees, values, sizes)],
            "hoverinfo": "text"}


# The index --------------------------------------------------------------------------------------


def index_page(results: Results, study: Study) -> str:
    everything = [finding for figure in study.figures for finding in figure.findings]
    pictures = {figure.id: charted.overview(study, figure, results.placed) for figure in study.figures}
    shown = results if not study.contexts else replace(
        results, files=[simulated.machine_name(c) for c in study.contexts], contexts=study.contexts)
    parts: list[Part | None] = [
        Part(figure.id, f"{figure.title}{charted.said_of(study)}" if study.charted else
             f"{called_in_words(figure)}: {figure.title}", [
            element("p", figure.summary), absent_maps(figure),
            findings_table(study, figure.findings, f"table-{figure.id}"),
            grids.chart(picture) if (picture := pictures[figure.id]) else None,
            element("p", element("a", f"Charts and numbers of {called_in_words(figure)}",
                                 href=f"{figure.id}.html"))])
        for figure in study.figures]
    if results.costs:
        parts.append(Part("tables", "All numbers", charted.cost_table(results.costs)))
    parts += [Part("context", "Context", tables.context_table(shown, "table-context")),
              Part("reading", "How to read this", reading(results, study))]
    title = f"{study.title}{' (simulated)' if study.simulated else ''}"
    return page.document(title, f"A study run by Espalier{where(shown, study)}",
                         [f"{'The study' if study.has_paper else 'Sources'}: {study.paper}.", *scores(study, everything)],
                         cautions(shown, study), parts, [picture for picture in pictures.values() if picture],
                         [page.script("grids.js")] if study.charted else page.plots(""))


# Parts of both ----------------------------------------------------------------------------------


def called_in_words(figure: StudyFigure) -> str:
    return figure.id.replace("-", " ")


def where(shown: Results, study: Study) -> str:
    return f", simulated on {simulated.machines(shown)}" if study.simulated else ""


def scores(study: Study, findings: Sequence[Finding]) -> list[str]:
    """Of the paper's findings, and of those that go beyond it."""
    how = "simulated here" if study.simulated else "measured here"
    ours = [finding for finding in findings if not finding.of_paper]
    papers = [finding for finding in findings if finding.of_paper]
    found = [f"Of {text.plural(len(papers), 'finding')} of the paper, {how}: {counted(papers)}."] \
        if papers or study.has_paper and not ours else []
    beyond = " beyond the paper" if study.has_paper else ""
    return found + ([f"Of {text.plural(len(ours), 'claim')}{beyond}, {how}: {counted(ours)}."] if ours else [])


def counted(findings: Sequence[Finding]) -> str:
    return text.listing(f"{sum(f.verdict == verdict for f in findings)} {words}" for verdict, words in (
        ("agrees", "agree"), ("differs", "differ"), ("not measurable here", "could not be measured here")))


def cautions(shown: Results, study: Study) -> list[str]:
    if not study.simulated:
        return page.cautions(shown)
    return [simulated.TRUST, *(f"{name} is {of}." for name, of in study.models.items())]


def reading(results: Results, study: Study) -> Markup:
    points = ([simulated.TRUST] if study.simulated else []) + list(
        charted.reading(results, study) if study.charted else READING)
    return element("ul", [element("li", point) for point in points])


def absent_maps(figure: StudyFigure) -> Content:
    reasons: dict[str, list[str]] = {}
    for map_, why in figure.missing:
        reasons.setdefault(why, []).append(map_)
    return [page.absent(f"Missing, {why}: {', '.join(maps)}.") for why, maps in reasons.items()]


def findings_table(study: Study, findings: Sequence[Finding], id_: str) -> Markup | None:
    """None where nothing was to be found."""
    if not findings and not study.has_paper:
        return None
    columns = []
    if any(f.keys is not None for f in findings):
        columns.append(Column("Keys", lambda f: tables.value(text.count(f.keys))))
    if study.simulated:
        columns.append(Column("Simulated on", lambda f: f.machine, numeric=False))
    beyond = "Beyond the paper: " if study.has_paper else ""
    columns += [Column("The paper" if study.has_paper else "To be shown",
                       lambda f: f"{'' if f.of_paper else beyond}{f.paper}.", numeric=False),
                Column("Simulated here" if study.simulated else "Measured here",
                       lambda f: f.ours, numeric=False)]
    return tables.table(id_, f"What {'the paper found' if study.has_paper else 'is to be shown'}, and what was found "
                             "here", "Verdict", findings, columns, badge)


def badge(finding: Any) -> Markup:
    return element("span", finding.verdict, class_=f"badge {BADGES[finding.verdict]}")
