#!/usr/bin/env python3
"""The layer check passes on the tree as it is and sees what breaks the rules."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402


class CheckLayers(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.root = check_layers.Root(self.folder, "espalier", forbidden=("sim",))
        (self.folder / "README.md").write_text("| layer | rooms |\n|---|---|\n| `hw/` | a |\n| `map/` | b |\n")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_this_tree(self) -> None:
        for root in check_layers.roots_of(ROOT):
            with self.subTest(root.prefix):
                self.assertTrue(list(root.folder.rglob("*.hpp")))
                self.assertEqual(check_layers.check(root), [])

    def test_includes_go_downward(self) -> None:
        self.write("map/a.hpp", '#pragma once\n#include "espalier/hw/b.hpp"\n#include <vector>\n')
        self.write("hw/b.hpp", "#pragma once\n")
        self.assertEqual(check_layers.check(self.root), [])
        self.write("hw/b.cpp", "\n#include <espalier/map/a.hpp>\n")
        (fault,) = check_layers.check(self.root)
        self.assertIn("hw/b.cpp:2", fault)
        self.assertIn("lies above", fault)

    def test_unknown_layers_missing_pragma_and_depth(self) -> None:
        self.write("attic/a.cpp", "")
        self.write("hw/x/y/z.cpp", "")
        self.write("hw/b.hpp", '// late\n#pragma once\n#include "espalier/cellar/a.hpp"\n')
        self.assertEqual(len(check_layers.check(self.root)), 4)

    def test_rooms_of_one_layer_include_each_other(self) -> None:
        (self.folder / "README.md").write_text(
            "| layer | rooms |\n|---|---|\n| `hw/` `map/`, `front.hpp` | a |\n| `top.hpp` | b |\n")
        self.write("hw/c.hpp", "#pragma once\n")
        self.write("map/a.hpp", '#pragma once\n#include "espalier/hw/c.hpp"\n')
        self.write("hw/b.hpp", '#pragma once\n#include "espalier/map/a.hpp"\n#include "espalier/front.hpp"\n')
        self.write("front.hpp", '#pragma once\n#include "espalier/map/a.hpp"\n')
        self.write("top.hpp", '#pragma once\n#include "espalier/front.hpp"\n')
        self.assertEqual(check_layers.check(self.root), [])
        self.write("hw/b.cpp", '#include "espalier/top.hpp"\n')
        self.write("side.hpp", "#pragma once\n")
        above, missing = check_layers.check(self.root)
        self.assertIn("hw/b.cpp:1: hw/ must not include top.hpp: top.hpp lies above it", above)
        self.assertIn("side.hpp is missing", missing)

    def test_other_roots(self) -> None:
        self.write("hw/a.hpp", '#pragma once\n#include "elsewhere/map/b.hpp"\n')
        self.assertEqual(check_layers.check(self.root), [])
        self.write("hw/b.hpp", '#pragma once\n#include "sim/world.hpp"\n')
        (fault,) = check_layers.check(self.root)
        self.assertIn("must not include sim/world.hpp", fault)

    def test_circles_of_files(self) -> None:
        self.write("hw/a.hpp", '#pragma once\n#include "espalier/hw/b.hpp"\n')
        self.write("hw/b.hpp", '#pragma once\n#include "espalier/hw/c.hpp"\n')
        self.write("hw/c.hpp", "#pragma once\n")
        self.write("hw/c.cpp", '#include "espalier/hw/a.hpp"\n#include "espalier/hw/c.hpp"\n')
        self.assertEqual(check_layers.check(self.root), [])
        self.write("hw/c.hpp", '#pragma once\n#include "espalier/hw/a.hpp"\n')
        (fault,) = check_layers.check(self.root)
        for name in ("hw/a.hpp", "hw/b.hpp", "hw/c.hpp"):
            self.assertIn(name, fault)
        self.assertNotIn("hw/c.cpp", fault)

    def test_tests_include_without_a_prefix(self) -> None:
        root = check_layers.Root(self.folder, "tests", levels=3)
        self.write("map/a.hpp", "#pragma once\n")
        self.write("hw/x/y/b.cpp", '#include "map/a.hpp"\n#include "map/no_file_here.hpp"\n')
        (fault,) = check_layers.check(root)
        self.assertIn("hw/x/y/b.cpp:1: hw/ must not include map/a.hpp", fault)

    def test_no_table(self) -> None:
        (self.folder / "README.md").write_text("nothing\n")
        self.assertEqual(len(check_layers.check(self.root)), 1)


if __name__ == "__main__":
    unittest.main()
