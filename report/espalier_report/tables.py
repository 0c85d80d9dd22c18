"""The tables: every median with its spread, the latencies, and the machine of the measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from espalier_report import text
from espalier_report.markup import Content, Markup, breakable, element
from espalier_report.results import ABORTS, SETTINGS, Latency, Measurement, Results, Role, Spread

CONTEXT = {
    "simulated": "Simulated", "machine": "Simulated machine",
    "date": "Date", "host_name": "Host", "cpu_model": "Processor", "topology": "Topology",
    "num_cpus": "CPUs", "mhz_per_cpu": "MHz", "caches": "Caches",
    "cpu_scaling_enabled": "Frequency scaling", "load_avg": "Load average",
    "huge_pages": "Huge pages", "rtm": "Transactional memory (RTM)", "membarrier": "membarrier",
    "hardware_counters": "Hardware counters", "pinning": "Pinning", "malloc": "malloc",
    "compiler": "Compiler", "build_flags": "Build flags", "library_build_type": "Build type",
    "espalier_version": "Espalier", "commit": "Commit", "seed": "Seed",
    "context_switches": "Context switches", "executable": "Executable"}
OPTIONAL = {"instructions": "Instructions per operation",
            "llc_misses": "Last-level cache misses per operation",
            "context_switches": "Context switches"}


@dataclass(frozen=True)
class Column:
    head: Content
    cell: Callable[[Any], Content]
    numeric: bool = True


def measurement_table(results: Results, workload: str, id_: str) -> Markup:
    group = sorted(results.of(workload), key=lambda m: (-m.threads, -m.median, m.label))
    scale = text.Scale(max((m.throughput.median for m in group if m.throughput), default=1.0))
    shared, varying = shared_settings(group)
    columns = [
        Column("Threads", lambda m: str(m.threads)),
        Column(f"Throughput, {scale.short} op/s".replace("  ", " "),
               lambda m: spread_cell(m.throughput, scale.of)),
        Column("Wall ns/op", lambda m: spread_cell(m.wall)),
        Column("CPU ns/op", lambda m: spread_cell(m.cpu)),
        Column("Bytes/key", lambda m: value(text.number(m.bytes_per_key))),
        Column("Leaked bytes", lambda m: value(text.count(m.leaked_bytes))),
        Column("Repetitions", lambda m: str(m.repetitions))]
    columns += [Column(name, attribute(key)) for key, name in OPTIONAL.items()
                if any(getattr(m, key) is not None for m in group)]
    columns += region_columns(group)
    columns += [Column(name.capitalize(), setting(index), numeric=False)
                for index, name in varying]
    missing = [name.lower() for key, name in OPTIONAL.items()
               if all(getattr(m, key) is None for m in group)]
    note = element("p", f"{text.listing(missing).capitalize()}: {text.UNAVAILABLE} in every row.",
                   class_="note") if missing else None
    caption = f"{workload}: medians with min to max" + (f" ({', '.join(shared)})" if shared else "")
    return Markup(table(id_, caption, "Map", group, columns, named) + (note or ""))


def named(one: Any) -> Content:
    """A map's name, marked if it is no contender."""
    role: Role = one.role
    mark = None if role is Role.OURS else [" ", element("span", role, class_=f"role {role.name.lower()}")]
    return [breakable(one.label), mark]


def attribute(name: str) -> Callable[[Measurement], Content]:
    return lambda m: value(text.number(getattr(m, name)))


def region_columns(group: Sequence[Measurement]) -> list[Column]:
    return [Column(f"Transactions/op, {region}", transactions_of(region))
            for region in dict.fromkeys(region for m in group for region in m.transactions)]


def transactions_of(region: str) -> Callable[[Measurement], Content]:
    """Commits, what aborted, and the sections that took the lock."""
    def cell(m: Measurement) -> Content:
        counts = m.transactions.get(region)
        if counts is None:
            return value(text.UNAVAILABLE)
        causes = [f"{name.replace('_', ' ')} {text.number(counts[name])}" for name in ABORTS if counts[name]]
        aborts = f"{text.number(sum(counts[name] for name in ABORTS))} aborts"
        locked = f"{text.number(counts['fallbacks'] + counts['skipped'])} under the lock"
        return [text.number(counts["commits"]), " ", element(
            "span", f"{aborts} ({', '.join(causes)}), {locked}" if causes else f"{aborts}, {locked}", class_="spread")]
    return cell


def setting(index: int) -> Callable[[Measurement], Content]:
    return lambda m: value(m.settings[index])


