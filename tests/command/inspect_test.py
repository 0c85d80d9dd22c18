#!/usr/bin/env python3
"""espalier inspect: layouts of maps, of models and from files, conditions on them, and what it refuses."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import unittest

import servers
from case import COMMAND, LIBRARIES, LONG, Case, compiled

KEYS = "40000"


class InspectTest(Case):
    def analysis(self, *arguments: str, status: int = 0) -> dict:
        """What it writes of what it was asked to look at; its words, and the facts by name."""
        self.done = self.espalier("inspect", "--json", "layout.json", *arguments)
        self.assertEqual(self.done.returncode, status, self.done.stderr)
        analysis = json.loads((self.folder / "layout.json").read_text())
        self.facts = {fact["name"]: fact["value"] for fact in analysis["facts"]}
        return analysis

    def type_of(self, analysis: dict, name: str) -> dict:
        return next(one for one in analysis["types"] if one["name"] == name)

    def refuses(self, expected: str, *arguments: str) -> None:
        self.assertIn(expected, self.refused("inspect", *arguments))


class Models(InspectTest):
    """Their figures are tested in tests/inspect/findings_test.cpp."""

    @unittest.skipUnless(LONG, "of the long form")
    def test_are_shown_one_after_the_other(self) -> None:
        lines = self.ended(0, "inspect", "--model", "all", "--machine", "haswell").stdout.splitlines()
        shown = [line for line in lines if line.startswith("MODEL ")]
        self.assertTrue(shown[0].startswith("MODEL ndnd:") and shown[1].startswith("MODEL ndnd-"), shown)
        self.assertTrue(any(line.startswith("MODEL rwn:") for line in shown), shown)

    def test_are_allocated_for_real_where_a_placement_is_named(self) -> None:
        self.refuses("there is no placement 'nosuch'", "--model", "ycsb-48", "--placement", "nosuch")
        node = self.type_of(self.analysis("--model", "ndnd", "--placement", "segregated"), "node")
        self.assertEqual((node["bytes_asked"], node["bytes_held"]), (64 * node["blocks"],) * 2)
        self.assertEqual(node["pages"]["mixed_pages"], 0)
        self.assertIn("allocated by: segregated", self.done.stdout)

    def test_several_jemallocs_keep_apart_what_one_mixes(self) -> None:
        several = ("--model", "ndnd", "--placement", "jemalloc_arenas")
        if b"libjemalloc" not in subprocess.run(["ldd", COMMAND], check=True, capture_output=True).stdout:
            self.refuses("there is no placement 'jemalloc_arenas'", *several)
            return
        one = self.type_of(self.analysis("--model", "ndnd", "--placement", "shared_heap"), "node")
        self.assertGreater(one["mixed"]["in_pair"], one["blocks"] / 2)
        node = self.type_of(self.analysis(*several), "node")
        self.assertEqual((node["bytes_held"], node["mixed"]["in_page"]), (64 * node["blocks"], 0))

    def test_what_cannot_be_looked_at_is_refused(self) -> None:
        self.refuses("ndnd-paged", "--model", "nothing")
        self.refuses("haswell", "--model", "ndnd", "--machine", "nothing")
        self.refuses("--report has no effect with --model=all", "--model", "all", "--report", "page.html")
        self.refuses("nothing", "--model", "ndnd", "--assert", "nothing<5%")
        self.refuses("one thing to look at")
        self.refuses("one thing to look at", "--map", "ticket", "--model", "ndnd")


class Maps(InspectTest):
    def node_of(self, map_: str, *options: str) -> dict:
        return self.type_of(self.analysis("--map", map_, "--keys", KEYS, "--threads", "1", *options), "node")

    def test_nodes_beside_descriptors_or_apart(self) -> None:
        node = self.node_of("int_lf/studied")
        self.assertEqual(node["blocks"], int(KEYS))
        self.assertEqual(self.facts["filled with"], f"{KEYS} keys by 1 thread")
        self.assertEqual(node["bytes_asked"], 64 * int(KEYS))
        beside = next(one for one in node["neighbours"] if one["type"] == "descriptor")
        self.assertGreater(beside["in_pair"], 0.9 * int(KEYS))
        apart = self.node_of("int_lf/studied", "--placement", "segregated")
        self.assertEqual(apart["mixed"], {"in_line": 0, "in_pair": 0, "in_page": 0})
        self.assertEqual(apart["bytes_held"], 64 * int(KEYS))
        self.assertEqual(apart["pages"]["mixed_pages"], 0)

    def test_one_block_more_puts_children_into_their_parents_line_or_out_of_it(self) -> None:
        # Which of the two does depends on how many blocks of 32 bytes the thread has allocated before, libc's included.
        shares = {}
        for placement in ("shared_heap", "shifted"):
            node = self.node_of("edge_ext_lf", "--placement", placement)
            leaves = next(one for one in node["children"] if one["type"] == "leaf")
            # Of random keys two thirds of the routers have a leaf below them.
            self.assertAlmostEqual(leaves["parents"] / int(KEYS), 2 / 3, delta=0.02)
            if node["strides"]["most"][0]["value"] != 64:
                self.skipTest("this malloc does not lay blocks of 32 bytes end to end")
            shares[placement] = (leaves["in_line"] / leaves["parents"], leaves["in_pair"] / leaves["parents"])
        out_of_step, in_step = sorted(shares.values())
        for share, expected in zip(out_of_step + in_step, (0, 3 / 8, 3 / 4, 0)):
            self.assertAlmostEqual(share, expected, delta=0.01, msg=str(shares))

    def test_unknown_names_are_refused_with_those_there_are(self) -> None:
        self.refuses("ticket", "--map", "nothing")
        self.refuses("segregated", "--map", "ticket", "--placement", "nothing")
        self.refuses("these can", "--map", "ticket/published")
        self.refuses("one map", "--map", "all")


class Pages(InspectTest):
    """What the pages say is tested in tests/report."""

    def test_and_files_of_one_layout_say_the_same(self) -> None:
        first = self.analysis("--map", "int_lf/studied", "--keys", "2000", "--save", "saved", "--report", "page.html",
                              "--assert", "crossing<1%")
        html = (self.folder / "page.html").read_text(encoding="utf-8")
        self.assertTrue(html.startswith("<!DOCTYPE html>") and html.endswith("</html>\n"))
        self.assertIn("<h1>int_lf/studied/shared_heap: ", html)
        self.assertIn("wrote page.html\n", self.done.stdout)
        again = self.analysis("--file", "saved", "--report", "again.html", "--assert", "crossing<1%")
        self.assertEqual(again, first)
        self.assertEqual((self.folder / "again.html").read_text(encoding="utf-8"), html)
        self.assertEqual(self.ended(0, "report", "layout.json", "-o", "-").stdout, html)
        self.assertEqual(sorted(one.name for one in self.folder.iterdir()),
                         ["again.html", "layout.json", "page.html", "saved"])

    def test_are_there_though_a_condition_does_not_hold(self) -> None:
        done = self.ended(1, "inspect", "--model", "ndnd", "--machine", "haswell", "--report", "page.html", "--assert",
                          "crossing<1%,unused_l2<5%")
        self.assertIn("1 of 2 conditions do not hold", done.stderr)
        self.assertIn("50", next(line for line in done.stdout.splitlines() if "unused_l2<5%" in line))
        html = (self.folder / "page.html").read_text(encoding="utf-8")
        self.assertIn("<h1>MODEL ndnd: ", html)
        self.assertIn('<span class="badge differs">fails</span>', html)

    def test_what_cannot_be_written_is_refused_before_anything_is_done(self) -> None:
        (self.folder / "file").write_text("")
        (self.folder / "folder").mkdir()
        before = sorted(self.folder.rglob("*"))
        for option, target in (("--report", "file/page.html"), ("--report", "folder"), ("--report", "/proc/page.html"),
                               ("--json", "file/layout.json")):
            for what in (("--map", "edge_ext_lf"), ("--", "/usr/bin/python3", "-c", "print('ran')")):
                with self.subTest(target=target, what=what):
                    done = self.espalier("inspect", option, target, *what)
                    self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                    self.assertIn(target, done.stderr)
                    self.assertEqual(sorted(self.folder.rglob("*")), before)


class Programs(InspectTest):
    def test_keep_their_output_and_their_status_which_comes_before_that_of_a_condition(self) -> None:
        for script, status, judged in (("echo fine; exit 7", 7, 7), ("echo fine", 0, 1), ("kill -ABRT $$", 128 + 6, 128 + 6),
                                       ("kill -TERM $$", 128 + 15, 128 + 15)):
            for condition, expected in ((), status), (("--assert", "pages<1"), judged):
                with self.subTest(script, condition=condition):
                    done = self.ended(expected, "inspect", *condition, "--", "sh", "-c", script)
                    self.assertEqual(done.stdout, "fine\n" if "fine" in script else "")

    def test_show_their_heap_on_standard_error_and_in_files(self) -> None:
        self.assertGreater(self.analysis("--", "/usr/bin/python3", "-c", "print('fine')")["blocks"], 0)
        self.assertEqual(self.done.stdout, "fine\n")
        self.assertIn("python3", self.done.stderr)
        facts = self.facts
        self.assertRegex(facts["heap"], r"^at its peak: [\d.]+ .?B in \d+ blocks, [\d.]+ % of the \d+ allocations recorded")
        self.assertEqual(facts["taken at"], "peak")
        self.assertIn("bytes named", facts["names"])
        self.assertRegex(facts["recorded"], r"^(\d+) of \1 allocations \(100.0 %\)")
        # No snapshot is left behind, no table of one look, and no words with which a terminal waits.
        self.assertEqual([one.name for one in self.folder.iterdir()], ["layout.json"])
        for words in ("from look to look", "%]", "0%:"):
            self.assertNotIn(words, self.done.stderr)

    def test_a_sample_says_how_large_it_is(self) -> None:
        script = "blocks = [bytearray(5000) for _ in range(3000)]; import os; os._exit(0)"
        analysis = self.analysis("--sample", "blocks:10", "--", "/usr/bin/python3", "-c", script)
        self.assertEqual(self.facts["sampling"], "blocks:10")
        share = float(re.search(r"\((\d+\.\d) %\)", self.facts["recorded"]).group(1))
        self.assertAlmostEqual(share, 10, delta=2)
        large = sum(one["blocks"] for one in analysis["types"] if one["name"].startswith("PyByteArray_Resize"))
        self.assertAlmostEqual(large, 300, delta=80)

    def test_programs_that_it_starts_are_not_taken_for_it(self) -> None:
        starts = "/usr/bin/python3 -c pass; %s"
        killed = ("--follow", "all", "--", "sh", "-c", starts % "kill -KILL $$")
        done = self.ended(128 + signal.SIGKILL, "inspect", "--at", "end", *killed)
        self.assertIn("the program left no snapshot", done.stderr)
        done = self.ended(128 + signal.SIGKILL, "inspect", *killed)
        self.assertNotIn("python3:", done.stderr)
        done = self.ended(0, "inspect", "--follow", "all", "--", "sh", "-c", starts % "exec sort /dev/null")
        self.assertRegex(done.stderr, r"^process \d+, \S*/sort: \d+ blocks")

    def test_leave_a_snapshot_though_they_give_up_their_rights(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        script = "import os; before = bytearray(2**22); os.setgid(65534); os.setuid(65534); after = bytearray(2**23)"
        for moment in ("peak", "end"):
            self.analysis("--at", moment, "--", "/usr/bin/python3", "-c", script)
            self.assertIn("python3", self.done.stderr)

    def test_are_those_that_a_script_becomes(self) -> None:
        script = self.folder / "shim"
        for line in ("exec", "exec /usr/bin/env sh -c 'exec \"$@\"' sh"):
            script.write_text(f"#!/bin/sh\n{line} /usr/bin/printenv \"$@\"\n")
            script.chmod(0o755)
            analysis = self.analysis("--", "./shim", "LD_PRELOAD", status=1)
            self.assertRegex(analysis["subject"], r"^process \d+, /usr/bin/printenv$")
            self.assertEqual(self.done.stdout, "", "what it starts has no library of ours")

    def test_have_the_names_by_which_they_were_started(self) -> None:
        program = compiled("#include <stdlib.h>\nint main(void) { return malloc(9) == NULL; }")
        (self.folder / "server").symlink_to(program)
        for started in ("./server", str(self.folder / "server")):
            self.assertRegex(self.analysis("--", started)["subject"], rf"^process \d+, {self.folder}/server$")


class Peaks(InspectTest):
    """A program's heap is shown at its peak, and at its end where it was largest then or where that is asked for."""

    SOURCE = """
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static void* volatile low[5000];
        static void* volatile high[9000];
        __attribute__((noinline)) static void fill_low(int count) {
            for (int i = 0; i < count; ++i) low[i] = malloc(40);
        }
        __attribute__((noinline)) static void fill_high(int count) {
            for (int i = 0; i < count; ++i) high[i] = malloc(56);
        }
        int main(int count, char** arguments) {
            setbuf(stdout, NULL);
            puts("fine");
            fill_low(5000);
            for (int i = 0; i < 5000; ++i) free(low[i]);
            fill_high(9000);
            if (strcmp(arguments[count - 1], "kept") == 0) return 7;
            for (int i = 0; i < 9000; ++i) free(high[i]);
            fill_low(1);
            if (strcmp(arguments[count - 1], "killed") == 0) raise(SIGKILL);
            return 7;
        }"""

    def shown_of(self, status: int, how: str, *options: str) -> dict[str, int]:
        analysis = self.analysis(*options, "--", str(compiled(self.SOURCE, "-g")), how, status=status)
        self.assertEqual(self.done.stdout, "fine\n")
        return {one["name"].split(" ")[0]: one["blocks"] for one in analysis["types"]}

    def test_have_what_is_freed_later(self) -> None:
        blocks = self.shown_of(7, "freed", "--pointers", "--report", "page.html")
        self.assertNotIn("pointers were not searched for", self.done.stderr)
        self.assertIn("wrote page.html\n", self.done.stderr)
        self.assertIn("at its peak: ", (self.folder / "page.html").read_text(encoding="utf-8"))
        self.assertGreaterEqual(blocks["fill_high"], 8800)
        self.assertNotIn("fill_low", blocks)
        extent = re.fullmatch(r"at its peak: (\d+\.\d) kB in (\d+) blocks, (\d+\.\d) % of the 14001 allocations recorded"
                              r"(?:, (9[89]\.\d) % of the most bytes that it held)?, \d+ ms before the end; 1 block of 40 B "
                              r"was left at the end", self.facts["heap"])
        self.assertTrue(extent, self.facts["heap"])
        self.assertAlmostEqual(float(extent.group(1)), int(extent.group(2)) * 0.056, delta=0.06)
        self.assertAlmostEqual(float(extent.group(3)), int(extent.group(2)) / 140.01, delta=0.06)
        self.assertIn("heap: at its peak: ", self.done.stderr)
        self.assertEqual(self.facts["taken at"], "peak")

    def test_may_be_the_end_or_are_not_asked_for(self) -> None:
        self.assertEqual(self.shown_of(7, "freed", "--at", "end"), {"fill_low": 1})
        self.assertIn("pointers were not searched for", self.done.stderr)
        self.assertEqual(self.facts["taken at"], "return from main")
        self.assertNotIn("heap", self.facts)
        self.assertNotIn("most bytes at once", self.facts)
        self.assertEqual(self.shown_of(7, "kept"), {"fill_high": 9000})
        self.assertEqual(self.facts["heap"], "at its end, when it was largest: 504.0 kB in 9000 blocks, 64.3 % of the "
                         "14000 allocations recorded")
        self.assertEqual(self.facts["taken at"], "return from main")

    def test_are_shown_of_a_program_that_a_signal_ended(self) -> None:
        self.assertGreaterEqual(self.shown_of(128 + 9, "killed")["fill_high"], 8800)
        self.assertIn("at its peak until a signal ended it: ", self.facts["heap"])
        done = self.ended(128 + 9, "inspect", "--at", "end", "--", str(compiled(self.SOURCE, "-g")), "killed")
        self.assertIn("left no snapshot", done.stderr)

    def test_are_of_the_program_itself(self) -> None:
        program = compiled(self.SOURCE, "-g")
        for follow in ("none", "forks", "all"):
            analysis = self.analysis("--follow", follow, "--", "/bin/sh", "-c", f"{program} freed; exit 3", status=3)
            self.assertRegex(analysis["subject"], r"^process \d+, /\S*sh$")

    def on_terminal(self, *arguments: str, columns: int = 60, kind: str = "xterm") -> str:
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 25, columns, 0, 0))
        with subprocess.Popen([COMMAND, "inspect", *arguments], cwd=self.folder, stdout=subprocess.DEVNULL,
                              stderr=its, env={**os.environ, "TERM": kind}) as running:
            os.close(its)
            said = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:
                    break
                if not part:
                    break
                said += part
        os.close(ours)
        self.assertEqual(running.returncode, 0)
        return said.decode()

    def test_are_waited_for_with_words_on_a_terminal(self) -> None:
        said = self.on_terminal("--", "/usr/bin/python3", "-c", "pass")
        self.assertRegex(said, r"\[  0%\] name \d+ call sites")
        self.assertRegex(said, r"\[  0%\] look at \d+ blocks in \d+ pages")
        lines = re.sub(r"\x1b\[[\d;]*[mK]", "", said).splitlines()
        self.assertLessEqual(max(len(line.rpartition("\r")[2]) for line in lines), 60)

    def test_words_on_a_terminal_fit_it_and_are_plain_where_it_is_dumb(self) -> None:
        what = ("--map", "int_lf/studied", "--keys", "1000")
        for columns in 40, 20:
            lines = re.findall(r"\[ *\d+%\] [^\r\n]*", self.on_terminal(*what, columns=columns))
            self.assertIn(max(map(len, lines)), range(columns - 12, columns), lines)
            self.assertEqual("..." in lines[0], columns == 20, lines)
        said = self.on_terminal(*what, kind="dumb")
        self.assertNotIn("\x1b", said)
        self.assertIn("0%: fill int_lf/studied", said)


