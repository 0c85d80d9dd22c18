"""Explains a workload in one sentence: its operations, the distribution of keys, how many are in the map at the
start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from espalier_report import text
from espalier_report.results import SETTINGS, Measurement

PLAIN = ("look-ups", "insertions", "erasures")
# The core workloads of YCSB (Cooper et al., SoCC 2010).
YCSB = {"ycsb-a": [(50, "look-ups"), (50, "updates")], "ycsb-b": [(95, "look-ups"), (5, "updates")],
        "ycsb-c": [(100, "look-ups")], "ycsb-d": [(95, "look-ups"), (5, "insertions")],
        "ycsb-e": [(95, "scans of 1 to 100 entries"), (5, "insertions")],
        "ycsb-f": [(50, "look-ups"), (50, "read-modify-writes")]}
HITS = "hits"
LOAD = "load"
TRACE = "trace"
DIFFERENT = "The settings of these maps differ; the table has those of each."


def explained(group: Sequence[Measurement]) -> str | None:
    """None if the results do not say what the workload does."""
    settings = {tuple(m.settings[SETTINGS.index(name)] for name in ("mix", "distribution", "keys")) for m in group}
    if len(settings) > 1:
        return DIFFERENT
    return sentence(*settings.pop()) if settings else None


def sentence(mix: str, distribution: str, keys: str) -> str | None:
    loaded = key_count(keys)
    if mix == TRACE:
        start = "" if loaded is None else "; the map is empty at the start" if loaded == 0 else \
            f"; {text.plural(loaded, 'key')} are in the map at the start"
        return f"The operations of a recorded trace in their order{start}."
    if mix == LOAD:
        return f"Insertions of {'all' if loaded is None else f'{loaded:,}'} keys, in random order, into an empty map."
    operations = operations_of(mix)
    if operations is None:
        return None
    # Half of the keys that a plain mix uses are loaded; mixes with names load all.
    universe, share = (loaded, "all") if mix in YCSB or mix == HITS else (loaded and 2 * loaded, "half of the")
    drawn = drawn_of(distribution, "" if universe is None else f" from {universe:,}")
    start = "" if universe is None else f"; {share} keys are in the map at the start"
    return f"{', '.join(part for part in (operations, drawn) if part)}{start}."


def keys_of(m: Measurement) -> int | None:
    return key_count(m.settings[SETTINGS.index("keys")])


def key_count(keys: str) -> int | None:
    """Results contain it as a number, settings as text."""
    return int(keys.replace(",", "")) if re.fullmatch(r"\d{1,3}(,\d{3})*", keys) else None


def operations_of(mix: str) -> str | None:
    if mix in YCSB:
        return f"YCSB {mix[-1].upper()}: {shares(YCSB[mix])}"
    if mix == HITS:
        return shares([(100, PLAIN[0])])
    parts = re.fullmatch(r"(\d{1,3})/(\d{1,3})/(\d{1,3})", mix)
    return shares([(int(part), name) for part, name in zip(parts.groups(), PLAIN)]) if parts else None


def shares(operations: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{percent}{text.THIN}% {name}" for percent, name in operations if percent)


def drawn_of(distribution: str, among: str) -> str:
    kind, _, given = distribution.partition(":")
    match kind, [number for part in given.split(",") if (number := real(part)) is not None]:
        case ("" | text.UNAVAILABLE), _:
            return ""
        case "uniform", []:
            return f"keys drawn uniformly{among}"
        case "sequential", []:
            return f"keys taken in turn{among}"
        case "zipfian", [exponent]:
            return f"keys drawn{among} by Zipf's law (exponent {exponent:g})"
        case "scrambled-zipfian", [exponent]:
            return f"keys drawn{among} by Zipf's law (exponent {exponent:g}), the frequent ones scattered"
        case "latest", [exponent]:
            return f"keys drawn{among} by Zipf's law (exponent {exponent:g}), the newest most often"
        case "hotspot", [keys, draws]:
            return f"keys drawn{among}, {text.share(draws)} of the draws from {text.share(keys)} of the keys"
        case "self-similar", [keys]:
            return f"keys drawn{among}, {text.share(1 - keys)} of the draws from {text.share(keys)} of the keys, " \
                   "and so within these"
        case "normal", [deviation]:
            return f"keys drawn{among} by a normal distribution " \
                   f"(standard deviation {text.share(deviation)} of the range)"
        case "poisson", [mean]:
            return f"keys drawn{among} by a Poisson distribution (mean at {text.share(mean)} of the range)"
        case "poisson", [mean, ranges]:
            return f"keys drawn{among}, from {ranges:g} ranges of them by a Poisson distribution " \
                   f"(mean at {text.share(mean)})"
    return f"keys drawn{among} by {distribution}"


def real(part: str) -> float | None:
    return float(part) if re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?", part) else None
