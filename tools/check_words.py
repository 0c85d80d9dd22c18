#!/usr/bin/env python3
"""Checks that prose, comments and the names in C++ use the project's terms: docs/glossary.md has them.

Prose is a Markdown file without its code. Comments are those of C++, Python (docstrings included), shell and CMake.
Other code, strings and text between backticks are left alone, so that a name may be quoted.
"""

import ast
import bisect
import dataclasses
import functools
import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Callable, Iterator

# Files, and folders with all below them.
PLACES = ("*.md", "docs", "src", "preload", "sim", "apps", "bench", "examples", "integrations",
          "report/README.md", "tests/mutants")

# Where only names are checked.
NAME_PLACES = ("tests",)

# "Who" of persons. A reader is not one of them: it may be a thread. "Whose" is of things too.
PERSONS = re.compile(r"\b(?:authors?|engineers?|persons?|people|users?)(?: of [\w, ]+?)? whom?\b", re.IGNORECASE)


@dataclasses.dataclass
class Rule:
    pattern: re.Pattern[str]
    advice: str


def rule(pattern: str, advice: str) -> Rule:
    """The pattern as words of their own: no part of a name."""
    return Rule(re.compile(rf"(?<![\w:.>/-])(?:{pattern})(?![\w(/]|::)", re.IGNORECASE), advice)


RULES = (
    rule(r"whoever|whomever", "say the thread that, the caller that, or whatever it is"),
    rule(r"nobody|somebody", "say no thread, a thread, the owner, or whatever it is"),
    rule(r"whom?", "say that, which or its; only a person is a who"),
    rule(r"mallocs?,? and (?:its|their) kin", "say the malloc family"),
    rule(r"the house|'s house", "say the layers, the modules or the headers"),
    rule(r"rooms|(?:an?|each|every|one|another|which|own) room|room by room", "say layer, module or header"),
    rule(r"(?:give|gives|gave|given|giving)(?: \w+){0,3} back", "say free, reclaim, release, or return to the OS"),
    rule(r"glance[ds]?|glancing", "say seek, for the search in a tree, or look"),
    rule(r"heirs?", "say the replacement, or the next owner"),
    rule(r"splice[ds]?|splicing", "say unlink, or append for a list"),
    rule(r"(?:keep|keeps|kept|keeping)(?: \w+)? aside", "say cached, or reserved"),
    rule(r"at work", "say in use, running or busy"),
    rule(r"[<>]{7} \w+", "say what both sides of the merge have"),
)

# Of names alone: in prose these words have other uses.
NAME_RULES = RULES + (
    rule(r"descends?|locates?|lifts?|take out", "say seek, find or unlink"),
)

QUOTED = re.compile(r"(`+)[^`].*?\1", re.DOTALL)
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
TARGET = re.compile(r"(?<=\])\([^)]*\)")
CPP = re.compile(r'(?P<string>R"(?P<end>[^(\s]*)\((?:.|\n)*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"'
                 r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+')"
                 r"|(?P<line>//(?:\\\n|[^\n])*)|(?P<block>/\*(?:.|\n)*?\*/)")
CPP_MARKS = re.compile(r"^[ \t]*(?://[/!]?<?|/\*[*!]?<?|\*(?!/))|\*/", re.MULTILINE)
NAME = re.compile(r"[A-Za-z_]\w*")
HASH_STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'')
HASH = re.compile(r"(?:^|(?<=\s))#+")

# A line's number, and what stands in it for readers.
Line = tuple[int, str]


def blank(text: str, pattern: re.Pattern[str]) -> str:
    """Without what matches, each of its ends of line kept."""
    return pattern.sub(lambda match: " . " + "\n" * match[0].count("\n"), text)


def markdown_lines(text: str) -> list[Line]:
    return list(enumerate(blank(blank(text, FENCED), TARGET).splitlines(), start=1))