class Refusals(InspectTest):
    """What cannot be recorded is said in one line, before anything runs; what cannot be read, as well."""

    def test_of_programs(self) -> None:
        """All that may stand in the way of a library is tested in tests/programs."""
        self.refuses("there is no program 'no-such-program'; name one in PATH", "--", "no-such-program")
        self.refuses("no file that may be executed", "--", "/etc")
        self.refuses("one thing to look at", "--model", "ndnd", "--", "/usr/bin/python3")
        self.refuses("{peak,end}", "--at", "noon", "--", "/bin/true")

    def test_of_settings_nobody_runs_the_program_with(self) -> None:
        self.refused_each("inspect", table={
            (option, value, "--", "/bin/echo", "fine"): taught for option, value, taught in (
                ("--every", "soon", "--every: 'soon' is not a whole number of seconds"),
                ("--every", "1000000001", "whole number of seconds"), ("--every", "", "is empty"),
                ("--sample", "some", "--sample: 'some' is none of all"), ("--sample", "blocks:0", "regions:N"),
                ("--sample", f"bytes:{2**40 + 1}", "2^40"), ("--follow", "me", "--follow: 'me' is none of none, forks and all"),
                ("--frames", "17", "--frames: '17' is not a number from 1 to 16"))})

    def test_a_malloc_of_its_own_is_told_of_in_one_line(self) -> None:
        program = compiled("""
            #include <stddef.h>
            static char memory[65536];
            static size_t used;
            void* malloc(size_t bytes) { used += (bytes + 15) / 16 * 16; return memory + used; }
            void* calloc(size_t count, size_t size) { return malloc(count * size); }
            void* realloc(void* old, size_t bytes) { return old == NULL ? malloc(bytes) : NULL; }
            void free(void* block) { (void)block; }
            int main(void) { return malloc(100) != NULL ? 6 : 7; }""")
        done = self.espalier("inspect", "--json", "layout.json", "--", str(program))
        self.assertEqual((done.returncode, done.stdout), (6, ""))
        self.assertIn("nothing was recorded: program has a malloc of its own", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse((self.folder / "layout.json").exists())

    def test_a_stripped_program_has_names_all_the_same(self) -> None:
        source = """
            #include <stdlib.h>
            static __attribute__((noinline)) void* hidden(size_t bytes) { return malloc(bytes); }
            void* volatile kept[2];
            __attribute__((noinline)) void* shown(size_t bytes) { kept[0] = hidden(bytes); return kept[0]; }
            int main(void) { kept[1] = hidden(2000); return shown(1000) == NULL; }"""
        program = compiled(source, "-s", "-rdynamic")
        names = {one["bytes_asked"]: one["name"] for one in self.analysis("--", str(program))["types"]}
        self.assertRegex(names[1000], r"^shown \(program\) > program\+0x[0-9a-f]+$")
        self.assertRegex(names[2000], r"^program\+0x[0-9a-f]+$")
        self.assertIn("caller's symbol 1000 ", self.facts["names"])
        self.assertIn("function start 2000 ", self.facts["names"])

    def test_of_snapshots_cut_short(self) -> None:
        """What may be wrong with a file is tested in tests/inspect and tests/programs."""
        library = LIBRARIES / "libespalier-inspect.so"
        if not library.exists():
            self.skipTest("the library is not beside the command")
        subprocess.run(["/usr/bin/python3", "-c", "print(1)"], check=True, capture_output=True, cwd=self.folder,
                       env={**os.environ, "LD_PRELOAD": str(library.resolve()), "ESPALIER_INSPECT_FILE": "recorded"})
        whole = (self.folder / "recorded").read_bytes()
        done = self.ended(0, "inspect", "--file", "recorded")
        self.assertIn("bytes named by", done.stdout)
        for length in (0, 10, len(whole) // 2, len(whole) - 1):
            with self.subTest(length):
                (self.folder / "cut").write_bytes(whole[:length])
                done = self.espalier("inspect", "--file", "cut")
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)


class Looks(InspectTest):
    GROWS = """
        #include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        __attribute__((noinline)) static void keep(void) {
            for (int i = 0; i < 5; ++i) *(void* volatile*)malloc(1000) = NULL;
        }
        int main(int count, char** arguments) {
            for (int i = 0; i < 4; ++i) {
                if (i == 3 && count == 3) sleep(atoi(arguments[2]));
                keep();
                for (int look = 0; look < atoi(arguments[1]); ++look) raise(SIGUSR2);
                void* more[2000];
                for (int j = 0; j < 2000; ++j) more[j] = malloc(600);
                for (int j = 0; j < 2000; ++j) free(more[j]);
            }
        }"""

    def looks(self, stderr: str) -> list[str]:
        lines = stderr.splitlines()
        begin = next(i for i, line in enumerate(lines) if line.startswith("from look to look"))
        return lines[begin - 1:lines.index("", begin)]

    def run_growing(self, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """With so many signals in each turn, and so many seconds of sleep before the last."""
        done = self.ended(0, "inspect", *options, "--", str(compiled(self.GROWS, "-g")), *arguments,
                          env={**os.environ, "COLUMNS": "300"})
        return self.looks(done.stderr)

    def growth(self, line: str) -> list[int]:
        return [int(blocks) for blocks in re.findall(r" in (\d+)", line)]

    def test_of_signals_and_of_every_second_show_what_grew_in_eight_at_most(self) -> None:
        lines = self.run_growing("1")
        self.assertEqual(lines[0].split(), ["bytes", "in", "blocks,", *["signal"] * 4, "return", "from", "main"])
        self.assertRegex(lines[1], r"from look to look( +\d+ ms){5}")
        self.assertTrue(lines[2].startswith("all "), lines)
        blocks = next(self.growth(line) for line in lines if line.startswith("keep"))
        self.assertEqual([later - before for before, later in zip(blocks, blocks[1:4])], [5, 5, 5], lines)
        self.assertIn("interval", self.run_growing("0", "2", options=("--every", "1"))[0])
        lines = self.run_growing("5")
        self.assertEqual(len(re.findall(r"\d+ ms", lines[1])), 8, lines)


class Shown(InspectTest):
    """Findings come first, no line is longer than the terminal is wide, and long lists end with where the rest is."""

    def lines(self, columns: str, *arguments: str) -> list[str]:
        done = self.ended(0, "inspect", *arguments, env={**os.environ, "COLUMNS": columns}, stderr=subprocess.STDOUT)
        return done.stdout.splitlines()

    def test_names_are_shortened_and_tables_broken_until_they_fit(self) -> None:
        name = "allocates_" + "what_has_a_long_name_" * 3
        program = ("--types", "3", "--json", "layout.json", "--", str(compiled(f"""
            #include <stdlib.h>
            __attribute__((noinline)) static void* {name}(void) {{ return malloc(99); }}
            int main(void) {{ return {name}() == NULL || malloc(9) == NULL; }}""", "-g")))
        for columns, width in (("0", 100), ("80", 80), ("40", 40)):
            lines = self.lines(columns, *program)
            self.assertLessEqual(max(map(len, lines)), width)
        names = [one["name"] for one in json.loads((self.folder / "layout.json").read_text())["types"]]
        self.assertGreater(max(map(len, names)), 50, "files have whole names")
        self.assertTrue(any(re.match(r"\S{8}.*\.\.\..{8}", line) for line in lines), lines)
        self.assertIn("TLB", next(line for line in self.lines("400", *program) if "L1 sets" in line))

    def test_findings_come_first_and_what_is_left_out_is_counted(self) -> None:
        lines = self.lines("80", "--types", "2", "--model", "rwn", "--machine", "haswell", "--json", "layout.json")
        self.assertIn(("unused_sets", "row", "segregate"),
                      [(one["kind"], one["type"], one["advice"])
                       for one in json.loads((self.folder / "layout.json").read_text())["findings"]])
        self.assertRegex(lines[0], r"^MODEL rwn: \d+ blocks, ")
        found = re.match(r"(\d+) findings in ", lines[1])
        begins = [index for index, line in enumerate(lines) if line.startswith("  - ")]
        self.assertEqual((begins[0], len(begins)), (2, 2))
        rest = lines.index(f"and {int(found[1]) - 2} more findings: see --types {found[1]} or --report FILE")
        types = next(index for index, line in enumerate(lines) if re.match(r"and 1 more type \(\d+ blocks, ", line))
        table = next(index for index, line in enumerate(lines) if line.startswith("type "))
        facts = next(index for index, line in enumerate(lines) if line.startswith("caches of haswell: "))
        order = [begins[-1], rest, table, types, facts]
        self.assertEqual(order, sorted(order))


class RealPrograms(InspectTest):
    """Each as its users run it: same output, same status, and four fifths of the bytes named."""

    WAYS = ("debug information", "symbol", "caller's symbol", "function start", "nothing")

    def installed(self, *programs: str) -> None:
        for program in programs:
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed")

    def named(self, stderr: str) -> dict[str, int]:
        facts = {one["name"]: one["value"] for one in json.loads((self.folder / "layout.json").read_text())["facts"]}
        ways = {way: int(re.search(rf"{way} (\d+) \(", facts["names"]).group(1)) for way in self.WAYS}
        self.assertGreater(sum(ways.values()), 0)
        self.assertIn("bytes named by debug information", stderr)
        self.assertLess(ways["nothing"], 0.2 * sum(ways.values()), ways)
        return ways

    def same(self, *command: str, sent: str = "", status: int = 0, options: tuple[str, ...] = ()) -> dict[str, int]:
        plain = subprocess.run(command, cwd=self.folder, input=sent, capture_output=True, text=True)
        self.assertEqual(plain.returncode, status, plain.stderr)
        done = subprocess.run([COMMAND, "inspect", *options, "--json", "layout.json", "--", *command], cwd=self.folder,
                              input=sent, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (status, plain.stdout), done.stderr)
        return self.named(done.stderr)

    def test_python(self) -> None:
        self.installed("/usr/bin/python3")
        ways = self.same("/usr/bin/python3", "-c", "import sys; d = {i: str(i) for i in range(20000)}; print(len(d)); "
                         "sys.exit(3)", status=3)
        self.assertLess(ways["function start"], 0.2 * sum(ways.values()), "python3 exports its functions")

    def test_sqlite(self) -> None:
        self.installed("sqlite3")
        rows = "".join(f"insert into t values({i}, 'some text {i}');\n" for i in range(2000))
        sent = f"create table t(a integer primary key, b text);\n{rows}select count(*), sum(length(b)) from t;"
        # At its end it has given all back; here it ends where it holds the table.
        if LONG:
            self.same("sqlite3", ":memory:", sent=sent)
        sent += "\n.exit 4\n"
        near = self.same("sqlite3", ":memory:", sent=sent, status=4, options=("--frames", "6"))
        far = self.same("sqlite3", ":memory:", sent=sent, status=4)
        self.assertGreater(sum(far.values()), 50_000, "the table is there")
        self.assertLess(far["function start"], 0.2 * sum(far.values()), "libsqlite3 exports its outer functions")
        self.assertLess(far["function start"], near["function start"])

    def test_git(self) -> None:
        self.installed("git")
        for command in (("init", "-q"), ("config", "user.name", "a"), ("config", "user.email", "a@example.org")):
            subprocess.run(["git", *command], cwd=self.folder, check=True)
        (self.folder / ".git" / "info" / "exclude").write_text("layout.json\n")
        for i in range(2):
            (self.folder / f"file{i}").write_text(f"{i}\n" * 100)
            subprocess.run(["git", "add", f"file{i}"], cwd=self.folder, check=True)
            subprocess.run(["git", "commit", "-q", "-m", f"commit {i}"], cwd=self.folder, check=True)
        self.same("git", "log", "--stat")
        if LONG:
            self.same("git", "status")
        self.same("git", "show", "no-such-commit", status=128)

    def test_redis(self) -> None:
        self.installed("redis-check-rdb", "redis-benchmark", "redis-cli")
        socket = self.folder / "socket"
        server = subprocess.Popen(
            [COMMAND, "inspect", "--json", "layout.json", "--", servers.redis_server(self.folder), "--port", "0",
             "--unixsocket", socket, "--save", ""], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            servers.wait_for(socket, server)
            benchmark = subprocess.run(["redis-benchmark", "-s", socket, "-t", "set,get", "-n", "3000", "-r", "1000",
                                        "-q"], capture_output=True, text=True)
            self.assertEqual(benchmark.returncode, 0, benchmark.stderr)
            self.assertIn("GET:", benchmark.stdout)
            size = subprocess.run(["redis-cli", "-s", socket, "dbsize"], capture_output=True, text=True)
            self.assertGreater(int(size.stdout), 500)
            subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], capture_output=True)
            _, stderr = server.communicate()
        finally:
            server.kill()
        self.assertEqual(server.returncode, 0, stderr)
        ways = self.named(stderr)
        self.assertLess(ways["function start"], 0.2 * sum(ways.values()), "redis-server exports its functions")


if __name__ == "__main__":
    unittest.main()
