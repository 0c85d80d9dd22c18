"""What must not compile does not, with the words that say why: refused_test.py COMPILER SOURCE FOLDER_OF_HEADERS."""

import pathlib
import re
import subprocess
import sys
import unittest

COMPILER, SOURCE, HEADERS = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)


class Refused(unittest.TestCase):
    def test_each_line_that_is_marked_and_no_other(self) -> None:
        is_clang = "clang" in COMPILER
        all_errors = ["-ferror-limit=0"] if is_clang else []
        done = subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", "-fno-diagnostics-color", *all_errors, f"-I{HEADERS}",
                               SOURCE], capture_output=True, text=True)
        lines = SOURCE.read_text().splitlines()
        wanted = {n + 2: line.partition("refused: ")[2] for n, line in enumerate(lines) if "// refused: " in line}
        # An error together with what led to it, of which the line that asked for it is last.
        beginning = r"\S+: error: " if is_clang else rf"\S+: In |In file included from |\S*{SOURCE.name}:\d+:\d+: error: "
        said: dict[int, str] = {}
        line = 0
        for error in re.split(rf"^(?={beginning})", done.stderr, flags=re.M):
            at = re.findall(rf"\b{SOURCE.name}:(\d+):\d+:", error)
            if at and "error: " in error:
                line = int(at[-1])
            said[line] = said.get(line, "") + " ".join(error.split())  # a note belongs to the error before it
        for n, text in wanted.items():
            self.assertIn(text, said.get(n, ""), f"line {n}: {lines[n - 1]}")
        self.assertEqual({n: e for n, e in said.items() if n not in wanted and "error: " in e}, {})


unittest.main()
