"""The ways in which `espalier run` runs a program, and what came of a program in one of them."""

import dataclasses
import os
import pathlib
import re
import resource
import signal
import subprocess

EMULATED_RTM = os.environ.get("EMULATED_RTM")
LIBRARIES = {"index-aware": "malloc", "random": "random", "tts": "elide", "tle": "elide"}
NO_TRANSACTIONS = b"espalier: this processor has no transactions; mutexes are taken, none is elided\n"


@dataclasses.dataclass(frozen=True)
class Way:
    malloc: str = "system"
    locks: str = "system"
    rtm: str = ""

    @property
    def name(self) -> str:
        chosen = [one for one in (self.malloc, self.locks) if one != "system"]
        return " and ".join(chosen) + (f", RTM {self.rtm}" if self.rtm else "") or "plain"

    @property
    def plain(self) -> bool:
        return self == Way()

    @property
    def libraries(self) -> list[str]:
        return [f"libespalier-{LIBRARIES[one]}.so" for one in (self.malloc, self.locks) if one != "system"]

    def command(self, espalier: pathlib.Path, command: tuple, stats: bool) -> list:
        """A program by itself needs no command of ours."""
        if self.plain:
            return list(command)
        return [espalier, "run", "--malloc", self.malloc, "--locks", self.locks, *(["--stats"] if stats else []), "--",
                *command]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items()
                if name != "LD_PRELOAD" and not name.startswith("ESPALIER_")}
        if self.rtm == "emulated":
            return {**kept, "LD_PRELOAD": EMULATED_RTM}
        return {**kept, **({"ESPALIER_ELIDE_RTM": self.rtm} if self.rtm else {})}


PLAIN = Way()
BOTH = Way("index-aware", "tle")
EMULATED = Way("index-aware", "tle", "emulated")
ALL = (Way("index-aware"), Way("random"), Way(locks="tts"), Way(locks="tle"), BOTH, Way("index-aware", "tle", "off"),
       Way("random", "tts"))


class Figures:
    """What the libraries of a program, and of those that it started, told on standard error; and the rest of it."""

    HEAP = re.compile(rb"espalier: heap of process \d+\n((?:  [a-z ]+? +\d+\n){8})")
    NO_HEAP = re.compile(rb"espalier: heap of process \d+: no figures, it was just changing\n")
    RANDOM = re.compile(rb"espalier: random, process \d+: (\d+) blocks, (\d+) bytes asked for, (\d+) added \(\d+ %\)\n")
    ELISION = re.compile(rb"espalier elide: process \d+: [^\n]*: (\d+) mutexes and sites, (\d+) sections elided, "
                         rb"(\d+) taken, of which (\d+) waited\n")
    SITES = re.compile(rb"^(?:mutex site commits [a-z -]+|(?:0x[0-9a-f]+|others) \S+(?: \d+){10})\n", re.MULTILINE)

    def __init__(self, stderr: bytes) -> None:
        self.heaps = [dict(re.findall(r"  ([a-z ]+?) +(\d+)\n", told.decode())) for told in self.HEAP.findall(stderr)]
        self.paddings = [tuple(map(int, told)) for told in self.RANDOM.findall(stderr)]
        self.elisions = [tuple(map(int, told)) for told in self.ELISION.findall(stderr)]
        for pattern in (self.HEAP, self.NO_HEAP, self.RANDOM, self.ELISION, self.SITES):
            stderr = pattern.sub(b"", stderr)
        self.rest = stderr

    def told(self) -> list[str]:
        """The libraries from which there are any."""
        return [name for name, of in (("libespalier-malloc.so", self.heaps), ("libespalier-random.so", self.paddings),
                                      ("libespalier-elide.so", self.elisions)) if of]

    def allocator(self) -> str:
        if self.heaps:
            return (f"{len(self.heaps)} processes, at most {self.most('regions of blocks')} regions, "
                    f"{self.most('heaps of threads')} heaps, {self.most('bytes of addresses') >> 20} MiB of addresses")
        if self.paddings:
            blocks, asked, added = map(sum, zip(*self.paddings))
            return f"{len(self.paddings)} processes, {blocks} blocks, {100 * added // max(asked, 1)} % added"
        return ""

    def most(self, figure: str) -> int:
        return max((int(heap[figure]) for heap in self.heaps), default=0)

    def sections(self) -> int:
        return sum(elided + taken for _, elided, taken, _ in self.elisions)

    def elision(self) -> str:
        if not self.elisions:
            return ""
        _, elided, taken, waited = map(sum, zip(*self.elisions))
        return f"{elided} elided, {taken} taken, {waited} waited"


@dataclasses.dataclass
class Outcome:
    way: Way
    status: int
    stdout: bytes
    stderr: bytes  # what the program itself said
    figures: Figures
    seconds: float  # of processors, in it and in what it waited for
    told_of_transactions: int


class Running:
    """A program in a way, and whatever it starts. With a time-out, which only says that it hangs."""

    def __init__(self, espalier: pathlib.Path, way: Way, command: tuple, folder: pathlib.Path, stats: bool = True,
                 variables: dict[str, str] | None = None) -> None:
        self.way = way
        self.process = subprocess.Popen(
            way.command(espalier, command, stats), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**way.environment(), **(variables or {})}, start_new_session=True)

    def ended(self, sent: bytes = b"", timeout: float = 900) -> Outcome:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            stdout, stderr = self.process.communicate(sent, timeout=timeout)
        finally:
            self.kill()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        figures = Figures(stderr)
        said = figures.rest.removeprefix(NO_TRANSACTIONS)
        return Outcome(self.way, status_of(self.process.returncode), stdout, said, figures, seconds,
                       len(figures.rest) - len(said))

    def kill(self) -> None:
        """All of it, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def status_of(returncode: int) -> int:
    """As a shell gives it, and `espalier run`."""
    return returncode if returncode >= 0 else 128 - returncode


class Table:
    """What all programs did, a line for each way."""

    HEAD = ("program", "way", "status", "seconds", "of plain", "allocator", "locks")

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []
        self.sections_elided = 0

    def add(self, program: str, plain: Outcome, done: Outcome) -> None:
        ratio = f"{done.seconds / plain.seconds:.2f}" if plain.seconds > 0 else "-"
        self.rows.append((program, done.way.name, str(done.status), f"{done.seconds:.2f}", ratio,
                          done.figures.allocator(), done.figures.elision()))
        self.sections_elided += sum(elided for _, elided, _, _ in done.figures.elisions)

    def __str__(self) -> str:
        rows = [self.HEAD, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.HEAD))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
