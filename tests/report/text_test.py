"""Numbers, durations and labels in words."""

from __future__ import annotations

import sys
import unittest

sys.dont_write_bytecode = True

import fixture  # noqa: E402, F401: finds espalier_report
from espalier_report import text  # noqa: E402


class Numbers(unittest.TestCase):
    def test_three_significant_digits_without_exponent(self) -> None:
        for value, expected in ((0, "0"), (1.3, "1.30"), (9.996, "10.0"), (0.6993, "0.699"),
                                (0.00012345, "0.000123"), (99.96, "100"), (999.7, "1,000"),
                                (1234567.8, "1,234,568"), (None, "unavailable")):
            self.assertEqual(text.number(value), expected)

    def test_durations_have_units(self) -> None:
        for value, expected in ((300, "300 ns"), (1.5, "1.50 ns"), (2000, "2 µs"),
                                (2500, "2.50 µs"), (90000, "90 µs"), (3.2e6, "3.20 ms"),
                                (4e9, "4 s"), (None, "unavailable")):
            self.assertEqual(text.duration(value).replace(text.THIN, " "), expected)

    def test_percentiles_keep_their_nines(self) -> None:
        self.assertEqual([text.percentile(p).replace(text.THIN, "")
                          for p in (0.0, 0.5, 0.999, 0.99999)], ["0%", "50%", "99.9%", "99.999%"])

    def test_shares_are_neither_rounded_to_nothing_nor_to_all(self) -> None:
        for value, expected in ((0, "0 %"), (0.0004, "<0.1 %"), (0.001, "0.1 %"), (0.1234, "12.3 %"), (0.5, "50 %"),
                                (0.999, "99.9 %"), (0.9996, ">99.9 %"), (1, "100 %"), (12.5, "1,250 %"),
                                (None, "unavailable")):
            self.assertEqual(text.share(value).replace(text.THIN, " "), expected)

    def test_labels_wrap_and_end(self) -> None:
        self.assertEqual(text.wrapped("edge_ext_lf"), ["edge_ext_lf"])
        self.assertEqual(text.wrapped("edge_ext_lf (second.json)"),
                         ["edge_ext_lf", "(second.json)"])
        endless = text.wrapped("x" * 500)
        self.assertEqual(len(endless), 3)
        self.assertTrue(endless[-1].endswith("…"))
        self.assertLessEqual(max(map(len, endless)), 18)
        self.assertEqual(text.plotly_label("a<b>&c"), "a&lt;b&gt;&amp;c")


if __name__ == "__main__":
    unittest.main()
