#!/usr/bin/env python3
"""Checks that every file under src/espalier, preload, sim, apps and tests includes only its own layer and those below it.

The order stands in each root's README.md, in the first table: one row a layer, lowest first. A layer is a
folder, a header at the top, or several of these that include one another. No root includes a later one. No files
of a root include one another in a XX
"""

import dataclasses
import graphlib
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([a-z0-9_./]+)[>"]')
ROW = re.compile(r"^\|((?:\s*`[a-z_]+(?:/|\.hpp)`,?)+)\s*\|")
MEMBER = re.compile(r"`([a-z_]+(?:\.hpp)?)/?`")
# Made by the build, and part of no layer.
GENERATED = {"espalier/commit.hpp", "espalier/peers_config.hpp"}


@dataclasses.dataclass
class Root:
    """A folder whose files are included as prefix/..., and what may not be included there."""

    folder: pathlib.Path
    prefix: str
    forbidden: tuple[str, ...] = ()
    levels: int = 2

    def target(self, include: str) -> str | None:
        """The included file of this root, relative to it."""
        if include.startswith(f"{self.prefix}/"):
            return include.removeprefix(f"{self.prefix}/")
        # Tests include one another without a prefix.
        return include if self.prefix == "tests" and (self.folder / include).is_file() else None


def roots_of(project: pathlib.Path) -> list[Root]:
    return [Root(project / "src" / "espalier", "espalier", forbidden=("sim", "preload", "apps", "tests")),
            Root(project / "preload", "preload", forbidden=("sim", "apps", "tests")),
            Root(project / "sim", "sim", forbidden=("preload", "apps", "tests")),
            Root(project / "apps", "apps", forbidden=("tests",)),
            Root(project / "tests", "tests", levels=5)]


def layer_order(readme: pathlib.Path) -> dict[str, int]:
    """The height of each folder and top header; equal for those of one row."""
    rows = [match[1] for line in readme.read_text().splitlines() if (match := ROW.match(line))]
    return {member: height for height, row in enumerate(rows) for member in MEMBER.findall(row)}


def shown(member: str) -> str:
    return member if member.endswith(".hpp") else f"{member}/"


def includes_of(source: pathlib.Path) -> list[tuple[int, str]]:
    """With their lines."""
    return [(number, match[1]) for number, line in enumerate(source.read_text().splitlines(), start=1)
            if (match := INCLUDE.match(line)) and match[1] not in GENERATED]


def faults_of(source: pathlib.Path, root: Root, order: dict[str, int]) -> list[str]:
    relative = source.relative_to(root.folder)
    layer = relative.parts[0]
    if layer not in order:
        return [f"{relative}: {shown(layer)} is missing from the table in README.md"]
    faults = []
    if len(relative.parts) > root.levels + 1:
        faults.append(f"{relative}: lies more than {root.levels} folders deep")
    if source.suffix == ".hpp" and not source.read_text().startswith("#pragma once\n"):
        faults.append(f"{relative}: a header begins with #pragma once")
    for number, include in includes_of(source):
        if include.split("/")[0] in root.forbidden:
            faults.append(f"{relative}:{number}: {root.prefix}/ must not include {include}")
        file = root.target(include)
        if file is None:
            continue
        target = file.split("/")[0]
        if target not in order:
            faults.append(f"{relative}:{number}: {file} belongs to no layer")
        elif order[target] > order[layer]:
            faults.append(f"{relative}:{number}: {shown(layer)} must not include {file}: "
                          f"{shown(target)} lies above it")
    return faults


def circle_of(sources: list[pathlib.Path], root: Root) -> list[str]:
    graph = {str(source.relative_to(root.folder)):
             {file for _, include in includes_of(source) if (file := root.target(include))}
             for source in sources}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        # Each is included by the next one.
        return ["these include one another: " + " <- ".join(error.args[1])]
    return []


def check(root: Root) -> list[str]:
    order = layer_order(root.folder / "README.md")
    if not order:
        return [f"{root.folder / 'README.md'}: has no table of layers"]
    sources = sorted(p for p in root.folder.rglob("*") if p.suffix in (".hpp", ".cpp"))
    return [fault for source in sources for fault in faults_of(source, root, order)] + circle_of(sources, root)


def main() -> int:
    project = pathlib.Path(__file__).resolve().parent.parent
    faults = [f"{root.prefix}: {fault}" for root in roots_of(project) for fault in check(root)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
