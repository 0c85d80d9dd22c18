#!/usr/bin/env python3
"""The manual pages: one for each command, with all that its help has, in roff that draws no warning."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from case import COMMAND

REQUESTS = {"TH", "SH", "SS", "TP", "PP", "B", "BR", "nf", "fi", "nh", "ad", '\\"'}
# An option as help has it: its names, then perhaps "TYPE=default", then spaces and what it does.
OPTION = re.compile(r"^  (-[\w,-]+)(?: \S+?=(\S+))?", re.MULTILINE)


def shown(*arguments: str) -> str:
    return subprocess.run([COMMAND, *arguments], check=True, capture_output=True, text=True).stdout


def plain(roff: str) -> str:
    """The text of a page, without fonts and escapes."""
    text = re.sub(r"\\f[BIR]|\\&", "", roff)
    for escape, character in (("\\(aq", "'"), ("\\(dq", '"'), ("\\(ga", "`"), ("\\(ha", "^"), ("\\(ti", "~"),
                              ("\\-", "-"), ("\\e", "\\")):
        text = text.replace(escape, character)
    return text


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shown("man", "--out", folder)
            cls.pages = {file.name: file.read_text() for file in pathlib.Path(folder).iterdir()}

    def page(self, verb: str = "") -> str:
        return self.pages[f"espalier-{verb}.1" if verb else "espalier.1"]

    def verbs(self) -> list[str]:
        return re.findall(r"^  ([a-z]+) ", shown("--help").partition("Subcommands:")[2], re.MULTILINE)

    def test_each_command_has_a_page(self) -> None:
        self.assertIn("man", self.verbs())
        self.assertEqual(sorted(self.pages), sorted(["espalier.1", *(f"espalier-{verb}.1" for verb in self.verbs())]))
        for verb in self.verbs():
            self.assertEqual(shown("man", verb), self.page(verb))
            self.assertIn(f".BR espalier\\-{verb} (1)", self.page())
        self.assertEqual(shown("man"), self.page())

    def test_a_page_has_what_help_has(self) -> None:
        for verb in ["", *self.verbs()]:
            # The simulator has a parser of its own, which is asked here.
            asked = subprocess.run([COMMAND, *filter(None, [verb]), "--help"], capture_output=True, text=True)
            if verb == "simulate" and "without the simulator" in asked.stderr:
                continue
            options = OPTION.findall(asked.stdout)
            self.assertIn("--help", ",".join(names for names, _ in options))
            lines = plain(self.page(verb)).splitlines()
            for names, default in options:
                with self.subTest(f"{verb} {names}"):
                    head = next((i for i, line in enumerate(lines)
                                 if re.match(re.escape(names.replace(",", ", ")) + r"( |$)", line)), None)
                    self.assertIsNotNone(head)
                    if default:
                        self.assertEqual(lines[head + 2], f"Default: {default}.")

    def test_sections(self) -> None:
        for name, page in self.pages.items():
            sections = re.findall(r"^\.SH (.*)", page, re.MULTILINE)
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
                self.assertIn(section, sections, name)
        self.assertIn("COMMANDS", self.page())
        for verb in ("bench", "simulate", "run"):
            self.assertIn(".SH EXAMPLES\n.nf\n", self.page(verb))
        self.assertIn("espalier bench --quick\n", plain(self.page("bench")))
        self.assertEqual(re.findall(r"^\.TP\n\.B (\d+)$", self.page(), re.MULTILINE), ["0", "1", "2", "130"])

    def test_nothing_of_the_text_is_a_request_or_an_escape(self) -> None:
        for name, page in self.pages.items():
            for line in page.splitlines():
                with self.subTest(f"{name}: {line}"):
                    self.assertFalse(line.startswith("'"))
                    if line.startswith("."):
                        self.assertIn(re.split(r" |(?<=\\\")", line[1:])[0], REQUESTS)
                    if not line.startswith(".TH"):
                        self.assertNotRegex(line.removeprefix(".\\\""), r"(?<!\\)-")
                    self.assertNotRegex(line.removeprefix(".\\\""), r"\\(?![-e&]|\(aq|\(dq|\(ga|\(ha|\(ti|f[BIR])")

    def test_groff_has_no_warning(self) -> None:
        groff = shutil.which("groff")
        if not groff:
            self.skipTest("groff is absent")
        for name, page in self.pages.items():
            done = subprocess.run([groff, "-ww", "-man", "-Tutf8", "-P-cbou"], input=page, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn("EXIT STATUS", done.stdout)


if __name__ == "__main__":
    unittest.main()
