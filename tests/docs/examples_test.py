#!/usr/bin/env python3
"""Compiles and runs the programs in the documentation, and follows its links.

usage: examples_test.py CXX BUILD_FOLDER [FLAG...]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "src" / "espalier" / "README.md",
         ROOT / "sim" / "README.md"]
PROGRAM = re.compile(r"^```cpp\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)\)")
CXX, BUILD, *FLAGS = sys.argv[1:]
SIMULATOR = pathlib.Path(BUILD, "sim", "libespalier_sim.so").resolve()
del sys.argv[1:]


class Examples(unittest.TestCase):
    def test_programs_compile_and_run(self) -> None:
        programs = [(page.name, text) for page in PAGES for text in PROGRAM.findall(page.read_text())
                    if "int main" in text and '#include "sim/' not in text]
        self.assertTrue(programs)
        with tempfile.TemporaryDirectory() as scratch:
            for index, (page, text) in enumerate(programs):
                source = pathlib.Path(scratch, f"{index}.cpp")
                source.write_text(text)
                program = source.with_suffix("")
                with self.subTest(page):
                    subprocess.run([CXX, "-std=c++20", "-pthread", f"-I{ROOT / 'src'}", *FLAGS, source, "-o", program,
                                    f"{BUILD}/src/espalier/libespalier_map.a"], check=True)
                    shown = subprocess.run([program], check=True, capture_output=True, text=True).stdout
                    if page == "README.md":
                        self.assertEqual(shown, "20 -> 1.5\n20: 1.5\n30: 0.75\n")

    def test_simulated_programs_find_their_bug(self) -> None:
        programs = [text for page in PAGES for text in PROGRAM.findall(page.read_text())
                    if '#include "sim/' in text]
        self.assertTrue(programs)
        if not SIMULATOR.exists():
            self.skipTest("built without the simulator")
        with tempfile.TemporaryDirectory() as scratch:
            for index, text in enumerate(programs):
                source = pathlib.Path(scratch, f"{index}.cpp")
                source.write_text(text)
                program = source.with_suffix("")
                subprocess.run([CXX, "-std=c++20", "-O1", "-g", "-fsanitize=thread", f"-I{ROOT}", f"-I{ROOT / 'src'}",
                                "-c", source, "-o", f"{program}.o"], check=True)
                subprocess.run([CXX, f"{program}.o", "-o", program, SIMULATOR, f"-Wl,-rpath,{SIMULATOR.parent}",
                                "-Wl,--wrap=memcpy,--wrap=memset,--wrap=memmove"], check=True)
                shown = subprocess.run([program], check=True, capture_output=True, text=True).stdout
                self.assertIn("both additions count", shown)
                repeat = re.search(r"ESPALIER_SCHEDULE='([^']+)'", shown)
                self.assertIsNotNone(repeat)
                again = subprocess.run([program], check=True, capture_output=True, text=True,
                                       env={**os.environ, "ESPALIER_SCHEDULE": repeat[1]}).stdout
                self.assertEqual(again.splitlines()[1:], shown.splitlines()[1:])

    def test_links_lead_somewhere(self) -> None:
        for page in PAGES:
            for target in LINK.findall(page.read_text()):
                if "://" not in target:
                    self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")


if __name__ == "__main__":
    unittest.main()
