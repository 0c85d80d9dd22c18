"""The contents of a page of simulated results: every title, axis and sentence says that it is simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from espalier_report import figures, text, workloads
from espalier_report.figures import Figure, Json, Palette, Row, View
from espalier_report.markup import Markup, element
from espalier_report.results import COUNTS, Calibrated, Measurement, Results, Spread, place_of
from espalier_report.tables import Column, named, region_columns, shared_settings, table, value

# Where an access that misses a core's own caches is served, from near to far.
PLACES = {"llc_hits": "last-level cache", "local_transfers": "local transfer",
          "remote_transfers": "remote transfer", "local_dram": "local DRAM",
          "remote_dram": "remote DRAM"}
TRUST = ("Everything on this page is simulated. Memory is modelled, computation is guessed: rankings "
         "and counts mean something, absolute throughput does not.")


def machine_name(context: dict[str, Any]) -> str:
    return place_of(context).partition(",")[0]


def machines(results: Results) -> str:
    return text.listing(dict.fromkeys(map(machine_name, results.contexts)))


def headline(results: Results) -> str:
    on = f"Simulated on {machines(results)}"
    leaders = [ranked[0] for ranked in map(results.ranked, results.workloads) if len(ranked) > 1]
    if not leaders:
        return f"{on}: nothing to compare"
    if len(leaders) <= 3:
        return f"{on}: " + "; ".join(f"{m.label} leads {m.workload}" for m in leaders)
    wins = Counter(m.label for m in leaders)
    most = min(wins, key=lambda label: (-wins[label], label))
    return f"{on}: {most} leads {wins[most]} of {text.plural(len(leaders), 'workload')}"


def sentences(results: Results) -> list[str]:
    found = []
    for ranked in map(results.ranked, results.workloads):
        if not ranked:
            continue
        best = ranked[0]
        at = f"{best.workload} at {text.plural(best.threads, 'simulated thread')}"
        if len(ranked) == 1:
            found.append(f"Only {best.label} was simulated in {at}.")
            continue
        ratio = best.median / ranked[1].median
        found.append(f"{best.label} leads {at}: {text.number(ratio)} times {ranked[1].label}, "
                     "simulated.")
    return found


def throughput(results: Results, palette: Palette) -> list[Figure]:
    drawn = []
    for index, workload in enumerate(results.workloads):
        group = [m for m in results.of(workload) if m.throughput]
        counts = results.thread_counts(workload)
        if not group:
            continue
        scale = figures.scale_of(group)
        unit = f"simulated {scale.unit}"
        if len(counts) < 2:
            rows = [Row(m.label, m.role, figures.scaled(m.throughput, scale.of),
                        scale.text(m.median)) for m in group]
            view = figures.bars("", rows, unit, best_is_greatest=True)
        else:
            view = figures.scaling_view(group, counts, scale, unit, palette)
        drawn.append(Figure(
            f"throughput-{index}", f"Simulated throughput of {workload}", f"{workload} (simulated)",
            f"Simulated throughput of {workload} over simulated threads. Compare maps and slopes; "
            "the absolute numbers are those of a model that guesses what computation costs.",
            [view], series=len(counts) >= 2, about=workloads.explained(results.of(workload))))
    return drawn


def served(results: Results) -> list[Figure]:
    """Stacked bars: an operation's accesses beyond the L1 and L2, by the place that served them."""
    drawn = []
    for index, workload in enumerate(results.workloads):
        views = [_stack(threads, [m for m in results.of(workload) if m.threads == threads])
                 for threads in reversed(results.thread_counts(workload))]
        drawn.append(Figure(
            f"served-{index}", f"Where simulated accesses of {workload} were served",
            f"{workload} (simulated)",
            f"Simulated accesses of one operation of {workload} that missed the caches of its own "
            "core, by the place that served them; shorter is better, and the places to the right "
            "cost the most. Local is within the socket, remote beyond it.", views, series=True,
            about=workloads.explained(results.of(workload))))
    return drawn


def stalls(results: Results) -> list[Figure]:
    drawn = []
    for index, workload in enumerate(results.workloads):
        views = []
        for threads in reversed(results.thread_counts(workload)):
            group = [m for m in results.of(workload) if m.threads == threads]
            scale = text.Scale(max(m.counts["stall_cycles"] for m in group))
            rows = [Row(m.label, m.role, Spread(scale.of(m.counts["stall_cycles"])),
                        scale.text(m.counts["stall_cycles"])) for m in group]
            unit = {"M": "million ", "k": "thousand "}.get(scale.short, "")
            views.append(figures.bars(text.plural(threads, "thread"), rows,
                                      f"simulated {unit}stall cycles per operation",
                                      best_is_greatest=False))
        drawn.append(Figure(
            f"stalls-{index}", f"Simulated stall cycles of {workload}", f"{workload} (simulated)",
            f"Simulated cycles that one operation of {workload} waits for memory, shorter is "
            "better.", views, about=workloads.explained(results.of(workload))))
    return drawn


