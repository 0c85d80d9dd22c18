"""The pages of a study: one for each figure of the paper, an index that links to them, and the library that they
share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from espalier_report import charted, figures, findings, grids, page, plotly_bundle, simulated, tables, text, workloads
from espalier_report.figures import Figure, Json, View
from espalier_report.grids import Grid
from espalier_report.markup import Markup, element
from espalier_report.page import Beside, Drawn, Part, Script
from espalier_report.results import TOO_SHORT, Finding, Measurement, Results, Study, StudyFigure

READING = (
    "A finding agrees where the difference has the paper's direction and at least half its size. It is not "
    "measurable here where a map is missing, where repeated runs do not tell, or where the paper has it on "
    "another machine or another number of keys.",
    "Bytes are those of a node. Where nodes are compared, both kinds lie in the same placement, so that the "
    "node alone differs; in the paper all came from jemalloc.",
    "Maps of one group were measured in turns, those of different groups one group after the other.")


@dataclass(frozen=True)
class File:
    """A page, or a file that pages load, with its name beside the index."""
    name: str
    content: str


def files(results: Results, index: str, plotly: str) -> list[File]:
    """The library comes first, if a page draws with it, and the index last: each file needs only earlier ones."""
    study = results.study
    assert study is not None
    library = File(plotly_bundle.file_name(plotly), plotly)
    pages = [File(f"{figure.id}.html", figure_page(results, study, figure, index, Beside(library.name)))
             for figure in study.figures]
    shared = [library] if any(f'src="{library.name}"' in one.content for one in pages) else []
    return [*shared, *pages, File(index, index_page(results, study))]


# One figure -------------------------------------------------------------------------------------


def figure_page(results: Results, study: Study, figure: StudyFigure, index: str,
                plotly: Beside) -> str:
    shown = part_of(results, study, figure)
    judged = [*absent_maps(figure), *findings.on_page(study, figure.findings, "table-findings")]
    parts: list[Part | None] = [Part("findings", "The paper and here" if study.has_paper else
                                     "Claims, and what was found", judged) if any(judged) else None]
    charts: Sequence[Drawn] = []
    if study.charted:
        part, charts = charted.parts(study, figure, shown.placed)
        parts += part
    elif shown.measurements:
        drawn = pairs(shown, figure)
        part, charts = (simulated_parts if study.simulated else measured_parts)(shown, drawn)
        parts += part
    parts += [Part("context", "Context", tables.context_table(shown, "table-context")),
              Part("reading", "How to read this", reading(results, study))]
    title = f"{figure.title}{' (simulated)' if study.simulated else ''}"
    return page.document(
        title, [element("a", study.title, href=index), f": {called_in_words(figure)}{where(shown, study)}"],
        [figure.summary, *scores(study, figure.findings)], cautions(shown, study), parts, charts,
        scripts(charts, plotly))


def scripts(drawn: Sequence[Drawn], plotly: Beside) -> list[Script]:
    """None for what is not drawn."""
    return [*(page.plots(plotly) if any(isinstance(one, Figure) for one in drawn) else []),
            *([page.script("grids.js")] if any(isinstance(one, Grid) for one in drawn) else [])]


def measured_parts(shown: Results, drawn: list[Figure]) -> tuple[list[Part | None], list[Figure]]:
    throughput, memory = figures.throughput(shown), figures.memory(shown)
    return [
        Part("pairs", "Node by node", page.charts(drawn)) if drawn else None,
        Part("throughput", "Throughput", page.keyed(shown, throughput)),
        Part("memory", "Memory per key", page.keyed(shown, memory)) if memory else None,
        Part("tables", "All numbers", page.all_tables(shown))], drawn + throughput + memory


def simulated_parts(shown: Results, drawn: list[Figure]) -> tuple[list[Part | None], list[Figure]]:
    parts, others = page.simulated_parts(shown)
    return [Part("pairs", "Node by node, simulated", page.charts(drawn)) if drawn else None, *parts], drawn + others


def part_of(results: Results, study: Study, figure: StudyFigure) -> Results:
    """The measurements of one figure; each map's name includes the size of its node."""
    measurements = [replace(m, label=called(m, figure)) for m in results.measurements
                    if m.workload in figure.workloads]
    # Without contexts of its own the study was run on the machine of the file's context.
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
    """Published nodes beside compact ones, for the trees for which a figure has both."""
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
        drawn.append(Figure(
            f"pairs-{index}", f"Published and compact nodes of {workload}",
            f"{workload}{' (simulated)' if shown.simulated else ''}",
            f"{what} of each tree with its node as published, and with the compact one; longer is "
            "better. The number at a bar is the node's size in bytes.",
            [View("", traces, figures.rows_layout("group", unit, trees), 90 + 52 * len(trees))], series=True,
            about=workloads.explained(shown.of(workload))))
    return drawn


