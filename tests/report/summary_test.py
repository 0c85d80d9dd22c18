"""The first screen: where and how maps were compared, and the matrix of maps and workloads."""

from __future__ import annotations

import sys
import unittest
from typing import Any

sys.dont_write_bytecode = True

import fixture  # noqa: E402
from case import Case, Page  # noqa: E402
from espalier_report import results, summary, text  # noqa: E402

CAPTION = "over the best map of each workload"


class Conditions(Case):
    def said(self, document: fixture.Json) -> str:
        return summary.conditions(results.load([self.write(document)]))

    def test_machine_keys_threads_and_runs_are_one_line(self) -> None:
        line = "Example CPU (8 cores, 8 threads); 100,000 keys; 1 and 4 threads; 5 runs each"
        self.assertEqual(self.said(fixture.many_document()), line)
        self.assertEqual(self.page_of(fixture.many_document()).texts("p", **{"class": "facts"}), [line])

    def test_a_simulation_names_its_machine(self) -> None:
        document = fixture.simulated_document()
        rest = "; 100,000 keys; 1 and 40 threads; 1 run each"
        self.assertEqual(self.said(document), f"Simulated on e7_4850{rest}")
        document["context"]["machine"]["cores_per_socket"] = 10
        self.assertEqual(self.said(document), f"Simulated on e7_4850, 40 cores{rest}")

    def test_what_is_not_known_is_left_out(self) -> None:
        def changed(**facts: Any) -> str:
            document = fixture.document()
            document["context"] |= facts
            return self.said(document).partition(";")[0]

        self.assertEqual(changed(topology=text.UNAVAILABLE), "Example CPU (8 CPUs)")
        self.assertEqual(changed(topology=["odd"], num_cpus=None), "Example CPU")
        self.assertEqual(changed(cpu_model=text.UNAVAILABLE), "unknown processor (8 cores, 8 threads)")
        document = fixture.document()
        for entry in document["benchmarks"]:
            del entry["keys"]
        rest = "Example CPU (8 cores, 8 threads); 2 and 4 threads; 5 runs each"
        self.assertEqual(self.said(document), rest)
        for entry in document["benchmarks"]:
            entry |= {"mix": "trace", "distribution": "trace", "keys": 0}
        self.assertEqual(self.said(document), rest)

    def test_many_numbers_are_told_by_their_ends(self) -> None:
        families = [fixture.family("w", "a", fixture.around(400)[:count], threads, keys=10 ** keys)
                    for count, keys, threads in zip((3, 3, 4, 5, 5, 5, 5), range(3, 10), (1, 2, 4, 8, 16, 32, 64))]
        self.assertEqual(summary.conditions(self.load(*families)), "Example CPU (8 cores, 8 threads); 1,000 to "
                         "1,000,000,000 keys; 1 to 64 threads; 3, 4 and 5 runs each")

    def test_machines_of_several_files_are_named_once_each(self) -> None:
        paths = [self.write(fixture.document() | {"context": fixture.context() | {"cpu_model": model}}, f"{index}.json")
                 for index, model in enumerate(("One", "Other", "One"))]
        self.assertTrue(summary.conditions(results.load(paths)).startswith(
            "One (8 cores, 8 threads) and Other (8 cores, 8 threads); "))


