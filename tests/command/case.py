"""What the tests of the command share: where it is, a scratch folder for each test, and refusals."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMMAND = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "espalier").resolve()
LIBRARIES = COMMAND.parent / "../../preload"
LONG = float(os.environ.get("ESPALIER_STRESS_SCALE", "1")) > 1  # as in `./check --long`
COMPARE = pathlib.Path("/usr/share/benchmark/compare.py")


class Case(unittest.TestCase):
    """Runs the command in a folder of the test's own."""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def espalier(self, *arguments: str, under: tuple[str, ...] = (), **how) -> subprocess.CompletedProcess[str]:
        how = {"cwd": self.folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        return subprocess.run([*under, COMMAND, *arguments], text=True, timeout=240, **how)

    def refused(self, *arguments: str) -> str:
        """One line that names the fault and a way out, with status 2; nothing is left behind."""
        done = self.espalier(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), [])
        return lines[0]

    def compare(self, one: str, other: str) -> str:
        """What Google Benchmark's tool says of two files."""
        done = subprocess.run(["/usr/bin/python3", COMPARE, "benchmarks", one, other], cwd=self.folder,
                              capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
        if "No module named" in done.stderr:
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def offered(self, *words: str) -> list[str]:
        """What bash's completion offers for the last of these words."""
        script = (f"source <('{COMMAND}' completion); COMP_WORDS=({' '.join(repr(w) for w in words)}); "
                  f"COMP_CWORD={len(words) - 1}; _espalier; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

    def interrupted(self, *arguments: str) -> None:
        """A run that is ended leaves no file."""
        with subprocess.Popen([COMMAND, *arguments, "--json", "r.json"], cwd=self.folder, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True) as running:
            assert running.stderr is not None
            running.stderr.readline()
            running.terminate()
            running.wait(timeout=60)
        self.assertNotEqual(running.returncode, 0)
        self.assertEqual(sorted(self.folder.iterdir()), [])


class StudyCase(unittest.TestCase):
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
                                  capture_output=True, text=True, timeout=500)

    def setUp(self) -> None:
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.results = json.loads((self.out / f"{self.NAME}.json").read_text())

    def refused(self, *arguments: str) -> str:
        """What is said of a study with such a name and such options. Nothing is written."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([COMMAND, self.VERB, "--study", *arguments], cwd=folder, capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
            return done.stderr


def study_files(folder: pathlib.Path) -> set[str]:
    """What a study wrote, without the library of plots, of which there must be one."""
    names = {path.name for path in folder.iterdir()}
    shared = {name for name in names if name.startswith("plotly-") and name.endswith(".js")}
    if len(shared) != 1:
        raise AssertionError(f"one library of plots is expected: {sorted(names)}")
    return names - shared