def shared_settings(group: Sequence[Measurement]) -> tuple[list[str], list[tuple[int, str]]]:
    """Settings that hold for all rows go into the caption, the others become columns."""
    shared, varying = [], []
    for index, name in enumerate(SETTINGS):
        values = {m.settings[index] for m in group}
        if len(values) > 1:
            varying.append((index, name))
        elif values != {text.UNAVAILABLE}:
            shared.append(f"{name} {values.pop()}")
    return shared, varying


def latency_table(results: Results, workload: str, id_: str) -> Markup | None:
    entries = sorted((e for e in results.latencies if e.workload == workload), key=lambda e: (
        -e.threads, e.operation != "all", e.operation,
        e.quantiles["p99"] is None, e.quantiles["p99"] or 0.0, e.label))
    if not entries:
        return None

    def at(key: str) -> Callable[[Latency], Content]:
        return lambda entry: value(text.duration(entry.quantiles[key]))

    columns = [
        Column("Threads", lambda e: str(e.threads)),
        Column("Operation", lambda e: e.operation, numeric=False),
        Column("50%", at("p50")), Column("99%", at("p99")), Column("99.9%", at("p999")),
        Column("Slowest", at("max")),
        Column("Samples", lambda e: value(text.count(e.samples)))]
    return table(id_, f"{workload}: latency percentiles", "Map", entries, columns, named)


def context_table(results: Results, id_: str) -> Markup:
    keys = [key for key in CONTEXT if any(key in context for context in results.contexts)]
    keys += sorted({key for context in results.contexts for key in context} - set(CONTEXT))

    def cell(index: int) -> Callable[[str], Content]:
        return lambda key: value(context_text(key, results.contexts[index].get(key)))

    columns = [Column(name, cell(index), numeric=False)
               for index, name in enumerate(results.files)]
    how = "simulated" if results.simulated else "measured"
    return table(id_, f"Where and how it was {how}", "Fact", keys, columns,
                 lambda key: CONTEXT.get(key, key))


def context_text(key: str, fact: Any) -> str:
    if fact is None or fact == [] or fact == {}:
        return text.UNAVAILABLE
    if key == "caches" and isinstance(fact, list):
        return "; ".join(cache_text(cache) for cache in fact)
    if key == "simulated":
        return "yes" if fact is True else "no"
    if isinstance(fact, bool):
        return "on" if fact else "off"
    if isinstance(fact, list):
        return ", ".join(context_text("", part) for part in fact)
    if isinstance(fact, dict):
        return ", ".join(f"{name.replace('_', ' ')} "
                         + (f"({context_text('', part)})" if isinstance(part, dict)
                            else context_text("", part)) for name, part in fact.items())
    return str(fact)


def cache_text(cache: Any) -> str:
    try:
        shared = cache.get("num_sharing")
        size = text.size(float(cache["size"]))
        return f"L{cache['level']} {str(cache['type']).lower()} {size}" + \
            (f", shared by {shared}" if isinstance(shared, int) and shared > 1 else "")
    except (AttributeError, KeyError, TypeError, ValueError):
        return str(cache)


def spread_cell(spread: Spread | None, by: Callable[[float], float] = lambda v: v) -> Content:
    if spread is None:
        return value(text.UNAVAILABLE)
    if spread.low is None or spread.high is None:
        return [text.number(by(spread.median)), " ",
                element("span", "one run", class_="spread")]
    return [text.number(by(spread.median)), " ",
            element("span", f"{text.number(by(spread.low))} to {text.number(by(spread.high))}",
                    class_="spread")]


def value(shown: str) -> Content:
    return element("span", shown, class_="absent") if shown == text.UNAVAILABLE else shown


def table(id_: str, caption: str, first: str, rows: Sequence[Any], columns: Sequence[Column],
          name: Callable[[Any], Content] = lambda row: breakable(row.label), class_: str = "scroll") -> Markup:
    """A wide table scrolls in its own box, which the keyboard can reach."""
    head = element("tr", element("th", first, scope="col"),
                   [element("th", c.head, scope="col", class_="number" if c.numeric else None)
                    for c in columns])
    body = [element("tr", element("th", name(row), scope="row"),
                    [element("td", c.cell(row), class_="number" if c.numeric else None)
                     for c in columns])
            for row in rows]
    return element("div", element(
        "table", element("caption", element("span", caption), id=id_), element("thead", head),
        element("tbody", body)), class_=class_, role="region", aria_labelledby=id_,
        tabindex="0")
