"""Reads and checks result files, and merges several into one set of measurements."""

from __future__ import annotations

import json
import math
import pathlib
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, NoReturn

from espalier_report.text import UNAVAILABLE, plural

Object = dict[str, Any]

NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
TIMES = (1e-9, 1e24)  # of an operation, in ns; their ratios are finite
EXPECTED = "a results file is the JSON that `espalier bench`, `espalier simulate` or `espalier inspect` writes"
SETTINGS = ("mix", "distribution", "keys", "placement")
TOO_SHORT = "not judged: the run is too short"
VERDICTS = ("agrees", "differs", "not measurable here", TOO_SHORT)
# The counts of a simulated entry, per operation; the seven places from l1_hits on served all accesses.
COUNTS = ("accesses", "l1_hits", "l2_hits", "llc_hits", "local_transfers", "remote_transfers",
          "local_dram", "remote_dram", "reads", "writes", "atomics", "fences", "upgrades",
          "local_invalidations", "remote_invalidations", "back_invalidations", "writebacks",
          "prefetches", "tlb_misses", "page_walks", "queue_cycles", "stall_cycles", "cycles")
# The counts of a region's transactions, per operation. Attempts end in one of the first five.
ABORTS = ("conflict", "capacity", "lock_held", "other")
TRANSACTIONS = ("commits", *ABORTS, "fallbacks", "healed", "skipped")


# Maps that lock in every operation, searches included; results do not mark them. A variant's name follows a slash.
BASELINES = ("locked_map", "global_lock_bst", "hand_over_hand_bst")
BASELINE_PREFIX = "locked_"


class Role(StrEnum):
    """The role of a map in the comparison: a contender of this library, a baseline of it, or another library's."""
    OURS = "Espalier"
    BASELINE = "baseline"
    PEER = "peer"

    @property
    def mark(self) -> str:
        """Appended to a name; contenders need none."""
        return "" if self is Role.OURS else f" ({self})"


def role_of(map_: str, kind: str) -> Role:
    if kind == "peer":
        return Role.PEER
    name = map_.partition("/")[0]
    return Role.BASELINE if name in BASELINES or name.startswith(BASELINE_PREFIX) else Role.OURS


class ResultsError(ValueError):
    """One line: what is wrong with which file, and what would be right."""


@dataclass(frozen=True)
class Spread:
    """A median; low and high are known only with repetitions."""
    median: float
    low: float | None = None
    high: float | None = None

    @property
    def known(self) -> bool:
        return self.low is not None and self.high is not None

    def inverse(self, one: float) -> Spread:
        return Spread(one / self.median,
                      None if self.high is None else one / self.high,
                      None if self.low is None else one / self.low)


@dataclass
class Measurement:
    file: int
    workload: str
    map: str
    kind: str
    threads: int
    settings: tuple[str, ...]
    repetitions: int
    wall: Spread | None
    cpu: Spread | None
    bytes_per_key: float | None
    leaked_bytes: float | None
    instructions: float | None
    llc_misses: float | None
    context_switches: float | None
    counts: dict[str, float] = field(default_factory=dict)
    transactions: dict[str, dict[str, float]] = field(default_factory=dict)  # by region
    label: str = ""
    by_cpu: bool = False

    @property
    def throughput(self) -> Spread | None:
        return None if self.wall is None else self.wall.inverse(1e9)

    @property
    def rate(self) -> Spread | None:
        """By which maps are ranked: operations per second, or per second of CPU time."""
        return self.cpu.inverse(1e9) if self.by_cpu and self.cpu else self.throughput

    @property
    def median(self) -> float:
        """Of the rate; 0 if it is unknown."""
        return self.rate.median if self.rate else 0.0

    @property
    def role(self) -> Role:
        return role_of(self.map, self.kind)


@dataclass
class Latency:
    file: int
    workload: str
    map: str
    kind: str
    threads: int
    operation: str
    placement: str
    samples: float | None
    quantiles: dict[str, float | None]
    curve: list[tuple[float, float]]
    label: str = ""

    @property
    def role(self) -> Role:
        return role_of(self.map, self.kind)


