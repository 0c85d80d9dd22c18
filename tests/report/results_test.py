"""What is read out of result files."""

from __future__ import annotations

import sys
import unittest

sys.dont_write_bytecode = True

import fixture  # noqa: E402
from case import Case  # noqa: E402
from espalier_report import results  # noqa: E402


class Reading(Case):
    def test_medians_are_computed_where_aggregates_are_missing(self) -> None:
        entries = [entry for entry in fixture.family("w", "a", [500, 100, 200])
                   if entry["run_type"] == "iteration"]
        measured = self.load(entries).measurements[0]
        self.assertEqual(measured.wall, results.Spread(200, 100, 500))
        self.assertEqual(measured.repetitions, 3)

    def test_stated_aggregates_are_taken(self) -> None:
        entries = [entry for entry in fixture.family("w", "a", [500, 100, 200])
                   if entry["run_type"] == "aggregate"]
        measured = self.load(entries).measurements[0]
        self.assertEqual(measured.wall, results.Spread(200, 100, 500))
        self.assertEqual(measured.bytes_per_key, 64)

    def test_units_become_nanoseconds(self) -> None:
        measured = self.load(fixture.family("w", "a", [3.0, 1.0, 2.0], time_unit="us"))
        self.assertEqual(measured.measurements[0].wall, results.Spread(2000, 1000, 3000))

    def test_throughput_turns_the_spread_round(self) -> None:
        throughput = self.load(fixture.family("w", "a", [500, 100, 250])).measurements[0].throughput
        self.assertEqual(throughput, results.Spread(4e6, 2e6, 1e7))

    def test_failed_entries_are_unavailable(self) -> None:
        measured = self.load(fixture.family("w", "a", [1, 2, 3], error_occurred=True))
        self.assertIsNone(measured.measurements[0].wall)

    def test_placements_of_one_map_get_their_own_names(self) -> None:
        loaded = self.load(fixture.family("w", "a", fixture.around(400), placement="shared_heap"),
                           fixture.family("w", "a", fixture.around(300), placement="segregated"))
        self.assertEqual([m.label for m in loaded.measurements],
                         ["a (shared_heap)", "a (segregated)"])

    def test_latencies_follow_their_placement(self) -> None:
        placements = ("shared_heap", "segregated")
        loaded = self.load(
            *(fixture.family("w", "a", fixture.around(400), placement=p) for p in placements),
            latency=[{**fixture.latency("w", "a", 300), "placement": p} for p in placements])
        self.assertEqual([entry.label for entry in loaded.latencies],
                         ["a (shared_heap)", "a (segregated)"])

    def merged(self, first: str, second: str, *, second_map: str = "a",
               threads: int = 4) -> results.Results:
        one = {"context": fixture.context(),
               "benchmarks": fixture.family("w", "a", fixture.around(400)),
               "latency": [fixture.latency("w", "a", 300)]}
        two = {"context": fixture.context(),
               "benchmarks": fixture.family("w", second_map, fixture.around(500), threads),
               "latency": [fixture.latency("w", second_map, 300, threads)]}
        return results.load([self.write(one, first), self.write(two, second)])

    def test_files_are_merged_without_suffix_where_nothing_clashes(self) -> None:
        for loaded in (self.merged("x.json", "y.json", second_map="b"),
                       self.merged("x.json", "y.json", threads=8)):
            self.assertEqual(len(loaded.measurements), 2)
            self.assertFalse([m.label for m in loaded.measurements if "json" in m.label])
            self.assertFalse([e.label for e in loaded.latencies if "json" in e.label])

    def test_clashing_maps_carry_the_file_name(self) -> None:
        loaded = self.merged("x.json", "y.json")
        self.assertEqual([m.label for m in loaded.measurements], ["a (x.json)", "a (y.json)"])
        self.assertEqual([e.label for e in loaded.latencies], ["a (x.json)", "a (y.json)"])

    def test_files_of_one_name_carry_their_paths(self) -> None:
        labels = [m.label for m in self.merged("one/r.json", "two/r.json").measurements]
        self.assertEqual(len(set(labels)), 2)
        self.assertIn("one/r.json", labels[0])

    def test_a_file_given_twice_is_numbered(self) -> None:
        path = self.write(fixture.document())
        loaded = results.load([path, path])
        self.assertIn("#1", loaded.files[0])
        self.assertEqual(len({(m.workload, m.label, m.threads) for m in loaded.measurements}),
                         len(loaded.measurements))


if __name__ == "__main__":
    unittest.main()
