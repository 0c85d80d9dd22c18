"""The ways in which `espalier run` and `espalier inspect` run a program, and what came of a program in one of them."""

import dataclasses
import os
import pathlib
import re
import resource
import signal
import subprocess
import threading
import time

EMULATED_RTM = os.environ.get("EMULATED_RTM")
LIBRARIES = {"index-aware": "malloc", "random": "random", "tts": "elide", "tle": "elide"}
NO_TRANSACTIONS = b"espalier: this processor has no transactions; mutexes are taken, none is elided\n"

# What `espalier inspect` says where it has no report.
NO_SNAPSHOT = "the program left no snapshot: a signal or abort() ended it"
OWN_MALLOC = "nothing was recorded: "


@dataclasses.dataclass(frozen=True)
class Way:
    malloc: str = "system"
    locks: str = "system"
    rtm: str = ""
    inspected: bool = False

    @property
    def name(self) -> str:
        if self.inspected:
            return "inspect"
        chosen = [one for one in (self.malloc, self.locks) if one != "system"]
        return " and ".join(chosen) + (f", RTM {self.rtm}" if self.rtm else "") or "plain"

    @property
    def plain(self) -> bool:
        return self == Way()

    @property
    def libraries(self) -> list[str]:
        if self.inspected:
            return ["libespalier-inspect.so"]
        return [f"libespalier-{LIBRARIES[one]}.so" for one in (self.malloc, self.locks) if one != "system"]

    def command(self, espalier: pathlib.Path, command: tuple, stats: bool) -> list:
        """A program by itself needs no command of ours."""
        if self.plain:
            return list(command)
        if self.inspected:
            return [espalier, "inspect", "--follow", "all", "--", *command]
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
MAIN = (Way("index-aware"), Way(locks="tle"), BOTH, Way(inspected=True))
ALL = (*MAIN, Way("random"), Way(locks="tts"), Way("index-aware", "tle", "off"), Way("random", "tts"))


class Figures:
    """What the libraries of a program, and of those that it started, told on standard error, what `espalier inspect` found;
    and the rest of it."""

    HEAP = re.compile(rb"espalier: heap of process \d+\n((?:  [a-z ]+? +\d+\n){8})")
    NO_HEAP = re.compile(rb"espalier: heap of process \d+: no figures, it was just changing\n")
    RANDOM = re.compile(rb"espalier: random, process \d+: (\d+) blocks, (\d+) bytes asked for, (\d+) added \(\d+ %\)\n")
    ELISION = re.compile(rb"espalier elide: process \d+: [^\n]*: (\d+) mutexes and sites, (\d+) sections elided, "
                         rb"(\d+) taken, of which (\d+) waited\n")
    REPORT = re.compile(rb"process \d+, [^\n]*: \d+ blocks, .* pages?\n.*\Z", re.DOTALL)
    REMARK = re.compile(rb"espalier: ((?:the program left no snapshot|nothing was recorded): [^\n]*)\n\Z")
    SITES = re.compile(rb"^(?:mutex site commits [a-z -]+|(?:0x[0-9a-f]+|others) \S+(?: \d+){10})\n", re.MULTILINE)

    def __init__(self, stderr: bytes) -> None:
        self.heaps = [dict(re.findall(r"  ([a-z ]+?) +(\d+)\n", told.decode())) for told in self.HEAP.findall(stderr)]
        self.paddings = [tuple(map(int, told)) for told in self.RANDOM.findall(stderr)]
        self.elisions = [tuple(map(int, told)) for told in self.ELISION.findall(stderr)]
        self.report = self.REPORT.search(stderr) is not None
        self.remark = "".join(remark.decode() for remark in self.REMARK.findall(stderr))
        for pattern in (self.HEAP, self.NO_HEAP, self.RANDOM, self.ELISION, self.SITES, self.REPORT, self.REMARK):
            stderr = pattern.sub(b"", stderr)
        self.rest = stderr

    def told(self) -> list[str]:
        """The libraries from which there are any."""
        return [name for name, of in (("libespalier-malloc.so", self.heaps), ("libespalier-random.so", self.paddings),
                                      ("libespalier-elide.so", self.elisions),
                                      ("libespalier-inspect.so", self.report)) if of]

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
    elapsed: float  # seconds, from its start to its end
    processor: float  # seconds of processors, in it and in what it waited for
    peak: int  # bytes that one process of it had resident at most; 0 if that is not known
    told_of_transactions: int


