"""The page of a layout: where blocks of memory lie by type, the effects, and the remedies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from espalier_report import grids, page, tables, text
from espalier_report.grids import Grid
from espalier_report.markup import Content, Markup, element
from espalier_report.page import Part
from espalier_report.results import Object
from espalier_report.tables import Column

DRAWN_TYPES, LISTED = 12, 100
LEVELS = {"l1": "L1", "l2": "L2", "llc": "LLC"}
UNITS = {"in_pair": ("pair of lines", "the aligned 128 bytes, which the adjacent-line prefetcher fetches together"),
         "in_line": ("line", "the 64 bytes that one miss brings"),
         "in_page": ("page", "the 4 KiB that one translation covers")}
ADVICE = {"segregate": "segregate", "pad": "pad", "reorder_fields": "reorder fields",
          "use_huge_pages": "use huge pages", "leave_alone": "leave alone"}
OUTCOMES = {"holds": "agrees", "fails": "differs", "unavailable": "undecided"}
LINES_IN_PAGE = 64


def render(layout: Object) -> str:
    types = by_bytes(layout)
    drawn = types[:DRAWN_TYPES]
    places = {id(type_): place for place, type_ in enumerate(layout["types"])}
    pages = grids.page_map(layout, [places[id(type_)] for type_ in drawn])
    heats = {level: grids.heat_map(drawn, level, f"Sets of the {name}", sets_caption(layout, drawn, level))
             for level, name in LEVELS.items()}
    parts: list[Part | None] = [
        Part("findings", "What to change", findings(layout)),
        Part("conditions", "Conditions", conditions(layout)) if layout["assertions"] else None,
        Part("looked-at", "What was looked at", looked_at(layout))]
    if types:
        parts += [
            Part("pages", "Page map", [grids.chart(pages) if pages else None, pages_table(layout, types)]),
            Part("sets", "Cache sets", [some_of(drawn, types), [
                sets_part(drawn, level, heat) for level, heat in heats.items()]]),
            Part("neighbours", "Neighbours", [some_of(drawn, types), neighbours(layout, drawn)]),
            Part("types", "Types", types_table(layout, types)),
            Part("children", "Children", children(layout))]
    parts.append(Part("reading", "How to read this", reading(layout)))
    figures = [grid for grid in (pages, *heats.values()) if grid]
    return page.document(headline(layout), "A layout inspected by Espalier", sentences(layout),
                         layout["blind_spots"], parts, figures, [page.script("grids.js")])


def by_bytes(layout: Object) -> list[Object]:
    """The types with blocks, those with the most bytes first."""
    return sorted((type_ for type_ in layout["types"] if type_["blocks"]),
                  key=lambda type_: -type_["bytes_held"])


def headline(layout: Object) -> str:
    if not layout["blocks"]:
        return f"{layout['subject']}: there are no blocks to look at"
    found = len(layout["findings"])
    return f"{layout['subject']}: {text.plural(found, 'finding') if found else 'nothing to change'}"


def sentences(layout: Object) -> list[str]:
    return [f"{text.plural(layout['blocks'], 'block')} of {text.plural(len(by_bytes(layout)), 'type')} in "
            f"{text.plural(layout['pages']['pages'], 'page')}: {text.size(layout['bytes_asked'])} asked for, "
            f"{text.size(layout['bytes_held'])} held.",
            f"Judged by the caches of {caches(layout['geometry'])}."]


def caches(geometry: Object) -> str:
    name = "" if geometry["name"] == "this" else f"{geometry['name']}: "
    return f"{name}{geometry['description']}"


# Findings and conditions ----------------------------------------------------------------------------


def findings(layout: Object) -> Content:
    found = [element("li", badge(ADVICE.get(one["advice"], one["advice"])), " ", one["text"])
             for one in layout["findings"]]
    if not found:
        return page.absent("No rule has anything to say about this layout; what could not be told stands above."
                           if layout["blind_spots"] else "No rule has anything to say about this layout.")
    rest = found[LISTED:]
    return [element("ol", found[:LISTED], class_="findings"),
            element("details", element("summary", f"{text.plural(len(rest), 'more finding')}"),
                    element("ol", rest, class_="findings", start=str(LISTED + 1))) if rest else None]


def badge(words: str, look: str = "") -> Markup:
    return element("span", words, class_=f"badge {look}".strip())


def conditions(layout: Object) -> Markup:
    return element("ul", [element("li", badge(one["result"], OUTCOMES.get(one["result"], "")), " ",
                                  one["text"]) for one in layout["assertions"]])


# What was looked at ---------------------------------------------------------------------------------


def looked_at(layout: Object) -> Markup:
    geometry, unknown = layout["geometry"], layout["unknown"]
    rows = [(fact["name"], fact["value"]) for fact in layout["facts"]]
    rows.append(("caches of", caches(geometry)))
    rows += [(name, shape(geometry[level])) for level, name in LEVELS.items()]
    rows += [("TLB", tlb(geometry["tlb"])),
             ("adjacent-line prefetcher", "yes" if geometry["adjacent_line_prefetch"] else "no")]
    rows += [(name, f"{text.UNAVAILABLE}: {unknown[key]}" if unknown[key] else "known")
             for key, name in (("frames", "physical frames"), ("huge_pages", "page sizes"),
                               ("pointers", "pointers between blocks"))]
    return tables.table("table-looked-at", layout["subject"], "About", rows,
                        [Column("What is known", lambda row: row[1], numeric=False)], lambda row: row[0])


def shape(cache: Object) -> str:
    if not cache["sets"]:
        return text.UNAVAILABLE
    slices = f" × {cache['slices']} slices" if cache["slices"] > 1 else ""
    return f"{cache['sets']:,} sets × {cache['ways']} ways{slices}"


def tlb(entries: Object) -> str:
    def known(count: int) -> str:
        return f"{count:,} entries" if count else f"entries {text.UNAVAILABLE}"

    return f"first level {known(entries['l1_small'])} for ordinary pages and {known(entries['l1_huge'])} for huge " \
           f"ones; second level {known(entries['l2'])}" + \
           (", huge pages too" if entries["l2"] and entries["l2_holds_huge"] else "")


# Tables ---------------------------------------------------------------------------------------------


def listed(id_: str, caption: str, first: str, rows: Sequence[Any], columns: Sequence[Column],
           name: Callable[[Any], str] = lambda type_: type_["name"]) -> list[Content]:
    """A table of at most LISTED rows, which states how many it omits."""
    rest = len(rows) - LISTED
    return [tables.table(id_, caption, first, rows[:LISTED], columns, name),
            page.absent(f"And {text.plural(rest, 'more row')}, which the JSON holds.") if rest > 0 else None]


def some_of(shown: Sequence[Object], types: Sequence[Object]) -> Content:
    return page.absent(f"The {len(shown)} types with the most bytes, of {len(types)}.") \
        if len(types) > len(shown) else None


def column(head: str, shown: Callable[[Any], str]) -> Column:
    return Column(head, lambda row: tables.value(shown(row)))


def of_blocks(part: int, type_: Object) -> str:
    return text.share(part / type_["blocks"])


def most_frequent(frequencies: Object) -> str:
    """64, or 48 (71 %) if there are other values; "none" for no values."""
    if not frequencies["most"]:
        return "none"
    first = frequencies["most"][0]
    if frequencies["distinct"] == 1:
        return f"{first['value']:,}"
    return f"{first['value']:,} ({text.share(first['count'] / frequencies['total'])})"


def types_table(layout: Object, types: Sequence[Object]) -> list[Content]:
    return listed("table-types", "Blocks by type, those with the most bytes first", "Type", types, [
        column("Blocks", lambda t: text.count(t["blocks"])),
        column("Bytes asked, mean", lambda t: text.number(t["bytes_asked"] / t["blocks"])),
        column("Size class, bytes", lambda t: most_frequent(t["size_classes"])),
        column("Stride, bytes", lambda t: most_frequent(t["strides"])),
        column("Held", lambda t: text.size(t["bytes_held"])),
        column("Of all bytes", lambda t: text.share(
            t["bytes_held"] / layout["bytes_held"] if layout["bytes_held"] else None)),
        *(Column(f"Unused {name} sets", unused_of(level)) for level, name in LEVELS.items()),
        column("Straddle lines", lambda t: of_blocks(t["straddling"], t)),
        column("Visits to two lines", lambda t: text.share(t["crossing"])),
        column("Lines a visit", lambda t: text.number(t["lines_per_visit"])),
        Column("Written by others", lambda t: "yes" if t["written"] else "no", numeric=False)])


def pages_table(layout: Object, types: Sequence[Object]) -> list[Content]:
    """All types together come last."""
    together = {"name": "all together", "pages": layout["pages"]}
    columns = [
        column("Pages", lambda t: text.count(t["pages"]["pages"])),
        column("Over the fewest", lambda t: text.number(t["pages"]["scatter"])),
        column("With other types", lambda t: text.share(
            t["pages"]["mixed_pages"] / t["pages"]["pages"] if t["pages"]["pages"] else None)),
        column("Runs", lambda t: text.count(t["pages"]["runs"])),
        column("Longest run", lambda t: text.count(t["pages"]["longest_run"])),
        column("From run to run", lambda t: most_frequent(t["pages"]["run_distances"])),
        column("Ordinary pages", lambda t: text.count(t["pages"]["small"])),
        column("Huge pages", lambda t: text.count(t["pages"]["huge"])),
        column("Translations", lambda t: text.count(t["pages"]["tlb_entries"])),
        column("Over the first TLB", lambda t: text.number(t["pages"]["l1_tlb_load"])),
        column("Over the second TLB", lambda t: text.number(t["pages"]["tlb_load"]))]
    shown = [*types[:LISTED - 1], together]
    return [*listed("table-pages", "Pages of 4 KiB by type, their runs of consecutive addresses, and "
                    "translations over the entries that the TLB has for them", "Type", shown, columns),
            page.absent(f"And {text.plural(len(types) - LISTED + 1, 'more type')}, which the JSON holds.")
            if len(types) >= LISTED else None]


def sets_part(types: Sequence[Object], level: str, heat: Grid | None) -> Content:
    name = LEVELS[level]
    return [element("h3", name),
            grids.chart(heat) if heat else page.absent(f"Sets of the {name} are {text.UNAVAILABLE}."),
            listed(f"table-sets-{level}", f"Lines by sets of the {name}", "Type", types, [
                Column("Addresses", lambda t: addresses(t, level), numeric=False),
                column("Lines", lambda t: of_sets(t, level, "lines")),
                column("Sets", lambda t: of_sets(t, level, "sets")),
                column("Unused", lambda t: of_sets(t, level, "unused")),
                Column("Unused share", unused_of(level)),
                column("Overloaded", lambda t: of_sets(t, level, "overloaded")),
                column("Most lines in a set", lambda t: of_sets(t, level, "most_loaded"))])]


def of_sets(type_: Object, level: str, key: str) -> str:
    """A cache without sets has no unused ones: its sets are not known."""
    sets = grids.best(type_, level)
    return text.count(sets[key] if sets["sets"] else None)


def unused_share(sets: Object) -> Content:
    if not sets["sets"]:
        return tables.value(text.UNAVAILABLE)
    if grids.is_judged(sets):
        return text.share(sets["unused_share"])
    return [text.share(sets["unused_share"]), " ", element("span", grids.TOO_FEW, class_="spread")]


def unused_of(level: str) -> Callable[[Object], Content]:
    return lambda type_: unused_share(grids.best(type_, level))


def addresses(type_: Object, level: str) -> str:
    return "physical" if type_["caches"][level]["physical"] else "virtual"


def sets_caption(layout: Object, types: Sequence[Object], level: str) -> str:
    """By which addresses sets are determined, and whether the hardware would agree."""
    guessed = [type_["name"] for type_ in types if not type_["caches"][level]["physical"]]
    shape_ = layout["geometry"][level]
    if level == "l1" and shape_["sets"] <= LINES_IN_PAGE and shape_["slices"] <= 1:
        return "By virtual addresses, which agree with physical ones in a cache of no more sets than a page has lines."
    why = layout["unknown"]["frames"] or "the frames of their pages are not known"
    if not guessed:
        return "By physical addresses, as the hardware chooses sets."
    if len(guessed) == len(types):
        return f"By virtual addresses, which is a guess: {why}."
    return f"By physical addresses; by virtual ones, which is a guess, for {text.listing(guessed)}: {why}."


# Neighbours and children ----------------------------------------------------------------------------


def neighbours(layout: Object, shown: Sequence[Object]) -> list[Content]:
    numbered = any(len(type_["name"]) > 16 for type_ in shown)
    parts: list[Content] = [
        [element("h3", name.capitalize()),
         matrix(shown, unit, f"Blocks with company in their {name}, {what}", numbered)]
        for unit, (name, what) in UNITS.items()]
    if layout["false_sharing"]:
        parts += [element("h3", "False sharing"), false_sharing(layout)]
    return parts


def matrix(types: Sequence[Object], unit: str, caption: str, numbered: bool) -> Markup:
    def head(place: int) -> str:
        return str(place + 1) if numbered else types[place]["name"]

    def company(other: str) -> Callable[[Object], Content]:
        return lambda t: grids.shaded(sum(n[unit] for n in t["neighbours"] if n["type"] == other) / t["blocks"])

    columns = [Column(head(place), company(type_["name"])) for place, type_ in enumerate(types)]
    columns.append(Column("any other", lambda t: grids.shaded(t["mixed"][unit] / t["blocks"])))
    names = {id(type_): f"{place + 1} {type_['name']}" if numbered else type_["name"]
             for place, type_ in enumerate(types)}
    how = "; columns are the rows' numbers" if numbered else ""
    return tables.table(f"table-{unit.replace('_', '-')}", f"{caption}: share of the row's blocks that have one of "
                        f"the column's there{how}", "Type", types, columns, lambda t: names[id(t)])


def false_sharing(layout: Object) -> list[Content]:
    blocks = {type_["name"]: type_["blocks"] for type_ in layout["types"]}
    return listed("table-false-sharing", "Blocks that are written while others use what is fetched with them",
                  "Written", layout["false_sharing"], [
                      Column("Beside", lambda s: s["other"], numeric=False),
                      column("Blocks", lambda s: text.count(s["blocks"])),
                      column("Of the written", lambda s: text.share(
                          s["blocks"] / blocks[s["written"]] if blocks.get(s["written"]) else None))],
                  lambda s: s["written"])


def children(layout: Object) -> Content:
    if layout["unknown"]["pointers"]:
        return page.absent(f"Where children lie is {text.UNAVAILABLE}: {layout['unknown']['pointers']}.")
    rows = [(type_["name"], child) for type_ in by_bytes(layout) for child in type_["children"] or []]
    if not rows:
        return page.absent("No block holds a pointer to another.")

    def near(key: str) -> Callable[[Any], str]:
        return lambda row: text.share(row[1][key] / row[1]["parents"] if row[1]["parents"] else None)

    return listed("table-children", "Where the children of blocks begin, counted from the line in which the parent "
                  "begins: share of the parents", "Parent", rows, [
                      Column("Child", lambda row: row[1]["type"], numeric=False),
                      column("Parents", lambda row: text.count(row[1]["parents"])),
                      column("In their line", near("in_line")),
                      column("Other line of the pair", near("in_pair")),
                      column("Adjacent line", near("in_adjacent_line")),
                      column("In their page", near("in_page"))], lambda row: row[0])


def reading(layout: Object) -> Markup:
    points: list[Content] = [
        "A type is what its blocks are told apart by: the role in a map, or the place in a program that "
        "allocates them.",
        [element("strong", text.UNAVAILABLE.capitalize()), " means that the snapshot or the machine does not tell. "
         "It never means zero."],
        "A cache set that no line of a type maps to is lost to that type: a regular layout that leaves half of the "
        "sets open makes the cache half as large for it. Of types that say what searches read only those lines "
        "count, of others all. From twice as many lines as sets on, a good layout would use every set; below that "
        "nothing follows from open ones.",
        "Overloaded sets have more lines than ways and far more than chance would give them.",
        "Company is what one miss, one prefetch or one translation brings along: good where a search reads it next, "
        "wasted where it does not, harmful where another thread writes it.",
        "Pages over the fewest are 1 where a type fills its pages; above, other types or free memory lie between. "
        "Translations over the entries of the TLB are above 1 where they do not fit.",
        "Point at a cell, or go to a figure with the tabulator and from cell to cell with the arrow keys, to read its "
        "numbers. The buttons above a figure show one kind alone."]
    if any(type_["children"] for type_ in layout["types"]):
        points.append("A child in its parent's line costs a search nothing; one in the other line of the pair is "
                      "fetched along where the prefetcher fetches pairs.")
    return element("ul", [element("li", point) for point in points])
