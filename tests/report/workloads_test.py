"""What a workload does, in a sentence."""

from __future__ import annotations

import sys
import unittest

sys.dont_write_bytecode = True

import fixture  # noqa: E402
from case import Case  # noqa: E402
from espalier_report import text, workloads  # noqa: E402


class Sentences(Case):
    def assert_said(self, expected: str | None, mix: str, distribution: str, keys: str) -> None:
        said = workloads.sentence(mix, distribution, keys)
        self.assertEqual(said and said.replace(text.THIN, " "), expected)

    def test_a_plain_mix_names_twice_the_keys_loaded(self) -> None:
        self.assert_said("90 % look-ups, 5 % insertions, 5 % erasures, keys drawn uniformly from 200,000; half of the "
                         "keys are in the map at the start.", "90/5/5", "uniform", "100,000")
        self.assert_said("100 % look-ups, keys taken in turn from 20; half of the keys are in the map at the start.",
                         "100/0/0", "sequential", "10")

    def test_ycsb_is_told_in_words_and_loads_all(self) -> None:
        rest = ", keys drawn from 1,000 by Zipf's law (exponent 0.99), the frequent ones scattered; all keys are in " \
               "the map at the start."
        for letter, words in (("a", "50 % look-ups, 50 % updates"), ("b", "95 % look-ups, 5 % updates"),
                              ("c", "100 % look-ups"), ("e", "95 % scans of 1 to 100 entries, 5 % insertions"),
                              ("f", "50 % look-ups, 50 % read-modify-writes")):
            self.assert_said(f"YCSB {letter.upper()}: {words}{rest}", f"ycsb-{letter}", "scrambled-zipfian:0.99",
                             "1,000")
        self.assert_said("YCSB D: 95 % look-ups, 5 % insertions, keys drawn from 1,000 by Zipf's law (exponent 0.99), "
                         "the newest most often; all keys are in the map at the start.", "ycsb-d", "latest:0.99",
                         "1,000")

    def test_every_distribution_is_told_in_words(self) -> None:
        for distribution, words in (
                ("zipfian:1.2", " by Zipf's law (exponent 1.2)"),
                ("hotspot:0.2,0.8", ", 80 % of the draws from 20 % of the keys"),
                ("self-similar:0.2", ", 80 % of the draws from 20 % of the keys, and so within these"),
                ("normal:0.125", " by a normal distribution (standard deviation 12.5 % of the range)"),
                ("poisson:0.5", " by a Poisson distribution (mean at 50 % of the range)"),
                ("novel:3", " by novel:3"), ("zipfian", " by zipfian"), ("hotspot:0.2", " by hotspot:0.2")):
            self.assert_said(f"50 % insertions, 50 % erasures, keys drawn from 20{words}; half of the keys are in the "
                             "map at the start.", "0/50/50", distribution, "10")

    def test_a_trace_has_an_order_of_its_own(self) -> None:
        trace = "The operations of a recorded trace in their order"
        self.assert_said(f"{trace}; the map is empty at the start.", "trace", "trace", "0")
        self.assert_said(f"{trace}; 1,000 keys are in the map at the start.", "trace", "trace", "1,000")
        self.assert_said(f"{trace}.", "trace", "trace", text.UNAVAILABLE)

    def test_what_is_not_known_is_not_said(self) -> None:
        self.assert_said("90 % look-ups, 5 % insertions, 5 % erasures, keys drawn uniformly.", "90/5/5", "uniform",
                         text.UNAVAILABLE)
        self.assert_said("90 % look-ups, 10 % erasures.", "90/0/10", text.UNAVAILABLE, text.UNAVAILABLE)
        self.assert_said(None, text.UNAVAILABLE, "uniform", "10")
        self.assert_said(None, fixture.NASTY, fixture.NASTY, fixture.NASTY)


class Places(Case):
    def test_it_stands_over_each_chart_of_the_workload(self) -> None:
        built = self.page_of(fixture.many_document())
        said = [words.replace(text.THIN, " ") for words in built.texts("p", **{"class": "about"})]
        charts = [attrs["data-figure"] for attrs in built.all("div", role="img") if attrs["data-figure"] != "memory-0"]
        self.assertEqual(len(said), len(charts))
        self.assertEqual(len(said), 3 * len(fixture.WORKLOADS))
        self.assertTrue(said[2].startswith("50 % look-ups, 25 % insertions, 25 % erasures, keys drawn from 200,000 by"))
        self.assertEqual(said[3], "YCSB E: 95 % scans of 1 to 100 entries, 5 % insertions, keys drawn from 100,000 by "
                                  "Zipf's law (exponent 0.99), the frequent ones scattered; all keys are in the map at "
                                  "the start.")

    def test_simulated_charts_have_it_too(self) -> None:
        built = self.page_of(fixture.simulated_document())
        self.assertEqual(len(built.texts("p", **{"class": "about"})), 6)

    def test_settings_that_differ_are_not_told_as_one(self) -> None:
        loaded = self.load(fixture.family("w", "a", fixture.around(400), keys=100),
                           fixture.family("w", "b", fixture.around(900), keys=100000))
        self.assertEqual(workloads.explained(loaded.measurements), workloads.DIFFERENT)
        self.assertIsNone(workloads.explained([]))


if __name__ == "__main__":
    unittest.main()
