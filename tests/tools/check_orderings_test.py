#!/usr/bin/env python3
"""The check of orderings passes on the tree as it is and sees what breaks each of its rules."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import check_orderings  # noqa: E402

# One of each: a table of two rows, an acq_rel access that is both ends, a pair of fences, a relaxed access.
GOOD = """\
// Orderings
//   (1) unlock, hand_over (release) -> lock, hand_over (acquire): what the owner wrote
//       comes before what the next one reads.
//   (2) pin (light) <-> scan (heavy): one of them sees the other's store.

void lock() {
  // order (1): lock, acquire
  while (word.exchange(1, std::memory_order_acquire) != 0) hw::fence_light();  // order (2): pin, light
}
void unlock() {
  // relaxed: only the owner writes it.
  const int now = word.load(std::memory_order_relaxed);
  word.store(now - 1, std::memory_order_release);  // order (1): unlock, release
  // order (1): hand_over, acquire; order (1): hand_over, release
  word.exchange(now, std::memory_order_acq_rel);
  hw::fence_heavy();  // order (2): scan, heavy
}
"""


class CheckOrderings(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def faults(self, **texts: str) -> list[str]:
        for name, text in texts.items():
            (self.folder / name.replace("_", ".")).write_text(text)
        return check_orderings.check(check_orderings.sources_of([self.folder], self.folder))

    def changed(self, old: str, new: str) -> list[str]:
        self.assertEqual(GOOD.count(old), 1, old)
        return self.faults(a_hpp=GOOD.replace(old, new))

    def test_this_tree(self) -> None:
        for root in check_orderings.ROOTS:
            with self.subTest(root):
                files = check_orderings.sources_of([ROOT / root], ROOT)
                self.assertTrue(files)
                self.assertEqual(check_orderings.check(files), [])

    def test_what_breaks_a_rule(self) -> None:
        self.assertEqual(self.faults(a_hpp=GOOD), [])
        tag = "  // order (1): lock, acquire\n"
        for old, new, *faults in (
                (tag, "", "2: no site is named as 'lock (acquire)' of row (1)", "7: acquire without its row"),
                (tag, tag + 4 * "  f();\n", "7: no acquire access within four lines", "12: acquire without its row"),
                (tag, "  // order (1), (3): lock, acquire\n", "7: order (3) stands in no table"),
                ("1, std::memory_order_acquire) != 0", "1, std::memory_order_release) != 0",
                 "7: no acquire access within four lines", "8: release without its row"),
                ("  // order (1): hand_over, acquire; order (1): hand_over, release", "  // order (1): hand_over, release",
                 "no site is named as 'hand_over (acquire)' of row (1)"),
                ("  // order (2): scan, heavy", "", "4: no site is named as 'scan (heavy)' of row (2)",
                 "16: heavy without its row")):
            with self.subTest(new):
                for fault, words in zip(self.changed(old, new), faults, strict=True):
                    self.assertIn(words, fault)
        faults = self.changed("// order (1): lock, acquire", "// order: lock (acquire) <- unlock (release)")
        self.assertTrue(any("a.hpp:7: an ordering that is not numbered" in fault for fault in faults), faults)

    def test_acq_rel_covers_its_failure_and_no_store(self) -> None:
        table = "// Orderings\n//   (1) f (acq_rel) -> f (acq_rel): it is published.\n"
        exchange = ("a.compare_exchange_strong(b, c, std::memory_order_acq_rel,  // order (1): f, acq_rel\n"
                    "                          std::memory_order_acquire);\n")
        self.assertEqual(self.faults(a_hpp=table + exchange), [])
        (fault,) = self.faults(a_hpp=table + exchange + "d.store(1, std::memory_order_release);\n")
        self.assertIn("a.hpp:5: release without its row", fault)

    def test_label_or_kind_that_the_row_lacks(self) -> None:
        for wrong in ("take, acquire", "lock, light", "unlock, acquire"):
            with self.subTest(wrong):
                faults = self.changed("// order (1): lock, acquire", f"// order (1): {wrong}")
                label, kind = wrong.split(", ")
                self.assertTrue(any(f"a.hpp:7: row (1) has no end '{label} ({kind})'" in f for f in faults), faults)

    def test_fences_are_sites(self) -> None:
        fence = "std::atomic_thread_fence(std::memory_order_seq_cst);\n"
        (fault,) = self.faults(a_hpp=fence)
        self.assertIn("a.hpp:1: seq_cst without its row", fault)

    def test_ends_in_another_file(self) -> None:
        table = "// Orderings\n//   (1) f (release) -> g (acquire) in {}: it is published.\n"
        site = "a.store(1, std::memory_order_release);  // order (1): f, release\n"
        self.assertEqual(self.faults(a_hpp=table.format("b.cpp") + site, b_cpp=""), [])
        (fault,) = self.faults(a_hpp=table.format("c.cpp") + site)
        self.assertIn("a.hpp:2: row (1) names c.cpp, which is no file", fault)

    def test_source_uses_the_table_of_its_header(self) -> None:
        table = "// Orderings\n//   (1) f (release) -> g (acquire): it is published.\n"
        site = "a.store(1, std::memory_order_release);  // order (1): f, release\n"
        source = "b = a.load(std::memory_order_acquire);  // order (1): g, acquire\n"
        self.assertEqual(self.faults(a_hpp=table + site, a_cpp=source), [])
        unknown, unnamed = self.faults(a_hpp=table + site, a_cpp="", b_cpp=source)
        self.assertIn("a.hpp:2: no site is named as 'g (acquire)'", unknown)
        self.assertIn("b.cpp:1: order (1) stands in no table", unnamed)

    def test_rows_that_cannot_be_read(self) -> None:
        for row in ("f (release), g (acquire): both.", "f (release) -> g (acquire)", "f (release) -> g (locked): so.",
                    "f (acquire) -> g (release): backwards."):
            with self.subTest(row):
                faults = self.faults(a_hpp=f"// Orderings\n//   (1) {row}\n")
                self.assertTrue(any(f.startswith("a.hpp:2: row (1)") for f in faults), faults)
        (fault,) = self.faults(a_hpp="// Orderings\n// none\n")
        self.assertIn("a.hpp:1: a table without rows", fault)
        row = "//   (1) f (fork) -> g (fork) in a.hpp: why.\n"
        fault = self.faults(a_hpp=f"// Orderings\n{row}{row}// order (1): f, fork\n")
        self.assertIn("a.hpp:3: (1) stands in line 2 already", fault[0])

    def test_relaxed(self) -> None:
        access = "a.load(std::memory_order_relaxed);\n"
        (fault,) = self.faults(a_hpp=access)
        self.assertIn("a.hpp:1: relaxed without a reason", fault)
        for good in ("// relaxed: a count\n" + access, access[:-1] + "  // relaxed: a count\n",
                     "// relaxed: a count\n" + 3 * "f();\n" + access,
                     "// relaxed throughout: counts\n" + 9 * "f();\n" + access):
            self.assertEqual(self.faults(a_hpp=good), [])
        for bad in ("// relaxed: a count\n" + 4 * "f();\n" + access, access + "// relaxed throughout: counts\n",
                    "// memory_order_relaxed\n" + access):
            self.assertEqual(len(self.faults(a_hpp=bad)), 1)

    def test_operations_name_their_order(self) -> None:
        for operation in ("a.load()", "a->store(f(1))", "a.fetch_add(1)", "a.compare_exchange_weak(\n  b, c)"):
            with self.subTest(operation):
                (fault,) = self.faults(a_hpp=f"\n{operation};\n")
                self.assertIn("a.hpp:2: ", fault)
                self.assertIn("without an explicit order", fault)
        self.assertEqual(self.faults(a_hpp="\nif constexpr (requires { n.load(); })\n"), [])
        self.assertEqual(self.faults(a_hpp="// a.load()\nconst char* s = \"a.load()\"; a.load(order);\n"), [])


if __name__ == "__main__":
    unittest.main()
