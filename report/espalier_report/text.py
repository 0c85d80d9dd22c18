"""Numbers and labels in a readable form."""

from __future__ import annotations

import math
from collections.abc import Iterable

UNAVAILABLE = "unavailable"
THIN = "\u202f"


def number(value: float | None, digits: int = 3) -> str:
    """`digits` significant digits, thousands grouped, never an exponent."""
    if value is None:
        return UNAVAILABLE
    if value == 0:
        return "0"
    # The exponent is taken after rounding: 9.996 has two digits before its point at 3 digits.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{min(max(0, digits - 1 - exponent), 12)}f}"


def count(value: float | None) -> str:
    if value is None:
        return UNAVAILABLE
    return f"{value:,.0f}" if float(value).is_integer() else number(value)


def duration(nanoseconds: float | None, digits: int = 3) -> str:
    if nanoseconds is None:
        return UNAVAILABLE
    for limit, divisor, unit in ((1e3, 1.0, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if nanoseconds < limit:
            return f"{_plain(nanoseconds / divisor, digits)}{THIN}{unit}"
    return f"{_plain(nanoseconds / 1e9, digits)}{THIN}s"


def _plain(value: float, digits: int) -> str:
    return count(value) if float(value).is_integer() else number(value, digits)


def size(bytes_: float) -> str:
    for limit, divisor, unit in ((1 << 10, 1, "B"), (1 << 20, 1 << 10, "KiB"),
                                 (1 << 30, 1 << 20, "MiB"), (math.inf, 1 << 30, "GiB")):
        if bytes_ < limit:
            return f"{_plain(bytes_ / divisor, 3)}{THIN}{unit}"
    raise AssertionError("unreachable: the last limit is infinite")


def share(value: float | None) -> str:
    """A fraction in percent; a small one is not shown as 0, and one just below 1 is not shown as 100."""
    if value is None:
        return UNAVAILABLE
    if 0 < value < 0.001:
        return f"<0.1{THIN}%"
    if 0.999 < value < 1:
        return f">99.9{THIN}%"
    return f"{value * 100:,.1f}".removesuffix(".0") + f"{THIN}%"


def plural(amount: int, noun: str) -> str:
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def listing(words: Iterable[str]) -> str:
    items = list(words)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def percentile(p: float) -> str:
    """0.999 as 99.9 %, with as many digits as the value itself has."""
    return f"{p * 100:.10f}".rstrip("0").rstrip(".") + f"{THIN}%"


def wrapped(label: str, width: int = 18, lines: int = 3) -> list[str]:
    """The label in a few short lines, split after a separator if one is near the edge."""
    rest = " ".join(label.split())
    result: list[str] = []
    while len(rest) > width and len(result) < lines - 1:
        cut = max((rest.rfind(separator, width // 2, width) for separator in " _-./:"), default=-1)
        cut = width if cut < 0 else cut + 1
        result.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    result.append(rest if len(rest) <= width else rest[:width - 1] + "…")
    return result


def plotly_label(label: str) -> str:
    """Plotly interprets a few tags and entities in its texts; a name must never become one."""
    return "<br>".join(_plotly_escaped(line) for line in wrapped(label))


def plotly_text(text: str) -> str:
    return _plotly_escaped(" ".join(text.split()))


def _plotly_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Scale:
    """The unit in which a group of throughputs is readable; `of` follows it."""

    def __init__(self, largest: float, of: str = "") -> None:
        self.divisor, self.short, self.unit = next(
            (divisor, short, unit) for divisor, short, unit in (
                (1e6, "M", "million operations per second"),
                (1e3, "k", "thousand operations per second"),
                (1.0, "", "operations per second")) if largest >= divisor or divisor == 1.0)
        self.unit += of

    def of(self, value: float) -> float:
        return value / self.divisor

    def text(self, value: float | None) -> str:
        return UNAVAILABLE if value is None else number(self.of(value))
