#!/usr/bin/env python3
"""Checks that every memory ordering under ROOTS is named at both ends and numbered, and every relaxed one explained.

A file has a table in a comment, or one for each of its classes, with the numbers going through the file:

    // Orderings
    //   (1) unlock (release) -> lock (acquire): what one owner wrote is visible to the next.
    //   (2) offer (release) -> take, drain (acquire) in memory/other.hpp: the block's contents come with its address.
    //   (3) pin (light) <-> scan (heavy): either the scan sees the pin, or the reader sees what came before the scan.

A row names the releasing ends, then the acquiring ends. Each end is one or more labels, its kind in parentheses, and
its file if that is another one. A .cpp without a table uses the one of the .hpp of the same name, and the two count as
one file. A site names its rows on its line or at most four lines above, as does an end that is no atomic access:

    // order (1): lock, acquire
    // order (1), (2): offer, release: why
"""

import dataclasses
import pathlib
import re
import sys
from typing import Optional

# The rest of preload follows.
ROOTS = (*(f"src/espalier/{layer}" for layer in ("map", "queue", "delegation", "reclaim", "sync", "memory", "hw")), "preload/heap")

WINDOW = 4

# What an end of each kind may stand for.
RELEASING = {"release", "acq_rel", "seq_cst"}
ACQUIRING = {"acquire", "acq_rel", "seq_cst"}
ATOMIC = RELEASING | ACQUIRING
# hw::fence_light() and hw::fence_heavy().
ASYMMETRIC = {"light", "heavy"}
# Ends that are no access with an order of its own: the child of a fork, a signal handler, a lock that is taken or
# released, a transaction, and a relaxed access that a fence orders.
OTHER = {"fork", "signal", "lock", "transaction", "relaxed"}
KINDS = "|".join(sorted(ATOMIC | ASYMMETRIC | OTHER))

LABEL = r"[A-Za-z_~][\w:~]*"
TOKEN = re.compile(r'R"([^(\s]*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])+\''
                   r'|//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/')
ORDER = re.compile(r"\bmemory_order(?:_|::)(relaxed|consume|acquire|release|acq_rel|seq_cst)\b")
FENCE = re.compile(r"\bhw::fence_(light|heavy)\s*\(")
PAIR = re.compile(r"\bhw::exchange_pair\s*\(")
# An operation of an atomic. A map (`map.exchange(key, value)`) has operations of the same names.
OPERATION = re.compile(r"(?<!\bmap)(?:\.|->)\s*(load|store|exchange|compare_exchange_(?:weak|strong)|fetch_(?:add|sub|and|or|xor)"
                       r"|test_and_set)\s*\(|\b(atomic_(?:thread|signal)_fence)\s*\(")
TAG = re.compile(rf"\border (\(\d+\)(?:, \(\d+\))*): ({LABEL}), ({KINDS})\b")
TAG_BEGIN = re.compile(r"\border\b:? ?\(\d+\)|^\W*order: ")
RELAXED = re.compile(r"\brelaxed\b")
THROUGHOUT = re.compile(r"\brelaxed throughout\b")
TITLE = re.compile(r"^\s*///?\s*Orderings\b:?\s*$")
COMMENT = re.compile(r"^\s*///?( *)(.*?)\s*$")
ROW = re.compile(r"^\((\d+)\) (.*)$")
ENDS = re.compile(rf"({LABEL}(?:, {LABEL})*) \(({KINDS})\)(?: in ([\w./-]+\.(?:hpp|cpp)))?(?:, |$)")


@dataclasses.dataclass
class End:
    label: str
    kind: str
    side: str  # "->", or "<-" for the acquiring one; "<->" for those of a pair of fences
    elsewhere: bool


@dataclasses.dataclass
class Row:
    number: int
    line: int
    ends: list[End]


@dataclasses.dataclass
class Tag:
    number: int
    line: int
    label: str
    kind: str


@dataclasses.dataclass(order=True, frozen=True)
class Fault:
    file: str
    line: int
    wrong: str
    right: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.wrong}; {self.right}"


