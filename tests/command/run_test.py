#!/usr/bin/env python3
"""espalier run: programs on another malloc and other locks, and what it refuses."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from case import COMMAND, LIBRARIES, LONG, Case, compiled

PYTHON = "/usr/bin/python3"
NO_TRANSACTIONS = "espalier: this processor has no transactions; mutexes are taken, none is elided\n"
MAPS = "print({line.split()[5] for line in open('/proc/self/maps') if 'espalier-' in line})"


class RunTest(Case):
    def run_program(self, *arguments: str, given: str = "", **variables: str) -> subprocess.CompletedProcess:
        environment = {name: value for name, value in os.environ.items()
                       if name != "LD_PRELOAD" and not name.startswith("ESPALIER_")}
        return subprocess.run([self.command, "run", *arguments], cwd=self.folder, capture_output=True, text=True,
                              input=given, env={**environment, **variables})

    def refused(self, expected: str, *arguments: str) -> None:
        self.assertIn(expected, super().refused("run", *arguments))

    def needs(self, name: str) -> pathlib.Path:
        library = LIBRARIES / f"libespalier-{name}.so"
        if not library.exists():
            self.skipTest(f"this build has no {library.name}")
        return library.resolve()


class Programs(RunTest):
    WAYS = ((), ("--malloc", "random"))

    def ways(self):
        for way in self.WAYS:
            if "random" in way:
                self.needs("random")
            with self.subTest(way=way):
                yield way

    def test_keep_their_input_output_and_arguments_and_give_the_command_their_status(self) -> None:
        for way in self.ways():
            done = self.run_program(*way, "--", "sh", "-c", "cat; echo beside >&2", given="one\ntwo\n")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "one\ntwo\n", "beside\n"))
            done = self.run_program(*(way or ("--malloc", "system", "--locks", "system")), "--", "printf", "%s|", "--malloc",
                                    "a b", "", "--", "-x", "$HOME")
            self.assertEqual(done.stdout, "--malloc|a b||--|-x|$HOME|")
            for script, status in (("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 128 + 15),
                                   ("kill -SEGV $$", 128 + 11)):
                done = self.run_program(*way, "--", "sh", "-c", script)
                self.assertEqual((done.returncode, done.stderr), (status, ""), script)

    def test_are_given_requests_to_end(self) -> None:
        script = "trap 'echo ended; exit 9' TERM HUP; echo ready; while :; do sleep 0.05; done"
        for signal_sent in (signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([COMMAND, "run", "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True) as ran:
                assert ran.stdout is not None
                self.assertEqual(ran.stdout.readline(), "ready\n")
                ran.send_signal(signal_sent)
                self.assertEqual(ran.stdout.read(), "ended\n")
            self.assertEqual(ran.returncode, 9)

    def test_have_signals_as_the_command_has_them(self) -> None:
        script = ("import signal; names = ('SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP'); "
                  "print([signal.getsignal(getattr(signal, name)) for name in names], "
                  "signal.pthread_sigmask(signal.SIG_BLOCK, []))")
        for before in ("", "trap '' HUP INT; "):
            shell = ["sh", "-c", before + 'exec "$@"', "sh"]
            plain = subprocess.run([*shell, PYTHON, "-c", script], capture_output=True, text=True, check=True)
            done = subprocess.run([*shell, COMMAND, "run", "--", PYTHON, "-c", script], capture_output=True, text=True,
                                  check=True)
            self.assertEqual(done.stdout, plain.stdout)

    def test_are_found_in_path_and_by_their_paths(self) -> None:
        script = self.folder / "script"
        script.write_text("#!/bin/sh\necho \"$0 $1\"\n")
        script.chmod(0o755)
        for way in self.ways():
            self.assertEqual(self.run_program(*way, "--", "./script", "x").stdout, "./script x\n")
            self.assertEqual(self.run_program(*way, "--", "script", PATH=f"{self.folder}:/usr/bin:/bin").stdout,
                             f"{script} \n")


class Libraries(RunTest):
    def test_keep_away_from_the_upper_halves_of_vector_registers(self) -> None:
        # To clear them aborts a transaction; to leave them slows the program down. Compiled for AVX, each would.
        for name in ("inspect", "random", "malloc", "elide"):
            with self.subTest(name):
                code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", self.needs(name)], capture_output=True,
                                      text=True, check=True).stdout
                self.assertIn("%rsp", code)
                self.assertEqual([line for line in code.splitlines() if re.search("vzero|%[yz]mm", line)], [])

    def loaded(self, *arguments: str, **variables: str) -> str:
        done = self.run_program(*arguments, "--", PYTHON, "-c", MAPS, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_are_in_the_program_and_in_what_it_starts(self) -> None:
        library = self.needs("random")
        self.assertEqual(self.loaded("--malloc", "random"), f"{ {str(library)} }\n")
        self.assertEqual(self.loaded("--malloc", "system"), "set()\n")
        done = self.run_program("--malloc", "random", "--", "sh", "-c", f'{PYTHON} -c "{MAPS}"; true')
        self.assertEqual(done.stdout, f"{ {str(library)} }\n")

    def test_of_this_build_run_a_program(self) -> None:
        """Each that there is: whatever it does, python3 does the same, with threads and their locks."""
        script = ("import threading\nsums = []\n"
                  "def work(): sums.append(sum(len(str(i) * 9) for i in range(20000)))\n"
                  "all = [threading.Thread(target=work) for _ in range(4)]\n"
                  "[one.start() for one in all]; [one.join() for one in all]; print(sums)")
        expected = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True).stdout
        for option, how, name in (("--malloc", "index-aware", "malloc"), ("--malloc", "random", "random"),
                                  ("--locks", "tts", "elide"), ("--locks", "tle", "elide")):
            with self.subTest(how):
                self.needs(name)
                done = self.run_program(option, how, "--", PYTHON, "-c", script)
                self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)

    def test_come_before_those_that_were_asked_for_already(self) -> None:
        library = self.needs("random")
        for before in ("libm.so.6", "libm.so.6:libdl.so.2"):
            done = self.run_program("--malloc", "random", "--", "printenv", "LD_PRELOAD", LD_PRELOAD=before)
            self.assertEqual(done.stdout, f"{library}:{before}\n")
        self.assertEqual(self.run_program("--", "printenv", "LD_PRELOAD", LD_PRELOAD="libm.so.6").stdout, "libm.so.6\n")

    def test_tell_what_they_did_where_asked_and_obey_variables_of_the_callers(self) -> None:
        self.needs("random")
        done = self.run_program("--malloc", "random", "--stats", "--", "cat", given="text")
        self.assertEqual((done.returncode, done.stdout), (0, "text"))
        self.assertRegex(done.stderr, r"^espalier: random, process \d+: \d+ blocks, .* added \(\d+ %\)\n$")
        self.assertEqual(self.run_program("--malloc", "random", "--", "cat").stderr, "")
        done = self.run_program("--malloc", "random", "--stats", "--", "true", ESPALIER_RANDOM_BYTES="0")
        self.assertIn(" 0 added (0 %)", done.stderr)

    def test_all_tell_where_asked(self) -> None:
        for option, how, name, told in (("--malloc", "index-aware", "malloc", "espalier: heap of process"),
                                        ("--locks", "tts", "elide", "espalier elide: process")):
            with self.subTest(how):
                self.needs(name)
                done = self.run_program(option, how, "--stats", "--", PYTHON, "-c", "print(1)")
                self.assertEqual((done.returncode, done.stdout), (0, "1\n"))
                self.assertIn(told, done.stderr)
                self.assertEqual(list(self.folder.iterdir()), [])


class StandardError(RunTest):
    """What the libraries say there is no business of the program's."""

    ALL = (("random", ("--malloc", "random")), ("malloc", ("--malloc", "index-aware")), ("elide", ("--locks", "tts")),
           ("elide", ("--locks", "tle")))

    def ways(self):
        for library, way in self.ALL:
            self.needs(library)
            for stats in ((), ("--stats",)):
                with self.subTest(way=way, stats=stats):
                    yield *way, *stats

    def test_that_nobody_reads_ends_nothing(self) -> None:
        wrong = {"ESPALIER_MALLOC_KEEP": "much", "ESPALIER_RANDOM_BYTES": "many", "ESPALIER_ELIDE_STATS": ""}
        for way in self.ways():
            for variables in ({}, wrong) if LONG else (wrong,):
                unread, written = os.pipe()
                os.close(unread)
                with open(written, "wb") as nowhere:
                    done = subprocess.run([COMMAND, "run", *way, "--", "sh", "-c", "cat; sh -c 'echo on'; exit 3"],
                                          input=b"text\n", stdout=subprocess.PIPE, stderr=nowhere,
                                          env={**os.environ, **variables})
                self.assertEqual((done.returncode, done.stdout), (3, b"text\non\n"))

    def test_that_nobody_reads_ends_those_who_write_there_themselves(self) -> None:
        for way in self.ways():
            unread, written = os.pipe()
            os.close(unread)
            with open(written, "wb") as nowhere:
                done = subprocess.run([COMMAND, "run", *way, "--", "sh", "-c", "sh -c 'echo lost >&2; echo kept'"],
                                      stdout=subprocess.PIPE, stderr=nowhere)
            self.assertEqual((done.returncode, done.stdout), (128 + signal.SIGPIPE, b""))

    def test_that_the_program_closed_may_be_a_file_of_its_own(self) -> None:
        script = ("import os; os.close(2); file = os.open('data', os.O_WRONLY | os.O_CREAT | os.O_TRUNC); "
                  "os.write(file, b'data'); print(file)")
        for way in self.ways():
            done = self.run_program(*way, "--", PYTHON, "-c", script)
            self.assertEqual((done.returncode, done.stdout), (0, "2\n"), done.stderr)
            self.assertEqual((self.folder / "data").read_bytes(), b"data")
            self.assertEqual(re.search(r"process \d", done.stderr) is not None, "--stats" in way, done.stderr)

    def test_of_what_the_program_starts_is_that_programs(self) -> None:
        for way in self.ways():
            if "--stats" in way:
                continue
            done = self.run_program(*way, "--", "sh", "-c", """said=$(sh -c 'sh -c true' 2>&1); echo "<$said>" """)
            self.assertEqual((done.returncode, done.stdout), (0, "<>\n"))
            self.assertIn(done.stderr, ("", NO_TRANSACTIONS) if "tle" in way else ("",))
            silent = self.run_program(*way, "--", "sh", "-c", "true", ESPALIER_ELIDE_RTM="off")
            self.assertEqual((silent.returncode, silent.stderr), (0, ""))

    def test_has_one_line_where_nothing_is_run(self) -> None:
        self.needs("elide")
        self.refused("there is no program", "--locks", "tle", "--", "no-such-program")


