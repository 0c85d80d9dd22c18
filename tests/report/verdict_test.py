"""Who has won, by how much, and when nobody has."""

from __future__ import annotations

import sys
import unittest

sys.dont_write_bytecode = True

import fixture  # noqa: E402
from case import Case  # noqa: E402
from espalier_report import verdict  # noqa: E402


class Verdicts(Case):
    def verdict(self, *families: list[fixture.Json]) -> verdict.Verdict:
        found = verdict.verdicts(self.load(*families))
        self.assertEqual(len(found), 1)
        return found[0]

    def test_names_winner_and_ratio(self) -> None:
        found = self.verdict(fixture.family("w", "slow", fixture.around(532)),
                             fixture.family("w", "fast", fixture.around(400)),
                             fixture.family("w", "slower", fixture.around(900)))
        self.assertEqual(found.winner, "fast")
        self.assertEqual(found.short, "fast won w, 1.33 times slow")
        # 400 ns is 2.50 M; from 392 to 408 ns.
        self.assertIn("2.50 [2.45 to 2.55] against 1.88 [1.84 to 1.92]", found.sentence)
        self.assertEqual(verdict.headline([found]), "fast won w, 1.33 times slow")

    def test_ranks_by_medians_not_by_means(self) -> None:
        found = self.verdict(fixture.family("w", "a", [100, 100, 100, 5000, 5000]),
                             fixture.family("w", "b", [200, 200, 200, 200, 200]))
        self.assertIn("a has the highest median, 2.00 times b", found.sentence)

    def test_overlapping_spreads_have_no_clear_winner(self) -> None:
        found = self.verdict(fixture.family("w", "a", [400, 410, 430, 450, 460]),
                             fixture.family("w", "b", [440, 450, 455, 460, 470]))
        self.assertIsNone(found.winner)
        self.assertEqual(found.short, "no clear winner in w")
        self.assertIn("the spread of b overlaps its own (", found.sentence)

    def test_touching_spreads_overlap_and_separate_ones_do_not(self) -> None:
        touching = self.verdict(fixture.family("w", "a", [400, 410, 420]),
                                fixture.family("w", "b", [420, 430, 440]))
        self.assertIsNone(touching.winner)
        apart = self.verdict(fixture.family("w", "a", [400, 410, 420]),
                             fixture.family("w", "b", [420.5, 430, 440]))
        self.assertEqual(apart.winner, "a")

    def test_the_spread_of_a_third_counts_too(self) -> None:
        found = self.verdict(fixture.family("w", "a", [400, 401, 402]),
                             fixture.family("w", "b", [500, 501, 502]),
                             fixture.family("w", "c", [390, 600, 900]))
        self.assertIsNone(found.winner)
        self.assertIn("1.25 times b, but the spread of c overlaps", found.sentence)

    def test_single_runs_win_nothing(self) -> None:
        found = self.verdict(fixture.family("w", "a", [100]), fixture.family("w", "b", [900]))
        self.assertIsNone(found.winner)
        self.assertIn("without repetitions", found.sentence)

    def test_one_map_or_none_is_no_contest(self) -> None:
        alone = self.verdict(fixture.family("w", "a", fixture.around(400)),
                             fixture.family("w", "b", [fixture.UNAVAILABLE] * 5))
        self.assertIsNone(alone.winner)
        self.assertIn("only a was measured in w at 4 threads", alone.sentence.lower())
        none = self.verdict(fixture.family("w", "b", [fixture.UNAVAILABLE] * 5))
        self.assertEqual(none.sentence, "Nothing was measured in w.")

    def test_a_peer_that_wins_is_called_one(self) -> None:
        found = self.verdict(fixture.family("w", "ours", fixture.around(800)),
                             fixture.family("w", "theirs", fixture.around(400), kind="peer"))
        self.assertEqual(verdict.headline([found]), "The peer theirs won w, 2.00 times ours")

    def test_a_baseline_that_wins_is_called_one(self) -> None:
        found = self.verdict(fixture.family("w", "ticket", fixture.around(800)),
                             fixture.family("w", "locked_map", fixture.around(400)))
        self.assertEqual(verdict.headline([found]), "The baseline locked_map won w, 2.00 times ticket")

    def test_the_greatest_thread_count_decides(self) -> None:
        found = self.verdict(fixture.family("w", "a", fixture.around(100), threads=1),
                             fixture.family("w", "b", fixture.around(900), threads=1),
                             fixture.family("w", "a", fixture.around(100), threads=8),
                             fixture.family("w", "b", fixture.around(50), threads=8))
        self.assertEqual(found.winner, "b")
        self.assertIn("at 8 threads", found.sentence)

    def test_headline_counts_where_there_are_many_workloads(self) -> None:
        families = []
        for index, (a, b) in enumerate(((400, 900), (400, 900), (900, 400), (400, 401))):
            families += [fixture.family(f"w{index}", "a", fixture.around(a)),
                         fixture.family(f"w{index}", "b", fixture.around(b))]
        self.assertEqual(verdict.headline(verdict.verdicts(self.load(*families))),
                         "a won 2 of 4 workloads, b 1, 1 without a clear winner")

    def test_different_settings_are_said(self) -> None:
        found = self.verdict(fixture.family("w", "a", fixture.around(400), keys=100),
                             fixture.family("w", "b", fixture.around(900), keys=100000))
        self.assertIn("settings of these entries differ", found.sentence)


if __name__ == "__main__":
    unittest.main()