class Source:
    """A file, its comments apart from its code, both line by line."""

    def __init__(self, path: pathlib.Path, shown: str) -> None:
        self.path, self.shown = path, shown
        text = path.read_text()
        comments = [" "] * len(text)
        code = list(text)
        for match in TOKEN.finditer(text):
            kept = match[0].startswith(("//", "/*"))
            for at in range(match.start(), match.end()):
                if text[at] == "\n":
                    continue
                if kept:
                    comments[at] = text[at]
                code[at] = " "
        for at, letter in enumerate(text):
            if letter == "\n":
                comments[at] = "\n"
        self.code_text = "".join(code)
        self.code = self.code_text.split("\n")
        self.comments = "".join(comments).split("\n")
        self.faults: list[Fault] = []
        self.rows = self.read_table()
        self.tags = self.read_tags()

    def fault(self, line: int, wrong: str, right: str) -> None:
        self.faults.append(Fault(self.shown, line, wrong, right))

    def read_table(self) -> list[Row]:
        rows: list[Row] = []
        at = 0
        while at < len(self.comments):
            if not TITLE.match(self.comments[at]):
                at += 1
                continue
            at += 1
            found: list[tuple[int, str]] = []
            indent = None
            while at < len(self.comments) and (match := COMMENT.match(self.comments[at])) and match[2]:
                depth = len(match[1])
                if ROW.match(match[2]) and indent in (None, depth):
                    indent = depth
                    found.append((at + 1, match[2]))
                elif indent is not None and depth > indent:
                    found[-1] = (found[-1][0], f"{found[-1][1]} {match[2]}")
                else:
                    break
                at += 1
            if not found:
                self.fault(at, "a table without rows", "a row is '(1) label (release) -> label (acquire): why'")
            rows += [row for line, text in found if (row := self.read_row(line, text))]
        seen: dict[int, Row] = {}
        for row in rows:
            if row.number in seen:
                self.fault(row.line, f"({row.number}) stands in line {seen[row.number].line} already",
                           "the numbers go through the file")
            seen.setdefault(row.number, row)
        return rows

    def read_row(self, line: int, text: str) -> Optional[Row]:
        match = ROW.match(text)
        assert match
        number = int(match[1])
        head, colon, why = match[2].partition(": ")
        arrow = "<->" if " <-> " in head else "->"
        sides = head.split(f" {arrow} ")
        if not colon or not why.strip() or len(sides) != 2:
            self.fault(line, f"row ({number}) cannot be read", "it is 'label (release) -> label (acquire): why'")
            return None
        ends: list[End] = []
        for text, side in zip(sides, ("<->", "<->") if arrow == "<->" else ("->", "<-")):
            at = 0
            while at < len(text) and (match := ENDS.match(text, at)):
                at = match.end()
                if match[3] and not self.exists(match[3]):
                    self.fault(line, f"row ({number}) names {match[3]}, which is no file",
                               "a path from the project's root, from src/espalier, or from this folder")
                if side == "->" and match[2] in ACQUIRING - RELEASING or \
                        side == "<-" and match[2] in RELEASING - ACQUIRING:
                    self.fault(line, f"row ({number}) has a {match[2]} at the wrong end",
                               "the releasing end comes first")
                ends += [End(label, match[2], side, bool(match[3])) for label in match[1].split(", ")]
            if at < len(text):
                self.fault(line, f"row ({number}): '{text[at:]}' is no end",
                           f"an end is 'label (kind)' or 'label (kind) in folder/file.hpp', of kind {KINDS}")
                return None
        return Row(number, line, ends)

    def exists(self, name: str) -> bool:
        return any((parent / prefix / name).is_file() for parent in self.path.resolve().parents
                   for prefix in ("", "src", "src/espalier"))

    def read_tags(self) -> list[Tag]:
        tags: list[Tag] = []
        for line, comment in enumerate(self.comments, start=1):
            rest = comment
            for match in TAG.finditer(comment):
                rest = rest.replace(match[0], "")
                tags += [Tag(int(number), line, match[2], match[3]) for number in re.findall(r"\d+", match[1])]
            if TAG_BEGIN.search(rest):
                self.fault(line, "an ordering that is not numbered, or names no label and kind",
                           f"'order (1): label, kind' on one line, of kind {KINDS}")
        return tags

    def window(self, line: int) -> range:
        return range(max(1, line - WINDOW), line + 1)

    def orders_of(self, line: int) -> list[str]:
        code = self.code[line - 1]
        return ORDER.findall(code) + FENCE.findall(code) + ["seq_cst" for _ in PAIR.findall(code)]


def fits(code: str, named: str) -> bool:
    """Whether an access of order `code` may be the one that a comment calls `named`."""
    strong = {"acq_rel", "seq_cst"}
    return code == named or code in strong and named in ATOMIC - strong


def names(code: str, named: str) -> bool:
    """Whether a comment that says `named` covers an access of order `code`; also the failure of an acq_rel exchange."""
    return fits(code, named) or named in {"acq_rel", "seq_cst"} and code == "acquire"