@dataclass(frozen=True)
class Calibrated:
    """A map's throughput relative to the reference, measured and simulated."""
    workload: str
    threads: int
    map: str
    reference: str
    native: float
    simulated: float

    @property
    def deviation(self) -> float:
        return self.simulated / self.native - 1


@dataclass(frozen=True)
class Finding:
    """A paper's finding, and the finding here."""
    paper: str
    ours: str
    verdict: str
    keys: int | None
    machine: str
    of_paper: bool = True


@dataclass(frozen=True)
class Series:
    """A curve; the name is that of a malloc, or "malloc, locks"."""
    name: str
    points: list[tuple[float, float]]

    @property
    def malloc(self) -> str:
        return self.name.partition(", ")[0]

    @property
    def locks(self) -> str:
        return self.name.partition(", ")[2]


@dataclass(frozen=True)
class Limit:
    """A limit with which curves are compared."""
    y: float
    name: str


@dataclass(frozen=True)
class Bar:
    name: str
    value: Spread
    role: Role


@dataclass(frozen=True)
class Chart:
    """Curves over x, or bars, of which the shortest is best."""
    title: str
    caption: str
    x: str
    y: str
    series: list[Series]
    limit: Limit | None
    bars: list[Bar] = field(default_factory=list)
    # Of bars: what their names are, and whether the longest is best.
    of: str = "Malloc"
    more_is_better: bool = False


@dataclass(frozen=True)
class Placed:
    """The result of one malloc, under one kind of locks, with nodes of one size."""
    figure: str
    malloc: str
    locks: str
    size: int
    threads: int
    rounds: int
    wall: Spread | None
    cpu: Spread | None
    loads: list[int]
    largest_load: float | None
    committed: float | None
    capacity_aborts: float | None
    resident_kib: float | None

    @property
    def label(self) -> str:
        return f"{self.malloc}, {self.locks}"


@dataclass(frozen=True)
class Cost:
    """The cost of a benchmark under one malloc."""
    benchmark: str
    malloc: str
    threads: int
    rounds: int
    wall: Spread | None
    cpu: Spread | None
    peak_kib: float | None

    @property
    def label(self) -> str:
        return f"{self.benchmark}, {self.malloc}"


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a paper. Its measurements are those of the workloads, or it has charts of its own."""
    id: str
    title: str
    summary: str
    workloads: list[str]
    node_bytes: dict[str, int]
    missing: list[tuple[str, str]]
    findings: list[Finding]
    charts: list[Chart] = field(default_factory=list)


@dataclass(frozen=True)
class Study:
    title: str
    paper: str
    simulated: bool
    figures: list[StudyFigure]
    contexts: list[Object]
    charted: bool = False
    # For a simulation: its place in words, and the parts that are only models of what their names say.
    place: str = ""
    models: dict[str, str] = field(default_factory=dict)
    # Sentences of the study's own: what came out, which stand first, and how to read it.
    result: list[str] = field(default_factory=list)
    reading: list[str] = field(default_factory=list)

    @property
    def has_paper(self) -> bool:
        """Whether a paper's findings are judged, or only claims of this library."""
        findings = [finding for figure in self.figures for finding in figure.findings]
        return not findings and not self.result or any(finding.of_paper for finding in findings)


@dataclass
class Results:
    files: list[str]
    contexts: list[Object]
    measurements: list[Measurement]
    latencies: list[Latency] = field(default_factory=list)
    calibration: list[Calibrated] = field(default_factory=list)
    study: Study | None = None
    placed: list[Placed] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)

    @property
    def timed(self) -> list[Placed | Cost]:
        """The measurements of mallocs."""
        return [*self.placed, *self.costs]

    @property
    def simulated(self) -> bool:
        return any(_simulated(context) for context in self.contexts)

    @property
    def workloads(self) -> list[str]:
        return list(dict.fromkeys([m.workload for m in self.measurements]
                                  + [entry.workload for entry in self.latencies]))

    @property
    def by_cpu(self) -> bool:
        """Whether CPU time ranks the maps, because other programs took time from their threads."""
        return any(m.by_cpu for m in self.measurements)

    def threads_of(self, file: str) -> int:
        """The most threads of a file's measurements."""
        return max([m.threads for m in self.measurements if self.files[m.file] == file]
                   + [one.threads for one in self.timed], default=0)

    def of(self, workload: str) -> list[Measurement]:
        return [m for m in self.measurements if m.workload == workload]

    def thread_counts(self, workload: str) -> list[int]:
        return sorted({m.threads for m in self.of(workload)})

    def at_most_threads(self, workload: str) -> list[Measurement]:
        """The measurements at the workload's largest thread count."""
        greatest = max(self.thread_counts(workload), default=0)
        return [m for m in self.of(workload) if m.threads == greatest]

    def ranked(self, workload: str) -> list[Measurement]:
        """Those of them with a rate, the best first."""
        return sorted((m for m in self.at_most_threads(workload) if m.rate), key=lambda m: (-m.median, m.label))

    def absent_at_most_threads(self, workload: str) -> list[str]:
        present = {m.label for m in self.at_most_threads(workload)}
        return sorted({m.label for m in self.of(workload)} - present)


