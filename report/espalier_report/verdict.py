"""States which map won which workload, or that none did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from espalier_report.results import Measurement, Results, Role
from espalier_report.text import Scale, listing, number, plural


@dataclass(frozen=True)
class Verdict:
    workload: str
    winner: str | None
    short: str
    sentence: str


def verdicts(results: Results) -> list[Verdict]:
    return [_verdict(results, workload) for workload in results.workloads]


def headline(found: list[Verdict]) -> str:
    if len(found) <= 3:
        return "; ".join(_upper_first(v.short) if i == 0 else v.short
                         for i, v in enumerate(found))
    wins = Counter(verdict.winner for verdict in found if verdict.winner is not None)
    if not wins:
        return f"No clear winner in any of {len(found)} workloads"
    ranked = sorted(wins.items(), key=lambda item: (-item[1], item[0]))
    # Only the first clause states the number of workloads; the rest would repeat it.
    clauses = [f"{name} {wins_}" for name, wins_ in ranked]
    clauses[0] = f"{ranked[0][0]} won {ranked[0][1]} of {len(found)} workloads"
    if len(clauses) > 4:
        clauses[4:] = [f"{len(clauses) - 4} more maps the rest of the decided ones"]
    undecided = len(found) - sum(wins.values())
    if undecided:
        clauses.append(f"{undecided} without a clear winner")
    return _upper_first(", ".join(clauses))


def _upper_first(text: str) -> str:
    # A map's own name keeps its spelling; only the project's words are capitalised.
    return text[:1].upper() + text[1:] if text.startswith(("no clear", "only ", "the peer ", "the baseline ",
                                                            "nothing ")) else text


def _called(measurement: Measurement) -> str:
    return measurement.label if measurement.role is Role.OURS else f"the {measurement.role} {measurement.label}"


def _verdict(results: Results, workload: str) -> Verdict:
    ranked = results.ranked(workload)
    if not ranked:
        return _undecided(workload, f"nothing was measured in {workload}", "")
    at = f"{workload} at {plural(ranked[0].threads, 'thread')}"
    best = ranked[0]
    scale = Scale(best.median, " of CPU time" if best.by_cpu else "")
    if len(ranked) == 1:
        value = f" ({scale.text(best.median)} {scale.unit})"
        return _undecided(workload, f"only {_called(best)} was measured in {workload}",
                          f"only {_called(best)} was measured in {at}{value}, so there is nothing "
                          "to compare it with")
    settings = "" if len({m.settings[:3] for m in ranked}) == 1 else \
        " The settings of these entries differ, see the table."
    verdict = _compare(workload, at, ranked, scale)
    return Verdict(workload, verdict.winner, verdict.short, verdict.sentence + settings)


def _undecided(workload: str, short: str, sentence: str) -> Verdict:
    return Verdict(workload, None, short, _upper_first(sentence or short) + ".")


def _compare(workload: str, at: str, ranked: list[Measurement], scale: Scale) -> Verdict:
    best, second = ranked[0], ranked[1]
    ratio = f"{ratio_text(best.median / second.median)} times {_called(second)}"
    nobody = f"no clear winner in {workload}"
    if not all(m.rate and m.rate.known for m in (best, second)):
        return _undecided(
            workload, nobody,
            f"no clear winner in {at}: {_called(best)} was fastest, {ratio}, but without "
            "repetitions of both nothing tells a difference from noise")
    overlapping = [m for m in ranked[1:] if _overlap(best, m)]
    if overlapping:
        reasons = _overlap_reason(best, overlapping, scale)
        return _undecided(workload, nobody,
                          f"no clear winner in {at}: {_called(best)} has the highest median, "
                          f"{ratio}, but {reasons}")
    sentence = (f"{_called(best)} won {at}: {ratio} "
                f"({_range(best, scale)} against {_range(second, scale)} {scale.unit}, "
                f"median with min to max), the spreads do not overlap.")
    return Verdict(workload, _called(best), f"{_called(best)} won {workload}, {ratio}",
                   _upper_first(sentence))


def ratio_text(ratio: float) -> str:
    return number(ratio, 4 if ratio < 1.005 else 3)


def _overlap(best: Measurement, other: Measurement) -> bool:
    ours, theirs = best.rate, other.rate
    if ours is None or theirs is None or ours.low is None:
        return False
    return (theirs.median if theirs.high is None else theirs.high) >= ours.low


def _overlap_reason(best: Measurement, overlapping: list[Measurement], scale: Scale) -> str:
    first = overlapping[0]
    # Few are named: a list of twenty rivals says less than their number.
    others = [_called(m) for m in overlapping[1:4]]
    if len(overlapping) > 4:
        others[2:] = [f"{len(overlapping) - 3} more"]
    also = f", as do those of {listing(others)}" if len(others) > 1 else \
        f", as does that of {others[0]}" if others else ""
    return (f"the spread of {_called(first)} overlaps its own{also} ({_range(best, scale)} "
            f"against {_range(first, scale)} {scale.unit}, median with min to max)")


def _range(measurement: Measurement, scale: Scale) -> str:
    spread = measurement.rate
    if spread is None or not spread.known:
        return scale.text(measurement.median)
    return f"{scale.text(spread.median)} [{scale.text(spread.low)} to {scale.text(spread.high)}]"
