"""The first screen: where and how maps were compared, and each map's rate relative to the best of each workload."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from espalier_report import tables, text, workloads
from espalier_report.markup import Content, Markup, element
from espalier_report.results import Object, Results, Role, is_count, place_of
from espalier_report.tables import Column

# Further maps are folded, so that the sentences below remain visible.
SHOWN = 12
UNMEASURED = "-"
LISTED = 6


@dataclass(frozen=True)
class Row:
    """A map, and its rate relative to the best by workload, where it was measured."""
    label: str
    role: Role
    ratios: dict[str, float]


# Where and how ----------------------------------------------------------------------------------


def conditions(results: Results) -> str:
    where = text.listing(dict.fromkeys(map(simulated_machine if results.simulated else machine, results.contexts)))
    keys = {count for m in results.measurements if (count := workloads.keys_of(m))}
    runs = {m.repetitions for m in results.measurements}
    return "; ".join(part for part in (
        where, numbers(keys, "key"), numbers({m.threads for m in results.measurements}, "thread"),
        f"{numbers(runs, 'run')} each" if runs else "") if part)


def machine(context: Object) -> str:
    """The processor, with its cores and threads according to the topology."""
    model, topology = context.get("cpu_model"), context.get("topology")
    name = model if isinstance(model, str) and model != text.UNAVAILABLE else "unknown processor"
    counts = re.findall(r"\d+ (?:cores?|threads?)\b", topology) if isinstance(topology, str) else []
    if not counts and is_count(context.get("num_cpus")):
        counts = [text.plural(context["num_cpus"], "CPU")]
    return f"{name} ({', '.join(counts)})" if counts else name


def simulated_machine(context: Object) -> str:
    return f"Simulated on {place_of(context)}"


def numbers(found: Iterable[int], noun: str) -> str:
    """All values if there are few, else the least and the greatest."""
    ordered = sorted(found)
    if not ordered:
        return ""
    named = [f"{one:,}" for one in ordered]
    said = text.listing(named) if len(named) <= LISTED else f"{named[0]} to {named[-1]}"
    return f"{said} {noun}" if ordered == [1] else f"{said} {noun}s"


# The matrix -------------------------------------------------------------------------------------


def compared(results: Results) -> list[str]:
    """The workloads with a known rate."""
    return list(filter(results.ranked, results.workloads))


def rows(results: Results) -> list[Row]:
    """By the geometric mean of the ratios; maps that lack a workload have none, and come last."""
    found = {m.label: Row(m.label, m.role, {}) for m in results.measurements}
    for workload in compared(results):
        ranked = results.ranked(workload)
        for m in ranked:
            found[m.label].ratios[workload] = m.median / ranked[0].median
    return sorted(found.values(), key=lambda row: (-len(row.ratios), -mean(row), row.label))


def mean(row: Row) -> float:
    return statistics.geometric_mean(row.ratios.values()) if row.ratios else 0.0


def matrix(results: Results) -> Content:
    """None if there is nothing to compare."""
    shown, ordered = compared(results), rows(results)
    if not shown or len(ordered) < 2:
        return None
    what = "Simulated throughput" if results.simulated else \
        "Operations per second of CPU time" if results.by_cpu else "Throughput"
    columns = [Column(head(results, workload), cell(workload)) for workload in shown]
    if len(shown) > 1:
        columns.append(Column("Geometric mean", lambda row: of_all(row, shown)))
    first, rest = ordered[:SHOWN], ordered[SHOWN:]
    threads = numbers({max(results.thread_counts(workload)) for workload in shown}, "thread")
    folded = element("details", element("summary", f"{text.plural(len(rest), 'more map')}"),
                     table("matrix-rest", f"{what} of the other maps over the best", rest, columns)) if rest else None
    return [table("matrix", f"{what} over the best map of each workload, at {threads}", first, columns), folded,
            element("p", legend(results, ordered, shown), class_="note")]


def table(id_: str, caption: str, shown: list[Row], columns: list[Column]) -> Markup:
    return tables.table(id_, caption, "Map", shown, columns, tables.named, "scroll matrix")


def head(results: Results, workload: str) -> Markup:
    """Links to the workload's chart."""
    return element("a", workload, href=f"#throughput-{results.workloads.index(workload)}-title",
                   title=workloads.explained(results.of(workload)))


def cell(workload: str) -> Callable[[Row], Content]:
    def of(row: Row) -> Content:
        ratio = row.ratios.get(workload)
        if ratio is None:
            return element("span", UNMEASURED, class_="absent", title="not measured")
        return element("strong", two_digits(ratio), class_="best") if ratio == 1 else two_digits(ratio)
    return of


def of_all(row: Row, shown: list[str]) -> Content:
    if len(row.ratios) < len(shown):
        return element("span", UNMEASURED, class_="absent", title="not measured in every workload")
    return two_digits(mean(row))


def two_digits(ratio: float) -> str:
    """A small ratio is not shown as 0, and a ratio just below 1 is not shown as 1."""
    return "<0.01" if ratio < 0.005 else f"{min(ratio, 0.99) if ratio < 1 else ratio:.2f}"


def legend(results: Results, ordered: list[Row], shown: list[str]) -> str:
    median = "" if results.simulated else " median"
    said = [f"1.00 is the best{median} of a workload, bold and shaded."]
    if any(len(row.ratios) < len(shown) for row in ordered):
        said.append(f"Cells with {UNMEASURED} were not measured; their maps stand last.")
    roles = {row.role for row in ordered}
    if Role.BASELINE in roles:
        said.append("Baselines lock in every operation.")
    if Role.PEER in roles:
        said.append("Peers are maps of other libraries.")
    if not results.simulated:
        said.append("The sentences below say which of the best are clear winners.")
    return " ".join(said)