def calibration(results: Results) -> list[Figure]:
    views = []
    for workload, threads in dict.fromkeys((c.workload, c.threads) for c in results.calibration):
        group = [c for c in results.calibration if (c.workload, c.threads) == (workload, threads)]
        traces: list[Json] = [
            {"type": "bar", "orientation": "h", "name": name, "label": name, "y": list(range(len(group))),
             "x": [getattr(c, attribute) for c in group], "marker": {"color": colour},
             "text": [text.plotly_text(c.map) for c in group], "textposition": "none",
             "hovertemplate": "%{text}<br>%{fullData.name} %{x:.3f}<extra></extra>"}
            for name, attribute, colour in (("measured ratio", "native", "series8"),
                                            ("simulated ratio", "simulated", "series0"))]
        layout = figures.rows_layout("group", f"throughput over that of {text.plotly_text(group[0].reference)}",
                                     [c.map for c in group])
        views.append(View(f"{workload}, {text.plural(threads, 'thread')}", traces, layout,
                          90 + 48 * len(group)))
    if not views:
        return []
    return [Figure("calibration-0", "Simulated ratios beside measured ones", None,
                   "Throughput of each map over that of the first one: measured on this machine, and "
                   "simulated on a machine of its shape. Ratios only: absolute numbers of the two "
                   "are not comparable.", views, series=True)]


def calibration_table(found: Sequence[Calibrated], id_: str) -> Markup:
    columns = [Column("Workload", lambda c: c.workload, numeric=False),
               Column("Threads", lambda c: str(c.threads)),
               Column("Measured ratio", lambda c: text.number(c.native)),
               Column("Simulated ratio", lambda c: text.number(c.simulated)),
               Column("Deviation", lambda c: f"{c.deviation * 100:+.0f}{text.THIN}%")]
    return table(id_, f"Throughput over that of {found[0].reference}, measured and simulated", "Map",
                 found, columns, lambda c: c.map)


def counts_table(results: Results, workload: str, id_: str) -> Markup:
    group = sorted(results.of(workload), key=lambda m: (-m.threads, -m.median, m.label))
    scale = figures.scale_of(group)
    shared, _ = shared_settings(group)

    def count(name: str) -> Any:
        return lambda m: value(text.number(m.counts.get(name)))

    columns = [Column("Threads", lambda m: str(m.threads)),
               Column(f"Simulated {scale.short} op/s".replace("  ", " "),
                      lambda m: scale.text(m.median))]
    columns += [*(Column(_head(name), count(name)) for name in COUNTS), *region_columns(group)]
    caption = f"{workload}: simulated counts per operation" + \
        (f" ({', '.join(shared)})" if shared else "")
    return table(id_, caption, "Map", group, columns, named)


def reading() -> Markup:
    points = [
        TRUST,
        "A simulation with the same program, machine, workload and seed gives the same counts to "
        "the last one, so there is no spread: a difference is one of the model, however small.",
        "A transfer brings a line from another core's cache: local within the socket, remote from "
        "another. DRAM is local where the page lies on the socket's own NUMA node.",
        "Stall cycles are those beyond an L1 hit, a buffered store or an atomic in the L1. Waiting "
        "threads that spin in their own caches stall little, but their operations take long.",
        "docs/simulated-machine.md says what is modelled and how well the model agrees with "
        "published measurements. `espalier simulate --calibrate` compares it with this machine."]
    return element("ul", [element("li", point) for point in points])


def _head(name: str) -> str:
    words = name.replace("_", " ").capitalize()
    for shouted in ("LLC", "DRAM", "TLB"):
        words = words.replace(shouted.capitalize(), shouted).replace(shouted.lower(), shouted)
    return words


def _stack(threads: int, group: Sequence[Measurement]) -> View:
    beyond = {m.label: sum(m.counts[name] for name in PLACES) for m in group}
    ordered = sorted(group, key=lambda m: (beyond[m.label], m.label))
    traces: list[Json] = []
    for index, (name, place) in enumerate(PLACES.items()):
        traces.append({
            "type": "bar", "orientation": "h", "name": place, "label": place,
            "y": list(range(len(ordered))), "x": [m.counts[name] for m in ordered],
            "marker": {"color": f"series{index}"},
            "text": [f"{text.plotly_text(m.label)}: {text.number(m.counts[name])}" for m in ordered],
            "textposition": "none",
            "hovertemplate": "%{text}<br>%{fullData.name}, simulated<extra></extra>"})
    layout = figures.rows_layout("stack", "simulated accesses per operation beyond L1 and L2",
                                 [m.label for m in ordered]) | {"bargap": 0.35}
    lines = max(len(text.wrapped(m.label)) for m in ordered)
    return View(text.plural(threads, "thread"), traces, layout,
                90 + len(ordered) * max(30, 4 + 15 * lines))