class Peak(threading.Thread):
    """The most memory that one process of a program had resident, from the kernel's own mark. The mark only grows while
    a process runs one program, so looking often loses what came in the last moment. The command does not count."""

    SECONDS = 0.02
    wanted = False

    def __init__(self, first: int, espalier: pathlib.Path) -> None:
        super().__init__(daemon=True)
        self.first = first
        self.espalier = espalier
        self.bytes = 0
        self.ours = {first}
        self.others: set[int] = set()
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(self.SECONDS):
            for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
                if process not in self.others:
                    self.look(process)

    def look(self, process: int) -> None:
        try:
            if process not in self.ours:
                _, parent, _, session = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:4]
                belongs = int(parent) in self.ours or int(session) == self.first
                (self.ours if belongs else self.others).add(process)
                if not belongs:
                    return
            mark = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process}/status").read_text())
            if mark and int(mark.group(1)) * 1024 > self.bytes:
                # Between fork and exec a child has the mark of the program that starts it.
                if not os.path.samefile(f"/proc/{process}/exe", self.espalier):
                    self.bytes = int(mark.group(1)) * 1024
        except (OSError, ValueError):
            pass  # it has just ended

    def stop(self) -> int:
        self.ended.set()
        if self.is_alive():
            self.join()
        return self.bytes


class Running:
    """A program in a way, and whatever it starts. With a time-out, which only says that it hangs."""

    def __init__(self, espalier: pathlib.Path, way: Way, command: tuple, folder: pathlib.Path, stats: bool = True,
                 variables: dict[str, str] | None = None, prefix: tuple = ()) -> None:
        self.way = way
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*prefix, *way.command(espalier, command, stats)], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**way.environment(), **(variables or {})}, start_new_session=True)
        self.peak = Peak(self.process.pid, espalier)
        if Peak.wanted:
            self.peak.start()

    def ended(self, sent: bytes = b"") -> Outcome:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            stdout, stderr = self.process.communicate(sent, timeout=7200)
        finally:
            self.kill()
        elapsed = time.monotonic() - self.began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        figures = Figures(stderr)
        said = figures.rest.removeprefix(NO_TRANSACTIONS)
        return Outcome(self.way, status_of(self.process.returncode), stdout, said, figures, elapsed, processor,
                       self.peak.stop(), len(figures.rest) - len(said))

    def kill(self) -> None:
        """All of it, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
        self.peak.ended.set()


def status_of(returncode: int) -> int:
    """As a shell gives it, and `espalier run`."""
    return returncode if returncode >= 0 else 128 - returncode


class Table:
    """What all programs did, a line for each way. Times and memory are shares of what the plain program took."""

    HEAD = ("program", "way", "time", "processor", "memory", "allocator", "locks")

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []
        self.sections_elided = 0

    def add(self, program: str, plain: Outcome, done: Outcome) -> None:
        self.rows.append((program, done.way.name, ratio(done.elapsed, plain.elapsed),
                          ratio(done.processor, plain.processor), ratio(done.peak, plain.peak),
                          done.figures.allocator(), done.figures.elision()))
        self.sections_elided += sum(elided for _, elided, _, _ in done.figures.elisions)

    def __str__(self) -> str:
        rows = [self.HEAD, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.HEAD))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def ratio(done: float, plain: float) -> str:
    return f"{done / plain:.2f}" if done > 0 and plain > 0 else "unavailable"