# It says, under its own name, which of our variables it was loaded with.
TALKING_LIBRARY = r"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #include <string.h>
        extern char** environ;
        __attribute__((constructor)) static void say(void) {
          Dl_info own;
          dladdr((void*)say, &own);
          const char* name = strstr(own.dli_fname, "libespalier-") + strlen("libespalier-");
          fprintf(stderr, "%.*s", (int)strcspn(name, "."), name);
          for (char** one = environ; *one != NULL; ++one) {
            if (strncmp(*one, "ESPALIER_", 9) == 0) fprintf(stderr, " %s", *one + 9);
          }
          fprintf(stderr, "\n");
        }"""


class Wiring(RunTest):
    """With libraries that only say how they were asked, in a build folder of the test's own."""

    def setUp(self) -> None:
        super().setUp()
        self.command = self.build("build")

    def build(self, folder: str, libraries: tuple[str, ...] = ("malloc", "random", "elide")) -> pathlib.Path:
        build = self.folder / folder
        (build / "apps/espalier").mkdir(parents=True)
        (build / "preload").mkdir()
        for name in libraries:
            shutil.copy(compiled(TALKING_LIBRARY, "-shared", "-fPIC"), build / f"preload/libespalier-{name}.so")
        command = build / "apps/espalier/espalier"
        try:
            os.link(COMMAND, command)
        except OSError:
            shutil.copy(COMMAND, command)
        return command

    def asked(self, *arguments: str, **variables: str) -> dict[str, set[str]]:
        """What each library was told, in the order in which they stand."""
        done = self.run_program(*arguments, "--", "printenv", "LD_PRELOAD", **variables)
        self.transactions = NO_TRANSACTIONS not in done.stderr
        told = {line.split()[0]: set(line.split()[1:])
                for line in done.stderr.replace(NO_TRANSACTIONS, "").splitlines()}
        names = [pathlib.Path(one).name[len("libespalier-"):-len(".so")] for one in done.stdout.strip().split(":")]
        self.assertEqual(set(names), set(told))
        return {name: told[name] for name in names}

    def test_names_the_library_of_each_choice_and_asks_for_figures(self) -> None:
        self.assertEqual(self.asked("--malloc", "index-aware"), {"malloc": set()})
        self.assertEqual(self.asked("--malloc", "random"), {"random": set()})
        self.assertEqual(self.asked("--locks", "tts"), {"elide": {"ELIDE_POLICY=tts"}})
        self.assertEqual(self.asked("--locks", "tle"), {"elide": {"ELIDE_POLICY=tle", "ELIDE_RTM=auto"}})
        self.assertEqual(self.asked("--locks", "tle", ESPALIER_ELIDE_RTM="off"),
                         {"elide": {"ELIDE_POLICY=tle", "ELIDE_RTM=off"}})
        both = self.asked("--locks", "tts", "--malloc", "random")
        self.assertEqual(list(both), ["random", "elide"])
        self.assertEqual(self.asked("--malloc", "index-aware", "--stats"), {"malloc": {"MALLOC_STATS=1"}})
        self.assertEqual(self.asked("--malloc", "random", "--stats"), {"random": {"RANDOM_STATS=1"}})
        self.assertEqual(self.asked("--locks", "tts", "--stats"), {"elide": {"ELIDE_POLICY=tts", "ELIDE_STATS=stderr"}})

    def test_has_pages_touched_for_transactions(self) -> None:
        tle = {"ELIDE_POLICY=tle", "ELIDE_RTM=auto"}
        both = self.asked("--malloc", "index-aware", "--locks", "tle")
        touched = {"MALLOC_PREFAULT=1"} if self.transactions else set()
        self.assertEqual(both, dict.fromkeys(("malloc", "elide"), tle | touched))
        without = self.asked("--malloc", "index-aware", "--locks", "tle", ESPALIER_ELIDE_RTM="off")
        self.assertEqual(without["malloc"], {"ELIDE_POLICY=tle", "ELIDE_RTM=off"})
        both = self.asked("--malloc", "index-aware", "--locks", "tle", ESPALIER_MALLOC_PREFAULT="0")
        self.assertEqual(both["malloc"], tle | {"MALLOC_PREFAULT=0"})
        self.assertEqual(self.asked("--malloc", "random", "--locks", "tle")["random"], tle)

    def test_says_which_library_is_missing_and_how_to_have_it(self) -> None:
        self.command = self.build("bare", ("random",))
        for choice, library in ((("--malloc", "index-aware"), "libespalier-malloc.so"),
                                (("--locks", "tts"), "libespalier-elide.so"),
                                (("--malloc", "random", "--locks", "tle"), "libespalier-elide.so")):
            with self.subTest(choice):
                self.refused(f"without {library}; build all targets, with ESPALIER_PRELOAD=ON", *choice, "--", "echo", "ran")
        self.assertEqual(self.run_program("--", "echo", "ran").stdout, "ran\n")

    def test_refuses_a_path_that_the_linker_would_cut(self) -> None:
        for folder in ("with space", "with:colon"):
            self.command = self.build(folder, ("random",))
            self.refused("a space or a colon", "--malloc", "random", "--", "echo", "ran")


