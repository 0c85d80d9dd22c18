#!/usr/bin/env python3
"""The word check passes on the tree as it is, and sees each word that it forbids, in prose, comments and C++ names."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import check_words  # noqa: E402

# What a sentence may be, and what is found in it; a rule for each line.
PLANTED = {
    "Whoever pushes first tells the owner.": "Whoever",
    "The list that nobody reads is somebody else's.": "nobody",
    "The thread who pushed waits.": "who",
    "Malloc and its kin are replaced.": "Malloc and its kin",
    "The house has layers.": "The house",
    "Three rooms, one above the other.": "rooms",
    "A block that was given at last back to the system.": "given at last back",
    "A glance at the tree.": "glance",
    "The heir of an edge.": "heir",
    "The node is spliced.": "spliced",
    "Blocks are kept aside.": "kept aside",
    "A thread at work on it.": "at work",
    "<<<<<<< HEAD": "<<<<<<< HEAD",
}


class CheckWords(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def faults(self, name: str, text: str) -> list[str]:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return check_words.check(self.folder, (name,), ())

    def test_this_tree(self) -> None:
        for place in check_words.PLACES + check_words.NAME_PLACES:
            with self.subTest(place):
                self.assertTrue(any(check_words.files_of(ROOT, (place,))))
        self.assertEqual(check_words.check(ROOT), [])

    def test_each_rule(self) -> None:
        seen = set()
        for sentence, word in PLANTED.items():
            with self.subTest(sentence):
                faults = self.faults("a.md", f"Title\n\n{sentence}\n")
                self.assertTrue(faults[0].startswith(f"a.md:3: '{word}': say "), faults)
                seen |= {one.advice for one in check_words.RULES if one.advice in faults[0]}
        self.assertEqual(seen, {one.advice for one in check_words.RULES})

    def test_other_forms_and_across_the_end_of_a_line(self) -> None:
        for text in ("somebody", "whom", "gives back", "gave it back", "giving all of it back", "each room",
                     "room by room", "heirs", "splicing", "glanced", "keeps them aside", "malloc and their kin", ">>>>>>> 0a1b"):
            with self.subTest(text):
                self.assertEqual(len(self.faults("a.md", text)), 1)
        (fault,) = self.faults("a.hpp", "int a;\n// Blocks are given\n// back.\n")
        self.assertIn("a.hpp:2: 'given back'", fault)
        self.assertEqual(self.faults("b.hpp", "// A block is given\n\n// back\n"), [])

    def test_comments_and_not_code(self) -> None:
        for name, text in {
            "a.hpp": 'auto s = "nobody"; auto r = R"(nobody\n// nobody)"; int n = 1\'000;\n//\n/// nobody\n',
            "a.cpp": "int n;\nchar c = '\"';\n/* Is\n * nobody */",
            "a.py": 's = "nobody"\n\n# nobody\ndef nobody():\n    return "nobody"\n',
            "b.py": 's = 1\n\n\ndef f():\n    """As\n    nobody."""\n',
            "a.sh": 'echo "# nobody" nobody\necho $# nobody\necho x # nobody\n',
            "a.cmake": 'set(nobody "# nobody")\n\n# nobody\n',
            "CMakeLists.txt": "\n\n# nobody\n",
        }.items():
            with self.subTest(name):
                (fault,) = self.faults(name, text)
                self.assertRegex(fault, rf"^{name}:(3|4|6): 'nobody'")

    def test_names(self) -> None:
        faults = self.faults("a.cpp", 'int gives_back_all(const heir& next);\n\nvoid descend(); f("splice");\n')
        self.assertEqual([fault.split(": say ")[0] for fault in faults],
                         ["a.cpp:1: 'gives_back_all'", "a.cpp:1: 'heir'", "a.cpp:3: 'descend'"])
        self.assertEqual(self.faults("b.cpp", '#include "nobody.hpp"\nauto giver_back_ = their("nobody");\n'), [])
        (self.folder / "c.cpp").write_text("int nobody;  // nobody\n")
        self.assertEqual(len(check_words.check(self.folder, (), ("c.cpp",))), 1)

    def test_what_may_be_said(self) -> None:
        self.assertEqual(self.faults("a.md", "`splice` of [a list](splice/rooms.md), splice(), list::splice, at_work.\n"
                                             "\n```cpp\nint nobody;  // nobody\n```\n"), [])
        self.assertEqual(self.faults("a.md", "For engineers of caches and trees who know people whom trees please."), [])
        (fault,) = self.faults("a.md", "Users who ask; an engineer of trees who knows who it is.")
        self.assertIn("a.md:1: 'who': ", fault)
        self.assertEqual(self.faults("a.md", "There is no room for it; the room is full, and that room is small."), [])


if __name__ == "__main__":
    unittest.main()
