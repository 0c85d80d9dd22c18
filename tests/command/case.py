"""What the tests of the command share: where it is, a scratch folder for each test, and refusals."""

import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

COMMAND = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "espalier").resolve()
LIBRARIES = COMMAND.parent / "../../preload"
LONG = float(os.environ.get("ESPALIER_STRESS_SCALE", "1")) > 1  # as in `./check --long`
SIMULATOR = (COMMAND.parent / "../simulate/espalier-simulate").exists()
# As on a terminal: below nohup, or in the background of a script, children would ignore them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@functools.cache
def listed() -> dict[str, dict]:
    """The maps of this build, by name."""
    done = subprocess.run([COMMAND, "list", "--json"], capture_output=True, text=True, check=True)
    return {entry["map"]: entry for entry in json.loads(done.stdout)}


@functools.cache
def compiled(source: str, *options: str) -> pathlib.Path:
    """A program or library in C, made once."""
    if shutil.which("cc") is None:
        raise unittest.SkipTest("there is no C compiler")
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    made = pathlib.Path(scratch.name) / "program"
    subprocess.run(["cc", "-fno-builtin", *options, "-x", "c", "-", "-o", made], input=source, text=True, check=True)
    return made


class Case(unittest.TestCase):
    """Runs the command in a folder of the test's own."""

    command = COMMAND

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def espalier(self, *arguments: str, under: tuple[str, ...] = (), **how) -> subprocess.CompletedProcess[str]:
        how = {"cwd": self.folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        return subprocess.run([*under, self.command, *arguments], text=True, **how)

    def ended(self, status: int, *arguments: str, **how) -> subprocess.CompletedProcess[str]:
        """What it said until it ended with this status."""
        done = self.espalier(*arguments, **how)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def refused(self, *arguments: str) -> str:
        """One line that names the fault and a way out, with status 2; nothing is left behind."""
        with tempfile.TemporaryDirectory() as folder:
            done = self.espalier(*arguments, cwd=folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertRegex(done.stderr, "^espalier( simulate| serve)?: ")
            self.assertEqual(os.listdir(folder), [])
        return done.stderr

    def refused_each(self, *verb: str, table: dict[tuple[str, ...], str]) -> None:
        """Each of these arguments, with a word of what is said."""
        for arguments, word in table.items():
            with self.subTest(arguments):
                self.assertIn(word, self.refused(*verb, *arguments))

    def offered(self, *words: str, whole: bool = False) -> list[str]:
        """What bash's completion offers for the last of these words."""
        script = (f"source <('{COMMAND}' completion); COMP_WORDS=({' '.join(repr(w) for w in words)}); "
                  f"COMP_CWORD={len(words) - 1}; _espalier; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        offers = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, text=True, check=True).stdout
        return offers.splitlines() if whole else offers.split()


class StudyCase(Case):
    """A study, made once for all that is asked about it."""

    VERB = "bench"
    NAME: str
    OPTIONS: tuple[str, ...]

    @classmethod
    def setUpClass(cls) -> None:
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.out = pathlib.Path(scratch.name) / "o"
        cls.done = subprocess.run([COMMAND, cls.VERB, "--study", cls.NAME, *cls.OPTIONS, "--out", cls.out],
                                  capture_output=True, text=True)

    def setUp(self) -> None:
        super().setUp()
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.results = json.loads((self.out / f"{self.NAME}.json").read_text())


def study_files(folder: pathlib.Path) -> set[str]:
    """What a study wrote, without the library of plots, of which there must be one."""
    names = {path.name for path in folder.iterdir()}
    shared = {name for name in names if name.startswith("plotly-") and name.endswith(".js")}
    if len(shared) != 1:
        raise AssertionError(f"one library of plots is expected: {sorted(names)}")
    return names - shared
