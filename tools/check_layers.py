#!/usr/bin/env python3
"""Checks that every file under src/espalier includes only its own layer and those below it.

The order stands in src/espalier/README.md, in the first table: one row a layer, lowest first. A file is
also asked to begin with #pragma once if it is a header, and a folder not to lie deeper than two levels.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]espalier/([^>"]+)[>"]')
ROW = re.compile(r"^\|\s*`([a-z_]+)/`\s*\|")
# Made by the build, and part of no layer.
GENERATED = {"commit.hpp"}


def layer_order(readme: pathlib.Path) -> list[str]:
    return [match[1] for line in readme.read_text().splitlines() if (match := ROW.match(line))]


def faults_of(source: pathlib.Path, root: pathlib.Path, order: list[str]) -> list[str]:
    relative = source.relative_to(root)
    layer = relative.parts[0]
    faults = []
    if layer not in order:
        return [f"{relative}: the layer {layer}/ is missing from the table in README.md"]
    if len(relative.parts) > 3:
        faults.append(f"{relative}: lies more than two folders deep")
    text = source.read_text()
    if source.suffix == ".hpp" and not text.startswith("#pragma once\n"):
        faults.append(f"{relative}: a header begins with #pragma once")
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match or match[1] in GENERATED:
            continue
        target = match[1].split("/")[0]
        if target not in order:
            faults.append(f"{relative}:{number}: {match[1]} belongs to no layer")
        elif order.index(target) > order.index(layer):
            faults.append(f"{relative}:{number}: {layer}/ must not include {match[1]}: {target}/ lies above it")
    return faults


def check(root: pathlib.Path) -> list[str]:
    order = layer_order(root / "README.md")
    if not order:
        return [f"{root / 'README.md'}: has no table of layers"]
    sources = sorted(p for p in root.rglob("*") if p.suffix in (".hpp", ".cpp"))
    return [fault for source in sources for fault in faults_of(source, root, order)]


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent / "src" / "espalier"
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    faults = check(root)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
