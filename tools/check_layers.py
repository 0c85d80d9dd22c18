#!/usr/bin/env python3
"""Checks that every file under src/espalier, preload and sim includes only its own layer and those below it.

The order stands in each root's README.md, in the first table: one row a layer, lowest first. A layer is a
folder, a header at the top, or several of these that include one another. No root includes a later one. A
file is also asked to begin with #pragma once if it is a header, and a folder not to lie deeper than two
levels.
"""

import dataclasses
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([a-z_]+)/([^>"]+)[>"]')
ROW = re.compile(r"^\|((?:\s*`[a-z_]+(?:/|\.hpp)`,?)+)\s*\|")
MEMBER = re.compile(r"`([a-z_]+(?:\.hpp)?)/?`")
# Made by the build, and part of no layer.
GENERATED = {"espalier/commit.hpp"}


@dataclasses.dataclass
class Root:
    """A folder whose files are included as prefix/..., and what may not be included there."""

    folder: pathlib.Path
    prefix: str
    forbidden: tuple[str, ...] = ()


def roots_of(project: pathlib.Path) -> list[Root]:
    return [Root(project / "src" / "espalier", "espalier", forbidden=("sim", "preload")),
            Root(project / "preload", "preload", forbidden=("sim",)),
            Root(project / "sim", "sim", forbidden=("preload",))]


def layer_order(readme: pathlib.Path) -> dict[str, int]:
    """The height of each folder and top header; equal for those of one row."""
    rows = [match[1] for line in readme.read_text().splitlines() if (match := ROW.match(line))]
    return {member: height for height, row in enumerate(rows) for member in MEMBER.findall(row)}


def shown(member: str) -> str:
    return member if member.endswith(".hpp") else f"{member}/"


def faults_of(source: pathlib.Path, root: Root, order: dict[str, int]) -> list[str]:
    relative = source.relative_to(root.folder)
    layer = relative.parts[0]
    faults = []
    if layer not in order:
        return [f"{relative}: {shown(layer)} is missing from the table in README.md"]
    if len(relative.parts) > 3:
        faults.append(f"{relative}: lies more than two folders deep")
    text = source.read_text()
    if source.suffix == ".hpp" and not text.startswith("#pragma once\n"):
        faults.append(f"{relative}: a header begins with #pragma once")
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match or f"{match[1]}/{match[2]}" in GENERATED:
            continue
        if match[1] in root.forbidden:
            faults.append(f"{relative}:{number}: {root.prefix}/ must not include {match[1]}/{match[2]}")
        if match[1] != root.prefix:
            continue
        target = match[2].split("/")[0]
        if target not in order:
            faults.append(f"{relative}:{number}: {match[2]} belongs to no layer")
        elif order[target] > order[layer]:
            faults.append(f"{relative}:{number}: {shown(layer)} must not include {match[2]}: "
                          f"{shown(target)} lies above it")
    return faults


def check(root: Root) -> list[str]:
    order = layer_order(root.folder / "README.md")
    if not order:
        return [f"{root.folder / 'README.md'}: has no table of layers"]
    sources = sorted(p for p in root.folder.rglob("*") if p.suffix in (".hpp", ".cpp"))
    return [fault for source in sources for fault in faults_of(source, root, order)]


def main() -> int:
    project = pathlib.Path(__file__).resolve().parent.parent
    faults = [f"{root.prefix}: {fault}" for root in roots_of(project) for fault in check(root)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