class Refusals(RunTest):
    def test_of_what_is_no_choice_and_no_program(self) -> None:
        self.refused("index-aware", "--malloc", "jemalloc", "--", "echo", "ran")
        self.refused("tle", "--locks", "none", "--", "echo", "ran")
        self.refused("run needs a program", "--malloc", "random")
        self.refused("run needs a program", "--malloc", "random", "--")
        self.refused("--malloc=random", "--stats", "--", "echo", "ran")
        self.refused("--nonsense", "--nonsense", "--", "echo", "ran")

    def test_of_programs(self) -> None:
        """All that may stand in the way of a library is tested in tests/programs."""
        self.needs("random")
        program = self.folder / "program"
        program.touch(0o755)
        self.refused("neither a program", "--malloc", "random", "--", str(program))
        for malloc in ("random", "system"):
            self.refused("there is no program 'no-such-program'; name one in PATH", "--malloc", malloc, "--",
                         "no-such-program")
            self.refused("no file that may be executed", "--malloc", malloc, "--", "/etc")

    def test_of_programs_with_more_rights(self) -> None:
        self.needs("random")
        if os.geteuid() != 0:
            self.skipTest("only root can give files away")
        program = self.folder / "program"
        shutil.copy("/bin/true", program)
        os.chown(program, 12345, 12345)
        program.chmod(0o4755)
        self.refused("more rights", "--malloc", "random", "--", str(program))
        self.assertEqual(self.run_program("--", str(program)).returncode, 0, "nothing is preloaded")


if __name__ == "__main__":
    unittest.main()
