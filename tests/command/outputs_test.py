#!/usr/bin/env python3
"""Where results go: files, devices, pipes, standard output; and what is kept when a run is interrupted."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import threading
import time
import unittest

from case import COMMAND, SIMULATOR, Case

BENCH = ("bench", "--maps", "ticket,locked_map", "--keys", "500", "--runs", "2", "--operations", "500", "--threads", "1")
SIMULATE = ("simulate", "--machine", "i7_4770", "--maps", "ticket", "--keys", "500", "--threads", "1",
            "--operations", "500")
INSPECT = ("inspect", "--map", "ticket", "--keys", "500")
COMMANDS = (BENCH, INSPECT, *([SIMULATE] if SIMULATOR else []))


def says_so(page: pathlib.Path) -> bool:
    return "the run was interrupted" in page.read_text()


class Outputs(Case):
    def test_a_device_is_written_to_and_not_replaced(self) -> None:
        device = self.folder / "null"
        try:
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
            device.write_bytes(b"")
        except PermissionError:
            self.skipTest("no device can be made here")
        for command, options in ((BENCH, ("--json", "--csv", "--record")), (INSPECT, ("--json", "--save"))):
            for option in options:
                with self.subTest(command=command[0], option=option):
                    done = self.ended(0, *command, option, "null")
                    self.assertTrue(device.is_char_device(), "it was replaced")

    def test_what_cannot_be_a_file_is_refused_and_no_folder_is_made_but_the_last_one_of_out(self) -> None:
        for option in "--json", "--csv", "--record", "--report":
            with self.subTest(option):
                done = self.ended(2, *BENCH, option, ".", *(["--json", "r.json"] if option == "--report" else []))
                self.assertIn("it is a folder", done.stderr)
        for options in ("--json", "a/r.json"), ("--record", "a/r"), ("--out", "a/b"), ("--hgrm", "a/b"):
            with self.subTest(options):
                done = self.ended(2, *BENCH, *options)
                self.assertIn("cannot write", done.stderr)
                self.assertEqual(list(self.folder.iterdir()), [])
        self.ended(0, *BENCH, "--out", "b", "--hgrm", "h")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["b", "h"])
        # A complete result is not marked.
        self.assertNotIn("incomplete", json.loads((self.folder / "b/results.json").read_text())["context"])
        self.assertFalse(says_so(self.folder / "b/report.html"))

    def test_standard_output_has_nothing_but_the_results(self) -> None:
        for command in COMMANDS:
            for name in "-", "/dev/stdout":
                with self.subTest(command=command[0], name=name):
                    done = self.ended(0, *command, "--json", name)
                    json.loads(done.stdout)
                    self.assertIn("ticket", done.stderr)
        records = self.espalier(*BENCH, "--record", "-").stdout.splitlines()
        self.assertGreater(len(records), 10)
        self.assertTrue(all(line.split()[0] in ("lookup", "insert", "erase") for line in records))
        done = self.ended(2, *BENCH, "--json", "-", "--csv", "-")
        self.assertIn("only one", done.stderr)
        for command in COMMANDS:
            with self.subTest(command=command[0], page=True):
                done = self.ended(0, *command, "--report", "-", "--json", "r.json")
                self.assertTrue(done.stdout.startswith("<!DOCTYPE html>") and done.stdout.endswith("</html>\n"))
                self.assertIn("ticket", done.stderr)
                self.assertEqual([one.name for one in self.folder.iterdir()], ["r.json"])

    def test_two_results_do_not_go_to_one_file(self) -> None:
        (self.folder / "link").symlink_to("x")
        (self.folder / "same").symlink_to(".")
        for command in COMMANDS:
            table = "--save" if command == INSPECT else "--csv"
            for first, second in (("./x", "x"), ("x", "link"), ("same/x", "x"), (str(self.folder / "x"), "x")):
                for options in ("--json", table), (table, "--report"), *([("--json", "--record")] if command == BENCH else []):
                    with self.subTest(command=command[0], options=options, names=(first, second)):
                        results = ("--json", "z") if command != INSPECT and "--json" not in options else ()
                        done = self.ended(2, *command, options[0], first, options[1], second, *results)
                        self.assertIn("two outputs", done.stderr)
                        self.assertFalse((self.folder / "x").exists())
        with open(self.folder / "x", "w") as out:
            self.assertIn("two outputs", self.ended(2, *INSPECT, "--json", "x", "--save", "-", stdout=out).stderr)
        keys = self.folder / "keys"
        keys.write_text("1\n2\n")
        for option in ("--json", "--record"):
            said = self.ended(2, "bench", "--maps", "ticket", "--keys-from", "keys", option, "./keys").stderr
            self.assertIn("keys is read, and results would replace it", said)
            self.assertEqual(keys.read_text(), "1\n2\n")
        self.ended(0, *INSPECT, "--json", "/dev/null", "--save", "/dev/null")
        self.ended(0, *INSPECT, "--json", "x", "--save", "y")

    def test_what_is_in_the_way_of_a_file_or_folder_is_said(self) -> None:
        (self.folder / "file").write_text("")
        nothing = "nothing can be made in /proc" if os.geteuid() == 0 else "Permission denied"
        for command, option, name, said in (
                (BENCH, "--json", "/proc/x.json", nothing),
                (BENCH, "--out", "/proc/x", nothing),
                (BENCH, "--json", "no/x.json", "there is no folder no"),
                (BENCH, "--out", "no/x", "there is no folder no"),
                (BENCH, "--out", "file", "it is a file"), (BENCH, "--out", "file/x", "Not a directory")):
            with self.subTest(option=option, name=name):
                self.assertIn(f"{name}: {said}; name", self.ended(2, *command, option, name).stderr)

    def test_lost_results_and_lost_output_are_a_failure(self) -> None:
        for command in COMMANDS:
            with self.subTest(command=command[0], lost="results"):
                done = self.ended(1, *command, "--json", "/dev/full")
                self.assertIn("No space left on device", done.stderr)
        with open("/dev/full", "w") as full:
            for command in (*COMMANDS, ("list",), ("--help",), ("bench", "--help"), ("--version",)):
                with self.subTest(command=command, lost="standard output"):
                    done = self.ended(1, *command, stdout=full)
                    self.assertIn("standard output failed", done.stderr)

    def test_a_closed_pipe_ends_the_table_and_not_the_results(self) -> None:
        for command in COMMANDS:
            with self.subTest(command[0]):
                reader, writer = os.pipe()
                os.close(reader)
                done = self.espalier(*command, "--json", "r.json", stdout=writer)
                os.close(writer)
                self.assertEqual(done.returncode, 0, done.stderr)
                json.loads((self.folder / "r.json").read_text())
        # With nothing else to write there is nothing to go on for.
        reader, writer = os.pipe()
        os.close(reader)
        self.assertEqual(self.espalier(*BENCH, stdout=writer).returncode, -signal.SIGPIPE)
        os.close(writer)


    def test_a_closed_stream_is_no_file_of_results(self) -> None:
        for command in COMMANDS:
            for closed, status in (("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- >&- 2>&-", 1)):
                with self.subTest(command[0], closed=closed):
                    self.ended(status, *command, "--json", "r.json", under=("sh", "-c", f'exec "$@" {closed}', "sh"))
                    json.loads((self.folder / "r.json").read_text())


class Interrupted(Case):
    def interrupted(self, *arguments: str, after: str, by: int = signal.SIGINT,
                    again: bool = False) -> tuple[int, str]:
        """Status and standard error of a command that gets a signal once it has said something; or more of them, until it has
        ended."""
        with subprocess.Popen([COMMAND, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            # Where it does not end by itself.
            guard = threading.Timer(7200, lambda: os.killpg(process.pid, signal.SIGKILL))
            guard.start()
            self.addCleanup(guard.cancel)
            said = ""
            while after not in said:
                line = process.stderr.readline()
                self.assertTrue(line, said)
                said += line
            os.killpg(process.pid, by)
            while again and process.poll() is None:
                time.sleep(0.1)
                os.killpg(process.pid, by)
            said += process.stderr.read()
            return process.wait(), said

    def test_the_runs_so_far_are_written_and_marked(self) -> None:
        bench = ("bench", "--maps", "ticket,locked_map", "--keys", "500", "--runs", "200", "--time", "0.02", "--threads", "1")
        for by, *out in (signal.SIGINT, "--out", "."), (signal.SIGTERM, "--json", "results.json"):
            with self.subTest(by):
                status, said = self.interrupted(*bench, *out, after="10%", by=by)
                self.assertEqual(status, 128 + by, said)
                self.assertIn("interrupted", said)
                results = json.loads((self.folder / "results.json").read_text())
                self.assertIs(results["context"]["incomplete"], True)
                runs = [b for b in results["benchmarks"] if b["run_type"] == "iteration"]
                self.assertGreater(len(runs), 20)
                self.assertLess(len(runs), 400)
        self.assertTrue(says_so(self.folder / "report.html"))

    def test_a_request_that_comes_twice_is_one(self) -> None:
        """As from timeout, which sends its signal to the program and then to its group."""
        while True:
            (self.folder / "r.json").unlink(missing_ok=True)
            with subprocess.Popen([COMMAND, "bench", "--maps", "ticket", "--keys", "500", "--runs", "2000", "--time", "0.02",
                                   "--threads", "1", "--json", "r.json"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as process:
                while "run" not in process.stderr.readline():
                    pass
                began = time.monotonic()
                process.send_signal(signal.SIGTERM)
                while "interrupted" not in process.stderr.readline():  # two at once would be one
                    pass
                process.send_signal(signal.SIGTERM)
                took = time.monotonic() - began
                process.stderr.read()
            if took < 0.2:
                break
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertIs(json.loads((self.folder / "r.json").read_text())["context"]["incomplete"], True)

    def test_a_long_run_ends_too_and_leaves_no_file(self) -> None:
        for by, after, *command in (
                (signal.SIGINT, "warm up", "bench", "--maps", "ticket", "--keys", "500", "--runs", "2", "--time", "3000"),
                (signal.SIGTERM, "0%", *(["simulate", "--operations", "100000000"] if SIMULATOR else ["bench"]))):
            with self.subTest(command):
                status, said = self.interrupted(*command, "--json", "r.json", after=after, by=by)
                self.assertEqual(status, 128 + by, said)
                self.assertEqual(list(self.folder.iterdir()), [], "there is no complete run")

    def test_a_study_without_a_measurement_makes_no_page(self) -> None:
        for study, *long in ("atc18", "--time", "3000"), ("oltp", "--operations", "1000000000"):
            with self.subTest(study):
                status, said = self.interrupted("bench", "--study", study, "--keys", "500", "--threads", "1", *long,
                                                "--out", study, after="0%")
                self.assertEqual(status, 130, said)
                self.assertNotIn("no report was written", said)
                self.assertEqual([file.name for file in (self.folder / study).iterdir()], [f"{study}.json"])

    def test_the_second_signal_ends_it_at_once(self) -> None:
        status, _ = self.interrupted("bench", "--maps", "ticket", "--keys", "500", "--operations", "1000000000000",
                                     "--json", "r.json", after="warm up", again=True)
        self.assertEqual(status, -signal.SIGINT)
        self.assertEqual(list(self.folder.iterdir()), [])

    @unittest.skipUnless(SIMULATOR, "this build has no simulator")
    def test_simulations_keep_what_they_have(self) -> None:
        status, said = self.interrupted("simulate", "--machine", "i7_4770", "--maps", "ticket,ext_lf", "--keys", "500",
                                        "--threads", "1,2,3,4,5,6,7,8", "--operations", "60000", "--json", "r.json",
                                        after="10%")
        self.assertEqual(status, 130, said)
        results = json.loads((self.folder / "r.json").read_text())
        self.assertIs(results["context"]["incomplete"], True)
        self.assertIn(len(results["benchmarks"]), range(1, 16))

    def test_studies_keep_what_they_have(self) -> None:
        status, said = self.interrupted("bench", "--study", "malloc-speed", "--mallocs", "glibc,index-aware", "--runs",
                                        "3", "--out", "s", after="xmalloc")
        self.assertEqual(status, 130, said)
        results = json.loads((self.folder / "s/malloc-speed.json").read_text())
        self.assertIs(results["context"]["incomplete"], True)
        self.assertTrue(results["benchmarks"])
        self.assertTrue(says_so(self.folder / "s/index.html"))

    @unittest.skipUnless(SIMULATOR, "this build has no simulator")
    def test_simulated_studies_judge_only_whole_pages(self) -> None:
        status, said = self.interrupted("simulate", "--study", "eunomia", "--keys", "500", "--threads", "1,2",
                                        "--operations", "1500", "--out", "s", after="10%")
        self.assertEqual(status, 130, said)
        results = json.loads((self.folder / "s/eunomia.json").read_text())
        self.assertIs(results["context"]["incomplete"], True)
        last = results["study"]["figures"][-1]
        self.assertTrue(last["charts"])
        self.assertEqual(last["findings"], [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
