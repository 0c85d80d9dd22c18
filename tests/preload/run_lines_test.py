#!/usr/bin/env python3
"""Lines that run_lines.py must pass, and lines that it must find wrong."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUNNER = pathlib.Path(__file__).with_name('run_lines.py')


class run_lines(unittest.TestCase):
    def outcome(self, lines):
        with tempfile.NamedTemporaryFile('w', suffix='.c') as source:
            source.write('/* A program. */\n' + lines)
            source.flush()
            done = subprocess.run([sys.executable, RUNNER, source.name, 'limit=1', 'word=one'],
                                  capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def expect_wrong(self, lines, why):
        status, told = self.outcome(lines)
        self.assertNotEqual(status, 0, told)
        self.assertIn(why, told)

    def test_passes_what_is_right(self):
        status, told = self.outcome(r'''// WITH number status: 1 0 | "2 3" 4
// WITH letter: a | b
// IF: test %letter = a
// RUN same %status: LETTER=%letter sh -c 'echo %word %number; exit %status'
// EXPECT: \Aone (?P<number>[\d ]+)\n\Z
// EXPECT 0: two
// LINES: one %number
// COUNT words: \w+
// CHECK: words == 1 + len(str(number).split())
// THEN: touch file; ls
// EXPECT: \Afile\n\Z
# RUN SIGKILL: sh -c 'kill -KILL $$'
''')
        self.assertEqual(status, 0, told)
        self.assertIn('0 of 3 runs failed', told)

    def test_finds_what_is_wrong(self):
        for lines, why in (
                ('// RUN: echo one\n// EXPECT: two\n', '0 times in\none'),
                ('// RUN: echo one; echo one\n// EXPECT 1: one\n', '2 times in'),
                ('// RUN: echo one\n// LINES: one | two\n', "without {'two'}"),
                ('// RUN: echo one\n// CHECK: 1 == 2\n', 'CHECK : 1 == 2'),
                ('// RUN: echo one\n// CHECK: unknown == 2\n', 'unknown'),
                ('// RUN: false\n', 'the status is 1'),
                ('// RUN 2: sh -c "exit 3"\n', 'the status is 3'),
                ("// RUN: sh -c 'kill -SEGV $$'\n", 'the status is SIGSEGV'),
                ('// RUN: sleep 600\n', 'no end after'),
                ('// RUN: true\n// THEN: false\n', 'the status is 1'),
                ("// RUN same: SAID=more sh -c 'echo one $SAID'\n", 'without variables'),
                ("// RUN same: HOW=0 sh -c 'exit ${HOW:-1}'\n", 'without variables'),
                ('// RUN: true\n// EXPEKT: one\n', 'EXPEKT is none of'),
                ('// EXPECT: one\n', 'follows no RUN'),
                ('// RUN: true\n// IF: true\n', 'no RUN follows'),
                ('// IF: false\n// RUN: true\n', '0 of 0 runs'),
                ('', '0 of 0 runs')):
            with self.subTest(lines):
                self.expect_wrong(lines, why)


if __name__ == '__main__':
    unittest.main()