def cpp_lines(text: str) -> list[Line]:
    lines = []
    for match in CPP.finditer(text):
        if match["string"] is not None:
            continue
        first = text.count("\n", 0, match.start()) + 1
        lines += enumerate(CPP_MARKS.sub(" ", match[0]).splitlines(), start=first)
    return lines


def python_lines(text: str) -> list[Line]:
    lines = [(token.start[0], token.string.lstrip("#"))
             for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if ast.get_docstring(node) is not None:
                first = node.body[0]
                lines += enumerate(text.splitlines()[first.lineno - 1:first.end_lineno], start=first.lineno)
    return sorted(lines)


def hash_lines(text: str) -> list[Line]:
    """Shell and CMake. Strings are those that end in their line, which is enough for comments."""
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        position = 0
        while position < len(line):
            if string := HASH_STRING.match(line, position):
                position = string.end()
            elif mark := HASH.match(line, position):
                lines.append((number, line[mark.end():]))
                break
            else:
                position += 1
    return lines


READERS: dict[str, Callable[[str], list[Line]]] = {
    ".md": markdown_lines, ".hpp": cpp_lines, ".cpp": cpp_lines, ".py": python_lines, ".sh": hash_lines,
    ".cmake": hash_lines, "CMakeLists.txt": hash_lines}


def reader_of(path: pathlib.Path) -> Callable[[str], list[Line]] | None:
    return READERS.get(path.name) or READERS.get(path.suffix)


def paragraphs(lines: list[Line]) -> Iterator[list[Line]]:
    """Lines that follow one another, so that words are seen together across the end of a line."""
    part: list[Line] = []
    for number, text in lines:
        if part and (number > part[-1][0] + 1 or not text.strip()):
            yield part
            part = []
        part.append((number, text))
    if part:
        yield part


@functools.cache
def advice_on(name: str) -> list[str]:
    """The parts of a name are its words. Most names occur often."""
    return [one.advice for one in NAME_RULES if one.pattern.search(name.replace("_", " "))]


def name_faults(text: str) -> list[tuple[int, str, str]]:
    return [(number, name[0], advice) for number, line in enumerate(blank(text, CPP).splitlines(), start=1)
            for name in NAME.finditer(line) for advice in advice_on(name[0])]


def faults_of(path: pathlib.Path, name: str, names_only: bool = False) -> list[str]:
    read = reader_of(path)
    if read is None:
        return []
    faults = [(line, f"{name}:{line}: '{word}': {advice}")
              for line, word, advice in (name_faults(path.read_text()) if read is cpp_lines else ())]
    if names_only:
        return [text for _, text in faults]
    for part in paragraphs(read(path.read_text())):
        # One space between two words: a rule need not know where lines end.
        joined = ""
        starts = []
        for _, text in part:
            starts.append(len(joined))
            joined += " ".join(text.split()) + " "
        shown = joined
        for allowed in (QUOTED, PERSONS):
            shown = allowed.sub(lambda match: "`" * len(match[0]), shown)
        for one in RULES:
            for match in one.pattern.finditer(shown):
                line = part[bisect.bisect_right(starts, match.start()) - 1][0]
                faults.append((line, f"{name}:{line}: '{match[0]}': {one.advice}"))
    return [text for _, text in sorted(faults)]


def files_of(project: pathlib.Path, places: tuple[str, ...]) -> Iterator[pathlib.Path]:
    for place in places:
        for path in sorted(project.glob(place)):
            yield from sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def check(project: pathlib.Path, places: tuple[str, ...] = PLACES,
          name_places: tuple[str, ...] = NAME_PLACES) -> list[str]:
    return [fault for names_only, of in ((False, places), (True, name_places)) for path in files_of(project, of)
            for fault in faults_of(path, path.relative_to(project).as_posix(), names_only)]


def main() -> int:
    faults = check(pathlib.Path(__file__).resolve().parent.parent)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