def load(paths: Iterable[pathlib.Path]) -> Results:
    given = list(paths)
    results = Results(_file_labels(given), [], [])
    for index, path in enumerate(given):
        document = read(path)
        _Reader(str(path), index).into(results, document)
        if _simulated(results.contexts[index]) != _simulated(results.contexts[0]):
            raise ResultsError(f"{path}: simulated results and measured ones cannot share a page; "
                               "make one page of each")
    if results.study and len(given) > 1:
        raise ResultsError("a study has pages of its own; report its file alone")
    _label(results)
    busy = any(busy_load(context, results.threads_of(file)) for file, context in zip(results.files, results.contexts))
    if busy and not results.simulated and not results.study and \
            all(m.cpu and 0 not in (m.cpu.median, m.cpu.low) for m in results.measurements if m.wall):
        for m in results.measurements:
            m.by_cpu = True
    return results


def _file_labels(paths: list[pathlib.Path]) -> list[str]:
    for labels in ([path.name for path in paths], [str(path) for path in paths]):
        if len(set(labels)) == len(labels):
            return labels
    return [f"{path} #{index + 1}" for index, path in enumerate(paths)]


def read(path: pathlib.Path) -> Object:
    """Any JSON object in the file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}); {EXPECTED}") from None
    except RecursionError:
        raise ResultsError(f"{path}: is nested too deeply; {EXPECTED}") from None
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path}: is not JSON (line {error.lineno}, column {error.colno}: "
                           f"{error.msg}); {EXPECTED}") from None
    except ValueError:
        raise ResultsError(f"{path}: is not UTF-8 text; {EXPECTED}") from None
    if not isinstance(document, dict):
        raise ResultsError(f"{path}: is JSON but no object; {EXPECTED}")
    return document


class _Reader:
    """Parses one document; every message names the file and the place in it."""

    def __init__(self, path: str, file: int) -> None:
        self.path = path
        self.file = file
        self.simulated = False

    def into(self, results: Results, document: Object) -> None:
        context: Any = document.get("context")
        if not isinstance(context, dict):
            self.fail("context", "must be an object that describes the run")
        entries = self.objects(document, "benchmarks")
        if not entries:
            self.fail("benchmarks", "must hold at least one entry")
        results.contexts.append(context)
        self.simulated = _simulated(context)
        for index, entry in enumerate(entries):
            if _simulated(entry) != self.simulated:
                self.fail(f"benchmarks[{index}].simulated",
                          "must be what the context says: a file is simulated or measured, never both")
        charted = _is_charted(document.get("study"))
        if isinstance(document.get("study"), dict) and document["study"].get("figures") == []:
            self.fail("study.figures", "must hold at least one figure; a study that is interrupted before its first "
                                       "one is measured has none to show")
        of_maps = not charted or "map" in entries[0]
        if of_maps:
            results.measurements += self.measurements(entries)
        results.calibration += [
            self.calibrated(entry, f"calibration[{index}]")
            for index, entry in enumerate(self.objects(document, "calibration", True))]
        latencies = [self.latency(entry, f"latency[{index}]")
                     for index, entry in enumerate(self.objects(document, "latency", True))]
        seen: set[tuple[str, str, int, str, str]] = set()
        for index, entry in enumerate(latencies):
            key = (entry.workload, entry.map, entry.threads, entry.operation, entry.placement)
            if key in seen:
                self.fail(f"latency[{index}]", "must occur once for each workload, map, "
                                               "threads and operation")
            seen.add(key)
        results.latencies += latencies
        if "study" in document:
            results.study = self.study(document["study"], charted, context)
        if results.study and not of_maps:
            ids = {figure.id for figure in results.study.figures}
            for index, entry in enumerate(entries):
                where = f"benchmarks[{index}]"
                if "benchmark" in entry:
                    results.costs.append(self.cost(entry, where))
                elif not entry.keys() & {"rounds", "technique"}:  # of those the charts show all
                    results.placed.append(self.placed(entry, where, ids))

    def fail(self, where: str, expectation: str) -> NoReturn:
        raise ResultsError(f"{self.path}: '{where}' {expectation}; {EXPECTED}")

    def objects(self, document: Object, key: str, optional: bool = False,
                within: str = "") -> list[Object]:
        value: Any = document.get(key, [] if optional else None)
        if optional and value == UNAVAILABLE:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            self.fail(f"{within}{key}", "must be a list of objects")
        return value

    def text(self, entry: Object, key: str, where: str) -> str:
        value: Any = entry.get(key)
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{where}.{key}", "must be a name")
        return value

    def kind(self, entry: Object, where: str) -> str:
        value = entry.get("kind")
        if value not in ("espalier", "peer"):
            self.fail(f"{where}.kind", "must be 'espalier' or 'peer'")
        return value

    def threads(self, entry: Object, where: str) -> int:
        value = entry.get("threads")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.fail(f"{where}.threads", "must be a positive whole number")
        return value

    def number(self, entry: Object, key: str, where: str, above: float | None = None,
               least: float | None = 0) -> float | None:
        value = entry.get(key, UNAVAILABLE)
        if value is None or value == UNAVAILABLE:
            return None
        if not is_finite(value) or (above is not None and value <= above) or \
                (least is not None and value < least):
            bound = "positive" if above == 0 else "non-negative" if least == 0 else "finite"
            self.fail(f"{where}.{key}", f"must be a {bound} number or \"{UNAVAILABLE}\"")
        return float(value)

    def time(self, entry: Object, key: str, where: str) -> float | None:
        unit = entry.get("time_unit", "ns")
        if not isinstance(unit, str) or unit not in NANOSECONDS:
            self.fail(f"{where}.time_unit", f"must be one of {', '.join(NANOSECONDS)}")
        if entry.get("error_occurred") is True:
            return None
        value = self.number(entry, key, where, above=0 if key == "real_time" else None)
        if value and not TIMES[0] <= value * NANOSECONDS[unit] <= TIMES[1]:
            self.fail(f"{where}.{key}", "is no time of an operation: it must be from an attosecond to 30 million years")
        return None if value is None else value * NANOSECONDS[unit]

    def measurements(self, entries: list[Object]) -> list[Measurement]:
        groups: dict[tuple[str, str, str, int, tuple[str, ...]], list[tuple[str, Object]]] = {}
        for index, entry in enumerate(entries):
            where = f"benchmarks[{index}]"
            identity = (self.text(entry, "workload", where), self.text(entry, "map", where),
                        self.kind(entry, where), self.threads(entry, where),
                        tuple(_plain(entry.get(key)) for key in SETTINGS))
            groups.setdefault(identity, []).append((where, entry))
        return [self.measurement(*identity, group) for identity, group in groups.items()]

    def measurement(self, workload: str, map_: str, kind: str, threads: int,
                    settings: tuple[str, ...], group: list[tuple[str, Object]]) -> Measurement:
        runs = [(where, entry) for where, entry in group if entry.get("run_type") == "iteration"]
        aggregates: dict[str, tuple[str, Object]] = {}
        for where, entry in group:
            if entry.get("run_type") == "iteration":
                continue
            if entry.get("run_type") != "aggregate":
                self.fail(f"{where}.run_type", "must be 'iteration' or 'aggregate'")
            name = self.text(entry, "aggregate_name", where)
            if name in aggregates:
                self.fail(where, f"must not be a second {name} of the same workload, map, "
                                 "threads and settings")
            aggregates[name] = (where, entry)
        sources = [aggregates["median"]] if "median" in aggregates else runs
        if not sources:
            self.fail(group[0][0], "must have a median or its repetitions beside it")

        def fact(key: str, least: float | None = 0) -> float | None:
            values = (self.number(entry, key, where, least=least) for where, entry in sources)
            return next((value for value in values if value is not None), None)

        return Measurement(
            self.file, workload, map_, kind, threads, settings,
            self.repetitions(group, runs),
            self.spread("real_time", aggregates, runs), self.spread("cpu_time", aggregates, runs),
            fact("bytes_per_key"), fact("leaked_bytes", least=None), fact("instructions"),
            fact("llc_misses"), fact("context_switches"),
            self.counts(sources[0][1], "counts", COUNTS, sources[0][0]) if self.simulated else {},
            next((found for where, entry in sources if (found := self.transactions(entry, where))), {}))

    def transactions(self, entry: Object, where: str) -> dict[str, dict[str, float]]:
        regions: Any = entry.get("transactions", UNAVAILABLE)
        if self.simulated and isinstance(regions, dict):
            regions = regions.get("regions", UNAVAILABLE)
        if regions == UNAVAILABLE:
            return {}
        if not isinstance(regions, dict):
            self.fail(f"{where}.transactions", f"must be an object of regions or \"{UNAVAILABLE}\"")
        return {region: self.counts(regions, region, TRANSACTIONS, f"{where}.transactions") for region in regions}

    def counts(self, entry: Object, key: str, names: tuple[str, ...], where: str) -> dict[str, float]:
        given: Any = entry.get(key)
        if not isinstance(given, dict):
            self.fail(f"{where}.{key}", "must be an object of counts per operation")
        found = {}
        for name in names:
            count = self.number(given, name, f"{where}.{key}")
            if count is None:
                self.fail(f"{where}.{key}.{name}", "must be a non-negative number")
            found[name] = count
        return found

    def calibrated(self, entry: Object, where: str) -> Calibrated:
        if not self.simulated:
            self.fail(where, "must be in simulated results only")
        ratios = []
        for key in ("native_ratio", "simulated_ratio"):
            ratio = self.number(entry, key, where, above=0)
            if ratio is None:
                self.fail(f"{where}.{key}", "must be a positive number")
            ratios.append(ratio)
        return Calibrated(self.text(entry, "workload", where), self.threads(entry, where),
                          self.text(entry, "map", where), self.text(entry, "reference", where),
                          *ratios)

    def study(self, given: Any, charted: bool, context: Object) -> Study:
        if not isinstance(given, dict):
            self.fail("study", "must be an object")
        models: Any = given.get("models", {})
        if not isinstance(models, dict) or not all(isinstance(of, str) and of.strip() for of in models.values()):
            self.fail("study.models", "must be an object of what each is a model of")
        found = [self.study_figure(entry, f"study.figures[{index}]", charted)
                 for index, entry in enumerate(self.objects(given, "figures", False, "study."))]
        if len({figure.id for figure in found}) != len(found):
            self.fail("study.figures", "must have an id each")
        return Study(self.text(given, "title", "study"), self.text(given, "paper", "study"),
                     self.simulated, found, self.objects(given, "contexts", True, "study."), charted,
                     place_of(context) if self.simulated else "", models,
                     self.sentences(given, "result"), self.sentences(given, "reading"))

    def sentences(self, study: Object, key: str) -> list[str]:
        found: Any = study.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, str) and one.strip() for one in found):
            self.fail(f"study.{key}", "must be a list of sentences")
        return found

    def study_figure(self, entry: Object, where: str, charted: bool) -> StudyFigure:
        # The id becomes a file's name.
        id_ = self.text(entry, "id", where)
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id_):
            self.fail(f"{where}.id", "must be small letters, digits and single hyphens")
        sizes: Any = entry.get("node_bytes", {})
        if not isinstance(sizes, dict) or not all(map(is_finite, sizes.values())):
            self.fail(f"{where}.node_bytes", "must be sizes by map")
        at = f"{where}."
        return StudyFigure(
            id_, self.text(entry, "title", where), self.text(entry, "summary", where),
            [self.text(panel, "workload", f"{where}.panels[{index}]")
             for index, panel in enumerate(self.objects(entry, "panels", charted, at))], sizes,
            [(self.text(gap, "map", f"{where}.missing[{index}]"),
              self.text(gap, "why", f"{where}.missing[{index}]"))
             for index, gap in enumerate(self.objects(entry, "missing", False, at))],
            [self.finding(finding, f"{where}.findings[{index}]", charted)
             for index, finding in enumerate(self.objects(entry, "findings", False, at))],
            [self.chart(chart, f"{where}.charts[{index}]")
             for index, chart in enumerate(self.objects(entry, "charts", not charted, at))])

    def finding(self, entry: Object, where: str, charted: bool) -> Finding:
        verdict = entry.get("verdict")
        if verdict not in VERDICTS:
            self.fail(f"{where}.verdict", f"must be one of {', '.join(VERDICTS)}")
        keys = self.number(entry, "keys", where)
        if keys is None and not charted:
            self.fail(f"{where}.keys", "must be a number")
        of_paper = entry.get("of_paper", True)
        if not isinstance(of_paper, bool):
            self.fail(f"{where}.of_paper", "must be true or false")
        return Finding(self.text(entry, "paper", where), self.text(entry, "ours", where), verdict,
                       None if keys is None else int(keys), _plain(entry.get("machine")), of_paper)

    def chart(self, entry: Object, where: str) -> Chart:
        title, caption, y = (self.text(entry, key, where) for key in ("title", "caption", "y"))
        limit: Any = entry.get("limit")
        held = None if limit is None else self.limit(limit, f"{where}.limit")
        if "bars" in entry:
            bars = [self.bar(one, f"{where}.bars[{index}]")
                    for index, one in enumerate(self.objects(entry, "bars", False, f"{where}."))]
            self.named(bars, f"{where}.bars")
            more = entry.get("more_is_better", False)
            if not isinstance(more, bool):
                self.fail(f"{where}.more_is_better", "must be true or false")
            of = self.text(entry, "of", where) if "of" in entry else "Malloc"
            return Chart(title, caption, "", y, [], held, bars, of, more)
        series = [self.series(one, f"{where}.series[{index}]")
                  for index, one in enumerate(self.objects(entry, "series", False, f"{where}."))]
        self.named(series, f"{where}.series")
        return Chart(title, caption, self.text(entry, "x", where), y, series, held)

    def named(self, drawn: list[Series] | list[Bar], where: str) -> None:
        if not drawn:
            self.fail(where, "must hold at least one")
        if len({one.name for one in drawn}) != len(drawn):
            self.fail(where, "must have a name each")

    def bar(self, entry: Object, where: str) -> Bar:
        value, least, most = (self.number(entry, key, where) for key in ("value", "least", "most"))
        if value is None:
            self.fail(f"{where}.value", "must be a number")
        if (least is None) != (most is None) or least is not None and most is not None and \
                not least * (1 - 1e-6) <= value <= most * (1 + 1e-6):
            self.fail(where, "must have its value between its least and its most, or neither of these")
        peer = entry.get("peer", False)
        if not isinstance(peer, bool):
            self.fail(f"{where}.peer", "must be true or false")
        return Bar(self.text(entry, "name", where), Spread(value, least, most), Role.PEER if peer else Role.OURS)

    def series(self, entry: Object, where: str) -> Series:
        points: Any = entry.get("points")
        if not isinstance(points, list) or not points or not all(map(_is_pair, points)) or \
                any(one[0] >= other[0] for one, other in zip(points, points[1:])):
            self.fail(f"{where}.points", "must be a list of [x, y] in ascending order of x, at least one, and none "
                                         "negative")
        return Series(self.text(entry, "name", where), [(float(x), float(y)) for x, y in points])

    def limit(self, given: Any, where: str) -> Limit:
        if not isinstance(given, dict):
            self.fail(where, "must be an object with 'y' and 'name'")
        y = self.number(given, "y", where)
        if y is None:
            self.fail(f"{where}.y", "must be a number")
        return Limit(y, self.text(given, "name", where))

    def placed(self, entry: Object, where: str, figures: set[str]) -> Placed:
        figure = self.text(entry, "name", where).partition("/")[0]
        if figure not in figures:
            self.fail(f"{where}.name", "must begin with the id of one of the study's figures and '/'")
        size = self.number(entry, "size", where)
        if size is None or not size.is_integer():
            self.fail(f"{where}.size", "must be a whole number of bytes")
        loads: Any = entry.get("loads", UNAVAILABLE)
        if loads == UNAVAILABLE:
            loads = []
        if not isinstance(loads, list) or not all(map(is_count, loads)):
            self.fail(f"{where}.loads", "must be a list of whole numbers, not negative")
        committed = self.number(entry, "committed", where)
        if committed is not None and committed > 1:
            self.fail(f"{where}.committed", "must be a share from 0 to 1")
        return Placed(
            figure, self.text(entry, "malloc", where), self.text(entry, "locks", where), int(size),
            self.threads(entry, where), *self.over_rounds(entry, where), loads, self.number(entry, "largest_load", where), committed,
            self.number(entry, "capacity_aborts", where), self.number(entry, "resident_kib", where))

    def cost(self, entry: Object, where: str) -> Cost:
        return Cost(self.text(entry, "benchmark", where), self.text(entry, "malloc", where), self.threads(entry, where),
                    *self.over_rounds(entry, where), self.number(entry, "peak_kib", where))

    def rounds(self, entry: Object, key: str, where: str) -> list[float]:
        value: Any = entry.get(key, [])
        if not isinstance(value, list) or not all(is_finite(one) and one >= 0 for one in value):
            self.fail(f"{where}.{key}", "must be a list of non-negative numbers")
        return [float(one) for one in value]

    def over_rounds(self, entry: Object, where: str) -> tuple[int, Spread | None, Spread | None]:
        """The number of rounds, the wall time and the CPU time; without rounds the times that are stated."""
        count, spreads = 0, []
        for key, stated in (("rounds_wall_ns", "real_time"), ("rounds_cpu_ns", "cpu_time")):
            rounds, time = self.rounds(entry, key, where), self.time(entry, stated, where)
            count = max(count, len(rounds))
            spreads.append(Spread(statistics.median(rounds), min(rounds), max(rounds)) if len(rounds) > 1 else
                           None if time is None else Spread(time))
        return count, *spreads

    def repetitions(self, group: list[tuple[str, Object]], runs: list[Any]) -> int:
        stated = (self.number(entry, "repetitions", where) for where, entry in group)
        return max([len(runs), 1, *(int(value) for value in stated if value is not None)])

    def spread(self, key: str, aggregates: dict[str, tuple[str, Object]],
               runs: list[tuple[str, Object]]) -> Spread | None:
        values = [self.time(entry, key, where) for where, entry in runs]
        numbers = [value for value in values if value is not None]

        def stated(name: str, compute: Callable[[list[float]], float]) -> float | None:
            if name in aggregates:
                where, entry = aggregates[name]
                return self.time(entry, key, where)
            return compute(numbers) if numbers else None

        median = stated("median", statistics.median)
        low, high = stated("min", min), stated("max", max)
        if median is None:
            return None
        if low is None or high is None or max(len(values), *self._stated(aggregates)) < 2:
            return Spread(median)
        # A small tolerance: the three may have been rounded separately when they were written.
        if not low * (1 - 1e-6) <= median <= high * (1 + 1e-6):
            self.fail(next(iter(aggregates.values()), runs[0] if runs else ("", {}))[0],
                      f"must have a {key} whose median lies between its min and max")
        return Spread(median, min(low, median), max(high, median))

    def _stated(self, aggregates: dict[str, tuple[str, Object]]) -> list[int]:
        return [0] + [int(self.number(entry, "repetitions", where) or 0)
                      for where, entry in aggregates.values()]

    def latency(self, entry: Object, where: str) -> Latency:
        unit = entry.get("unit", "ns")
        if not isinstance(unit, str) or unit not in NANOSECONDS:
            self.fail(f"{where}.unit", f"must be one of {', '.join(NANOSECONDS)}")
        factor = NANOSECONDS[unit]
        quantiles = {key: self.number(entry, key, where) for key in ("p50", "p99", "p999", "max")}
        return Latency(
            self.file, self.text(entry, "workload", where), self.text(entry, "map", where),
            self.kind(entry, where), self.threads(entry, where),
            self.text(entry, "operation", where), _plain(entry.get("placement")),
            self.number(entry, "count", where),
            {key: None if value is None else value * factor for key, value in quantiles.items()},
            [(p, value * factor) for p, value in self.curve(entry, where)])

    def curve(self, entry: Object, where: str) -> list[tuple[float, float]]:
        points = entry.get("curve", [])
        if points == UNAVAILABLE:
            return []
        if not isinstance(points, list) or not all(_is_point(point) for point in points):
            self.fail(f"{where}.curve", "must be a list of [fraction from 0 to 1, duration] pairs")
        return sorted((float(p), float(value)) for p, value in points)


def _simulated(entry: Object) -> bool:
    return entry.get("simulated") is True


def is_finite(value: Any) -> bool:
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and \
            math.isfinite(value)
    except OverflowError:
        return False


def _is_point(point: Any) -> bool:
    return isinstance(point, list) and len(point) == 2 and all(map(is_finite, point)) and \
        0 <= point[0] <= 1 and point[1] >= 0


def _is_pair(point: Any) -> bool:
    return isinstance(point, list) and len(point) == 2 and all(map(is_finite, point)) and \
        min(point) >= 0


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def busy_load(context: Object, threads: int) -> float | None:
    """The load average, if it tells of more threads than the machine has CPUs and the run had threads."""
    loads, cpus = context.get("load_avg"), context.get("num_cpus")
    if not isinstance(loads, list) or not loads or not is_finite(loads[0]) or not is_count(cpus):
        return None
    return loads[0] if loads[0] > max(cpus, threads) + 0.5 else None


def _is_charted(study: Any) -> bool:
    """Whether figures have charts of their own. Measurements are then those of mallocs, or of maps."""
    figures = study.get("figures") if isinstance(study, dict) else None
    return isinstance(figures, list) and any(isinstance(one, dict) and "charts" in one for one in figures)


def place_of(context: Object) -> str:
    """The name of a simulated machine, and its cores."""
    machine: Any = context.get("machine")
    if not isinstance(machine, dict):
        return UNAVAILABLE
    name, sockets, cores = (machine.get(key) for key in ("name", "sockets", "cores_per_socket"))
    known = name if isinstance(name, str) and name.strip() else UNAVAILABLE
    if not is_count(sockets) or not is_count(cores):
        return known
    return f"{known}, {plural(sockets * cores, 'core')}"


def _plain(value: Any) -> str:
    if value is None:
        return UNAVAILABLE
    if is_finite(value):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value)


def _label(results: Results) -> None:
    """A map is called by its name; if that is ambiguous, by what distinguishes it too."""
    for workload in results.workloads:
        for map_ in {m.map for m in results.of(workload)}:
            group = [m for m in results.of(workload) if m.map == map_]
            _label_group(results, map_, group)
    for entry in results.latencies:
        entry.label = _latency_label(results, entry)


def _setting(name: str, measurement: Measurement) -> str:
    return measurement.settings[SETTINGS.index(name)]


def _label_group(results: Results, map_: str, group: list[Measurement]) -> None:
    tellers: list[Callable[[Measurement], str]] = [
        lambda m: results.files[m.file],
        *(partial(_setting, name) for name in ("placement", "distribution", "mix", "keys")),
        lambda m: m.kind]
    for measurement in group:
        measurement.label = map_
    parts: list[list[str]] = [[] for _ in group]
    for teller in tellers:
        if len({(m.label, m.threads) for m in group}) == len(group):
            return
        if len({teller(m) for m in group}) == 1:
            continue
        for measurement, part in zip(group, parts):
            part.append(teller(measurement))
            measurement.label = f"{map_} ({', '.join(part)})"


def _latency_label(results: Results, entry: Latency) -> str:
    labels = {m.label for m in results.of(entry.workload)
              if m.map == entry.map and m.file == entry.file
              and entry.placement in (_setting("placement", m), UNAVAILABLE)}
    if len(labels) == 1:
        return labels.pop()
    rivals = [other for other in results.latencies
              if (other.workload, other.map) == (entry.workload, entry.map)]
    parts = [value for value, values in (
        (results.files[entry.file], {other.file for other in rivals}),
        (entry.placement, {other.placement for other in rivals})) if len(values) > 1]
    return f"{entry.map} ({', '.join(parts)})" if parts else entry.map
