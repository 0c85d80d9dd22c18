#!/usr/bin/env python3
"""Compiles and runs the programs in the documentation, and follows its links.

usage: examples_test.py CXX BUILD_FOLDER [FLAG...]
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "src" / "espalier" / "README.md"]
PROGRAM = re.compile(r"^```cpp\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)\)")
CXX, BUILD, *FLAGS = sys.argv[1:]
del sys.argv[1:]


class Examples(unittest.TestCase):
    def test_programs_compile_and_run(self) -> None:
        programs = [(page.name, text) for page in PAGES for text in PROGRAM.findall(page.read_text())
                    if "int main" in text]
        self.assertTrue(programs)
        libraries = subprocess.run(["pkg-config", "--libs", "hwloc"], capture_output=True, text=True,
                                   check=True).stdout.split()
        with tempfile.TemporaryDirectory() as scratch:
            for index, (page, text) in enumerate(programs):
                source = pathlib.Path(scratch, f"{index}.cpp")
                source.write_text(text)
                program = source.with_suffix("")
                with self.subTest(page):
                    subprocess.run([CXX, "-std=c++20", "-pthread", f"-I{ROOT / 'src'}", *FLAGS, source, "-o", program,
                                    f"{BUILD}/src/espalier/libespalier.a", *libraries], check=True)
                    shown = subprocess.run([program], check=True, capture_output=True, text=True).stdout
                    if page == "README.md":
                        self.assertEqual(shown, "20 -> 400\n30\n")

    def test_links_lead_somewhere(self) -> None:
        for page in PAGES:
            for target in LINK.findall(page.read_text()):
                if "://" not in target:
                    self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")


if __name__ == "__main__":
    unittest.main()