class Matrix(Case):
    def rows(self, *families: list[fixture.Json]) -> list[list[str]]:
        return Page(f"<main>{''.join(map(str, summary.matrix(self.load(*families))[:1]))}</main>").rows()

    def test_a_row_a_map_and_a_column_a_workload(self) -> None:
        built = self.page_of()
        self.assertEqual(built.captioned(CAPTION), [
            ["Map", "read-mostly", "update-heavy", "Geometric mean"],
            ["edge_ext_lf", "1.00", "1.00", "1.00"], ["ticket", "0.77", "0.98", "0.87"],
            [fixture.NASTY, "0.67", "-", "-"], ["locked_std_map peer", "0.15", "-", "-"],
            ["absent_peer peer", "-", "-", "-"]])
        self.assertEqual(built.texts("caption")[0], "Throughput over the best map of each workload, at 4 threads")

    def test_the_best_is_marked_and_the_unmeasured_explained(self) -> None:
        built = self.page_of()
        self.assertEqual(built.texts("strong", **{"class": "best"}), ["1.00", "1.00"])
        self.assertEqual(len(built.all("span", title="not measured")), 4)
        notes = " ".join(built.texts("p", **{"class": "note"}))
        for words in ("1.00 is the best median of a workload, bold and shaded.", "Cells with - were not measured",
                      "Peers are maps of other libraries."):
            self.assertIn(words, notes)

    def test_baselines_and_peers_are_marked(self) -> None:
        built = self.page_of(fixture.many_document(4))
        names = [row[0] for row in built.captioned(CAPTION)]
        for name in ("locked_map baseline", "global_lock_bst/ttas baseline", "tbb_concurrent_map peer", "ticket"):
            self.assertIn(name, names)

    def test_rows_are_ordered_by_the_geometric_mean_and_incomplete_ones_stand_last(self) -> None:
        rows = self.rows(
            fixture.family("v", "even", fixture.around(200)), fixture.family("w", "even", fixture.around(200)),
            fixture.family("v", "odd", fixture.around(100)), fixture.family("w", "odd", fixture.around(900)),
            fixture.family("v", "half", fixture.around(110)),
            fixture.family("v", "fast", fixture.around(125)), fixture.family("w", "fast", fixture.around(100)))
        self.assertEqual(rows[1:], [["fast", "0.80", "1.00", "0.89"], ["even", "0.50", "0.50", "0.50"],
                                    ["odd", "1.00", "0.11", "0.33"], ["half", "0.91", "-", "-"]])

    def test_the_greatest_thread_count_decides_in_each_workload(self) -> None:
        rows = self.rows(
            fixture.family("v", "a", fixture.around(100), 1), fixture.family("v", "b", fixture.around(900), 1),
            fixture.family("v", "a", fixture.around(100), 8), fixture.family("v", "b", fixture.around(50), 8),
            fixture.family("w", "a", fixture.around(100), 2), fixture.family("w", "b", fixture.around(100), 2))
        self.assertEqual(rows[1:], [["b", "1.00", "1.00", "1.00"], ["a", "0.50", "1.00", "0.71"]])

    def test_what_is_nearly_the_best_or_nearly_nothing_says_so(self) -> None:
        rows = self.rows(fixture.family("w", "a", fixture.around(1000)), fixture.family("w", "b", fixture.around(1001)),
                         fixture.family("w", "c", fixture.around(900000)))
        self.assertEqual(rows, [["Map", "w"], ["a", "1.00"], ["b", "0.99"], ["c", "<0.01"]])

    def test_of_many_maps_the_best_are_shown_and_the_others_folded(self) -> None:
        built = self.page_of(fixture.many_document())
        first, rest = built.captioned(CAPTION), built.captioned("Throughput of the other maps")
        self.assertEqual((len(first), len(rest)), (1 + summary.SHOWN, 1 + 30 - summary.SHOWN))
        self.assertEqual(first[0], rest[0])
        means = [row[-1] for row in first[1:] + rest[1:] if row[-1] != "-"]
        self.assertEqual(means, sorted(means, reverse=True))
        self.assertEqual(rest[-1][0], "absl_shared_mutex peer")
        self.assertEqual(built.texts("summary")[0], "18 more maps")
        self.assertNotIn("6 more maps", self.page_of(fixture.many_document(6)).texts("summary"))
        self.assertEqual(len(self.page_of(fixture.many_document(6)).captioned(CAPTION)), 1 + summary.SHOWN)

    def test_heads_lead_to_the_charts(self) -> None:
        built = self.page_of(fixture.many_document())
        links = [attrs for attrs in built.all("a") if str(attrs["href"]).endswith("-title")]
        self.assertEqual([attrs["href"] for attrs in links[:4]], [f"#throughput-{index}-title" for index in range(4)])
        self.assertIn("95\u202f% scans of 1 to 100 entries", str(links[3]["title"]))

    def test_a_workload_without_throughput_has_no_column(self) -> None:
        document = fixture.document()
        document["latency"].append(fixture.latency("other", "a", 300))
        self.assertNotIn("other", self.page_of(document).captioned(CAPTION)[0])

    def test_one_map_alone_has_nothing_to_be_compared_with(self) -> None:
        self.assertIsNone(summary.matrix(self.load(fixture.family("w", "a", fixture.around(400)))))
        self.assertIsNone(summary.matrix(self.load(fixture.family("w", "a", [fixture.UNAVAILABLE] * 5),
                                                   fixture.family("w", "b", [fixture.UNAVAILABLE] * 5))))

    def test_a_simulation_has_one_too(self) -> None:
        built = self.page_of(fixture.simulated_document())
        self.assertEqual(built.captioned("Simulated throughput over the best map of each workload, at 40 threads"), [
            ["Map", "read-mostly", "scans", "Geometric mean"], ["ticket", "1.00", "1.00", "1.00"],
            [fixture.NASTY, "0.20", "-", "-"], ["locked_map baseline", "0.01", "-", "-"]])


class Order(Case):
    def test_title_conditions_matrix_cautions_and_sentences_follow_each_other(self) -> None:
        document = fixture.document()
        document["context"] |= {"library_build_type": "debug", "incomplete": True}
        built = self.page_of(document)
        marks = {"h1": ("h1", None), "facts": ("p", "facts"), "matrix": ("div", "scroll matrix"),
                 "cautions": ("ul", "cautions"), "verdicts": ("ul", "verdicts"), "nav": ("nav", None)}
        places = [next(index for index, (tag, attrs, _) in enumerate(built.elements)
                       if tag == wanted and class_ in (None, attrs.get("class"))) for wanted, class_ in marks.values()]
        self.assertEqual(places, sorted(places))


if __name__ == "__main__":
    unittest.main()
