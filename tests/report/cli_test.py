"""The command: its errors, its exit codes, its files, and the library that a page carries."""

from __future__ import annotations

import contextlib
import io
import math
import os
import pathlib
import stat
import subprocess
import unittest
from typing import Any

import fixture
from case import COMMAND, Case, has_plotly
from espalier_report import cli, plotly_bundle


class Command(Case):
    """The command: its errors, its exit codes, its files."""

    def run_main(self, *arguments: str | os.PathLike[str]) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main([str(argument) for argument in arguments])
            except SystemExit as stop:
                code = int(stop.code or 0)
        return code, out.getvalue(), err.getvalue()

    def refused(self, document: Any, *expected: str) -> None:
        source, target = self.write(document), self.folder / "report.html"
        target.write_text("before", encoding="utf-8")
        self.complains([source, "-o", target], *expected)
        self.assertEqual(target.read_text(encoding="utf-8"), "before")

    def complains(self, arguments: list[Any], *expected: str) -> None:
        before = sorted(self.folder.rglob("*"))
        code, out, err = self.run_main(*arguments)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        for words in expected:
            self.assertIn(words, err)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_what_is_no_result_file(self) -> None:
        self.complains([self.folder / "none.json"], "none.json: cannot be read (No such file", "espalier bench")
        self.complains([self.folder], "cannot be read (Is a directory)")
        path = self.folder / "results.json"
        path.write_bytes(b"\xff\xfe\x00{")
        self.complains([path], "is not UTF-8 text")
        self.refused("hello", "results.json: is not JSON (line 1, column 1")
        self.refused("", "is not JSON")
        self.refused("[" * 100000, "nested too deeply")
        self.refused("[]", "is JSON but no object")
        self.refused({}, "'context' must be an object")
        self.refused({"context": {}}, "'benchmarks' must be a list of objects")
        self.refused({"context": {}, "benchmarks": []}, "at least one entry")
        self.refused({"context": {}, "benchmarks": [{"name": "BM_x", "run_type": "iteration"}]},
                     "'benchmarks[0].workload' must be a name", "espalier bench")

    def test_contradictions_and_wrong_values_are_named(self) -> None:
        document = fixture.document()
        for whole, again, words in (("benchmarks", 5, "must not be a second median"), ("latency", 0, "must occur once")):
            self.refused({**document, whole: [*document[whole], document[whole][again]]}, words)
        self.refused(fixture.put(document, {"benchmarks[5].real_time": 9e9}), "between its min and max")
        at = "benchmarks[0]"
        self.refused_at(
            fixture.document, *((f"{at}.threads", bad, "' must be a positive whole number") for bad in (0, True)),
            (f"{at}.kind", "other", "' must be 'espalier' or 'peer'"),
            (f"{at}.time_unit", "h", "' must be one of ns, us, ms, s"),
            *((f"{at}.real_time", bad, "' must be a positive number or \"unavailable\"")
              for bad in (0, -1, "fast", math.nan, 10 ** 400)),
            (f"{at}.cpu_time", math.inf, "' must be a non-negative number"),
            *((f"{at}.{key}", bad, "' is no time of an operation") for key in ("real_time", "cpu_time") for bad in (1e-320, 1e300)),
            (f"{at}.run_type", "guess", "' must be 'iteration' or 'aggregate'"), (f"{at}.map", " ", "' must be a name"),
            ("benchmarks[5].transactions", 1, "' must be an object of regions or \"unavailable\""),
            ("benchmarks[5].transactions", {"upper": 1}, ".upper' must be an object of counts"),
            ("benchmarks[5].transactions", {"upper": {}}, ".upper.commits' must be a non-negative number"),
            *(("latency[0].curve", bad, "' must be a list of")
              for bad in ([[1.5, 3]], [[0.5]], "steep", [[0.5, -1]], [["a", 1]])))

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_unwritable_output(self) -> None:
        source = self.write(fixture.document())
        folder = self.folder / "folder"
        folder.mkdir()
        self.complains([source, "-o", self.folder / "no" / "r.html"], "cannot be written (No such")
        self.complains([source, "-o", source / "r.html"], "cannot be written (Not a directory)")
        self.complains([source, "-o", folder], "is no regular file")
        self.complains([source, "-o", "/dev/null"], "is no regular file")
        self.complains([source, "-o", source], "is one of the results")
        self.complains([source, "-o", ""], "-o names no file")
        self.complains([self.write(fixture.study_document(), "study.json"), "-o", "-"], "a study has several")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_the_line_of_a_page_counts_what_it_has(self) -> None:
        charts_alone = fixture.charted_document(simulated=True)
        # As entries of the studies of runtimes and databases are.
        charts_alone["benchmarks"] = [
            {key: entry[key] for key in ("name", "run_type", "threads", "iterations", "real_time", "cpu_time", "time_unit",
                                         "simulated")} | {"technique": "DPS"} for entry in charts_alone["benchmarks"]]
        for document, has in ((fixture.study_document(), "2 figures, 1 workload, 4 maps"),
                              (fixture.charted_document(), "2 figures, 24 measurements"), (charts_alone, "2 figures")):
            code, out, _ = self.run_main(self.write(document), "-o", self.folder / "report.html")
            self.assertEqual(code, 0)
            self.assertRegex(out, rf": {has}, [0-9.]+ MB\n")

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_a_full_disk_is_no_fault_of_the_request(self) -> None:
        source = self.write(fixture.document())
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([*COMMAND, str(source), "-o", "-"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("failed (No space left on device)", done.stderr)
        self.assertNotIn("give -o", done.stderr)

    def test_missing_library_names_the_package(self) -> None:
        source = self.write(fixture.document())
        known, plotly_bundle.DEBIAN = plotly_bundle.DEBIAN, pathlib.Path("/nowhere/plotly.js")
        find_spec = plotly_bundle.importlib.util.find_spec
        plotly_bundle.importlib.util.find_spec = lambda _: None
        try:
            self.complains([source, "-o", self.folder / "r.html"], "apt-get install python3-plotly")
        finally:
            plotly_bundle.DEBIAN, plotly_bundle.importlib.util.find_spec = known, find_spec

    def test_usage_errors_and_help(self) -> None:
        self.assertEqual(self.run_main()[0], 2)
        self.assertEqual(self.run_main("--nonsense", "x")[0], 2)
        code, out, _ = self.run_main("--help")
        self.assertEqual(code, 0)
        for words in ("espalier bench", "examples:", "-o report.html", "exit status",
                      "Several files", "default: report.html"):
            self.assertIn(words, out)

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_runs_as_a_folder_and_writes_the_whole_page_or_fails_in_one_line(self) -> None:
        source, target = self.write(fixture.document()), self.folder / "report.html"
        target.write_text("before", encoding="utf-8")
        done = subprocess.run([*COMMAND, str(source), "-o", str(target)], capture_output=True,
                              text=True, check=False, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("2 workloads, 5 maps", done.stdout)
        html = target.read_text(encoding="utf-8")
        self.assertTrue(html.startswith("<!DOCTYPE html>") and html.endswith("</html>\n"))
        self.assertIn("plotly.js v", html)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["report.html", "results.json"])
        done = subprocess.run([*COMMAND, str(source), "-o", "-"], capture_output=True, text=True, check=False,
                              cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (0, html))
        self.assertIn("2 workloads, 5 maps", done.stderr)
        done = subprocess.run([*COMMAND, "none.json"], capture_output=True, text=True, check=False, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))


class Library(unittest.TestCase):
    """The part of the plotting library that a page carries."""

    TABLE = ("/* Copyright someone */\n(function(){var x;return r})()"
             + plotly_bundle.HEAD
             + "'use strict'; // kept\n  // dropped\n  module.exports = 'bar';\n"
             + "},{}],2:[function(_dereq_,module,exports){\nmodule.exports = 'unused';\n"
             + "},{}],3:[function(_dereq_,module,exports){\n/* dropped\n   too */\ncore();\n"
             + "},{\"./dep\":4}],4:[function(_dereq_,module,exports){\n"
             + "/* MIT License */\nvar s = '/* text */';\n"
             + "},{}],5:[function(_dereq_,module,exports){\nall();\n"
             + "},{\"./bar\":1,\"./core\":3,\"./other\":2}]},{},[5])(5)\n});\n")

    def test_keeps_what_is_reached_and_drops_the_rest(self) -> None:
        reduced = plotly_bundle.reduced(self.TABLE) or ""
        for kept in ("'bar'", "core();", "'/* text */'", "MIT License", "Copyright someone",
                     "'use strict'; // kept", "_dereq_('./core')", "},{},[5])(5)\n});"):
            self.assertIn(kept, reduced)
        for gone in ("unused", "all();", "dropped"):
            self.assertNotIn(gone, reduced)

    def test_another_form_is_left_whole(self) -> None:
        for other in ("", "!function(){minified()}();", self.TABLE.replace("],4:[", "],9:["),
                      self.TABLE.replace("./bar", "./baz"),
                      self.TABLE.replace('"./dep":4', '"./dep":77')):
            self.assertIsNone(plotly_bundle.reduced(other))

    def test_has_a_name_with_its_version_and_cannot_end_its_script_element(self) -> None:
        self.assertEqual(plotly_bundle.file_name("/**\n* plotly.js v2.35.2\n*/"), "plotly-2.35.2.js")
        self.assertEqual(plotly_bundle.file_name("something else"), "plotly.js")
        self.assertEqual(plotly_bundle.as_inline_script("'</script><!--'"), "'<\\/script><\\!--'")

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_the_installed_one_fits_a_mail(self) -> None:
        source = plotly_bundle.load()
        self.assertLess(len(source), 5_000_000)
        self.assertIn("plotly.js v", source)
        self.assertNotIn("</script", source)


if __name__ == "__main__":
    unittest.main()