def check_accesses(source: Source) -> None:
    throughout = next((line for line, comment in enumerate(source.comments, start=1) if THROUGHOUT.search(comment)),
                      None)
    for line in range(1, len(source.code) + 1):
        window = source.window(line)
        for order in source.orders_of(line):
            if order == "relaxed":
                if not any(RELAXED.search(source.comments[at - 1]) for at in window) and \
                        (throughout is None or throughout > line):
                    source.fault(line, "relaxed without a reason",
                                 "a comment within four lines says 'relaxed: why', or 'relaxed throughout: why' above")
            elif not any(tag.line in window and names(order, tag.kind) for tag in source.tags):
                source.fault(line, f"{order} without its row",
                             f"a comment within four lines says 'order (N): label, {order}'")


def check_defaults(source: Source) -> None:
    text = source.code_text
    for match in OPERATION.finditer(text):
        # What a requires expression asks for is not done.
        if re.search(r"\brequires\b[^;{]*\{[^;}]*$", text[text.rfind("\n", 0, match.start()) + 1:match.start()]):
            continue
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if not re.search(r"memory_order|\border\b", text[match.end():at]):
            source.fault(text.count("\n", 0, match.start()) + 1, f"{match[1] or match[2]}() without an explicit order",
                         "it names its std::memory_order")


def check_unit(sources: list[Source]) -> None:
    """Sites against tables: of one file, or of a .hpp with the .cpp that uses its table."""
    rows = {row.number: row for source in sources for row in source.rows}
    named: set[tuple[int, str, str]] = set()
    for source in sources:
        for tag in source.tags:
            row = rows.get(tag.number)
            if row is None:
                source.fault(tag.line, f"order ({tag.number}) stands in no table",
                             "a row under 'Orderings' describes it")
                continue
            ends = [end for end in row.ends if end.label == tag.label and matches(end, tag.kind)]
            if not ends:
                source.fault(tag.line, f"row ({tag.number}) has no end '{tag.label} ({tag.kind})'",
                             f"its ends are {', '.join(f'{end.label} ({end.kind})' for end in row.ends)}")
            named |= {(row.number, end.label, end.side) for end in ends}
            reach = range(tag.line, min(tag.line + WINDOW, len(source.code)) + 1)
            if tag.kind in ATOMIC | ASYMMETRIC and \
                    not any(fits(order, tag.kind) for line in reach for order in source.orders_of(line)):
                source.fault(tag.line, f"no {tag.kind} access within four lines", "the comment stands at its access")
    for source in sources:
        for row in source.rows:
            for end in row.ends:
                if not end.elsewhere and (row.number, end.label, end.side) not in named:
                    source.fault(row.line, f"no site is named as '{end.label} ({end.kind})' of row ({row.number})",
                                 f"'order ({row.number}): {end.label}, {end.kind}' at its access, or its file in "
                                 "the row")


def matches(end: End, kind: str) -> bool:
    """Whether a site of that kind can be this end."""
    if end.kind in ATOMIC and kind in ATOMIC:
        return kind == end.kind or kind in {"acq_rel", "seq_cst"} or end.kind in {"acq_rel", "seq_cst"} and (
            kind in {"->": RELEASING, "<-": ACQUIRING, "<->": ATOMIC}[end.side])
    return kind == end.kind


def check(files: list[tuple[pathlib.Path, str]]) -> list[str]:
    """The faults of these files, each given with the name to show."""
    sources = {path: Source(path, shown) for path, shown in files}
    header_of: dict[pathlib.Path, pathlib.Path] = {}
    for path, source in sources.items():
        header = path.with_suffix(".hpp")
        if path.suffix == ".cpp" and not source.rows and header in sources:
            header_of[path] = header
    for path, source in sources.items():
        check_accesses(source)
        check_defaults(source)
        if path not in header_of:
            check_unit([source] + [sources[cpp] for cpp, header in header_of.items() if header == path])
    return [str(fault) for source in sources.values() for fault in sorted(set(source.faults))]


def sources_of(places: list[pathlib.Path], project: pathlib.Path) -> list[tuple[pathlib.Path, str]]:
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*")))
             if file.suffix in (".hpp", ".cpp")]
    return [(file, str(file.relative_to(project)) if file.is_relative_to(project) else str(file)) for file in files]


def main() -> int:
    project = pathlib.Path(__file__).resolve().parent.parent
    places = [pathlib.Path(name).resolve() for name in sys.argv[1:]] or [project / root for root in ROOTS]
    faults = check(sources_of(places, project))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
