#!/usr/bin/env python3
"""The walks of docs/walkthrough.md: their files exist, have the functions that are named, and are few enough."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = [ROOT / "src/espalier", ROOT / "src/espalier/oltp", ROOT / "src/espalier/delegation", ROOT]
# The files of each walk, at most.
MOST = {"A find of `ordered_map`": 12, "An insert of `ordered_map`": 13, "A transaction, from `transact` to its commit": 9,
        "A `get`, from socket to reply": 9, "A `call`, to another locality": 9}


def walks() -> dict[str, str]:
    page = (ROOT / "docs/walkthrough.md").read_text()
    return {title: text for title, text in re.findall(r"^# ([^\n]+)\n(.*?)(?=^# |\Z)", page, re.M | re.S)}


def file_of(name: str) -> pathlib.Path:
    return next((folder / name for folder in FOLDERS if (folder / name).exists()), ROOT / name)


class Walks(unittest.TestCase):
    def test_each_walk_is_there_and_short(self) -> None:
        for title, most in MOST.items():
            with self.subTest(title):
                files = set(re.findall(r"\*\*`([^`]+\.[ch]pp)`", walks()[title]))
                self.assertLessEqual(len(files), most, sorted(files))
                for name in files:
                    self.assertTrue(file_of(name).exists(), name)

    def test_files_have_the_functions_that_their_steps_name(self) -> None:
        for title in MOST:
            steps = re.findall(r"^\d+\. (.*?)(?=^\d+\. |^\S|\Z)", walks()[title], re.M | re.S)
            self.assertGreater(len(steps), 5, title)
            of_walk = "".join(file_of(name).read_text() for name in re.findall(r"\*\*`([^`]+\.[ch]pp)`", walks()[title]))
            for step in steps:
                names = [name.split("::")[-1] for name in re.findall(r"`([\w:]+)(?:\(\))?`", step)]
                for name in re.findall(r"`[\w:]*?(\w+)\(\)`", step):
                    with self.subTest(title, function=name):
                        self.assertRegex(of_walk, rf"\b{name}\b\s*(?:<[^;()]*>)?\(")
                for file in re.findall(r"\*\*`([^`]+\.[ch]pp)`", step):
                    with self.subTest(title, file=file):
                        text = file_of(file).read_text()
                        self.assertTrue(any(re.search(rf"\b{name}\b", text) for name in names), f"none of {names}")


if __name__ == "__main__":
    unittest.main()
