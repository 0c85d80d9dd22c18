"""Instructions of a find in any_map, against one in the map itself: any_map_counts_test.py PROGRAM."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
FINDS = 8000
# Two loads, the call, the return, and six registers that are saved and restored.
VIRTUAL_CALL = 16


class Counts(unittest.TestCase):
    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_a_find_costs_one_virtual_call_more(self) -> None:
        for name in ("ordered_map", "ticket"):
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "counts"
                subprocess.run(["valgrind", "--tool=callgrind", "--compress-strings=no", f"--callgrind-out-file={out}",
                                PROGRAM, name], stderr=subprocess.DEVNULL, check=True)
                calls = re.findall(r"^cfn=.*::(find|find_batch)<espalier::(\w+).*\ncalls=1 .*\n\S+ (\d+)$",
                                   out.read_text(), re.M)
            each = {(what, of): int(count) / FINDS for what, of, count in calls}
            print(name, each)
            for what, calls_of_a_find in (("find", 1), ("find_batch", 1 / 16)):
                with self.subTest(name, what=what):
                    typed = each[what, name]
                    self.assertGreater(typed, 20, "is it counted at all?")
                    self.assertLessEqual(each[what, "any_map"], 1.1 * typed + VIRTUAL_CALL * calls_of_a_find)


unittest.main()
