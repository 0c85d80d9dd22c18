#!/usr/bin/env python3
"""Compiles and runs the programs in the documentation, and follows its links.

usage: examples_test.py CXX BUILD_FOLDER [FLAG...]
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "src" / "espalier" / "README.md",
         ROOT / "sim" / "README.md"]
PROGRAM = re.compile(r"^```cpp\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)\)")
CXX, BUILD, *FLAGS = sys.argv[1:]
CACHE = list(filter(None, [shutil.which("ccache")]))
SIMULATOR = pathlib.Path(BUILD, "sim", "libespalier_sim.so").resolve()
del sys.argv[1:]


def built(text: str, scratch: str, *compiling: str | pathlib.Path, linking: tuple[str | pathlib.Path, ...]) -> pathlib.Path:
    """Compiled under a name without a folder, by which ccache knows a program that it has compiled before."""
    pathlib.Path(scratch, "program.cpp").write_text(text)
    subprocess.run([*CACHE, CXX, "-std=c++20", "-pthread", f"-I{ROOT / 'src'}", *compiling, "-c", "program.cpp", "-o",
                    "program.o"], cwd=scratch, check=True)
    subprocess.run([CXX, "-pthread", *FLAGS, "program.o", "-o", "program", *linking], cwd=scratch, check=True)
    return pathlib.Path(scratch, "program")


class Examples(unittest.TestCase):
    def programs(self, simulated: bool) -> list[tuple[str, str]]:
        """The page and the text of each."""
        found = [(page.name, text) for page in PAGES for text in PROGRAM.findall(page.read_text())
                 if ('#include "sim/' in text if simulated else "int main" in text and '#include "sim/' not in text)]
        self.assertTrue(found)
        return found

    def test_programs_compile_and_run(self) -> None:
        for page, text in self.programs(simulated=False):
            with self.subTest(page), tempfile.TemporaryDirectory() as scratch:
                libraries = [f"{BUILD}/src/espalier/libespalier{part}.a" for part in ("_oltp", "_maps", "", "_map")]
                program = built(text, scratch, *FLAGS, linking=(*libraries, "-lhwloc"))
                shown = subprocess.run([program], check=True, capture_output=True, text=True).stdout
                if page == "README.md":
                    self.assertEqual(shown, "20 -> 1.5\n20: 1.5\n30: 0.75\n")

    def test_simulated_programs_find_their_bug(self) -> None:
        if not SIMULATOR.exists():
            self.skipTest("built without the simulator")
        for page, text in self.programs(simulated=True):
            with self.subTest(page), tempfile.TemporaryDirectory() as scratch:
                program = built(text, scratch, f"-I{ROOT}", "-O1", "-g", "-fsanitize=thread", linking=(
                    SIMULATOR, f"-Wl,-rpath,{SIMULATOR.parent}", "-Wl,--wrap=memcpy,--wrap=memset,--wrap=memmove"))
                shown = subprocess.run([program], check=True, capture_output=True, text=True).stdout
                self.assertIn("both additions count", shown)
                repeat = re.search(r"ESPALIER_SCHEDULE='([^']+)'", shown)
                self.assertIsNotNone(repeat)
                again = subprocess.run([program], check=True, capture_output=True, text=True,
                                       env={**os.environ, "ESPALIER_SCHEDULE": repeat[1]}).stdout
                self.assertEqual(again.splitlines()[1:], shown.splitlines()[1:])

    def test_links_lead_somewhere(self) -> None:
        for page in PAGES:
            for target in LINK.findall(BLOCK.sub("", page.read_text())):
                if "://" not in target:
                    self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")


if __name__ == "__main__":
    unittest.main()
