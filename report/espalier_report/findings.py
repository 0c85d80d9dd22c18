"""The findings of a study as tables. A reason that makes several undecided is stated once, with their number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from espalier_report import tables, text
from espalier_report.markup import Content, Markup, element
from espalier_report.results import TOO_SHORT, Finding, Study
from espalier_report.tables import Column

BADGES = {"agrees": "agrees", "differs": "differs", "not measurable here": "undecided", TOO_SHORT: "undecided"}
# The sentence of a finding that states why it is undecided, reworded for several findings. For these three, the text
# before the sentence is what was found nevertheless. Any other text is the cause as a whole.
CAUSES = ((r"The paper has it (at [\d,]+(?: and [\d,]+)* keys)\.$", r"the paper has them \1"),
          (r"The paper has it (on .+, which this machine is not)\.$", r"the paper has them \1"),
          (r"Not measured: ([^.]+)\.$", r"there are no measurements of \1"))
SPREAD = r"From run to run the ratio is anything from .+? to .+?, which does not tell\."

Causes = dict[str, list[Finding]]


def cause_of(finding: Finding) -> tuple[str, str]:
    """Why a finding is undecided, and what was found nevertheless."""
    if finding.verdict == TOO_SHORT:
        return "the run is too short", finding.ours
    for pattern, words in CAUSES:
        found = re.search(pattern, finding.ours)
        if found:
            return found.expand(words), finding.ours[:found.start()].rstrip()
    if re.search(SPREAD, finding.ours):
        return "the runs spread too much to tell", finding.ours
    return finding.ours.removesuffix("."), ""


def shared_causes(findings: Sequence[Finding]) -> Causes:
    """The undecided findings by cause, if at least two share it."""
    found: Causes = {}
    for finding in findings:
        if BADGES[finding.verdict] == "undecided":
            found.setdefault(cause_of(finding)[0], []).append(finding)
    return {cause: group for cause, group in found.items() if len(group) > 1}


def sentence(cause: str, number: int) -> str:
    undecided = "were not judged" if cause == "the run is too short" else "could not be measured here"
    return f"{text.plural(number, 'finding')} {undecided}: {cause}."


def sentences(causes: Causes) -> list[str]:
    return [sentence(cause, len(group)) for cause, group in causes.items()]


def on_page(study: Study, findings: Sequence[Finding], id_: str) -> list[Content]:
    """A table of single findings. Those that share a cause are folded below its sentence."""
    causes = shared_causes(findings)
    return [table(study, others(findings, causes), id_), [
        element("details", element("summary", sentence(cause, len(group))),
                undecided_table(study, group, f"{id_}-{place}"))
        for place, (cause, group) in enumerate(causes.items())]]


def on_index(study: Study, findings: Sequence[Finding], causes: Causes, id_: str) -> list[Content]:
    """The causes are at the top of the index, the findings that share them on the figure's page."""
    told = others(findings, causes)
    rest = len(findings) - len(told)
    more = "" if not told else "more "
    said = f"{text.plural(rest, f'{more}finding')} could not be measured here; the causes stand at the top."
    return [table(study, told, id_), element("p", said, class_="note") if rest else None]


def others(findings: Sequence[Finding], causes: Causes) -> list[Finding]:
    return [one for one in findings if BADGES[one.verdict] != "undecided" or cause_of(one)[0] not in causes]


def table(study: Study, findings: Sequence[Finding], id_: str) -> Markup | None:
    """None if there is nothing to tell."""
    if not findings:
        return None
    columns = [*places(study, findings), Column(claim_head(study), lambda f: claim(study, f), numeric=False),
               Column(here(study), lambda f: f.ours, numeric=False)]
    return tables.table(id_, f"What {'the paper found' if study.has_paper else 'is to be shown'}, and what was found "
                             "here", "Verdict", findings, columns, badge, "scroll told")


def undecided_table(study: Study, findings: Sequence[Finding], id_: str) -> Markup:
    columns = places(study, findings)
    if any(cause_of(one)[1] for one in findings):
        columns.append(Column(here(study), lambda f: cause_of(f)[1], numeric=False))
    caption = f"What {'the paper found' if study.has_paper else 'is to be shown'}, undecided for this cause"
    return tables.table(id_, caption, claim_head(study), findings, columns, lambda f: claim(study, f), "scroll claims")


def places(study: Study, findings: Sequence[Finding]) -> list[Column]:
    columns = []
    if any(f.keys is not None for f in findings):
        columns.append(Column("Keys", lambda f: tables.value(text.count(f.keys))))
    if study.simulated:
        columns.append(Column("Simulated on", lambda f: f.machine, numeric=False))
    return columns


def claim_head(study: Study) -> str:
    return "The paper" if study.has_paper else "To be shown"


def claim(study: Study, finding: Finding) -> str:
    beyond = "Beyond the paper: " if study.has_paper and not finding.of_paper else ""
    return f"{beyond}{finding.paper}."


def here(study: Study) -> str:
    return "Simulated here" if study.simulated else "Measured here"


def badge(finding: Any) -> Markup:
    return element("span", finding.verdict, class_=f"badge {BADGES[finding.verdict]}")
