"""Assembles the page: one file, or one of a folder with a shared file. Nothing else is loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from espalier_report import figures, simulated, summary, tables, text, verdict
from espalier_report.figures import Figure
from espalier_report.grids import Grid
from espalier_report.markup import Content, Markup, element, markup
from espalier_report.results import Bar, Measurement, Results, Role, busy_load, is_count

HERE = pathlib.Path(__file__).resolve().parent


@dataclass(frozen=True)
class Beside:
    """A script in a file beside the page, which the pages of a folder share."""
    name: str


# A script's text, or its place.
Script = str | Beside
# What a script draws from the page's block of data.
Drawn = Figure | Grid


@dataclass(frozen=True)
class Part:
    """A section of the page and its entry in the navigation."""
    id: str
    name: str
    content: Content


def render(results: Results, plotly: str) -> str:
    return simulated_page(results, plotly) if results.simulated else measured_page(results, plotly)


def measured_page(results: Results, plotly: str) -> str:
    palette = figures.Palette(results)
    throughput, latency = figures.throughput(results), figures.latency(results, palette)
    memory, scaling = figures.memory(results), figures.scaling(results, palette)
    found = verdict.verdicts(results)
    parts = [
        Part("throughput", "Throughput", keyed(results, throughput)),
        Part("latency", "Latency", charts(latency) or absent(
            "Latency is unavailable: no file holds a latency curve.")),
        Part("memory", "Memory per key", keyed(results, memory) if memory else absent(
            "Bytes per key are unavailable for every map.")),
        Part("scaling", "Scaling over threads", charts(scaling)) if scaling else None,
        Part("tables", "All numbers", all_tables(results)),
        Part("context", "Context", tables.context_table(results, "table-context")),
        Part("reading", "How to read this", reading(results))]
    return document(verdict.headline(found), "Espalier benchmark report of "
                    + text.listing(results.files), [v.sentence for v in found], cautions(results),
                    parts, throughput + latency + memory + scaling, plots(plotly), first_screen(results))


def simulated_page(results: Results, plotly: str) -> str:
    parts, drawn = simulated_parts(results)
    calibration = simulated.calibration(results)
    parts = [
        *parts[:-1],
        Part("calibration", "Calibration", [charts(calibration), simulated.calibration_table(
            results.calibration, "table-calibration")]) if calibration else None,
        parts[-1],
        Part("context", "Context", tables.context_table(results, "table-context")),
        Part("reading", "How to read this", simulated.reading())]
    return document(simulated.headline(results), "Simulated by Espalier: "
                    + text.listing(results.files), simulated.sentences(results), [*interruptions(results), simulated.TRUST],
                    parts, drawn + calibration, plots(plotly), first_screen(results))


def simulated_parts(results: Results) -> tuple[list[Part | None], list[Figure]]:
    """The numbers come last."""
    throughput = simulated.throughput(results, figures.Palette(results))
    served, stalls = simulated.served(results), simulated.stalls(results)
    return [Part("throughput", "Simulated throughput", keyed(results, throughput)),
            Part("served", "Where simulated accesses were served", charts(served)),
            Part("stalls", "Simulated stall cycles", keyed(results, stalls)),
            Part("tables", "All simulated numbers", counts_tables(results))], throughput + served + stalls


def first_screen(results: Results) -> tuple[Content, Content]:
    """Where and how maps were compared, and the matrix."""
    return element("p", summary.conditions(results), class_="facts"), summary.matrix(results)


def document(title: str, made: Content, sentences: Sequence[Content], warnings: Sequence[str],
             parts: Sequence[Part | None], drawn: Sequence[Drawn], scripts: Sequence[Script],
             first: tuple[Content, Content] = (None, None)) -> str:
    shown = [part for part in parts if part]
    body = element(
        "body", header(title, made, sentences, warnings, first),
        element("nav", [element("a", part.name, href=f"#{part.id}") for part in shown],
                aria_label="Contents"),
        element("main", [section(part.id, part.name, part.content) for part in shown]),
        data_block(drawn))
    return "".join(("<!DOCTYPE html>\n", '<html lang="en">\n', head(title, scripts), body_with(
        body, scripts), "\n</html>\n"))


def plots(plotly: Script) -> list[Script]:
    return [plotly, script("page.js")]


def script(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def head(title: str, scripts: Sequence[Script]) -> Markup:
    style = (HERE / "page.css").read_text(encoding="utf-8")
    # The policy permits the page only its own scripts and no other loading, whatever a name in the results contains.
    # Plotly writes style attributes, hence the exception for styles. Browsers check no integrity of files beside a page
    # that is opened from a disk, so these are permitted by their place.
    allowed = ["'self'" if isinstance(one, Beside) else f"'sha256-{digest(one)}'" for one in scripts] or ["'none'"]
    policy = f"default-src 'none'; script-src {' '.join(allowed)}; style-src 'unsafe-inline'; img-src data: blob:"
    return Markup(
        '<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"{element('title', f'{title} - Espalier')}\n<style>\n{style}</style>\n</head>\n")


def body_with(body: Markup, scripts: Sequence[Script]) -> str:
    elements = "".join(f"{element('script', src=one.name)}\n" if isinstance(one, Beside) else
                       f"<script>{one}</script>\n" for one in scripts)
    return body.removesuffix("</body>") + "\n" + elements + "</body>"


def digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def header(title: str, made: Content, sentences: Sequence[Content], warnings: Sequence[str],
           first: tuple[Content, Content]) -> Markup:
    """Cautions come before what they qualify: a matrix, or else they follow the sentences."""
    said = element("ul", [element("li", sentence) for sentence in sentences], class_="verdicts")
    warned = element("ul", [element("li", warning) for warning in warnings], class_="cautions",
                     aria_label="Cautions") if warnings else None
    facts, matrix = first
    return element("header", element("p", made, class_="kicker"), element("h1", title), facts,
                   [warned, matrix, said] if facts else [said, warned])


def section(id_: str, title: str, *content: Content) -> Markup:
    return element("section", element("h2", title, id=f"{id_}-title"), *content, id=id_,
                   aria_labelledby=f"{id_}-title")


def absent(sentence: str) -> Markup:
    return element("p", sentence, class_="note")


def key(shown: Iterable[Measurement | Bar]) -> Markup | None:
    roles = {one.role for one in shown}
    entries = [[element("span", element("i", class_=role.name.lower(), aria_hidden="true"), role), " "]
               for role in Role if role in roles]
    return element("p", entries, class_="key") if len(entries) > 1 else None


def keyed(shown: Results, group: Sequence[Figure]) -> Content:
    """Charts, with a key if some are bars; curves have names."""
    return [None if all(figure.series for figure in group) else key(shown.measurements), charts(group)]


def charts(group: Sequence[Figure]) -> Markup | None:
    return markup([chart(figure) for figure in group]) if group else None


def chart(figure: Figure) -> Markup:
    first = figure.views[0]
    drawing = element("div", class_="plot", id=figure.id, role="img", data_figure=figure.id,
                      aria_label=f"{figure.title}. The tables below hold the same numbers.",
                      style=f"height:{first.height}px")
    return element("figure", element("figcaption",
                                     element("h3", figure.heading, id=f"{figure.id}-title") if figure.heading else None,
                                     element("p", figure.about, class_="about") if figure.about else None,
                                     element("p", figure.caption)),
                   choice(figure), drawing,
                   element("div", class_="series", role="group",
                           aria_label=f"Lines of {figure.title}") if figure.series else None,
                   element("p", class_="note", aria_live="polite"),
                   element("noscript", absent("The charts need JavaScript; the tables hold the "
                                              "same numbers.")))


def choice(figure: Figure) -> Markup | None:
    """Controls that choose views, and how curves are drawn."""
    id_ = f"{figure.id}-view"
    options = [element("option", view.label, value=str(index))
               for index, view in enumerate(figure.views)]
    views = [element("label", "Show ", for_=id_), element("select", options, id=id_), " "] if len(options) > 1 else []
    ways = [element("button", name, type="button", data_panels=panels, aria_pressed=panels)
            for name, panels in (("A chart for each map", "true"), ("One chart", "false"))] if figure.panels else []
    return element("p", views, element("span", ways, class_="ways", role="group", aria_label="How curves are drawn")
                   if ways else None, class_="choice") if views or ways else None


def all_tables(results: Results) -> list[Content]:
    parts: list[Content] = []
    for index, workload in enumerate(results.workloads):
        parts.append(element("h3", workload))
        if results.of(workload):
            parts.append(tables.measurement_table(results, workload, f"table-{index}"))
        latency = tables.latency_table(results, workload, f"table-latency-{index}")
        if latency:
            parts.append(element("details", element("summary", f"Latency table of {workload}"),
                                 latency))
    return parts


def counts_tables(results: Results) -> list[Content]:
    return [[element("h3", f"{workload} (simulated)"),
             simulated.counts_table(results, workload, f"table-{index}")]
            for index, workload in enumerate(results.workloads)]


def data_block(drawn: Sequence[Drawn]) -> Markup:
    data = json.dumps(shortened({figure.id: figure.json() for figure in drawn}), allow_nan=False,
                      ensure_ascii=False, separators=(",", ":"))
    # In a script element only "<" is dangerous, and JSON can write it differently.
    return Markup('\n<script type="application/json" id="figures">'
                  + data.replace("<", "\\u003c") + "</script>")


def shortened(drawn: Any) -> Any:
    """Six digits are more than a drawing shows."""
    if isinstance(drawn, dict):
        return {key: shortened(value) for key, value in drawn.items()}
    if isinstance(drawn, list):
        return [shortened(value) for value in drawn]
    return float(f"{drawn:.6g}") if isinstance(drawn, float) else drawn


def interruptions(results: Results) -> list[str]:
    """What is missing comes first among the cautions."""
    return [f"{name} is incomplete: the run was interrupted, and holds what was measured until then."
            for name, context in zip(results.files, results.contexts) if context.get("incomplete") is True]


def cautions(results: Results) -> list[str]:
    found = interruptions(results)
    several = len(results.files) > 1
    for name, context in zip(results.files, results.contexts):
        at = f"{name}: " if several else ""
        build = context.get("library_build_type")
        if build not in (None, "release", text.UNAVAILABLE):
            found.append(f"{at}a {build} build was measured; its times say nothing about a "
                         "release build.")
        if context.get("cpu_scaling_enabled") is True:
            found.append(f"{at}frequency scaling was on, so the clock may have changed between "
                         "maps.")
        cpus: Any = context.get("num_cpus")
        busiest = results.threads_of(name)
        if load := busy_load(context, busiest):
            found.insert(0, f"{at}the machine was busy: its load average was {text.number(load)} on "
                         f"{text.plural(cpus, 'CPU')}. Throughputs include the time for which threads waited for a CPU."
                         + (" Maps are ranked by CPU time per operation. A map whose threads sleep in a lock then ranks "
                            "too high." if results.by_cpu else ""))
        if is_count(cpus) and 0 < cpus < busiest:
            found.append(f"{at}{busiest} threads ran on {text.plural(cpus, 'CPU')}; beyond that "
                         "number they take turns, and latencies hold the waiting.")
    if several:
        found.append("The files are separate runs: a ratio between two files also holds what "
                     "changed between the runs.")
    repetitions = min((m.repetitions for m in results.measurements), default=0)
    if 0 < repetitions < 3:
        found.append(f"Some maps ran {text.plural(repetitions, 'repetition')} only; the spread "
                     "cannot be trusted below three.")
    rounds = min((one.rounds for one in results.timed), default=0)
    if 0 < rounds < 3:
        found.append(f"Some programs ran {text.plural(rounds, 'round')} only; the spread cannot be "
                     "trusted below three.")
    return found


def reading(results: Results) -> Markup:
    points: list[Content] = [
        "Compare ratios between maps of one run. The machine may be shared, so absolute numbers "
        "move from day to day and from machine to machine.",
        [element("strong", text.UNAVAILABLE.capitalize()), " means not measured, because the "
         "machine, the build or the map does not offer it. It never means zero."],
        "A bar or a point is the median of the repetitions, a whisker reaches from the slowest to "
        "the fastest. Where the whiskers of two maps overlap, the run does not tell which one is "
        "faster, and no winner is named.",
        "Winners, throughput and memory are taken at the workload's greatest thread count; the "
        "tables hold the others.",
        "Wall time per operation is that of all threads together, the inverse of the throughput. "
        "CPU time per operation is what the threads spent in the map; on a busy machine it is the "
        "steadier of the two.",
        "Latency axes are logarithmic: 99% means that one operation in a hundred took longer, "
        "99.9% one in a thousand. The right end of a curve is its single slowest operation and "
        "often shows the scheduler rather than the map.",
        "Leaked bytes are those that a map did not give back. A map that leaks may be fast "
        "because it leaks."]
    if any(m.transactions for m in results.measurements):
        points.append("Transactions: the sections of each region of a map that committed, the attempts that aborted and "
                      "why, and the sections that took the lock instead; all per operation.")
    roles = {m.role for m in results.measurements}
    if Role.BASELINE in roles:
        points.append("Baselines lock in every operation, searches included: one lock around the whole map, or a lock "
                      "for each node. They show what a concurrent map has to beat.")
    if Role.PEER in roles:
        points.append("Peers are maps of other libraries, driven by the same benchmark loop.")
    return element("ul", [element("li", point) for point in points])
