"""Makes layouts for the tests, in the shape that `espalier inspect --json` writes."""

from __future__ import annotations

from typing import Any

import fixture
from fixture import Json

SETS = {"l1": 64, "l2": 1024, "llc": 512}


def frequencies(*most: tuple[int, int], distinct: int | None = None) -> Json:
    return {"distinct": len(most) if distinct is None else distinct, "total": sum(count for _, count in most),
            "most": [{"value": value, "count": count} for value, count in most]}


def sets(count: int, per_cell: int, lines: list[int], unused: list[int], most: list[int]) -> Json:
    def share(part: int) -> float:
        return part / count if count else 0.0  # as the command writes it of a cache without sets

    return {"sets": count, "lines": sum(lines), "unused": sum(unused), "unused_share": share(sum(unused)),
            "overloaded": 0, "overloaded_share": 0.0, "most_loaded": max(most, default=0),
            "heat": {"sets_per_cell": per_cell, "lines": lines, "unused": unused, "most": most} if lines else None}


def even(level: str, lines: int) -> Json:
    """So many lines in each set."""
    count = SETS[level]
    per_cell = -(-count // 4096)
    cells = count // per_cell
    return sets(count, per_cell, [lines * per_cell] * cells, [0] * cells, [lines] * cells)


def pages(count: int, **more: Any) -> Json:
    return {"pages": count, "fewest_pages": count, "mixed_pages": 0, "scatter": 1.0, "small": count, "huge": 0,
            "tlb_entries": count, "l1_tlb_load": count / 64, "tlb_load": count / 1536, "runs": 1,
            "longest_run": count, "run_lengths": frequencies((count, 1)), "run_distances": frequencies(), **more}


def near(in_line: int, in_pair: int, in_page: int) -> Json:
    return {"in_line": in_line, "in_pair": in_pair, "in_page": in_page}


def block_type(name: str, blocks: int, bytes_: int = 64, **more: Any) -> Json:
    return {"name": name, "written": False, "searched": True, "blocks": blocks, "bytes_asked": bytes_ * blocks,
            "bytes_held": bytes_ * blocks, "size_classes": frequencies((bytes_, blocks)),
            "strides": frequencies((bytes_, blocks - 1)) if blocks > 1 else frequencies(), "straddling": 0,
            "searched_straddling": 0, "crossing": 0.0, "lines_per_visit": 1.0,
            "caches": {level: {"virtual": even(level, 4), "physical": None if level == "l1" else even(level, 3)}
                       for level in SETS},
            "neighbours": [], "mixed": near(0, 0, 0), "children": [], "pages": pages(blocks), **more}


def page_map(*cells: tuple[int, list[list[int]]], per_cell: int = 1) -> Json:
    """Cells of their first page and their parts; one page each has blocks."""
    return {"pages_per_cell": per_cell, "first_page": [first for first, _ in cells], "pages": [1] * len(cells),
            "mixed_pages": [int(len(parts) > 1) for _, parts in cells],
            "bytes": [sum(bytes_ for _, bytes_ in parts) for _, parts in cells],
            "types": [len(parts) for _, parts in cells], "most": [parts for _, parts in cells]}


def document(*types: Json, **more: Any) -> Json:
    blocks = sum(type_["blocks"] for type_ in types)
    return {"schema": "espalier-inspect/1", "subject": "a map",
            "facts": [{"name": "filled with", "value": "1000 keys"}],
            "geometry": {"name": "haswell", "description": "a Haswell", "adjacent_line_prefetch": True,
                         "l1": {"sets": 64, "ways": 8, "slices": 1}, "l2": {"sets": 1024, "ways": 8, "slices": 1},
                         "llc": {"sets": 2048, "ways": 20, "slices": 4},
                         "tlb": {"l1_small": 64, "l1_huge": 32, "l2": 1536, "l2_holds_huge": True}},
            "unknown": {"frames": None, "huge_pages": None, "pointers": None}, "blind_spots": [],
            "blocks": blocks, "bytes_asked": sum(type_["bytes_asked"] for type_ in types),
            "bytes_held": sum(type_["bytes_held"] for type_ in types), "pages": pages(blocks),
            "page_map": page_map(*((index, [[0, 64]]) for index in range(blocks and 1))),
            "types": list(types), "false_sharing": [], "findings": [], "assertions": [], **more}


def nasty() -> Json:
    """Three types; the names of two would be markup if they were not escaped, and one is hardly known."""
    unknown = block_type(fixture.NASTY, 10, crossing=None, lines_per_visit=None, searched=False, children=None,
                         pages=pages(10, small=None, huge=None, tlb_entries=None, l1_tlb_load=None, tlb_load=None))
    for level in ("l2", "llc"):
        unknown["caches"][level]["physical"] = None
    unknown["caches"]["llc"]["virtual"] = sets(0, 0, [], [], [])
    return document(
        block_type("node", 1000, neighbours=[{"type": fixture.NASTY, **near(0, 250, 500)},
                                             {"type": "node", **near(100, 300, 1000)}],
                   mixed=near(0, 250, 500), written=True,
                   children=[{"type": "node", "parents": 800, **near(80, 200, 400), "in_adjacent_line": 240}]),
        unknown, block_type("<leaf>", 100, 32),
        subject=f"map of {fixture.NASTY}",
        facts=[{"name": "<i>fact</i>", "value": fixture.NASTY}],
        unknown={"frames": "no <b>rights</b>", "huge_pages": "no rights", "pointers": None},
        blind_spots=["Sets are judged by virtual addresses: no <b>rights</b>."],
        page_map=page_map((16, [[0, 2048], [1, 1024]]), (17, [[2, 4096]]), (19, [[1, 40]]), (1000, [[0, 64]])),
        false_sharing=[{"written": "node", "other": fixture.NASTY, "blocks": 250}],
        findings=[{"kind": "unused_sets", "type": "node", "other": None, "figure": 0.5, "advice": "segregate",
                   "text": f"node alternates with {fixture.NASTY}. Segregate them."},
                  {"kind": "crossing", "type": "<leaf>", "other": None, "figure": 0.5, "advice": "reorder_fields",
                   "text": "<leaf> crosses lines."}],
        assertions=[{"text": "unused_l2<5% holds: 0", "result": "holds", "figure": 0.0, "type": "node"},
                    {"text": "crossing<1% fails: <b>5 %</b>", "result": "fails", "figure": 0.05, "type": "node"},
                    {"text": "tlb_load<1 is unavailable", "result": "unavailable", "figure": None, "type": None}])
