#!/usr/bin/env python3
"""The API reference: Doxygen warns of nothing, and what the pages link to exists.

usage: api_test.py DOXYFILE
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOXYFILE = pathlib.Path(sys.argv.pop(1)).resolve()
DOXYGEN = shutil.which("doxygen")


@unittest.skipUnless(DOXYGEN, "doxygen is absent")
class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.pages = pathlib.Path(scratch.name, "html")
        cls.done = subprocess.run([DOXYGEN, "-"], input=f'{DOXYFILE.read_text()}\nOUTPUT_DIRECTORY = "{scratch.name}"\n',
                                  cwd=ROOT, capture_output=True, text=True)

    def test_no_warning(self) -> None:
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))

    def test_each_map_has_a_page(self) -> None:
        maps = [header for header in (ROOT / "src/espalier/map/bst").glob("*.hpp")
                if "map_properties properties{" in header.read_text()]
        self.assertGreater(len(maps), 8)
        for header in maps:
            page = self.pages / f"classespalier_1_1{header.stem.replace('_', '__')}.html"
            self.assertIn(f"espalier/map/bst/{header.name}", page.read_text())

    def test_the_comment_above_the_namespace_is_on_the_header_s_page(self) -> None:
        self.assertIn("The contract that every map of the library keeps.",
                      (self.pages / "map__concept_8hpp.html").read_text())

    def test_links_lead_somewhere(self) -> None:
        for page in self.pages.glob("*.html"):
            for target in set(re.findall(r'href="([^"#]+)', page.read_text())):
                if "://" not in target and not target.startswith("javascript:"):
                    self.assertTrue((self.pages / target).exists(), f"{page.name}: {target}")


if __name__ == "__main__":
    unittest.main()