def pair_trace(name: str, colour: str, trees: Sequence[str], by_tree: dict[str, Measurement],
               figure: StudyFigure, scale: text.Scale) -> Json:
    values = [scale.of(by_tree[tree].median) for tree in trees]
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
    causes = findings.shared_causes(everything)
    pictures = {figure.id: charted.overview(study, figure, results.placed) for figure in study.figures}
    drawn = [picture for picture in pictures.values() if picture]
    shown = results if not study.contexts else replace(
        results, files=[simulated.machine_name(c) for c in study.contexts], contexts=study.contexts)
    parts: list[Part | None] = [
        Part(figure.id, f"{figure.title}{charted.said_of(study)}" if study.charted else
             f"{called_in_words(figure)}: {figure.title}", [
            None if study.result else element("p", figure.summary), absent_maps(figure), charted.ranking(study, figure),
            findings.on_index(study, figure.findings, causes, f"table-{figure.id}"),
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
                         [*study.result, f"{'The study' if study.has_paper else 'Sources'}: {study.paper}.",
                          *scores(study, everything), *findings.sentences(causes)],
                         cautions(shown, study), parts, drawn, [page.script("grids.js")] if drawn else [])


# Parts of both ----------------------------------------------------------------------------------


def called_in_words(figure: StudyFigure) -> str:
    return figure.id.replace("-", " ")


def where(shown: Results, study: Study) -> str:
    return f", simulated on {simulated.machines(shown)}" if study.simulated else ""


def scores(study: Study, found: Sequence[Finding]) -> list[str]:
    """Counts the paper's findings, and those that go beyond it."""
    how = "simulated here" if study.simulated else "measured here"
    ours = [finding for finding in found if not finding.of_paper]
    papers = [finding for finding in found if finding.of_paper]
    said = [f"Of {text.plural(len(papers), 'finding')} of the paper, {how}: {counted(papers)}."] \
        if papers or study.has_paper and not ours else []
    beyond = " beyond the paper" if study.has_paper else ""
    return said + ([f"Of {text.plural(len(ours), 'claim')}{beyond}, {how}: {counted(ours)}."] if ours else [])


def counted(found: Sequence[Finding]) -> str:
    numbers = Counter(f.verdict for f in found)
    said = {"agrees": "agree", "differs": "differ", "not measurable here": "could not be measured here"}
    if TOO_SHORT in numbers:
        said[TOO_SHORT] = "were not judged, as the run is too short"
    return text.listing(f"{numbers[verdict]} {words}" for verdict, words in said.items())


def cautions(shown: Results, study: Study) -> list[str]:
    if not study.simulated:
        return page.cautions(shown)
    return [*page.interruptions(shown), simulated.TRUST, *(f"{name} is {of}." for name, of in study.models.items())]


def reading(results: Results, study: Study) -> Markup:
    points = ([simulated.TRUST] if study.simulated else []) + list(
        charted.reading(results, study) if study.charted else READING)
    return element("ul", [element("li", point) for point in points])


def absent_maps(figure: StudyFigure) -> list[Markup]:
    reasons: dict[str, list[str]] = {}
    for map_, why in figure.missing:
        reasons.setdefault(why, []).append(map_)
    return [page.absent(f"Missing, {why}: {', '.join(maps)}.") for why, maps in reasons.items()]
